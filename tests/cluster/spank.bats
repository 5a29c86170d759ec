#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # out, err: run_apart
# spank.bats - what users see of the plugin: --ddl on every command, and the plan in their tasks' environment.

load helpers

setup_file() {
	cluster_up --plugin "$DDL_BUILD/lib/slurm/spank_ddl.so"
}

teardown_file() {
	cluster down
}

setup() {
	eval "$(cluster env)"
	plugin optional
}

teardown() {
	no_node_suffers
}

@test "--help of srun, sbatch and salloc shows the option" {
	for command in srun sbatch salloc; do $command --help | grep -F -- '--ddl=MODE[,key=value...]'; done
}

@test "--ddl=help lists modes and keys on every command, and ends well without a job" {
	job=$(script job <<<hostname)
	for command in srun sbatch salloc; do
		run_apart $command --ddl=help -N1 "$job"
		[ "$status" = 0 ]
		[ -z "$err" ]
		for word in off auto ring multiring rings wire order progress trace; do grep -qw "$word" <<<"$out"; done
	done
	[ -z "$(squeue -h)" ]
}

@test "an unknown mode, key or value is refused at submission with a sentence that lists what exists" {
	job=$(script job <<<hostname)
	for wrong in rinf ring,rinks=2 ring,wire=f8 ring,rings=65 ring,rings ''; do
		for command in srun sbatch salloc; do
			run_apart timeout 20 $command "--ddl=$wrong" -N1 "$job"
			[ "$status" != 0 ]
			grep -q 'error: ddl: ' <<<"$err"
		done
	done
	run_apart srun --ddl=rinf -N1 true
	grep 'off, auto, ring, multiring' <<<"$err"
	run_apart srun --ddl=ring,rinks=2 -N1 true
	grep 'rings, wire, order, progress, trace' <<<"$err"
	[ -z "$(squeue -h)" ]
}

@test "a wrong #SBATCH line is refused at submission" {
	run_apart sbatch "$(script job <<<'#SBATCH --ddl=tree')"
	[ "$status" != 0 ]
	grep 'ddl: .*tree' <<<"$err"
}

@test "srun gives every task the plan of its step, by switch" {
	run_apart srun -N8 --ntasks-per-node=2 --ddl=multiring env
	[ "$status" = 0 ]
	[ -z "$err" ]
	[ "$(grep -c '^DDL_PLAN=' <<<"$out")" = 16 ]
	[ "$(grep -c '^DDL_MODE=multiring$' <<<"$out")" = 16 ]
	plan=$(plan_in - <<<"$out")
	job=$(sed -n 's/^SLURM_JOB_ID=//p' <<<"$out" | sort -u)
	[ "$plan" = "1;job=$job.0;mode=multiring;src=slurm/tree;tree=$WHOLE_TREE;tasks=2(x8)" ]
}

@test "sbatch --ddl reaches every srun in the script" {
	batch "$BATS_TEST_TMPDIR/log" -N8 --ddl=ring,rings=2 "$(script job <<<'srun env')"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" mode)" = ring ]
	[ "$(field "$plan" rings)" = 2 ]
	[ "$(field "$plan" tree)" = "$WHOLE_TREE" ]
}

@test "#SBATCH --ddl does the same" {
	batch "$BATS_TEST_TMPDIR/log" -N8 "$(printf '#SBATCH --ddl=multiring\nsrun env\n' | script job)"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" mode)" = multiring ]
}

@test "Slurm's environment variable for the option does the same" {
	SLURM_SPANK__SLURM_SPANK_OPTION_ddl_ddl=multiring srun -N2 env >"$BATS_TEST_TMPDIR/log"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" mode)" = multiring ]
}

@test "salloc --ddl reaches srun" {
	salloc -N8 --ddl=multiring srun env >"$BATS_TEST_TMPDIR/log"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" tree)" = "$WHOLE_TREE" ]
}

@test "the batch script itself sees what was asked for, for launchers other than srun" {
	batch "$BATS_TEST_TMPDIR/log" -N4 --ddl=multiring,wire=bf16 "$(script job <<<env)"
	grep -x 'DDL_MODE=multiring,wire=bf16' "$BATS_TEST_TMPDIR/log"
	refute grep '^DDL_PLAN=' "$BATS_TEST_TMPDIR/log"
}

@test "given twice, the last --ddl wins; srun's own wins over sbatch's" {
	srun -N2 --ddl=ring,rings=3 --ddl=multiring env >"$BATS_TEST_TMPDIR/log"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" mode)" = multiring ]
	[ -z "$(field "$plan" rings)" ]
	grep -x 'DDL_MODE=multiring' "$BATS_TEST_TMPDIR/log"
	batch "$BATS_TEST_TMPDIR/log" -N2 --ddl=multiring "$(script job <<<'srun --ddl=ring env')"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" mode)" = ring ]
	grep -x 'DDL_MODE=ring' "$BATS_TEST_TMPDIR/log"
}

@test "a step on a part of the nodes gets the plan of its own nodes and tasks" {
	batch "$BATS_TEST_TMPDIR/log" -N8 --ntasks-per-node=2 --ddl=multiring \
		"$(script job <<<'srun -w n2,n3,n4 -N3 -n6 --ntasks-per-node=2 env')"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" tree)" = 'spine1(n[2-4])' ]
	[ "$(field "$plan" tasks)" = '2(x3)' ]
	# which nodes these are depends on the release of Slurm
	batch "$BATS_TEST_TMPDIR/log" -N8 --ntasks-per-node=2 --ddl=multiring \
		"$(script job <<<'srun -r1 -N2 -n4 --ntasks-per-node=2 env')"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	step=$(sed -n 's/^SLURM_STEP_NODELIST=//p' "$BATS_TEST_TMPDIR/log" | sort -u)
	[ "$(nodes_of "$step" | wc -w)" = 2 ]
	[ "$(nodes_of "$(field "$plan" tree)")" = "$(nodes_of "$step")" ]
	[ "$(field "$plan" tasks)" = '2(x2)' ]
}

@test "a step on the nodes of one switch gets a plan of that switch" {
	batch "$BATS_TEST_TMPDIR/log" -N8 --ntasks-per-node=2 --ddl=ring "$(script job <<<'srun -w n7,n1 -N2 -n3 env')"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" tree)" = 'leaf1(n[1,7])' ]
	tasks=$(sed -n 's/^SLURM_STEP_TASKS_PER_NODE=//p' "$BATS_TEST_TMPDIR/log" | sort -u)
	[ "$(field "$plan" tasks)" = "$tasks" ]
}

@test "several steps at once get a plan each" {
	batch "$BATS_TEST_TMPDIR/log" -N8 -n8 --ddl=multiring "$(script job <<-END
		srun --exact -w n1,n2,n4 -N3 -n3 -o $BATS_TEST_TMPDIR/a env &
		srun --exact -w n3,n5,n6 -N3 -n3 -o $BATS_TEST_TMPDIR/b env &
		wait
	END
	)"
	a=$(plan_in "$BATS_TEST_TMPDIR/a")
	b=$(plan_in "$BATS_TEST_TMPDIR/b")
	[ "$(field "$a" tree)" = 'spine1(leaf1(n[1,4]),n2)' ]
	[ "$(field "$b" tree)" = 'spine1(leaf3(n[3,6]),n5)' ]
	[ "$(field "$a" job)" != "$(field "$b" job)" ]
}

@test "tasks in an arbitrary distribution are counted on the right nodes" {
	printf 'n4\nn4\nn4\nn2\n' >"$BATS_TEST_TMPDIR/hosts"
	SLURM_HOSTFILE=$BATS_TEST_TMPDIR/hosts srun -n4 --distribution=arbitrary --ddl=ring env >"$BATS_TEST_TMPDIR/log"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" tree)" = 'spine1(n[2,4])' ]
	[ "$(field "$plan" tasks)" = 1,3 ]
}

@test "order=slurm gives the flat plan in Slurm's order" {
	srun -N8 -n8 --ddl=ring,order=slurm env >"$BATS_TEST_TMPDIR/log"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" tree)" = 'fabric(n[1-8])' ]
	[ "$(field "$plan" order)" = slurm ]
	batch "$BATS_TEST_TMPDIR/log" -N8 -n8 --ddl=ring,order=slurm "$(script job <<<'srun -w n2,n3,n4 -N3 -n3 env')"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" tree)" = 'fabric(n[2-4])' ]
}

@test "each component of a heterogeneous job gets its own plan" {
	batch "$BATS_TEST_TMPDIR/log" "$(script job <<-END
		#SBATCH -w n1,n2 -N2 -n2 --ddl=multiring
		#SBATCH hetjob
		#SBATCH -w n3,n5,n6 -N3 -n6 --ntasks-per-node=2 --ddl=multiring
		srun --het-group=0 env >$BATS_TEST_TMPDIR/a
		srun --het-group=1 env >$BATS_TEST_TMPDIR/b
		srun --het-group=0,1 env >$BATS_TEST_TMPDIR/both
	END
	)"
	a=$(plan_in "$BATS_TEST_TMPDIR/a")
	b=$(plan_in "$BATS_TEST_TMPDIR/b")
	[ "$(field "$a" tree)" = 'spine1(n[1-2])' ]
	[ "$(field "$b" tree)" = 'spine1(leaf3(n[3,6]),n5)' ]
	[ "$(field "$b" tasks)" = '2(x3)' ]
	# One world over both: no component's plan would do, so the tasks build it of what their nodes know.
	refute grep '^DDL_PLAN=' "$BATS_TEST_TMPDIR/both"
	[ "$(grep -c '^DDL_MODE=multiring$' "$BATS_TEST_TMPDIR/both")" = 8 ]
	[ "$(grep -c '^SLURM_TOPOLOGY_ADDR=' "$BATS_TEST_TMPDIR/both")" = 8 ]
}

@test "with --export=NONE the tasks still know the mode and their place" {
	srun -N8 --export=NONE --ddl=multiring,rings=2 /usr/bin/env >"$BATS_TEST_TMPDIR/log"
	[ "$(grep -c '^DDL_MODE=multiring,rings=2$' "$BATS_TEST_TMPDIR/log")" = 8 ]
	[ "$(grep -c '^SLURM_TOPOLOGY_ADDR=spine1.leaf' "$BATS_TEST_TMPDIR/log")" = 8 ]
	[ "$(grep -c '^SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node$' "$BATS_TEST_TMPDIR/log")" = 8 ]
	batch "$BATS_TEST_TMPDIR/log" -N2 --export=NONE --ddl=ring "$(script job <<<'srun /usr/bin/env')"
	[ "$(grep -c '^DDL_MODE=ring$' "$BATS_TEST_TMPDIR/log")" = 2 ]
}

@test "without --ddl and with --ddl=off the environment is clean, and slurmctld is not asked" {
	sdiag --reset
	srun -N8 env >"$BATS_TEST_TMPDIR/log"
	no_ddl_in "$BATS_TEST_TMPDIR/log"
	srun -N8 --ddl=off env >"$BATS_TEST_TMPDIR/log"
	no_ddl_in "$BATS_TEST_TMPDIR/log"
	batch "$BATS_TEST_TMPDIR/log" -N8 "$(script job <<<'env; srun env')"
	no_ddl_in "$BATS_TEST_TMPDIR/log"
	[ "$(rpcs REQUEST_TOPO_INFO)" = 0 ]
	[ "$(rpcs REQUEST_STEP_LAYOUT)" = 0 ]
	[ "$(rpcs REQUEST_JOB_STEP_CREATE)" = 3 ]
}

@test "slurmctld is asked once a step, and never by order=slurm, topology=env and topology=file" {
	sdiag --reset
	batch "$BATS_TEST_TMPDIR/log" -N8 -n8 --ddl=ring "$(script job <<<'srun true; srun -r1 -N3 -n3 true; srun -N8 true')"
	[ "$(rpcs REQUEST_TOPO_INFO)" = 3 ]
	[ "$(rpcs REQUEST_STEP_LAYOUT)" = 0 ]
	srun -N2 --ddl=ring,order=slurm true
	plugin optional topology=env
	srun -N2 --ddl=ring true
	plugin optional "topology=file:$(cluster folder)/etc/topology.conf"
	srun -N2 --ddl=ring true
	[ "$(rpcs REQUEST_TOPO_INFO)" = 3 ]
}

@test "srun --ddl=off inside of a job with --ddl leaves nothing of the plan" {
	batch "$BATS_TEST_TMPDIR/log" -N2 --ddl=ring "$(script job <<<'srun --ddl=off env')"
	no_ddl_in "$BATS_TEST_TMPDIR/log"
}

@test "a plan that was inherited from another step or job goes; the user's own stays" {
	DDL_PLAN='1;job=999.0;mode=ring;src=none/flat;tree=fabric(x1)' srun -N1 env >"$BATS_TEST_TMPDIR/log"
	no_ddl_in "$BATS_TEST_TMPDIR/log"
	DDL_PLAN='1;job=999.0;mode=ring;src=none/flat;tree=fabric(x1)' srun -N1 --ddl=multiring env >"$BATS_TEST_TMPDIR/log"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" mode)" = multiring ]
	own='1;mode=ring;src=none/flat;tree=fabric(n2,n1)'
	DDL_PLAN=$own srun -N2 --ddl=multiring env >"$BATS_TEST_TMPDIR/log"
	[ "$(plan_in "$BATS_TEST_TMPDIR/log")" = "$own" ]
	DDL_PLAN=$own srun -N2 env >"$BATS_TEST_TMPDIR/log"
	[ "$(plan_in "$BATS_TEST_TMPDIR/log")" = "$own" ]
}

@test "default= serves those who say nothing; --ddl wins over it" {
	plugin optional default=multiring,rings=4
	srun -N8 env >"$BATS_TEST_TMPDIR/log"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" mode)" = multiring ]
	[ "$(field "$plan" rings)" = 4 ]
	srun -N2 --ddl=ring env >"$BATS_TEST_TMPDIR/log"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" mode)" = ring ]
	[ -z "$(field "$plan" rings)" ]
	srun -N2 --ddl=off env >"$BATS_TEST_TMPDIR/log"
	no_ddl_in "$BATS_TEST_TMPDIR/log"
}

@test "topology=env leaves the plan to the tasks" {
	plugin optional topology=env
	srun -N8 --ddl=multiring env >"$BATS_TEST_TMPDIR/log"
	refute grep '^DDL_PLAN=' "$BATS_TEST_TMPDIR/log"
	[ "$(grep -c '^DDL_MODE=multiring$' "$BATS_TEST_TMPDIR/log")" = 8 ]
}

@test "topology=file reads the switches from a file, also for batch scripts and with --export=NONE" {
	plugin optional "topology=file:$(cluster folder)/etc/topology.conf"
	srun -N8 --ntasks-per-node=2 --ddl=ring env >"$BATS_TEST_TMPDIR/log"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" src)" = file/tree ]
	[ "$(field "$plan" tree)" = "$WHOLE_TREE" ]
	[ "$(field "$plan" tasks)" = '2(x8)' ]
	srun -N8 --ntasks-per-node=2 --export=NONE --ddl=ring /usr/bin/env >"$BATS_TEST_TMPDIR/log"
	none=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "${none#*;mode}" = "${plan#*;mode}" ]
	batch "$BATS_TEST_TMPDIR/log" -N8 --ntasks-per-node=2 --ddl=ring "$(script job <<<env)"
	plan=$(plan_in "$BATS_TEST_TMPDIR/log")
	[ "$(field "$plan" tree)" = "$WHOLE_TREE" ]
	[[ $(field "$plan" job) == *.batch ]]
}

@test "log=debug shows the plan" {
	plugin optional log=debug
	run_apart srun -N2 --ddl=ring env
	one_line "$err" 'ddl: plan 1;'
}

@test "a user without rights gets a plan too" {
	id nobody
	(cd / && setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups srun -N8 --ddl=ring env) >"$BATS_TEST_TMPDIR/log"
	[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" tree)" = "$WHOLE_TREE" ]
}
