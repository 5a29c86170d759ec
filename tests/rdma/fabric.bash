# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# fabric.bash - what tests in a guest ask of the fabric that tests/rdma/fabric has made; loaded by the bats files.

host() { # NUMBER COMMAND...
	local number=$1
	shift
	ip netns exec "h$number" "$@"
}

# until_true SECONDS COMMAND...: polls; fails when the command has not succeeded by then.
until_true() {
	local end=$((SECONDS + $1))
	until "${@:2}"; do
		[ $SECONDS -lt $end ] || { echo "never came true: ${*:2}"; return 1; }
		sleep 0.2
	done
}

sent() { # INTERFACE: bytes
	cat "/sys/class/net/$1/statistics/tx_bytes"
}

# note: what since and sent_more count from
note() {
	local interface
	for interface in /sys/class/net/h[0-9]*; do sent "${interface##*/}" >"$BATS_TEST_TMPDIR/noted.${interface##*/}"; done
}

since() { # INTERFACE: bytes that it has sent since note
	echo $(($(sent "$1") - $(cat "$BATS_TEST_TMPDIR/noted.$1")))
}

sent_more() { # INTERFACE BYTES, since note
	[ "$(since "$1")" -gt "$2" ]
}

port_is() { # DEVICE STATE
	grep -q "$2" "/sys/class/infiniband/$1/ports/1/state"
}

# carries INTERFACE: its device's port is up, and so is its port at the switch, which follows a little later. Before, it loses packets.
carries() {
	port_is "rx$1" ACTIVE && [ "$(ip netns exec switches cat "/sys/class/net/$1/brport/state")" = 3 ]
}

listens() { # HOST PORT
	host "$1" cat /proc/net/tcp /proc/net/tcp6 | grep -qiE "$(printf ':%04X [0:]*0000 0A' "$2")"
}

# no_objects: no process holds anything in a device. One queue pair of each (management), and what belongs to it, is the kernel's own.
no_objects() {
	! rdma resource show | grep -v ' pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 '
}
