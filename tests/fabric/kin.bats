#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# kin.bats - processes with two communicators, and processes with children.

# shellcheck disable=SC2154 # status, output: run
bats_require_minimum_version 1.5.0

setup() {
	DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	ddl=$DDL_BUILD/bin/ddl kin=$DDL_BUILD/tests/kin
	unset DDL_MODE DDL_PLAN PMIX_NAMESPACE PMIX_RANK
	export DDL_NET=lo DDL_TIMEOUT=20
	! "$ddl" run true 2>&1 | grep -q 'built without PMIx' || skip "this build has no PMIx"
}

@test "requests of two communicators may be waited for in any order" {
	for transports in shm tcp; do
		DDL_TRANSPORTS=$transports run -0 "$ddl" run -n 3 "$kin" orders
		[ "$(grep -c '\] ok [0-2]$' <<<"$output")" -eq 3 ]
	done
}

@test "what a child does with its parent's communicator harms nobody" {
	for transports in shm tcp; do
		DDL_TRANSPORTS=$transports run -0 "$ddl" run -n 3 "$kin" child
		[ "$(grep -c '\] ok [0-2]$' <<<"$output")" -eq 3 ]
	done
}

@test "a rank's death is noticed while a child of it lives on" {
	for transports in shm tcp; do
		file=$BATS_TEST_TMPDIR/told.$transports
		DDL_TRANSPORTS=$transports run "$ddl" run -n 3 --no-kill-on-bad-exit "$kin" orphan "$file"
		touch "$file"
		[ "$(grep -cE '\] told [02]: -104 rank 1 on node ' <<<"$output")" -eq 2 ]
	done
}
