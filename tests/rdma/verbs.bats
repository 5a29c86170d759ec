#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# verbs.bats - collectives over RDMA: the results that TCP gives, over one rail and over both, whatever is set, and where RDMA is missing.

# shellcheck disable=SC2034,SC2154 # pid, status_of: hosts.bash
bats_require_minimum_version 1.5.0
load hosts

setup_file() {
	"$BATS_TEST_DIRNAME/fabric" 4 2
}

setup() {
	setup_ranks
}

teardown() {
	teardown_ranks
}

# same_bits RANKS: over RDMA and TCP at once, with a seed that is said
same_bits() {
	local n=$1 r seed=$RANDOM folder=$BATS_TEST_TMPDIR/same
	echo "seed $seed"
	mkdir -p "$folder/verbs" "$folder/tcp"
	for ((r = 0; r < n; r++)); do
		exec_on $r "$DDL_BUILD/tests/same_bits" "$folder" $r "$n" $seed "${ROUNDS:-2}" >"$BATS_TEST_TMPDIR/out.$r" 2>"$BATS_TEST_TMPDIR/err.$r" 3>&- &
		pid[r]=$!
	done
	# shellcheck disable=SC2046 # a list
	wait_ranks $(seq 0 $((n - 1)))
	# shellcheck disable=SC2046
	all_good $(seq 0 $((n - 1)))
	[ "$(cat "$BATS_TEST_TMPDIR"/out.* | grep -c 'results, the same bits over verbs and tcp')" -eq "$n" ]
}

# over_verbs ARGUMENTS...: an all-reduce of two ranks that must be right
over_verbs() {
	start_ranks 2 1 allreduce --iters 2 --check --json --transports verbs "$@"
	wait_ranks 0 1
	all_good 0 1
	rows "$BATS_TEST_TMPDIR/out.0"
}

@test "every algorithm gives the bits that it gives over TCP, two ranks with one rail" {
	RAILS=1 same_bits 2
}

@test "so does each with two ranks and two rails" {
	note
	DDL_PLAN='1;mode=multiring;src=none/flat;tree=sw(h[1-2]);rails=2' same_bits 2
	sent_more h1r0 30000
	sent_more h1r1 30000
}

@test "so does each with four ranks behind two switches, and two rails" {
	DDL_PLAN='1;mode=multiring;src=slurm/tree;tree=spine(leaf0(h[1-2]),leaf1(h[3-4]));rails=2' same_bits 4
}

@test "so does each straight from and into memory of the program, where it promises to keep that" {
	DDL_RDMA_REGISTER=all ROUNDS=1 same_bits 3
}

@test "so does each with service threads" {
	DDL_PROGRESS=1 ROUNDS=1 same_bits 2
}

@test "short and long messages go over both rails alike, and over nothing else" {
	local mgmt
	mgmt=$(host 1 cat /sys/class/net/mgmt/statistics/tx_bytes)
	note
	over_verbs --sizes 8,1000,3000004,4M --rings 2 --algorithm ring
	[ $(($(since h1r0) * 100)) -ge $(($(since h1r1) * 90)) ]
	[ $(($(since h1r1) * 100)) -ge $(($(since h1r0) * 90)) ]
	sent_more h1r0 10000000
	[ $(($(host 1 cat /sys/class/net/mgmt/statistics/tx_bytes) - mgmt)) -lt 200000 ]
}

@test "every other collective is right" {
	local collective
	for collective in broadcast reducescatter allgather alltoall sendrecv; do
		rm -rf "$BATS_TEST_TMPDIR/store"
		start_ranks 2 1 $collective --sizes 8,100004 --iters 1 --warmup 1 --check --json --transports verbs
		wait_ranks 0 1
		all_good 0 1
		[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 2 ]
	done
}

@test "all tensors of a network at once are right, the most urgent first" {
	printf 'first 1000\nsecond 300001\nthird 70001\nlast 500000\n' >"$BATS_TEST_TMPDIR/sizes"
	start_ranks 3 1 allreduce --sizes-file "$BATS_TEST_TMPDIR/sizes" --total-only --iters 2 --check --json --transports verbs
	wait_ranks 0 1 2
	all_good 0 1 2
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 1 ]
}

@test "addresses of the other kind, and smaller packets, are taken where they are asked for" {
	DDL_RDMA_GID_INDEX=0 DDL_RDMA_MTU=256 over_verbs --sizes 8,100004
}

@test "where addresses are of different kinds each rank says so, and TCP serves" {
	export DDL_LOG=info
	DDL_RDMA_GID_INDEX=0 start_rank 1 2 1 allreduce --sizes 8,1M --iters 2 --check --json
	start_rank 0 2 1 allreduce --sizes 8,1M --iters 2 --check --json
	wait_ranks 0 1
	all_good 0 1
	reached_over 0 tcp && reached_over 1 tcp
	grep -q 'rank 0: 1 rank is not reached by RDMA, though it has some; rank 1: .* link-local IPv6 and this one.s RoCE v2, IPv4: set DDL_RDMA_GID_INDEX' \
		"$BATS_TEST_TMPDIR/err.0"
	grep -q 'rank 1: 1 rank is not reached by RDMA, .*rank 0: .* RoCE v2, IPv4 and this one.s RoCE v2, link-local IPv6' "$BATS_TEST_TMPDIR/err.1"
}

@test "a GID that is empty is refused with its index" {
	DDL_RDMA_GID_INDEX=9 start_ranks 2 1 allreduce --sizes 8 --transports verbs
	wait_ranks 0 1
	[ "${status_of[0]}" -gt 0 ] && [ "${status_of[1]}" -gt 0 ]
	grep -q 'rxh1r0 port 1, which cannot be used: its GID 9, which DDL_RDMA_GID_INDEX names, is empty' "$BATS_TEST_TMPDIR/err.0"
}

@test "a device that is not there is told of, with those that are, and TCP serves" {
	note
	DDL_RDMA=mlx5_7 start_rank 1 2 1 allreduce --sizes 1M --iters 2 --check --json
	start_rank 0 2 1 allreduce --sizes 1M --iters 2 --check --json
	wait_ranks 0 1
	all_good 0 1
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 1 ]
	grep -q 'rank 1: DDL_RDMA names mlx5_7, which this node does not have; it has rxh1r0, rxh1r1, rxh2r0' "$BATS_TEST_TMPDIR/err.1"
	! sent_more h1r0 100000
}

# reached_over RANK TRANSPORT: what the rank said with DDL_LOG=info
reached_over() {
	grep -qE "rank $1 on node h$(($1 + 1)) reaches other ranks: 1 over $2\$" "$BATS_TEST_TMPDIR/err.$1"
}

@test "ranks tell what they reach each other over, if they are asked to" {
	DDL_LOG=info DDL_RDMA_REGISTER=all start_ranks 2 1 allreduce --sizes 8,1M
	wait_ranks 0 1
	all_good 0 1
	reached_over 0 verbs && reached_over 1 verbs
	run ! grep 'copies through slots' "$BATS_TEST_TMPDIR/err.0"
}

# Root may lock any amount, unless it has lost the right to.
@test "too little memory that may be locked is told of, with what to do, and TCP serves" {
	note
	DDL_COMMAND=$BATS_TEST_DIRNAME/little_memory start_rank 1 2 1 allreduce --sizes 1M --iters 2 --check --json
	start_rank 0 2 1 allreduce --sizes 1M --iters 2 --check --json
	wait_ranks 0 1
	all_good 0 1
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 1 ]
	grep -qE 'rank 1: [0-9]+ bytes could not be registered with the RDMA device rxh2r[01]: .* 64 KiB may be locked here \(ulimit -l\).*LimitMEMLOCK' \
		"$BATS_TEST_TMPDIR/err.1"
	! sent_more h1r0 100000
}

# With it small requests would work over RDMA, and larger ones fail.
@test "so it is with the limit that distributions set, from the start" {
	export LOCKED=8388608 DDL_LOG=info
	DDL_COMMAND=$BATS_TEST_DIRNAME/little_memory start_rank 1 2 1 allreduce --sizes 1M,8M --iters 2 --check --json
	start_rank 0 2 1 allreduce --sizes 1M,8M --iters 2 --check --json
	wait_ranks 0 1
	all_good 0 1
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 2 ]
	grep -qE 'rank 1: [0-9]+ bytes could not be registered with the RDMA device rxh2r[01]: .* 8192 KiB may be locked here' "$BATS_TEST_TMPDIR/err.1"
	reached_over 0 tcp && reached_over 1 tcp
}

# What is enough to begin with may be too little for a large request.
@test "where a request cannot be made for lack of memory, no other rank waits" {
	local i
	for ((i = 0; i < 20; i++)); do echo "tensor$i 262144"; done >"$BATS_TEST_TMPDIR/tensors"
	export LOCKED=$((66 << 20)) DDL_TIMEOUT=300
	set -- allreduce --sizes-file "$BATS_TEST_TMPDIR/tensors" --total-only --iters 1 --transports verbs
	DDL_COMMAND=$BATS_TEST_DIRNAME/little_memory start_rank 1 2 1 "$@"
	start_rank 0 2 1 "$@"
	wait_ranks 0 1
	[ "${status_of[0]}" = 1 ] && [ "${status_of[1]}" = 1 ]
	grep -qE 'rank 1 \(h2\): [0-9]+ bytes could not be registered with the RDMA device rxh2r[01]: .*LimitMEMLOCK' "$BATS_TEST_TMPDIR/err.1"
	grep -q 'rank 1 on node h2 aborted the communicator: .* could not be registered' "$BATS_TEST_TMPDIR/err.0"
}
