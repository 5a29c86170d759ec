#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fabric.sh - hosts behind leaf switches on one machine, without Slurm, for tests. Needs root and iproute2.
#
#   fabric.sh [--name P] up [OPTION...]     builds it; removes everything again where that fails
#       --leaves L        leaf switches, joined by a spine where there are several (default 2)
#       --hosts H         hosts at each leaf (default 2)
#       --rails R         interfaces of each host, rail0 ...; each rail has switches of its own (default 1)
#       --rate RATE       limit of each host's link, each direction, as tc writes it (default: none)
#       --uplink RATE     limit of each link from a leaf to the spine, each direction (default: none)
#   fabric.sh [--name P] exec HOST CMD...   runs a command on a host (its number, from 0) in place of this script: same process id
#   fabric.sh [--name P] sent HOST          bytes that a host has sent over all of its rails
#   fabric.sh [--name P] uplink LEAF        bytes that a leaf has sent up to the spine over all rails
#   fabric.sh [--name P] pids               processes that are in the fabric's hosts
#   fabric.sh [--name P] down               ends those processes and removes everything; also after a failure, and twice
#
# Host i hangs at leaf i/H and has the host name h<i>, the network namespace P-h<i> and the address 10.(128+rail).0.(i+1)/16. All switches
# are bridges in the namespace P-sw. P is at most 9 letters and digits, default ddlf. Exit: 0 good; 1 failed; 2 wrong usage.
set -euo pipefail

BURST=131072 # bytes; below 64 KiB tbf cuts large segments and loses half of the rate
QUEUE_MS=20
MTU=1500

fail() {
	echo "fabric.sh: $*" >&2
	exit 1
}

usage() {
	sed -n '4,/^# are bridges/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

# limit DEVICE RATE: a line for tc -batch, nothing without a rate.
limit() {
	[ -z "$2" ] || echo "qdisc replace dev $1 root tbf rate $2 burst $BURST latency ${QUEUE_MS}ms"
}

# bridge NAME: lines for ip -batch.
bridge() {
	printf 'link add %s type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set %s mtu %d up\n' "$1" "$1" $MTU
}

switches() { # lines for ip -batch in the namespace of the switches
	local rail leaf
	for ((rail = 0; rail < rails; rail++)); do
		bridge "spine$rail"
		for ((leaf = 0; leaf < leaves; leaf++)); do
			bridge "leaf${leaf}r$rail"
			echo "link add up${leaf}r$rail mtu $MTU type veth peer name down${leaf}r$rail mtu $MTU"
			echo "link set up${leaf}r$rail master leaf${leaf}r$rail up"
			echo "link set down${leaf}r$rail master spine$rail up"
		done
	done
}

links() { # the same for the hosts' links
	local host rail
	for ((host = 0; host < leaves * hosts; host++)); do
		for ((rail = 0; rail < rails; rail++)); do
			echo "link add h${host}r$rail mtu $MTU type veth peer name rail$rail mtu $MTU netns $name-h$host"
			echo "link set h${host}r$rail master leaf$((host / hosts))r$rail up"
		done
	done
}

limits() { # lines for tc -batch in the namespace of the switches: downwards at the host's port, both ways at the uplink
	local host rail leaf
	for ((rail = 0; rail < rails; rail++)); do
		for ((leaf = 0; leaf < leaves; leaf++)); do
			limit "up${leaf}r$rail" "$uplink"
			limit "down${leaf}r$rail" "$uplink"
		done
		for ((host = 0; host < leaves * hosts; host++)); do limit "h${host}r$rail" "$rate"; done
	done
}

host_up() { # HOST: its addresses, and the limit of what it sends
	local rail
	{
		echo "link set lo up"
		for ((rail = 0; rail < rails; rail++)); do
			printf 'addr add 10.%d.0.%d/16 dev rail%d\nlink set rail%d up\n' $((128 + rail)) $(($1 + 1)) "$rail" "$rail"
		done
	} | ip -n "$name-h$1" -batch -
	for ((rail = 0; rail < rails; rail++)); do limit "rail$rail" "$rate"; done | tc -n "$name-h$1" -batch -
}

up() {
	local host
	[ "$(id -u)" = 0 ] || fail "needs root, since it makes network namespaces; try sudo"
	down
	trap down EXIT
	ip netns add "$name-sw"
	switches | ip -n "$name-sw" -batch -
	for ((host = 0; host < leaves * hosts; host++)); do ip netns add "$name-h$host"; done
	links | ip -n "$name-sw" -batch -
	limits | tc -n "$name-sw" -batch -
	for ((host = 0; host < leaves * hosts; host++)); do host_up "$host"; done
	trap - EXIT
}

namespaces() { # of this fabric, that are there
	local path
	for path in /run/netns/"$name"-h[0-9]* /run/netns/"$name"-sw; do
		[ ! -e "$path" ] || echo "${path##*/}"
	done
}

pids() {
	local namespace
	for namespace in $(namespaces); do ip netns pids "$namespace"; done
}

down() {
	local namespace pid
	for pid in $(pids); do kill -KILL "$pid" 2>/dev/null || true; done
	for namespace in $(namespaces); do ip netns del "$namespace"; done
}

# transmitted NAMESPACE PATTERN: bytes that its interfaces of that name have sent together.
transmitted() {
	# shellcheck disable=SC2016
	ip netns exec "$1" sh -c 'cat /sys/class/net/$0/statistics/tx_bytes' "$2" | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

name=ddlf leaves=2 hosts=2 rails=1 rate='' uplink=''
if [ "${1:-}" = --name ]; then
	[ $# -ge 2 ] || usage
	name=$2
	shift 2
fi
[[ $name =~ ^[a-zA-Z0-9]{1,9}$ ]] || fail "the name \"$name\" is not 1 to 9 letters and digits"
[ $# -gt 0 ] || usage
command=$1
shift
case $command in
up)
	while [ $# -gt 0 ]; do
		[ $# -ge 2 ] || usage
		case $1 in
		--leaves) leaves=$2 ;;
		--hosts) hosts=$2 ;;
		--rails) rails=$2 ;;
		--rate) rate=$2 ;;
		--uplink) uplink=$2 ;;
		*) usage ;;
		esac
		shift 2
	done
	for figure in "$leaves" "$hosts" "$rails"; do
		[[ $figure =~ ^[1-9][0-9]?$ ]] || fail "\"$figure\" is not a number from 1 to 99"
	done
	up
	;;
exec)
	[ $# -ge 2 ] || usage
	host=$1
	shift
	[ -e "/run/netns/$name-h$host" ] || fail "there is no host $host; run up first"
	# shellcheck disable=SC2016
	exec ip netns exec "$name-h$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "h$host" "$@"
	;;
sent)
	[ $# -eq 1 ] || usage
	transmitted "$name-h$1" 'rail*'
	;;
uplink)
	[ $# -eq 1 ] || usage
	transmitted "$name-sw" "up$1r*"
	;;
pids) pids ;;
down) down ;;
*) usage ;;
esac
