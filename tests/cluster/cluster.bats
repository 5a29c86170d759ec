#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# cluster.bats - the test cluster itself: that its names are interleaved, its links limited and counted, and that nothing stays behind.

load helpers

teardown() {
	for prefix in ddlta ddltb; do "$BATS_TEST_DIRNAME/cluster.sh" --prefix $prefix down; done
}

cluster_of() {
	local prefix=$1
	shift
	"$BATS_TEST_DIRNAME/cluster.sh" --prefix "$prefix" "$@"
}

@test "node names are interleaved over the switches" {
	cluster_of ddlta up
	eval "$(cluster_of ddlta env)"
	run scontrol show topology
	grep -E '^SwitchName=leaf1 .*Nodes=(n1,n4,n7|n\[1,4,7\])$' <<<"$output"
	grep -E '^SwitchName=leaf2 .*Nodes=(n2,n5,n8|n\[2,5,8\])$' <<<"$output"
	grep -E '^SwitchName=leaf3 .*Nodes=(n3,n6|n\[3,6\])$' <<<"$output"
	[ "$(sinfo -h -N -t idle -o %N | wc -l)" = 8 ]
	[ "$(cluster_of ddlta exec n5 hostname)" = n5 ]
}

@test "counters tell the bytes that crossed each uplink, by direction" {
	cluster_of ddlta up --nodes 4 --leaves 2
	before=$(cluster_of ddlta counters)
	[ "$(wc -l <<<"$before")" = 4 ]
	# n1 is on leaf1, n2 on leaf2: 1 MB up from leaf1, down to leaf2; next to nothing the other way
	cluster_of ddlta exec n2 python3 -c '
import socket
s = socket.create_server(("0.0.0.0", 5001)); print("ready", flush=True)
c = s.accept()[0]
while c.recv(65536): pass' >"$BATS_TEST_TMPDIR/ready" &
	eventually grep -q ready "$BATS_TEST_TMPDIR/ready"
	cluster_of ddlta exec n1 python3 -c '
import socket
s = socket.create_connection(("n2", 5001), 10); s.sendall(bytes(1000000))'
	wait $!
	after=$(cluster_of ddlta counters)
	rise() { echo $(($(sed -n "s/^$1 //p" <<<"$after") - $(sed -n "s/^$1 //p" <<<"$before"))); }
	for way in 'leaf1 up' 'leaf2 down'; do
		[ "$(rise "$way")" -gt 1000000 ]
		[ "$(rise "$way")" -lt 1200000 ]
	done
	for way in 'leaf1 down' 'leaf2 up'; do [ "$(rise "$way")" -lt 200000 ]; done
}

@test "two clusters stand side by side" {
	cluster_of ddlta up --nodes 2 --leaves 1
	cluster_of ddltb up --nodes 3 --leaves 1 --topology none
	eval "$(cluster_of ddlta env)"
	[ "$(srun -N2 hostname | wc -l)" = 2 ]
	eval "$(cluster_of ddltb env)"
	[ "$(srun -N3 hostname | wc -l)" = 3 ]
	cluster_of ddlta down
	[ "$(srun -N3 hostname | wc -l)" = 3 ]
}

@test "a cluster that does not come up says why and leaves nothing" {
	run cluster_of ddlta up --nodes 2 --leaves 1 --conf NoSuchThing=1
	[ "$status" = 1 ]
	[[ $output == *NoSuchThing* ]]
	[ ! -e /run/netns/ddlta-fab ]
	[ ! -e /sys/class/net/ddlta-ctl ]
	[ ! -e "$(cluster_of ddlta folder)" ]
}

@test "down removes processes, namespaces, interfaces and files, and may be called twice" {
	cluster_of ddlta up --nodes 2 --leaves 1
	folder=$(cluster_of ddlta folder)
	pids=$(cat "$folder"/run/*.pid)
	cluster_of ddlta down
	cluster_of ddlta down
	[ ! -e "$folder" ]
	[ -z "$(find /run/netns -name 'ddlta-*')" ]
	[ ! -e /sys/class/net/ddlta-ctl ]
	gone() { for pid in $pids; do ! grep -qsF "$folder/" "/proc/$pid/cmdline" || return 1; done; }
	eventually gone
}

@test "wrong arguments are refused with a sentence" {
	run cluster_of ddlta up --nodes zero
	[ "$status" = 1 ]
	[[ $output == *"--nodes takes a number from 1 to 200, not 'zero'"* ]]
	run cluster_of ddlta up --topology ring
	[ "$status" = 1 ]
	[[ $output == *"there are tree, none and block"* ]]
	run cluster_of ddlta counters
	[ "$status" = 1 ]
	[[ $output == *"cluster ddlta is not up"* ]]
	run cluster_of 'a b' up
	[ "$status" = 1 ]
}
