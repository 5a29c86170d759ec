#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# stat.bats - a job on eight nodes that hangs: ddl stat names the rank to blame from outside of the job, as do dumps, statistics and traces.

load helpers

setup_file() {
	cluster_up --plugin "$PLUGIN"
}

teardown_file() {
	cluster down
}

setup() {
	job_setup
	job='' step='' node='' pid=''
}

teardown() {
	if [ -n "$job" ]; then
		signal_rank_5 CONT || true
		scancel "$job" || true
		eventually is_over
	fi
	no_node_suffers
}

is_over() {
	[ -z "$(squeue -h -j "$job" 2>/dev/null)" ]
}

# submit: a job of eight ranks that reduces on and on; $job is its number, $step their step (ddl stat's own steps have numbers too, and
# may come first), and rank 5 is process $pid on $node.
submit() {
	local file
	file=$(script hang <<'EOF'
exec srun --mpi=pmix ddl perf allreduce --sizes 256K --iters 1000000 --warmup 0 --algorithm ring
EOF
	)
	job=$(sbatch --parsable -N8 --ddl=ring -o "$BATS_TEST_TMPDIR/out" "$file")
	eventually all_reduce
	read -r node pid step < <(ddl stat --json "$job" | jq -r 'select(.rank == 5) | "\(.node) \(.pid) \(.step)"')
	[ -n "$step" ]
}

all_reduce() {
	[ "$(ddl stat --json "$job" | jq -s '[.[] | select(has("rank") and .starts > 5)] | length')" = 8 ]
}

signal_rank_5() { # SIGNAL: in its node's namespace
	[ -n "$node" ] && cluster exec "$node" kill "-$1" "$pid"
}

names_rank_5() { # JOB
	ddl stat "$1" >"$BATS_TEST_TMPDIR/stat"
	cat "$BATS_TEST_TMPDIR/stat"
	grep -E "^rank 5 on node $node \(process $pid\) is stopped .*: rank.* waits? for it in request [0-9]+ \((all-reduce of 65536 f32|barrier)" "$BATS_TEST_TMPDIR/stat"
}

nobody_is_to_blame() {
	refute grep '^rank ' <<<"$(ddl stat "$job")"
}

@test "ddl stat asks all nodes of a job, and names the rank that is stopped, alone" {
	submit
	[ "$(ddl stat --json "$job" | jq -s '[.[] | select(has("answered"))] | length')" = 8 ]
	signal_rank_5 STOP
	eventually names_rank_5 "$job"
	[ "$(grep -c '^rank ' "$BATS_TEST_TMPDIR/stat")" = 1 ]
	[ "$(sed -n 2p "$BATS_TEST_TMPDIR/stat" | awk '{print $1, $2, $4}')" = "5 $node stopped" ]
	[ "$(grep -cE '^ +[0-7]  n[1-8] ' "$BATS_TEST_TMPDIR/stat")" = 8 ]
	names_rank_5 "$job.$step"
	signal_rank_5 CONT
	eventually nobody_is_to_blame
}

dumps() { # HOW MANY
	[ "$(grep -c 'ddl: asked by a signal: rank [0-7] of 8 on node n[1-8]' "$BATS_TEST_TMPDIR/out")" = "$1" ]
}

@test "a signal through scancel makes every rank dump, and the job goes on" {
	submit
	signal_rank_5 STOP
	eventually names_rank_5 "$job"
	scancel -s USR1 "$job.$step"
	eventually dumps 7
	grep -E 'ddl: +lane [0-9]+ step [0-9]+ of [0-9]+ .* waits for (data from|room at) rank 5 on node n[1-8]' "$BATS_TEST_TMPDIR/out"
	signal_rank_5 CONT
	eventually dumps 8
	eventually nobody_is_to_blame
	is_running
}

is_running() {
	[ "$(squeue -h -o %T -j "$job")" = RUNNING ]
}

@test "a job that does not exist, or has no communicator, is told in a sentence" {
	run_apart timeout 60 ddl stat 999999
	[ "$status" = 1 ]
	# shellcheck disable=SC2154 # run_apart sets them
	grep -E 'there is no job 999999|squeue does not tell of job 999999 \(slurm_load_jobs error: Invalid job id' <<<"$err"
	job=$(sbatch --parsable -o /dev/null -N2 "$(script idle <<<'sleep 60')")
	eventually is_running
	run_apart timeout 60 ddl stat "$job"
	[ "$status" = 0 ]
	# shellcheck disable=SC2154
	[ "$out" = "no process with a communicator was found" ]
}

@test "statistics tell the levels of the switch tree, and traces of all nodes merge" {
	folder=$BATS_TEST_TMPDIR/trace
	mkdir "$folder"
	run_apart env DDL_STATS=1 srun -N8 --ntasks-per-node=2 --mpi=pmix "--ddl=ring,trace=$folder" ddl perf allreduce --sizes 256K \
		--iters 4 --warmup 0 --algorithm ring
	[ "$status" = 0 ]
	for level in 0 1 2; do
		grep -A4 'all-reduce of 65536 f32' <<<"$err" | grep "level $level"
	done
	ddl trace merge "$folder"
	jq -e '[.traceEvents[] | select(.ph == "s") | .id] as $sent | [.traceEvents[] | select(.ph == "f") | .id] as $got
		| ($sent | length) > 100 and ($sent | sort) == ($got | sort)' "$folder/trace.json"
	[ "$(jq -r '.traceEvents[] | select(.name == "process_name") | .args.name' "$folder/trace.json" | grep -cE '^rank [0-9]+ \(n[1-8]\)$')" = 16 ]
}
