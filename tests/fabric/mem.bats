#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mem.bats - memory that the ranks of a node share: a rank that dies while others read and write its memory.

# shellcheck disable=SC2154 # status, output, stderr: run
bats_require_minimum_version 1.5.0
load shm

setup() {
	DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	ddl=$DDL_BUILD/bin/ddl mem_kill=$DDL_BUILD/tests/mem_kill
	export TMPDIR=$BATS_TEST_TMPDIR/tmp mark=ddl-mem-test-$$-$BATS_TEST_NUMBER DDL_TRANSPORTS=shm
	mkdir -p "$TMPDIR"
	unset DDL_MODE DDL_PLAN DDL_TIMEOUT DDL_ALGO PMIX_NAMESPACE PMIX_RANK
	! "$ddl" run true 2>&1 | grep -q 'built without PMIx' || skip "this build has no PMIx"
	shm_files >"$BATS_TEST_TMPDIR/shm"
}

# No process that carries our mark may run any more, and nothing may lie in the folders for temporary files and shared memory.
teardown() {
	local try=100
	while grep -qsz "^left=$mark\$" /proc/[0-9]*/environ; do
		[ $((try--)) -gt 0 ] || { echo "processes were left"; return 1; }
		sleep 0.1
	done
	[ -z "$(ls -A "$TMPDIR")" ] || { echo "files were left: $(ls -A "$TMPDIR")"; return 1; }
	[ "$(shm_files)" = "$(cat "$BATS_TEST_TMPDIR/shm")" ] || { echo "something was left in /dev/shm"; return 1; }
}

# killed N MICROSECONDS ALGORITHM: rank 1 of N dies; all others end by themselves, with the error.
killed() {
	left=$mark run --separate-stderr timeout 60 "$ddl" run -n "$1" --no-kill-on-bad-exit "$mem_kill" "$2" "$3"
	echo "$output"
	echo "$stderr"
	[ "$status" -eq 137 ]
	[ "$(grep -c '\] ended with ECONNRESET: rank 1 on node .* is gone' <<<"$output")" -eq $(($1 - 1)) ]
}

@test "two ranks: whenever one dies, the other ends with an error and keeps its memory" {
	for after in 0 100 1000 5000 20000 77777; do killed 2 "$after" ring; done
}

@test "four ranks: whenever one dies, the others end with an error and keep their memory" {
	for after in 0 3000 33333; do
		killed 4 "$after" direct
		killed 4 "$after" ring
	done
}
