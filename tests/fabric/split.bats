#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# split.bats - communicators split from communicators, between processes of ddl run.

# shellcheck disable=SC2154 # status, output: run
bats_require_minimum_version 1.5.0

setup() {
	DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	ddl=$DDL_BUILD/bin/ddl parts=$DDL_BUILD/tests/split_parts
	unset DDL_MODE DDL_PLAN PMIX_NAMESPACE PMIX_RANK
	export DDL_NET=lo DDL_TIMEOUT=60
	! "$ddl" run true 2>&1 | grep -q 'built without PMIx' || skip "this build has no PMIx"
}

# run_parts N [OPTION...] [-- WHAT RANK]: N ranks, with a folder in which they wait for each other.
run_parts() {
	local n=$1 options=()
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	export SPLIT_PARTS_FOLDER=$BATS_TEST_TMPDIR/$((++runs))
	mkdir "$SPLIT_PARTS_FOLDER"
	run "$ddl" run -n "$n" "${options[@]}" "$parts" "${@:2}"
}

# count PATTERN: lines of the output that match.
count() {
	grep -cE "$1" <<<"$output"
}

@test "parts are right, outlive what they were split from, and leave no descriptor open" {
	for transports in shm,tcp tcp; do
		DDL_TRANSPORTS=$transports run_parts 6
		[ "$status" -eq 0 ]
		[ "$(count '^\[[0-5]\] ok [0-5] of 6$')" -eq 6 ]
	done
}

@test "parts are right with a service thread on every rank, and for one and two ranks" {
	for n in 1 2 5; do
		DDL_PROGRESS=1 run_parts $n
		[ "$status" -eq 0 ]
		[ "$(count "\] ok [0-4] of $n\$")" -eq $n ]
	done
}

@test "a color that is not possible is told to all ranks, and no harm is done" {
	run_parts 4 -- color 2
	[ "$status" -eq 0 ]
	[ "$(count '^\[[0-3]\] told rank [0-3]: -22 rank 2 on node .*color -9 must not be negative')" -eq 4 ]
	[ "$(count '\] ok [0-3] of 4$')" -eq 4 ]
}

@test "a rank that may not open files is told to all ranks, with the limit" {
	DDL_TRANSPORTS=tcp run_parts 4 -- files 1
	[ "$status" -eq 0 ]
	[ "$(count '^\[[0-3]\] told rank [0-3]: -24 rank 1 on node .*limit of open files is 3 here.*ulimit -n')" -eq 4 ]
	[ "$(count '\] ok [0-3] of 4$')" -eq 4 ]
	# Lanes over shared memory are files too: here the rank cannot even take part, by making files or by taking those of others, and the
	# communicator is aborted.
	DDL_TRANSPORTS=shm run_parts 4 -- files 1
	[ "$status" -eq 0 ]
	[ "$(count '^\[1\] told rank 1: -24 .*ulimit -n')" -eq 1 ]
	[ "$(count '^\[[023]\] told rank [023]: -(24|104) .*rank 1 on node ')" -eq 3 ]
	[ "$(count '\] aborted [0-3]$')" -eq 4 ]
}

@test "a rank that dies ends the split on all others, who name it" {
	run_parts 4 --no-kill-on-bad-exit -- die 3
	[ "$status" -eq 137 ]
	[ "$(count '^\[[0-2]\] told rank [0-2]: -1(04|11) .*rank 3 on node ')" -eq 3 ]
	[ "$(count '\] aborted [0-2]$')" -eq 3 ]
}
