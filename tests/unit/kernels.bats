#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `ddl perf kernels` and DDL_KERNELS as users see them. What is fast is not asked here.

bats_require_minimum_version 1.5.0

setup() {
	ddl=$DDL_BUILD/bin/ddl
	unset DDL_KERNELS PMIX_NAMESPACE PMIX_RANK "${!SLURM_@}"
	best=$("$ddl" info --json | jq -r '[.kernels[] | select(.usable)][0].name')
	[ -n "$best" ]
	[ "$best" != avx512bf16 ] || best=avx512 # the one that has everything
}

@test "perf kernels measures every level of every kernel, and limits" {
	"$ddl" perf kernels --set "$best" --json >"$BATS_TEST_TMPDIR/out"
	jq -es --arg set "$best" '
		(map(select(.limit)) | length == 12 and all(.GBps > 0 and .bytes > 0)) and
		(map(select(.set)) | length >= 30 and length % 3 == 0 and all(.set == $set and .GBps > 0 and .limit_GBps > 0 and .share > 0)) and
		(map(select(.level == "memory" and .set)) | length) * 3 == (map(select(.set)) | length)' "$BATS_TEST_TMPDIR/out"
}

@test "a kernel set that does not exist is refused with the list of those that do" {
	for command in "perf kernels --set mmx" "perf allreduce --sizes 8"; do
		# shellcheck disable=SC2086 # several words
		DDL_KERNELS=mmx run -"$([[ $command == *set* ]] && echo 2 || echo 1)" "$ddl" $command
		[[ $output == *"no kernel set"*mmx*generic* ]]
		[ "${#lines[@]}" = 1 ]
	done
}

@test "every kernel set of this CPU can be asked for and gives right results" {
	mapfile -t sets < <("$ddl" info --json | jq -r '.kernels[] | select(.usable) | .name')
	[ "${sets[-1]}" = generic ]
	for set in "${sets[@]}"; do
		for type in f32 bf16 f16 i32; do
			mkdir "$BATS_TEST_TMPDIR/$set-$type"
			arguments=(allreduce --type "$type" --sizes 4K --iters 1 --check --store "$BATS_TEST_TMPDIR/$set-$type" --ranks 2)
			DDL_TIMEOUT=60 "$ddl" perf "${arguments[@]}" --rank 1 & # with the best set's kernels
			DDL_TIMEOUT=60 DDL_KERNELS=$set "$ddl" perf "${arguments[@]}" --rank 0
			wait $!
		done
	done
}
