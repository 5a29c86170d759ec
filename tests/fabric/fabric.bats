#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# fabric.bats - all-reduce over tcp between hosts in network namespaces, without Slurm: right results, and what happens when a rank
# dies, cannot be reached, never comes, or has another plan.
# needs root

load ranks

setup_file() {
	export FABRIC=ddlf DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	"$BATS_TEST_DIRNAME/fabric.sh" --name "$FABRIC" up --leaves 2 --hosts 2 --rails 1 --rate 400mbit --uplink 400mbit
}

teardown_file() {
	"$BATS_TEST_DIRNAME/fabric.sh" --name "$FABRIC" down
}

setup() {
	pid=() status_of=() host_of=()
	unset DDL_PLAN DDL_MODE DDL_TIMEOUT
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir -p "$TMPDIR"
	touch "$BATS_TEST_TMPDIR/start"
	footprint >"$BATS_TEST_TMPDIR/before"
}

# Nothing may run on the hosts any more, and nothing may lie about.
teardown() {
	local left
	left=$(fabric pids)
	for process in $left; do kill -KILL "$process" || true; done
	[ -z "$left" ] || { echo "processes were left: $left"; return 1; }
	footprint | diff "$BATS_TEST_TMPDIR/before" -
}

@test "four hosts sum float32 of all sizes correctly" {
	start_ranks 4 1 allreduce --sizes 4,1K,1M --type f32 --iters 3 --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 3 ]
}

@test "only rank 0 prints the results" {
	start_ranks 4 1 allreduce --sizes 1K --iters 1 --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ -s "$BATS_TEST_TMPDIR/out.0" ]
	[ ! -s "$BATS_TEST_TMPDIR/out.1" ]
	[ ! -s "$BATS_TEST_TMPDIR/out.2" ]
	[ ! -s "$BATS_TEST_TMPDIR/out.3" ]
}

@test "four hosts with two ranks each mix tcp and shared memory, in every type" {
	for type in f64 f32 f16 bf16 i64 i32 i8 u8; do
		rm -rf "$BATS_TEST_TMPDIR/store"
		start_ranks 8 2 allreduce --sizes 8,24,40K --type $type --iters 1 --warmup 0 --check --json
		wait_ranks 0 1 2 3 4 5 6 7
		all_good 0 1 2 3 4 5 6 7
		[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 3 ]
	done
}

@test "float32 travels as bfloat16 and is right within its rounding" {
	start_ranks 4 1 allreduce --sizes 4K,1M --type f32 --wire bf16 --iters 2 --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 2 ]
}

@test "half of the bytes cross the link when float32 travels as bfloat16" {
	export DDL_MEASURE=0 # what measuring sends is not to be counted
	before=$(fabric sent 1)
	start_ranks 4 1 allreduce --sizes 4M --type f32 --algorithm ring --iters 2 --warmup 0 --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	between=$(fabric sent 1)
	rm -rf "$BATS_TEST_TMPDIR/store"
	start_ranks 4 1 allreduce --sizes 4M --type f32 --algorithm ring --wire bf16 --iters 2 --warmup 0 --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	full=$((between - before)) half=$(($(fabric sent 1) - between))
	echo "$full bytes, $half bytes"
	[ $((half * 100)) -gt $((full * 45)) ]
	[ $((half * 100)) -lt $((full * 55)) ]
}

@test "broadcast and barrier work between hosts" {
	start_ranks 4 1 broadcast --sizes 4,100K --iters 2 --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 2 ]
	rm -rf "$BATS_TEST_TMPDIR/store"
	start_ranks 4 1 barrier --iters 5 --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
}

@test "a rank killed in mid-run ends every survivor with a sentence that names it" {
	export DDL_TIMEOUT=30
	before=$(fabric sent 2)
	start_ranks 4 1 allreduce --sizes 64M --iters 1000
	until_true 30 sent_more_than 2 $((before + 5000000))
	kill -KILL "${pid[2]}"
	wait_ranks 0 1 2 3
	[ "${status_of[2]}" -eq 137 ]
	every_survivor_names 2 0 1 3
}

@test "the same with two ranks a host: also the killed rank's neighbour ends" {
	export DDL_TIMEOUT=30
	before=$(fabric sent 1)
	start_ranks 8 2 allreduce --sizes 64M --iters 1000
	until_true 30 sent_more_than 1 $((before + 5000000))
	kill -KILL "${pid[3]}"
	wait_ranks 0 1 2 3 4 5 6 7
	[ "${status_of[3]}" -eq 137 ]
	every_survivor_names 3 0 1 2 4 5 6 7
}

# Rank 3 publishes where it listens and dies while all wait for rank 2; its neighbours in the ring, 0 and 2, then find its port
# closed. Rank 1 has no business with rank 3: it is told why by a neighbour, or finds that neighbour gone.
@test "a port that nobody listens at any more is reported with its rank" {
	export DDL_TIMEOUT=10
	for r in 0 1 3; do start_rank $r 4 1 allreduce --sizes 1M --iters 10; done
	at_the_fence() { compgen -G "$BATS_TEST_TMPDIR/store/*3*fence*" >/dev/null; }
	until_true 20 at_the_fence
	kill -KILL "${pid[3]}"
	start_rank 2 4 1 allreduce --sizes 1M --iters 10
	wait_ranks 0 1 2 3
	every_survivor_names 3 0 2
	every_survivor_names '[0-3]' 1
}

@test "a rank that never starts is named within the deadline" {
	export DDL_TIMEOUT=5
	for r in 0 1 3; do start_rank $r 4 1 allreduce --sizes 1M --iters 10; done
	wait_ranks 0 1 3
	every_survivor_names 2 0 1 3
}

@test "a rank with another plan is named by everybody" {
	export DDL_TIMEOUT=20
	good='1;job=1.0;mode=ring;src=env/tree;tree=spine(leaf0(h[0-1]),leaf1(h[2-3]))'
	other='1;job=1.0;mode=ring;src=env/tree;tree=spine(leaf0(h0,h2),leaf1(h1,h3))'
	for r in 0 1 3; do DDL_PLAN=$good start_rank $r 4 1 allreduce --sizes 1M --iters 10; done
	DDL_PLAN=$other start_rank 2 4 1 allreduce --sizes 1M --iters 10
	wait_ranks 0 1 2 3
	every_survivor_names 2 0 1 2 3
	grep -q plan "$BATS_TEST_TMPDIR/err.0"
}

@test "a plan that is no plan is refused in one sentence" {
	export DDL_TIMEOUT=20
	for r in 0 1 2 3; do DDL_PLAN='1;tree=((((' start_rank $r 4 1 allreduce --sizes 1K --iters 1; done
	wait_ranks 0 1 2 3
	for r in 0 1 2 3; do
		[ "${status_of[r]}" -gt 0 ]
		[ "${status_of[r]}" -lt 128 ]
		grep -q plan "$BATS_TEST_TMPDIR/err.$r"
		[ "$(wc -l <"$BATS_TEST_TMPDIR/err.$r")" -eq 1 ]
	done
}

# Ranks 0 and 2 are at leaf 0, ranks 1 and 3 at leaf 1: a ring in the order of ranks crosses each uplink twice a direction.
@test "the ring crosses each uplink once a direction under the plan, and twice in rank order" {
	# shellcheck disable=SC2034 # read by start_rank
	host_of=(0 2 1 3)
	export DDL_MEASURE=0 # what measuring sends is not to be counted
	formula=$((3 * 2 * (4 - 1) * 4194304 / 4))
	before=$(fabric uplink 0)
	export DDL_PLAN='1;job=1.0;mode=ring;src=env/tree;tree=spine(leaf0(h[0-1]),leaf1(h[2-3]))'
	start_ranks 4 1 allreduce --sizes 4M --iters 3 --warmup 0 --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	planned=$(($(fabric uplink 0) - before))
	rm -rf "$BATS_TEST_TMPDIR/store"
	before=$(fabric uplink 0)
	export DDL_PLAN='1;job=1.0;mode=ring;src=none/flat;tree=fabric(h0,h2,h1,h3);order=slurm'
	start_ranks 4 1 allreduce --sizes 4M --iters 3 --warmup 0 --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	ordered=$(($(fabric uplink 0) - before))
	echo "formula $formula, under the plan $planned, in rank order $ordered"
	[ $planned -gt $((formula * 97 / 100)) ]
	[ $planned -lt $((formula * 103 / 100)) ]
	[ $ordered -gt $((2 * formula * 97 / 100)) ]
	[ $ordered -lt $((2 * formula * 103 / 100)) ]
}
