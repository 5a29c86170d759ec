#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # out, err: run_apart
# check.bats - `ddl check` on a real Slurm: nothing to say of a healthy cluster, on the login node and in a step, and each trap found.

load helpers

setup_file() {
	cluster_up --nodes 4 --leaves 2 --host-rate 0 --uplink-rate 0 --plugin "$DDL_BUILD/lib/slurm/spank_ddl.so"
}

teardown_file() {
	cluster controller continue || true
	cluster down
}

setup() {
	job_setup
	conf=$(cluster folder)/etc
}

teardown() {
	no_node_suffers
}

# says VERDICT CHECK TEXT: $out has such a line
says() {
	grep -E "^$1  $2 " <<<"$out" | grep -F -- "$3"
}

@test "a healthy cluster has nothing to say, on the login node" {
	run_apart ddl check
	[ "$status" = 0 ]
	[ -z "$err" ]
	refute grep -E '^(fail|warn)  (slurm|slurmctld|plugstack|plugin|loaded|configless|topology|pmix)' <<<"$out"
	for check in slurm plugstack plugin loaded configless topology pmix; do says pass $check ''; done
	says pass topology 'slurmctld knows the switches (tree)'
	grep -F 'srun -N 2 --ddl=auto --mpi=pmix ddl check' <<<"$out"
}

@test "nor does a step, whose ranks say how fast they sum and how their clocks differ" {
	run_apart srun -N4 -n8 --mpi=pmix --ddl=multiring ddl check
	[ "$status" = 0 ]
	refute grep -E '^fail' <<<"$out"
	says pass plan '--ddl=multiring, of slurm/tree'
	says pass network 'eth0'
	says pass clock 'differ by less than a second'
	says pass allreduce '8 ranks sum 8 bytes in'
	[ "$(grep -c 'pass, ' <<<"$out")" = 1 ]
}

@test "JSON of a step" {
	srun -N2 --mpi=pmix --ddl=auto ddl check --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["fail"] == 0 and {"plan", "allreduce", "clock"} <= {c["check"] for c in r["checks"] if c["verdict"] == "pass"}, r'
}

@test "a script in which one rank alone checks" {
	run_apart srun -N2 --mpi=pmix --ddl=auto bash -c '[ "$SLURM_PROCID" != 0 ] || ddl check --alone'
	[ "$status" = 0 ]
	refute grep -E '^fail|allreduce' <<<"$out"
}

@test "nodes whose interfaces differ are told of, by name" {
	cluster exec n3 ip link set eth0 mtu 1400
	run_apart srun -N4 --mpi=pmix --ddl=auto ddl check
	cluster exec n3 ip link set eth0 mtu 1500
	[ "$status" = 0 ]
	says warn network 'n3: TCP goes over eth0'
	says warn network 'n[1-2,4]: TCP goes over eth0'
	grep -F 'the nodes differ here' <<<"$out"
}

@test "plugstack.conf without the line, with it as a comment, with a wrong path, with nonsense" {
	cluster plugstack
	run_apart ddl check
	[ "$status" = 1 ]
	says fail plugstack "$conf/plugstack.conf has no line that loads the plugin"
	says fail loaded 'srun has no option --ddl'
	cluster plugstack "# optional $PLUGIN"
	run_apart ddl check
	[ "$status" = 1 ]
	says fail plugstack "is a comment: $conf/plugstack.conf:1"
	cluster plugstack "optional /nonexistent/spank_ddl.so"
	run_apart ddl check
	[ "$status" = 1 ]
	says fail plugstack '/nonexistent/spank_ddl.so, which is not here'
	says fail loaded '/nonexistent/spank_ddl.so: Dlopen of plugin file failed'
	plugin optional nonsense=1
	run_apart ddl check
	[ "$status" = 0 ]
	says warn loaded '"nonsense=1" is not known'
}

@test "a plugin of another release of Slurm" {
	copy=$BATS_TEST_TMPDIR/spank_ddl.so
	python3 "$BATS_TEST_DIRNAME/other_release.py" "$PLUGIN" "$copy"
	for need in optional required; do
		cluster plugstack "$need $copy"
		run_apart ddl check
		[ "$status" = 1 ]
		says fail plugin 'which does not load it'
		says fail loaded 'Incompatible'
	done
}

@test "a slurmctld that is frozen" {
	cluster controller pause
	run_apart ddl check
	cluster controller continue
	[ "$status" = 1 ]
	says fail slurmctld 'it d'
}

@test "a step without PMIx, and one without --ddl" {
	run_apart srun -N2 ddl check
	[ "$status" != 0 ]
	says fail pmix 'this step was started without it'
	run_apart srun -N2 --mpi=pmix ddl check
	[ "$status" = 0 ]
	says warn plan 'asked for none'
}

@test "an interface that does not exist" {
	DDL_NET=ib7 run_apart srun -N2 --mpi=pmix --ddl=auto ddl check
	[ "$status" != 0 ]
	says fail network 'no network interface ib7; it has eth0, lo'
}

@test "more service threads than cores are to spare" {
	DDL_PROGRESS=1 run_apart srun -N1 -n4 --mpi=pmix --ddl=auto taskset -c "$(taskset -cp $$ | grep -oE '[0-9]+$')" ddl check
	[ "$status" = 0 ]
	says warn progress 'a service thread is wanted, and is not bound'
	says warn cpus 'one hardware thread'
}
