#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # err: run_apart
# uplinks.bats - what crosses uplinks and nodes' links: bytes counted in the schedules against those of the interfaces; and how the
# administrator's word on uplinks comes into the plan.

load helpers

BYTES=4194304
ITERS=4

setup_file() {
	cluster_up --plugin "$PLUGIN" --host-rate 1gbit --uplink-rate 1gbit
}

teardown_file() {
	cluster down
}

setup() {
	job_setup
}

teardown() {
	no_node_suffers
}

# counted ALGORITHM: lines `leaf1 up BYTES` for each link and direction: what the schedules of one all-reduce move over it
counted() {
	srun -N8 --ntasks-per-node=2 --mpi=pmix --ddl=auto ddl plan --traffic --size $BYTES --algorithm "$1" |
		awk '$2 == "-" { print $1, "up", $4; print $1, "down", $5 }' | sort
}

# moved ALGORITHM: the same of ITERS all-reduces, from the counters of the interfaces
moved() {
	local before after
	before=$(cluster counters --hosts | sort)
	srun -N8 --ntasks-per-node=2 --mpi=pmix --ddl=auto ddl perf allreduce --algorithm "$1" --sizes $BYTES --iters $ITERS \
		--warmup 0 --json >/dev/null
	after=$(cluster counters --hosts | sort)
	paste -d ' ' <(echo "$before") <(echo "$after") | awk '{ print $1, $2, $6 - $3 }'
}

# Each of 3 uplinks and 8 links of nodes, each way. Headers of packets are within the 3 %: segments leave as large ones here.
links_carry_what_is_counted() {
	paste -d ' ' <(counted "$1") <(moved "$1") | awk -v iters=$ITERS '
		{ ratio = $6 / ($3 * iters); good += $1 == $4 && $2 == $5 && ratio > 0.97 && ratio < 1.03
		  printf "%s %s %.4f\n", $1, $2, ratio }
		END { exit !(NR == 22 && good == 22) }'
}

@test "ring: every uplink and every node's link carries what its schedules say, each way, within 3 %" {
	links_carry_what_is_counted ring
}

@test "multiring: every link carries what its schedules say, within 3 %" {
	links_carry_what_is_counted multiring
}

@test "multiring of 4x4: every link carries what its schedules say, within 3 %" {
	links_carry_what_is_counted multiring:4x4
}

@test "halving and tree: every link carries what their schedules say, within 3 %" {
	links_carry_what_is_counted halving
	links_carry_what_is_counted tree
}

# of_uplinks [OPTION...]: what a step's plan says of uplinks
of_uplinks() {
	srun -N8 --mpi=pmix "$@" "$DDL_BUILD/bin/ddl" plan --text | tr ';' '\n' | grep -E '^(oversub|uplink)=' | xargs
}

@test "uplink= of plugstack.conf is in the plan, from the controller, from the nodes alone, and without srun's environment" {
	plugin optional uplink=4:1/2:1
	want='oversub=400(x3) uplink=4:1/2:1'
	[ "$(of_uplinks --ddl=auto)" = "$want" ]
	[ "$(of_uplinks --ddl=auto --export=NONE)" = "$want" ]
	plugin optional topology=env uplink=4:1/2:1
	[ "$(of_uplinks --ddl=auto)" = "$want" ]
	[ "$(of_uplinks --ddl=auto,uplink=2:1)" = 'oversub=200(x3) uplink=2:1' ]
	srun -N8 --ntasks-per-node=2 --mpi=pmix --ddl=auto ddl plan --explain --size 8 | grep -E '^2 at switches above .* plan'
}

@test "LinkSpeed of topology.conf has a unit where uplink= says so" {
	plugin optional uplink=linkspeed
	[ "$(of_uplinks --ddl=auto)" = uplink=linkspeed ]
}

@test "a broken uplink= is one sentence with the remedy, and the job runs without it" {
	plugin optional uplink=40gbit
	run_apart srun -N2 --mpi=pmix --ddl=auto "$DDL_BUILD/bin/ddl" plan --text
	[ "$status" = 0 ]
	one_line "$err" 'uplink: "40gbit" is not possible; give the ratio of each level.*4:1/2:1'
	refute grep -E ';(oversub|uplink)=' <<<"$out"
	run_apart srun -N2 --ddl=auto,uplink=40gbit true
	[ "$status" != 0 ]
	grep 'uplink=40gbit is not possible' <<<"$err"
}
