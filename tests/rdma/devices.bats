#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# devices.bats - the guest and its fabric without anything of ours above them: devices that are there, that carry bytes, over their links.

bats_require_minimum_version 1.5.0
load fabric

setup_file() {
	"$BATS_TEST_DIRNAME/fabric" 2 2
}

# pingpong RAIL OPTION...: between the two hosts, 100 times 4 KiB
pingpong() {
	local rail=$1 server status=0
	shift
	host 2 ibv_rc_pingpong -d "rxh2r$rail" -s 4096 -n 100 "$@" >"$BATS_TEST_TMPDIR/server" 2>&1 3>&- &
	server=$!
	until_true 20 listens 2 18515
	host 1 ibv_rc_pingpong -d "rxh1r$rail" -s 4096 -n 100 "$@" 10.1.0.2 || status=$?
	wait $server || status=$?
	cat "$BATS_TEST_TMPDIR/server"
	return $status
}

@test "each host has a device a rail, which is up and has GIDs of both kinds" {
	local device
	for device in rxh1r0 rxh1r1 rxh2r0 rxh2r1; do
		ibv_devinfo -v -d $device >"$BATS_TEST_TMPDIR/info"
		grep -q 'PORT_ACTIVE' "$BATS_TEST_TMPDIR/info"
		grep -qE 'GID\[ *0\]:.*fe80:.*RoCE v2' "$BATS_TEST_TMPDIR/info"
		grep -qE 'GID\[ *1\]:.*10\.1[01]\.0\.[12].*RoCE v2' "$BATS_TEST_TMPDIR/info"
	done
	[ "$(ibv_devices | grep -c rxh)" -eq 4 ]
}

@test "bytes go over each rail's links, and over no other" {
	local rail other before
	for rail in 0 1; do
		other=$((1 - rail))
		before=$(sent h1r$rail) before_other=$(sent h1r$other) before_2=$(sent h2r$rail)
		pingpong $rail -g 1
		[ $(($(sent h1r$rail) - before)) -gt 409600 ]
		[ $(($(sent h2r$rail) - before_2)) -gt 409600 ]
		[ $(($(sent h1r$other) - before_other)) -lt 10000 ]
	done
}

@test "RoCE v2 goes over IPv6 as well" {
	pingpong 0 -g 0
}

@test "what a process holds in a device shows, and nothing is left when it was killed" {
	until_true 20 no_objects
	ip netns exec h2 ibv_rc_pingpong -d rxh2r0 -g 1 >/dev/null 2>&1 3>&- &
	until_true 20 listens 2 18515
	run ! no_objects
	kill -KILL $!
	until_true 20 no_objects
}

@test "a link that is down is a port that is down, and comes up again" {
	ip link set h1r1 down
	until_true 20 port_is rxh1r1 DOWN
	port_is rxh1r0 ACTIVE
	ip link set h1r1 up
	until_true 20 carries h1r1
	pingpong 1 -g 1
}
