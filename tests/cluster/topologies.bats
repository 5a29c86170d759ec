#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # out, err: run_apart
# topologies.bats - clusters with other knowledge of their switches: none, blocks, thousands of nodes, and private data.

load helpers

setup() {
	export PREFIX_OF_TESTS=ddltt
}

teardown() {
	cluster down
}

steps_run() { # NEED
	plugin "$1"
	run_apart srun -N4 -n4 --ddl=multiring env
	[ "$status" = 0 ]
	plan=$(plan_in - <<<"$out")
	no_node_suffers
}

@test "a cluster without a topology: one line, a plan with one switch" {
	cluster_up --nodes 4 --leaves 2 --topology none
	for need in optional required; do
		steps_run $need
		one_line "$err" 'Slurm knows no switches'
		[ "$(field "$plan" tree)" = 'fabric(n[1-4])' ]
		[ "$(field "$plan" src)" = slurm/flat ]
	done
	batch "$BATS_TEST_TMPDIR/log" -N4 --ddl=ring "$(script job <<<'srun env')"
	[ "$(field "$(plan_in <(grep '^DDL_PLAN' "$BATS_TEST_TMPDIR/log"))" tree)" = 'fabric(n[1-4])' ]
}

@test "a cluster of blocks" {
	compgen -G '/usr/lib*/*/slurm*/topology_block.so' >/dev/null || compgen -G '/usr/lib*/slurm*/topology_block.so' >/dev/null ||
		skip "this Slurm has no topology/block"
	cluster_up --nodes 4 --leaves 2 --topology block
	steps_run optional
	[ "$(field "$plan" src)" = slurm/block ]
	[ "$(field "$plan" tree)" = 'fabric(b1(n[1,3]),b2(n[2,4]))' ]
}

@test "private data: a user without rights gets the plan, and no line" {
	cluster_up --nodes 4 --leaves 2 --conf PrivateData=jobs,nodes,partitions,reservations,usage,users,accounts
	for need in optional required; do
		plugin $need
		run_apart setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups \
			srun --chdir=/ -N4 -n4 --ddl=multiring env
		[ "$status" = 0 ]
		[ -z "$err" ]
		[ "$(field "$(plan_in - <<<"$out")" tree)" = 'spine1(leaf1(n[1,3]),leaf2(n[2,4]))' ]
		no_node_suffers
	done
}

@test "a controller that knows 5,000 nodes below 250 switches: plans as ever, without a line" {
	leaves=()
	for l in {1..250}; do leaves+=(--topology-line "SwitchName=far$l Nodes=x[$((20 * l - 19))-$((20 * l))]"); done
	cluster_up --nodes 4 --leaves 2 --conf 'NodeName=x[1-5000] State=FUTURE' "${leaves[@]}" \
		--topology-line 'SwitchName=core1 Switches=spine1,far[1-250]'
	for need in optional required; do
		steps_run $need
		[ -z "$err" ]
		[ "$(field "$plan" tree)" = 'spine1(leaf1(n[1,3]),leaf2(n[2,4]))' ]
	done
}
