#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# completion.bats - what bash offers behind ddl. Needs neither root nor Slurm.

setup() {
	PATH=$DDL_BUILD/bin:$PATH
	# shellcheck source=tools/completion.bash
	. "$BATS_TEST_DIRNAME/../../tools/completion.bash"
	compopt() { :; } # there is no completion going on
}

# offers WORD...: what is offered for the last word, in one line
offers() {
	COMP_WORDS=(ddl "$@") COMP_CWORD=$#
	_ddl
	echo "${COMPREPLY[*]}"
}

@test "commands" {
	[ "$(offers '')" = "$(ddl help | sed -n 's/^  \([a-z]*\) .*/\1/p' | xargs) help --version" ]
	[ "$(offers che)" = check ]
	[ "$(offers help in)" = info ]
}

@test "all options of every command" {
	for command in $(ddl help | sed -n 's/^  \([a-z]*\) .*/\1/p') 'perf kernels'; do
		# shellcheck disable=SC2086 # two words
		offered=$(offers $command -- | tr ' ' '\n')
		# shellcheck disable=SC2086
		for option in $(ddl $command --help | sed -n 's/^  .*\(--[a-z-]*\).*  .*/\1/p'); do
			grep -qx -- "$option" <<<"$offered" || { echo "$command: $option is not offered, only $offered"; return 1; }
		done
		[ "$(wc -l <<<"$offered")" -gt 1 ]
	done
	[ "$(offers plan --host)" = --hostfile ]
}

@test "values that the help names" {
	[ "$(offers perf allreduce --type '')" = 'f64 f32 f16 bf16 i64 i32 i8 u8' ]
	[ "$(offers perf allreduce --wire b)" = bf16 ]
	[ "$(offers plan --distribution '')" = 'block cyclic' ]
	[ -z "$(offers plan --topology '')" ] # files, by default
	[ -z "$(offers perf allreduce --iters '')" ]
}

@test "collectives, and what belongs behind others" {
	[[ " $(offers perf '') " == *" allreduce "*" sendrecv kernels " ]]
	[ "$(offers trace '')" = merge ]
	[[ " $(offers run bas) " == *" bash "* ]]
}

@test "modes and keys of --ddl, also behind = and a comma" {
	[ "$(offers plan --ddl '')" = 'off auto ring multiring help' ] || [ "$(offers plan --ddl '')" = 'off auto ring multiring' ]
	[ "$(offers run --ddl = mul)" = multiring ]
	[ "$(offers run --ddl = multiring,wi)" = multiring,wire= ]
	[ "$(offers run --ddl = multiring,wire=bf16,di)" = multiring,wire=bf16,dims= ]
}
