#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # out, err: run_apart
# safety.bats - whatever is missing or broken, the job runs, no node is drained, and the log has one line about it. Everything is tried with
# `optional` and with `required`, where an error of the plugin would drain the node.

load helpers

teardown() {
	no_node_suffers
}

setup_file() {
	cluster_up --plugin "$DDL_BUILD/lib/slurm/spank_ddl.so"
}

teardown_file() {
	cluster controller continue || true
	cluster down
}

setup() {
	eval "$(cluster env)"
}

# Runs a step and a batch job with --ddl. The step's output is in log, its stderr in $err; DDL_MODE must be there.
step_and_job_run() {
	run_apart srun -N8 -n8 --ddl=multiring env
	[ "$status" = 0 ]
	[ "$(grep -c '^DDL_MODE=multiring$' <<<"$out")" = 8 ]
	cp "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/log"
	batch "$BATS_TEST_TMPDIR/job" -N8 -n8 --ddl=multiring "$(script job <<<'srun -r1 -N3 -n3 env; echo it ran')" 2>"$BATS_TEST_TMPDIR/sbatch"
	grep -x 'it ran' "$BATS_TEST_TMPDIR/job"
	[ "$(grep -c '^DDL_MODE=multiring$' "$BATS_TEST_TMPDIR/job")" = 3 ]
	no_node_suffers
}

@test "broken arguments in plugstack.conf: one line, the others are in force, the job runs" {
	for need in optional required; do
		plugin $need default=multirink topology=magic log=loud nonsense
		step_and_job_run
		one_line "$err" 'ddl: plugstack.conf: '
		[ "$(wc -l <<<"$err")" = 1 ]
		for word in multirink magic loud nonsense; do grep -q "$word" <<<"$err"; done
		[ "$(field "$(plan_in "$BATS_TEST_TMPDIR/log")" tree)" = "$WHOLE_TREE" ]
		[ "$(wc -l <"$BATS_TEST_TMPDIR/sbatch")" = 1 ]
		plugin $need default=ring nonsense=1
		run_apart srun -N2 env
		[ "$status" = 0 ]
		one_line "$err" 'nonsense'
		[ "$(field "$(plan_in - <<<"$out")" mode)" = ring ]
	done
}

@test "a topology file that is missing or broken: one line, the job runs without srun's plan" {
	echo 'SwitchName=leaf1 Nodes=n[1-' >"$BATS_TEST_TMPDIR/broken.conf"
	for need in optional required; do
		for file in /nonexistent/topology.conf "$BATS_TEST_TMPDIR/broken.conf" /dev/null /; do
			plugin $need "topology=file:$file"
			step_and_job_run
			[ -z "$err" ] || one_line "$err" .
			[ "$file" = /dev/null ] || one_line "$err" "ddl: srun makes no plan, the tasks build theirs: .*$file.*topology=file: in plugstack.conf"
		done
	done
}

@test "a plan that would not fit: one line, the job runs with the mode alone" {
	for need in optional required; do
		cluster plugstack "$need $DDL_BUILD/tests/slurm/spank_ddl_too_long.so"
		step_and_job_run
		one_line "$err" 'ddl: srun makes no plan.*123456 bytes'
		refute grep '^DDL_PLAN=' "$BATS_TEST_TMPDIR/log"
		refute grep '^DDL_PLAN=' "$BATS_TEST_TMPDIR/job"
	done
}

# srun_without_controller HOW BACK: slurmctld goes when srun has created the step, and comes back when the tasks have run.
srun_without_controller() {
	rm -f "$BATS_TEST_TMPDIR/log"
	cluster plugstack "required $DDL_BUILD/tests/slurm/spank_hook.so $BATS_TEST_DIRNAME/cluster.sh --prefix $PREFIX_OF_TESTS controller $1" \
		"$need $PLUGIN"
	srun -N8 -n8 --ddl=multiring bash -c "env >>$BATS_TEST_TMPDIR/log" 2>"$BATS_TEST_TMPDIR/err" &
	eight_tasks_ran() { [ "$(grep -cs '^DDL_MODE=multiring$' "$BATS_TEST_TMPDIR/log")" = 8 ]; }
	eventually eight_tasks_ran
	cluster controller "$2"
	status=0
	wait $! || status=$?
	cat "$BATS_TEST_TMPDIR/err"
	[ "$status" = 0 ]
	refute grep '^DDL_PLAN=' "$BATS_TEST_TMPDIR/log"
	one_line "$(cat "$BATS_TEST_TMPDIR/err")" 'error: ddl: '
	cluster plugstack
	no_node_suffers
}

@test "slurmctld that does not answer in the middle of a launch: the tasks start after two seconds, with one line" {
	for need in optional required; do
		srun_without_controller pause continue
		one_line "$(cat "$BATS_TEST_TMPDIR/err")" 'slurmctld did not tell the topology within 2000 ms'
	done
}

@test "slurmctld that is gone in the middle of a launch: the tasks start, with one line" {
	for need in optional required; do srun_without_controller stop start; done
}

@test "an optional plugin of the wrong release of Slurm is skipped, and jobs run" {
	python3 "$BATS_TEST_DIRNAME/other_release.py" "$PLUGIN" "$BATS_TEST_TMPDIR/other.so"
	cluster plugstack "optional $BATS_TEST_TMPDIR/other.so"
	run_apart srun -N2 true
	[ "$status" = 0 ]
	plugin optional
}

# broken KIND: makes a plugin that does not load; prints its path. (A library whose end is cut off ends every program that opens it, in
# the loader: package managers write files beside and rename them.)
broken() {
	local file=$BATS_TEST_TMPDIR/broken/spank_ddl.so
	rm -rf "$BATS_TEST_TMPDIR/broken"
	mkdir "$BATS_TEST_TMPDIR/broken"
	case $1 in
	missing) ;;
	empty) : >"$file" ;;
	text) echo 'this is no library' >"$file" ;;
	unreadable) install -m 000 "$PLUGIN" "$file" ;;
	symbol) # a function that no program of Slurm has
		echo 'int slurm_no_such(void); int slurm_spank_init(void *s, int c, char **v); int slurm_spank_init(void *s, int c, char **v) { return slurm_no_such(); }' |
			gcc -shared -fPIC -Wl,-z,now -x c - -o "$file" ;;
	esac
	echo "$file"
}

@test "an optional plugin that is missing, empty, no library, unreadable or lacks a symbol: jobs run without it" {
	for kind in missing empty text unreadable symbol; do
		cluster plugstack "optional $(broken $kind)"
		run_apart srun -N8 -n8 env
		[ "$status" = 0 ]
		[ "$(grep -c ^SLURM_PROCID= <<<"$out")" = 8 ]
		batch "$BATS_TEST_TMPDIR/job" -N8 -n8 "$(script job <<<'srun true && echo it ran')"
		grep -x 'it ran' "$BATS_TEST_TMPDIR/job"
		no_node_suffers
	done
}

@test "a plugin that is broken on one node alone: with optional all its tasks run, with required none, and the node stays" {
	plugin optional
	: >"$BATS_TEST_TMPDIR/empty"
	cluster exec n2 mount --bind "$BATS_TEST_TMPDIR/empty" "$(cluster folder)/spank_ddl.so"
	run_apart srun -N8 -n8 --ddl=multiring env
	[ "$status" = 0 ]
	[ "$(grep -c '^DDL_PLAN=' <<<"$out")" = 8 ]
	batch "$BATS_TEST_TMPDIR/job" -w n2 --ddl=multiring "$(script job <<<'srun true && echo it ran')"
	grep -x 'it ran' "$BATS_TEST_TMPDIR/job"
	no_node_suffers
	plugin required
	run_apart timeout 60 srun -N8 -n8 --ddl=multiring env
	grep 'Plugin initialization failed' <<<"$err"
	[ "$(grep -c '^DDL_PLAN=' <<<"$out")" = 7 ]
	no_node_suffers
	cluster exec n2 umount "$(cluster folder)/spank_ddl.so"
	plugin optional
}

@test "no plugstack.conf, an empty one, and an include of nothing: jobs run" {
	mv "$(cluster folder)/etc/plugstack.conf" "$BATS_TEST_TMPDIR/plugstack.conf"
	srun -N2 true
	for line in '' 'include /nonexistent/*.conf' 'include plugstack.conf.d/*.conf'; do
		echo "$line" >"$(cluster folder)/etc/plugstack.conf"
		srun -N2 true
		no_node_suffers
	done
	mv "$BATS_TEST_TMPDIR/plugstack.conf" "$(cluster folder)/etc/plugstack.conf"
}
