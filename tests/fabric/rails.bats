#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# rails.bats - hosts with two interfaces each: both carry traffic, or those that are named; what happens when one is lost; strangers.
# needs root

load ranks

setup_file() {
	export FABRIC=ddlr DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	export DDL_MEASURE=0 # what measuring sends is not to be counted
	"$BATS_TEST_DIRNAME/fabric.sh" --name "$FABRIC" up --leaves 2 --hosts 2 --rails 2 --rate 200mbit --uplink 200mbit
}

teardown_file() {
	"$BATS_TEST_DIRNAME/fabric.sh" --name "$FABRIC" down
}

setup() {
	# shellcheck disable=SC2034 # pid, host_of: ranks.bash
	pid=() status_of=() host_of=()
	unset DDL_PLAN DDL_MODE DDL_TIMEOUT DDL_NET
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir -p "$TMPDIR"
}

teardown() {
	local left
	left=$(fabric pids)
	for process in $left; do kill -KILL "$process" || true; done
	[ -z "$left" ] || { echo "processes were left: $left"; return 1; }
}

sent_over() { # HOST RAIL: bytes so far
	fabric exec "$1" cat "/sys/class/net/rail$2/statistics/tx_bytes"
}

# note: remembers what every host has sent over each rail; since HOST RAIL: what it has sent since then.
note() {
	local host rail
	for host in 0 1 2 3; do for rail in 0 1; do sent_over $host $rail >"$BATS_TEST_TMPDIR/noted.$host.$rail"; done; done
}

since() {
	echo $(($(sent_over "$1" "$2") - $(cat "$BATS_TEST_TMPDIR/noted.$1.$2")))
}

# Each host has sent as much over one rail as over the other, within five parts in a hundred, and that much at least on each.
evenly_spread() { # BYTES
	local host first second
	for host in 0 1 2 3; do
		first=$(since $host 0) second=$(since $host 1)
		echo "host $host: $first and $second bytes"
		[ "$first" -ge "$1" ] && [ "$second" -ge "$1" ]
		[ $((first * 100)) -ge $((second * 95)) ]
		[ $((second * 100)) -ge $((first * 95)) ]
	done
}

@test "long all-reduces use both rails of every host alike" {
	note
	start_ranks 4 1 allreduce --sizes 1M,3000004 --iters 2 --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 2 ]
	[ "$(jq -s 'all(.[]; .rings == 2)' "$BATS_TEST_TMPDIR/out.0")" = true ]
	evenly_spread 6000000
}

@test "so do those level by level" {
	note
	start_ranks 4 1 allreduce --sizes 2M --iters 3 --algorithm multiring --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	evenly_spread 6000000
}

@test "two ranks a host share both rails" {
	note
	start_ranks 8 2 allreduce --sizes 2M --iters 3 --algorithm ring --check --json
	wait_ranks 0 1 2 3 4 5 6 7
	all_good 0 1 2 3 4 5 6 7
	evenly_spread 5000000
}

@test "a named interface carries everything" {
	export DDL_NET=rail1
	note
	start_ranks 4 1 allreduce --sizes 1M --iters 2 --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ "$(jq -s '.[0].rings' "$BATS_TEST_TMPDIR/out.0")" -eq 1 ]
	for host in 0 1 2 3; do
		[ "$(since $host 0)" -lt 10000 ]
		[ "$(since $host 1)" -gt 3000000 ]
	done
}

@test "more rings than rails share them" {
	note
	start_ranks 4 1 allreduce --sizes 2M --iters 3 --rings 6 --algorithm ring --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	evenly_spread 6000000
}

@test "a name that does not exist is refused with those that do" {
	export DDL_NET=rail0,eth7
	start_ranks 4 1 allreduce --sizes 1K --iters 1
	wait_ranks 0 1 2 3
	for r in 0 1 2 3; do
		[ "${status_of[r]}" -gt 0 ]
		grep -q "node h$r has no network interface eth7; it has lo, rail0, rail1" "$BATS_TEST_TMPDIR/err.$r"
	done
}

@test "a host with fewer rails than the others is no harm" {
	for r in 0 1 3; do start_rank $r 4 1 allreduce --sizes 1M --iters 2 --check --json; done
	DDL_NET=rail0 start_rank 2 4 1 allreduce --sizes 1M --iters 2 --check --json
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ "$(jq -s '.[0].rings' "$BATS_TEST_TMPDIR/out.0")" -eq 1 ]
}

# Every rank is told by who saw it; who talks to host 2 says so, and the results stay right.
@test "a rail that goes down is carried on by the other" {
	note
	start_ranks 4 1 allreduce --sizes 4M --iters 25 --algorithm ring --check --json
	sent_much() { [ "$(since 2 1)" -gt 3000000 ]; }
	until_true 30 sent_much
	fabric exec 2 ip link set rail1 down
	wait_ranks 0 1 2 3
	fabric exec 2 ip link set rail1 up
	all_good 0 1 2 3
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 1 ]
	grep -q 'rank 2 on node h2: a connection to rank [13] on node h[13] is lost: .* (rail 1, rail1); goes on over rail 0' "$BATS_TEST_TMPDIR/err.2"
	grep -q 'a connection to rank 2 on node h2 is lost: .* (rail 1, rail1); goes on over rail 0' "$BATS_TEST_TMPDIR/err.1"
}

# Ranks 0 and 2 have one connection, over the rail that is lost, and only one of them is told by its kernel.
@test "a rail that goes down for a moment is carried on by the other" {
	export DDL_TIMEOUT=20
	note
	start_ranks 4 1 allreduce --sizes 4M --iters 12 --algorithm ring --check --json
	sent_much() { [ "$(since 2 1)" -gt 3000000 ]; }
	until_true 30 sent_much
	fabric exec 2 ip link set rail1 down
	until_true 20 grep -q 'is lost: .* (rail 1, rail1); goes on over rail 0' "$BATS_TEST_TMPDIR/err.2"
	fabric exec 2 ip link set rail1 up
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
}

@test "rails that all go down end every rank with a sentence" {
	export DDL_TIMEOUT=4
	note
	start_ranks 4 1 allreduce --sizes 16M --iters 1000
	sent_much() { [ "$(since 2 1)" -gt 3000000 ]; }
	until_true 30 sent_much
	fabric exec 2 sh -c 'ip link set rail1 down; ip link set rail0 down'
	wait_ranks 0 1 2 3
	fabric exec 2 sh -c 'ip link set rail0 up; ip link set rail1 up'
	every_survivor_names '[0-3]' 0 1 2 3
}

@test "whoever connects and is no rank is sent away, and told of once" {
	note
	for r in 0 1 2 3; do start_rank $r 4 1 allreduce --sizes 4M --iters 25 --algorithm ring --check --json; done
	underway() { [ "$(since 1 1)" -gt 3000000 ]; }
	until_true 30 underway
	fabric exec 1 ss -Htln | awk '{ print $4 }' | grep -m 1 '^10\.129\.' >"$BATS_TEST_TMPDIR/port"
	for _ in 1 2 3; do
		fabric exec 0 timeout 10 bash -c 'exec 7<>"/dev/tcp/${0%:*}/${0##*:}"; printf "GET / HTTP/1.0\r\n\r\n" >&7; cat <&7' \
			"$(cat "$BATS_TEST_TMPDIR/port")" || true
	done
	wait_ranks 0 1 2 3
	all_good 0 1 2 3
	[ "$(grep -c 'from 10.129.0.1 that is no rank.s was closed: it speaks another protocol' "$BATS_TEST_TMPDIR/err.1")" -eq 1 ]
	[ "$(grep -c 'that is no rank' "$BATS_TEST_TMPDIR/err.0")" -eq 0 ]
}
