#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# cluster.sh - a Slurm cluster on one machine, for the demo and the tests. Needs root, Slurm, munge and iproute2.
#
#   cluster.sh [--prefix P] COMMAND
#
#   up [OPTION...]        builds and starts the cluster; on failure shows the logs' ends, removes everything and exits 1
#       --nodes N             nodes n1 ... nN (default 8), dealt out over the leaf switches like cards, so that the order of
#       --leaves L            names is a bad ring order (default 3: n1,n4,n7 on leaf1, n2,n5,n8 on leaf2, n3,n6 on leaf3)
#       --cpus C              CPUs that each node claims (default 4)
#       --host-rate RATE      limit of each node's link, each direction (default 400mbit; 0: none)
#       --uplink-rate RATE    limit of each leaf's link to the spine, each direction (default 400mbit; 0: none)
#       --topology KIND       what Slurm is told of the switches: tree (default), none, block (Slurm 24.05 and later)
#       --plugin PATH         loads this SPANK plugin; a line in plugstack.conf is written for it
#       --required            ... with `required` instead of `optional`
#       --plugin-args ARGS    ... with these arguments
#       --conf LINE           one more line for slurm.conf; may be repeated
#       --topology-line LINE  one more line for topology.conf; may be repeated
#   down [--keep-logs]    stops and removes everything; works after a failed `up` and when there is nothing
#   env                   prints `export SLURM_CONF=...`: eval it, then srun, sbatch, sinfo ... talk to this cluster
#   exec NODE CMD...      runs a command on a node (as root, in the current folder)
#   counters [--hosts]    bytes over each uplink since `up`, both directions: lines `leaf1 up BYTES` and `leaf1 down BYTES`;
#                         then those over each node's link: `n1 up BYTES` and `n1 down BYTES`
#   status                sinfo, the nodes' switches, and the limits' statistics
#   plugstack [LINE...]   replaces the lines of plugstack.conf; takes effect with the next command or step
#   controller stop|start|pause|continue     slurmctld: ended, started again with its state, frozen, thawed
#   folder                prints the folder with all state: etc/ (slurm.conf), log/
#
# Several clusters stand side by side under different prefixes (at most 9 letters, digits or _; default ddl). Exit status: 0 good,
# 1 failed (one line on stderr says why), 2 wrong usage.
#
# How: each node is a set of namespaces (net, uts, ipc, mount, pid) with its own munged and slurmd; bridges in one more network
# namespace are the switches; tbf limits the links. slurmctld and the user's commands stay outside and reach the nodes through one
# veth. Everything lies in /var/lib/ddl-cluster/PREFIX, apart from network namespaces PREFIX-* and the interface PREFIX-ctl.
set -euo pipefail

BASE=/var/lib/ddl-cluster
BURST=128kb	# below 64 KiB tbf cuts large segments and loses half of the rate
LATENCY=20ms
prefix=ddl

fail() {
	echo "cluster.sh: $*" >&2
	exit 1
}

usage() {
	sed -n '4,/^# 1 failed/{s/^# \{0,1\}//;p}' "$0" >&2
	exit 2
}

need_root() {
	[ "$(id -u)" = 0 ] || fail "needs root, since it makes network namespaces; try sudo"
}

# ---- processes -------------------------------------------------------------------------------------------------------------

# alive PID: whether it runs. A daemon whose parent reaps late stays a zombie, for which kill -0 still succeeds.
alive() {
	[ -r "/proc/$1/status" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

# ours PID: whether the process belongs to this cluster; a number in a stale file may belong to somebody else by now.
ours() {
	[ -r "/proc/$1/cmdline" ] && tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -qF "$dir/"
}

# Closes what the caller left open: the cluster outlives this script, and must not hold a test's pipe open.
close_inherited() {
	local fd
	for fd in "/proc/$BASHPID/fd"/*; do
		fd=${fd##*/}
		# 255 is bash's own, from which it reads this script
		if [ "$fd" -gt 2 ] && [ "$fd" != 255 ]; then eval "exec $fd>&-"; fi
	done
}

# end PIDFILE: TERM, and KILL after half a second; the file goes too.
end() {
	local pid
	[ -s "$1" ] || return 0
	pid=$(cat "$1")
	if ours "$pid"; then
		kill "$pid" 2>/dev/null || true
		for _ in {1..10}; do
			alive "$pid" || break
			sleep 0.05
		done
		if ours "$pid"; then kill -KILL "$pid" 2>/dev/null || true; fi
		for _ in {1..40}; do
			alive "$pid" || break
			sleep 0.05
		done
	fi
	rm -f "$1"
}

start_munged() { # FOLDER of socket, pid, log and seed
	munged --force --key-file="$dir/etc/munge.key" --socket="$dir/munge/munge.sock" --pid-file="$1/munged.pid" \
		--log-file="$1/munged.log" --seed-file="$1/munged.seed"
}

start_controller() { # arguments of slurmctld
	slurmctld -f "$dir/etc/slurm.conf" "$@" </dev/null >>"$dir/log/slurmctld.out" 2>&1
}

# ---- the nodes -------------------------------------------------------------------------------------------------------------

leaf_of() { echo $((($1 - 1) % leaves + 1)); }          # number of node $1's leaf switch
place_of() { echo $((($1 - 1) / leaves + 1)); }         # its place there
address_of() { echo "$net.$(leaf_of "$1").$(place_of "$1")"; }

# on_leaf LEAF: its nodes, "n1,n4,n7"
on_leaf() {
	local i list=
	for ((i = $1; i <= nodes; i += leaves)); do list+=,n$i; done
	echo "${list#,}"
}

# Process 1 of a node, in its own namespaces: the node's munged and slurmd, then it reaps what they leave.
node_main() { # DIR NAME
	dir=$1
	mount --make-rprivate /
	hostname "$2"
	mount -t tmpfs -o mode=1777,size=2g shm /dev/shm
	mount --bind "$dir/etc/hosts" /etc/hosts
	mount --bind "$dir/node/$2/munge" "$dir/munge" # one munged for several slurmd would refuse credentials as replayed
	start_munged "$dir/node/$2"
	SLURM_CONF=$dir/etc/slurm.conf slurmd -N "$2" -f "$dir/etc/slurm.conf"
	trap 'exit 0' TERM
	while :; do
		sleep 1000 &
		wait $! || true
	done
}

start_node() { # NAME
	setsid nsenter --net="/run/netns/$prefix-$1" \
		unshare --uts --ipc --mount --pid --fork --mount-proc --kill-child \
		bash "$self" node-main "$dir/" "$1" </dev/null >"$dir/log/node.$1.log" 2>&1 &
	echo $! >"$dir/run/node.$1.pid"
}

# The node's process 1 as seen from outside: the only child of unshare.
node_pid() { # NAME
	local parent child
	[ -s "$dir/run/node.$1.pid" ] || fail "there is no node $1 in cluster $prefix"
	parent=$(cat "$dir/run/node.$1.pid")
	child=$(ps -o pid= --ppid "$parent" || true)
	[ -n "$child" ] || fail "node $1 of cluster $prefix is not running"
	echo $((child))
}

# ---- configuration ---------------------------------------------------------------------------------------------------------

slurm_version() { # 2205 for 22.05.8
	slurmctld -V 2>/dev/null | sed -n 's/^[^ ]* \([0-9]*\)\.\([0-9]*\).*/\1\2/p'
}

write_slurm_conf() {
	local i
	cat <<-END
		ClusterName=$prefix
		SlurmctldHost=$(hostname -s)($net.255.1)
		SlurmctldPort=$port
		SlurmdPort=$((port + 1))
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		AuthInfo=socket=$dir/munge/munge.sock
		StateSaveLocation=$dir/state
		SlurmdSpoolDir=$dir/spool/%n
		TmpFS=$dir/tmp/%n
		SlurmctldPidFile=$dir/run/slurmctld.pid
		SlurmdPidFile=$dir/run/slurmd.%n.pid
		SlurmctldLogFile=$dir/log/slurmctld.log
		SlurmdLogFile=$dir/log/slurmd.%n.log
		SlurmctldDebug=info
		SlurmdDebug=info
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		MpiDefault=none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		SchedulerType=sched/backfill
		TopologyPlugin=topology/$topology
		ReturnToService=2
		SlurmdTimeout=60
		InactiveLimit=0
		KillWait=5
		SlurmdParameters=config_overrides
	END
	echo "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1" # heterogeneous jobs start by backfill only
	for ((i = 1; i <= nodes; i++)); do
		echo "NodeName=n$i NodeAddr=$(address_of "$i") CPUs=$cpus RealMemory=2000 State=UNKNOWN"
	done
	echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
	if [ ${#conf_lines[@]} -gt 0 ]; then printf '%s\n' "${conf_lines[@]}"; fi
}

write_topology_conf() {
	local l
	case $topology in
	tree)
		for ((l = 1; l <= leaves; l++)); do echo "SwitchName=leaf$l Nodes=$(on_leaf "$l")"; done
		echo "SwitchName=spine1 Switches=leaf[1-$leaves]"
		;;
	block)
		for ((l = 1; l <= leaves; l++)); do echo "BlockName=b$l Nodes=$(on_leaf "$l")"; done
		echo "BlockSizes=$(((nodes + leaves - 1) / leaves))"
		;;
	esac
	if [ ${#topology_lines[@]} -gt 0 ]; then printf '%s\n' "${topology_lines[@]}"; fi
}

write_hosts() {
	local i
	echo "127.0.0.1 localhost"
	echo "$net.255.1 $(hostname -s)"
	for ((i = 1; i <= nodes; i++)); do echo "$(address_of "$i") n$i"; done
}

write_configuration() {
	write_slurm_conf >"$dir/etc/slurm.conf"
	write_topology_conf >"$dir/etc/topology.conf"
	write_hosts >"$dir/etc/hosts"
	# Releases before 23.11 load one of the plugins in any case, and that which is for v1 looks for nothing until it is used.
	if [ "$version" -ge 2311 ]; then echo "CgroupPlugin=disabled"; else printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n'; fi >"$dir/etc/cgroup.conf"
	if [ -n "$plugin" ]; then echo "$plugin_need $plugin${plugin_args:+ $plugin_args}"; fi >"$dir/etc/plugstack.conf"
	dd if=/dev/urandom of="$dir/etc/munge.key" bs=1k count=1 status=none
	chmod 600 "$dir/etc/munge.key"
	# What the other subcommands need to know.
	printf '%s\n' "nodes=$nodes" "leaves=$leaves" "net=$net" "port=$port" >"$dir/run/shape"
}

# ---- the fabric ------------------------------------------------------------------------------------------------------------

# Takes the first network 10.77.0.0/16 ... 10.126.0.0/16 that this machine does not use, with its own pair of ports. Clusters may come
# up side by side: one looks and takes at a time.
claim_network() {
	local k lock
	exec {lock}</run/netns
	flock -w 60 "$lock" || fail "another cluster.sh holds the lock on /run/netns"
	for ((k = 0; k < 50; k++)); do
		net=10.$((77 + k))
		port=$((17200 + 10 * k))
		if ip -4 addr show | grep -qF "inet $net." || [ -n "$(ss -Hltn "sport = :$port")" ]; then continue; fi
		ip link add "$prefix-ctl" type veth peer name ctl netns "$prefix-fab"
		ip addr add "$net.255.1/16" dev "$prefix-ctl"
		ip link set "$prefix-ctl" up
		exec {lock}<&-
		return
	done
	fail "all of 10.77.0.0/16 to 10.126.0.0/16 are in use"
}

limit() { # DEVICE RATE: a line for tc -batch
	[ "$2" = 0 ] || echo "qdisc add dev $1 root tbf rate $2 burst $BURST latency $LATENCY"
}

build_fabric() {
	local i l
	for ((i = 1; i <= nodes; i++)); do echo "netns add $prefix-n$i"; done | ip -batch -
	{
		echo "link set lo up"
		echo "link add spine1 type bridge stp_state 0 forward_delay 0"
		echo "link set spine1 up"
		echo "link set ctl master spine1 up"
		for ((l = 1; l <= leaves; l++)); do
			echo "link add leaf$l type bridge stp_state 0 forward_delay 0"
			echo "link set leaf$l up"
			echo "link add leaf$l-up type veth peer name leaf$l-down"
			echo "link set leaf$l-up master leaf$l up"
			echo "link set leaf$l-down master spine1 up"
		done
		for ((i = 1; i <= nodes; i++)); do
			echo "link add p$i type veth peer name eth0 netns $prefix-n$i"
			echo "link set p$i master leaf$(leaf_of "$i") up"
		done
	} | ip -n "$prefix-fab" -batch -
	{
		for ((l = 1; l <= leaves; l++)); do
			limit "leaf$l-up" "$uplink_rate"
			limit "leaf$l-down" "$uplink_rate"
		done
		for ((i = 1; i <= nodes; i++)); do limit "p$i" "$host_rate"; done
	} | tc -n "$prefix-fab" -batch -
	for ((i = 1; i <= nodes; i++)); do
		printf 'link set lo up\naddr add %s/16 dev eth0\nlink set eth0 up\n' "$(address_of "$i")" | ip -n "$prefix-n$i" -batch -
		limit eth0 "$host_rate" | tc -n "$prefix-n$i" -batch -
	done
}

# ---- subcommands -----------------------------------------------------------------------------------------------------------

check_topology() {
	case $topology in
	tree | none) ;;
	block) compgen -G '/usr/lib*/*/slurm*/topology_block.so' >/dev/null || compgen -G '/usr/lib*/slurm*/topology_block.so' >/dev/null ||
		fail "this Slurm ($(slurmctld -V)) has no topology/block; use --topology tree or none" ;;
	*) fail "unknown topology '$topology'; there are tree, none and block" ;;
	esac
}

check_number() { # OPTION VALUE MAX
	if ! [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] || [ "$2" -gt "$3" ]; then fail "$1 takes a number from 1 to $3, not '$2'"; fi
}

parse_up() {
	nodes=8 leaves=3 cpus=4 host_rate=400mbit uplink_rate=400mbit topology=tree
	plugin='' plugin_need=optional plugin_args='' conf_lines=() topology_lines=()
	while [ $# -gt 0 ]; do
		case $1 in
		--required) plugin_need=required && shift && continue ;;
		--nodes | --leaves | --cpus | --host-rate | --uplink-rate | --topology | --plugin | --plugin-args | --conf | --topology-line)
			[ $# -ge 2 ] || fail "$1 needs a value" ;;
		*) usage ;;
		esac
		case $1 in
		--nodes) nodes=$2 ;;
		--leaves) leaves=$2 ;;
		--cpus) cpus=$2 ;;
		--host-rate) host_rate=$2 ;;
		--uplink-rate) uplink_rate=$2 ;;
		--topology) topology=$2 ;;
		--plugin) plugin=$2 ;;
		--plugin-args) plugin_args=$2 ;;
		--conf) conf_lines+=("$2") ;;
		--topology-line) topology_lines+=("$2") ;;
		esac
		shift 2
	done
	check_number --nodes "$nodes" 200
	check_number --leaves "$leaves" 100
	check_number --cpus "$cpus" 1024
	[ "$leaves" -le "$nodes" ] || fail "$leaves leaf switches need at least as many nodes, not $nodes"
	check_topology
	[ -z "$plugin" ] || [[ $plugin == /* ]] || fail "the plugin's path '$plugin' must be absolute, since slurmd loads it too"
}

up_failed() {
	local status=$? log
	[ "$status" = 0 ] && return
	echo "cluster.sh: cluster $prefix did not come up; the ends of its logs:" >&2
	for log in "$dir"/log/*; do
		[ -s "$log" ] || continue
		echo "--- ${log##*/}" >&2
		tail -n 5 "$log" >&2
	done
	down >/dev/null || true
	exit 1
}

wait_idle() {
	local end=$((SECONDS + 120))
	until [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" = "$nodes" ]; do
		[ $SECONDS -lt $end ] || { sinfo >&2 || true; fail "not all of the $nodes nodes became idle within two minutes"; }
		sleep 0.1
	done
}

up() {
	local i program
	need_root
	close_inherited
	parse_up "$@"
	for program in slurmctld slurmd sinfo munged ip tc nsenter unshare; do
		command -v "$program" >/dev/null || fail "$program is not installed; see scripts/install-deps"
	done
	version=$(slurm_version)
	[ -n "$version" ] || fail "cannot tell the version of Slurm from slurmctld -V"
	if [ -e "$dir" ] || [ -e "/run/netns/$prefix-fab" ]; then
		fail "cluster $prefix is up already, or was left behind; remove it with: cluster.sh --prefix $prefix down"
	fi
	mkdir -p "$dir" || mkdir -p "$dir" # another one may just have removed what is above it
	trap up_failed EXIT
	mkdir -p "$dir"/{etc,run,state,log,spool,munge,tmp,node}
	chmod 755 "$dir" "$dir"/*
	for ((i = 1; i <= nodes; i++)); do
		mkdir -p "$dir/tmp/n$i" "$dir/node/n$i/munge"
		chmod 755 "$dir/node/n$i" "$dir/node/n$i/munge"
		chmod 1777 "$dir/tmp/n$i"
	done
	ip netns add "$prefix-fab"
	claim_network
	write_configuration
	build_fabric
	start_munged "$dir/run"
	export SLURM_CONF=$dir/etc/slurm.conf
	start_controller -c
	for ((i = 1; i <= nodes; i++)); do start_node "n$i"; done
	wait_idle
	trap - EXIT
	sinfo
}

down() {
	local file pid name keep=${1:-}
	need_root
	[ -z "$keep" ] || [ "$keep" = --keep-logs ] || usage
	controller_signal CONT || true # a frozen slurmctld takes no TERM
	for file in "$dir"/run/node.*.pid; do
		[ -s "$file" ] || continue
		pid=$(cat "$file") # unshare: with it dies the node's process 1, and with that all of the node
		if ours "$pid"; then kill -KILL "$pid" 2>/dev/null || true; fi
		rm -f "$file"
	done
	end "$dir/run/slurmctld.pid"
	end "$dir/run/munged.pid"
	if [ -e "/sys/class/net/$prefix-ctl" ]; then ip link del "$prefix-ctl" || true; fi
	for name in /run/netns/"$prefix"-fab /run/netns/"$prefix"-n[0-9]*; do
		if [ -e "$name" ]; then ip netns del "${name##*/}" || true; fi
	done
	if [ -d "$dir" ] && [ "$keep" = --keep-logs ]; then
		find "$dir" -mindepth 1 -maxdepth 1 ! -name log -exec rm -rf {} +
		mv "$dir/log" "$dir.log.$$"
		echo "logs: $dir.log.$$"
	fi
	remove_folder
}

# A dying node may still write into its folder for a moment.
remove_folder() {
	local _
	for _ in {1..50}; do
		rm -rf "$dir" 2>/dev/null && break
		sleep 0.1
	done
	[ ! -e "$dir" ] || fail "cannot remove $dir"
	rmdir "$BASE" 2>/dev/null || true # the last one
}

need_up() {
	[ -s "$dir/run/shape" ] || fail "cluster $prefix is not up; start it with: cluster.sh --prefix $prefix up"
	# shellcheck disable=SC1091
	. "$dir/run/shape"
	export SLURM_CONF=$dir/etc/slurm.conf
}

exec_on_node() {
	local pid
	[ $# -ge 2 ] || usage
	need_up
	pid=$(node_pid "$1")
	shift
	exec nsenter -t "$pid" --net --uts --ipc --mount --pid --root --wd="$PWD" "$@"
}

counters() {
	local hosts=0
	[ $# = 0 ] || [ "$*" = --hosts ] || usage
	need_up
	if [ $# = 1 ]; then hosts=$nodes; fi
	# shellcheck disable=SC2016
	ip netns exec "$prefix-fab" bash -c '
		for ((l = 1; l <= $1; l++)); do
			echo "leaf$l up $(cat /sys/class/net/leaf$l-up/statistics/tx_bytes)"
			echo "leaf$l down $(cat /sys/class/net/leaf$l-down/statistics/tx_bytes)"
		done
		for ((i = 1; i <= $2; i++)); do # up and down as the switch at the other end sees them
			echo "n$i up $(cat /sys/class/net/p$i/statistics/rx_bytes)"
			echo "n$i down $(cat /sys/class/net/p$i/statistics/tx_bytes)"
		done' counters "$leaves" "$hosts"
}

status() {
	local l
	need_up
	sinfo
	for ((l = 1; l <= leaves; l++)); do echo "leaf$l: $(on_leaf "$l")"; done
	tc -n "$prefix-fab" -s qdisc show | grep -A 1 tbf || true
}

controller_signal() { # SIGNAL
	local pid
	[ -s "$dir/run/slurmctld.pid" ] || return 1
	pid=$(cat "$dir/run/slurmctld.pid")
	ours "$pid" && kill -s "$1" "$pid"
}

# Whether slurmctld answers and has heard from every node.
nodes_known() {
	local states
	states=$(sinfo -h -N -o %t 2>/dev/null) && [ -n "$states" ] && ! grep -qE '\*|unk|down' <<<"$states"
}

controller() {
	local _
	need_up
	case ${1:-} in
	stop) end "$dir/run/slurmctld.pid" ;;
	start)
		start_controller
		for _ in {1..100}; do
			if nodes_known; then return; fi
			sleep 0.1
		done
		fail "slurmctld of cluster $prefix does not answer; see $dir/log/slurmctld.log"
		;;
	pause) controller_signal STOP || fail "slurmctld of cluster $prefix does not run" ;;
	continue) controller_signal CONT || fail "slurmctld of cluster $prefix does not run" ;;
	*) usage ;;
	esac
}

plugstack() {
	need_up
	if [ $# -gt 0 ]; then printf '%s\n' "$@"; fi >"$dir/etc/plugstack.conf.new"
	mv "$dir/etc/plugstack.conf.new" "$dir/etc/plugstack.conf"
}

main() {
	self=$(readlink -f "$0")
	if [ "${1:-}" = node-main ]; then
		node_main "${2%/}" "$3"
		return
	fi
	if [ "${1:-}" = --prefix ]; then
		[ $# -ge 2 ] || usage
		prefix=$2
		shift 2
	fi
	[[ $prefix =~ ^[A-Za-z0-9_]{1,9}$ ]] || fail "the prefix '$prefix' must be 1 to 9 letters, digits or _"
	dir=$BASE/$prefix
	[ $# -ge 1 ] || usage
	local command=$1
	shift
	case $command in
	up) up "$@" ;;
	down) down "$@" ;;
	env) need_up && echo "export SLURM_CONF=$dir/etc/slurm.conf" ;;
	exec) exec_on_node "$@" ;;
	counters) counters "$@" ;;
	status) status ;;
	plugstack) plugstack "$@" ;;
	controller) controller "$@" ;;
	folder) echo "$dir" ;;
	*) usage ;;
	esac
}

main "$@"
