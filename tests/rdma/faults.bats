#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# faults.bats - what becomes of a job over RDMA when a rank dies, a link or a port goes down, or packets are lost.

# shellcheck disable=SC2034,SC2154 # pid, status_of: hosts.bash
bats_require_minimum_version 1.5.0
load hosts

setup_file() {
	"$BATS_TEST_DIRNAME/fabric" 3 2
}

setup() {
	setup_ranks
}

teardown() {
	local interface
	for interface in h1r0 h1r1 h2r0 h2r1; do
		ip link set $interface up
		ip -n switches link set $interface up
		unhindered $interface
	done
	for interface in h1r0 h1r1 h2r0 h2r1; do until_true 20 carries $interface; done
	teardown_ranks
}

unhindered() { # INTERFACE
	tc qdisc del dev "$1" root 2>/dev/null || true
}

# slow_links: what h1 sends takes so long that a job of 200 times 1 MiB over two rails needs at least 20 seconds, however fast the
# machine; a job that has to end well is under way until a test lets it go on.
slow_links() {
	local interface
	for interface in h1r0 h1r1; do tc qdisc add dev $interface root tbf rate 40mbit burst 70000 limit 4000000; done
}

# under_way RANKS ARGUMENTS...: all-reduces over RDMA that go on until something happens, once some of it has been sent over every rail
under_way() {
	local n=$1 rail
	shift
	note
	start_ranks "$n" 1 allreduce --sizes 1M --rings "${RAILS:-2}" --algorithm ring --check --json --transports verbs "$@"
	for ((rail = 0; rail < ${RAILS:-2}; rail++)); do until_true 60 sent_more h2r$rail 3000000; done
}

says() { # RANK PATTERN
	grep -qE "$2" "$BATS_TEST_TMPDIR/err.$1"
}

@test "a rank that is killed is named by all others" {
	under_way 3 --iters 100000
	kill -KILL "${pid[1]}"
	wait_ranks 0 1 2
	every_survivor_names 1 0 2
}

@test "a rank that is stopped is named within the deadline, and so is a rank that comes too late" {
	DDL_TIMEOUT=10 under_way 2 --iters 100000
	kill -STOP "${pid[1]}"
	wait_ranks 0
	kill -CONT "${pid[1]}"
	wait_ranks 1
	every_survivor_names 1 0
	every_survivor_names 0 1
}

@test "a rail that goes down is carried on by the other" {
	slow_links
	under_way 2 --iters 200
	ip link set h1r1 down
	unhindered h1r0
	wait_ranks 0 1
	all_good 0 1
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 1 ]
	says 0 'rank 0 on node h1: a connection to rank 1 on node h2 is lost: .*rxh1r1.* goes on over rail 0'
	says 1 'rank 1 on node h2: a connection to rank 0 on node h1 is lost: .*rxh1r1.* goes on over rail 0'
}

@test "so is one whose cable is pulled at the switch" {
	slow_links
	under_way 2 --iters 200
	ip -n switches link set h2r0 down
	unhindered h1r1
	wait_ranks 0 1
	all_good 0 1
	says 1 'a connection to rank 0 on node h1 is lost: .*rail 0, rxh2r0.* goes on over rail 1'
}

@test "the only rail that goes down ends every rank, with the device, the port and the peer" {
	RAILS=1 DDL_TIMEOUT=20 under_way 2 --iters 100000
	ip link set h1r0 down
	wait_ranks 0 1
	every_survivor_names 1 0
	every_survivor_names 0 1
	says 0 'node h2.*rxh1r0 port 1 (failed: .*that port|here) is down'
}

@test "packets that no longer arrive end a rank when they have been sent often enough, with the device, the port and the peer" {
	RAILS=1 DDL_RDMA_TIMEOUT=15 DDL_RDMA_RETRY=4 under_way 2 --iters 100000
	tc qdisc add dev h1r0 root netem loss 100%
	wait_ranks 0 1
	every_survivor_names 1 0
	every_survivor_names 0 1
	says 0 'transport retry counter exceeded'
	says 0 'rank 1 on node h2 .*rxh[12]r0 port 1'
}

@test "both rails that go down at once end every rank" {
	under_way 3 --iters 100000
	ip link set h2r0 down
	ip link set h2r1 down
	wait_ranks 0 1 2
	every_survivor_names '[0-2]' 0 1 2
}

# The ranks' streams go over another network: what the ports' network knows of the peer is asked for when queue pairs are joined.
silence() {
	local interface
	for interface in h1r0 h2r0; do tc qdisc add dev $interface root netem loss 100%; done
	ip neigh flush all
	RAILS=1 start_ranks 2 1 allreduce --sizes 1M --iters 5 --check --json --transports verbs
}

asked() {
	ip neigh show nud incomplete nud failed | grep -q "10.10.0.[12] dev h[12]r0"
}

@test "a port that nobody answers for at first is asked for again" {
	silence
	until_true 20 asked
	sleep 1.5 # the kernel asks for a second, and gives up
	for interface in h1r0 h2r0; do tc qdisc del dev $interface root; done
	wait_ranks 0 1
	all_good 0 1
}

# The deadline is far behind the time for which is asked: else it is the first to pass where one rank is a little later than the other.
@test "one that nobody ever answers for ends the ranks, with the device, the port and the address" {
	silence
	wait_ranks 0 1
	every_survivor_names 1 0
	every_survivor_names 0 1
	says 0 'rxh[12]r0 port 1 cannot be set up: .*nobody on that port.s network answers for the peer.s address 10.10.0.[12]'
}

# Soft-RoCE gives up after 7 losses within the 64 packets from one acknowledgement to the next: with 5 % that is what happens.
@test "packets that are lost or overtake each other cost time, and change no result" {
	local again=/sys/class/infiniband/rxh1r0/ports/1/hw_counters/completer_retry_err before
	before=$(cat $again)
	tc qdisc add dev h1r0 root netem loss 0.5%
	tc qdisc add dev h2r0 root netem delay 2ms reorder 99%
	note
	RAILS=1 DDL_RDMA_TIMEOUT=14 start_ranks 2 1 allreduce --sizes 8,100004,1M --iters 5 --check --json --transports verbs
	wait_ranks 0 1
	all_good 0 1
	[ "$(rows "$BATS_TEST_TMPDIR/out.0")" -eq 3 ]
	[ "$(cat $again)" -gt "$before" ]
}
