# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # out, err: run_apart
# nodes.bash - a Slurm cluster of two nodes with two rails each, in a guest; loaded by the bats files whose ranks Slurm starts.
#
# A node (tests/cluster/cluster.sh) is a network namespace, but what Soft-RoCE needs of an interface is in the first one (fabric). So a node
# has interfaces of its own for TCP, with the names of those and at the same switches. As on a real node a rank finds its ports by the
# names of its interfaces; the other node's devices, which it sees as well, are none of its own.

load "${BASH_SOURCE[0]%/*}/../cluster/helpers"
load "${BASH_SOURCE[0]%/*}/fabric"

# nodes_up: once a file. $DDL is the command, where every user may look, $CLUSTER the cluster's folder, $CLUSTER/prolog Slurm's prolog.
# What has much to do may be slow, and is no dead node for that. Jobs have slurmd's limit of locked memory, not that of their users.
nodes_up() {
	local program
	for program in slurmctld slurmd srun munged; do
		command -v $program >/dev/null || skip "$program is not installed (scripts/install-deps cluster)"
	done
	export PREFIX_OF_TESTS=rdma
	CLUSTER=$(cluster folder)
	export CLUSTER DDL=$CLUSTER/ddl
	"$BATS_TEST_DIRNAME/fabric" 2 2
	cluster_up --nodes 2 --leaves 2 --cpus 2 --host-rate 0 --uplink-rate 0 --conf MessageTimeout=100 --conf SlurmdTimeout=0 \
		--conf BatchStartTimeout=600 --conf UnkillableStepTimeout=600 --conf PropagateResourceLimitsExcept=MEMLOCK \
		--conf "Prolog=$CLUSTER/prolog"
	rail_interfaces 1
	rail_interfaces 2
	ln -s /bin/true "$CLUSTER/prolog"
	install -m 755 "$DDL_BUILD/bin/ddl" "$DDL"
	job_setup
}

rail_interfaces() { # NODE: those for TCP
	local rail name
	for rail in 0 1; do
		name=h${1}r$rail
		ip -n switches link add "n$name" type veth peer name "$name" netns "$PREFIX_OF_TESTS-n$1"
		ip -n switches link set "n$name" master rail$rail up
		printf 'addr add 10.%d.0.%d/24 dev %s\nlink set %s up\n' $((10 + rail)) $((100 + $1)) "$name" "$name" |
			ip -n "$PREFIX_OF_TESTS-n$1" -batch -
	done
}

# nodes_serve_on: after a test, whatever it did. Nothing of its jobs is left, in the devices neither.
nodes_serve_on() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || scancel --state=RUNNING
	until_true 120 all_idle || { sinfo -N -l; return 1; }
	until_true 60 no_ranks
	until_true 60 no_objects
}

all_idle() {
	[ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" = 2 ]
}

ranks_on() { # NODE: process ids of a job's programs there
	local pid
	for pid in $(ip netns pids "$PREFIX_OF_TESTS-n$1"); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != ddl ] || echo "$pid"
	done
}

no_ranks() {
	[ -z "$(ranks_on 1)$(ranks_on 2)" ]
}

# job COMMAND...: of $RANKS ranks (2) on both nodes
job() {
	run_apart srun -N2 -n "${RANKS:-2}" --mpi=pmix --ddl=multiring "$@"
	echo "$out"
}

# over WHAT: both nodes' first ranks said that they reach the others so
over() {
	one_line "$err" "rank 0 on node n1 reaches other ranks: $1\$"
	one_line "$err" "rank $((${RANKS:-2} / 2)) on node n2 reaches other ranks: $1\$"
}
