# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# hosts.bash - starts ranks on the hosts of a guest's fabric, counted from 0 as in tests/fabric/ranks.bash, whose functions these are; loaded
# by the bats files that run ddl. Rank r runs on host r; it has the devices of that host, RAILS of them where a test says so.

load "${BASH_SOURCE[0]%/*}/../fabric/ranks"
load "${BASH_SOURCE[0]%/*}/fabric"

# devices HOST: DDL_RDMA of that host
devices() {
	local rail list=''
	for ((rail = 0; rail < ${RAILS:-2}; rail++)); do list+=${list:+,}rxh$(($1 + 1))r$rail; done
	echo "$list"
}

exec_on() {
	local host=$1
	shift
	# shellcheck disable=SC2016 # the quoted program is for another shell
	DDL_RDMA=${DDL_RDMA-$(devices "$host")} exec ip netns exec "h$((host + 1))" \
		unshare --uts sh -c 'hostname "$0" && exec "$@"' "h$((host + 1))" "$@"
}

# A test of ddl: nothing of it is left in the devices, and no process on a host.
setup_ranks() {
	# shellcheck disable=SC2034 # of ranks.bash
	pid=() status_of=() host_of=()
	unset DDL_PLAN DDL_MODE DDL_NET DDL_RDMA RAILS DDL_COMMAND
	export DDL_TIMEOUT=30 DDL_MEASURE=0
}

teardown_ranks() {
	local host left=''
	for host in /run/netns/h*; do left+=$(ip netns pids "${host##*/}"); done
	for host in $left; do kill -KILL "$host" || true; done
	[ -z "$left" ] || { echo "processes were left: $left"; return 1; }
	until_true 20 no_objects
}
