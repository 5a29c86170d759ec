#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# perf.bats - the whole way: sbatch or srun --ddl, PMIx, the plan, all-reduce over the limited links, and what happens when it breaks.

load helpers

N=16
BYTES=4194304

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

# task NAME: as script, for srun to execute
task() {
	chmod +x "$(script "$1")"
	echo "$BATS_TEST_TMPDIR/$1"
}

# uplinks_carry LOW HIGH OPTION: 4 all-reduces of 16 ranks over one ring, then bytes over those of one crossing, for each uplink and
# direction; fails where one is not within LOW and HIGH, or where there are other than six.
uplinks_carry() {
	local before after low=$1 high=$2
	before=$(cluster counters)
	srun -N8 --ntasks-per-node=2 --mpi=pmix "--ddl=$3" ddl perf allreduce --algorithm ring --sizes $BYTES --iters 4 --warmup 0 \
		--json >/dev/null
	after=$(cluster counters)
	paste <(echo "$before") <(echo "$after") |
		awk -v one=$((4 * 2 * (N - 1) * BYTES / N)) -v low="$low" -v high="$high" '
		{ ratio = ($6 - $3) / one; good += ratio > low && ratio < high; printf "%s %s %.3f\n", $1, $2, ratio }
		END { exit !(NR == 6 && good == 6) }'
}

@test "under the plan every uplink carries 2(N-1)/N of the data, in each direction, within 3 %" {
	uplinks_carry 0.97 1.03 multiring
}

@test "in rank order every uplink carries it twice or three times" {
	uplinks_carry 1.94 3.09 ring,order=slurm
}

@test "a bfloat16 wire halves the bytes" {
	uplinks_carry 0.48 0.53 ring,wire=bf16
}

@test "an int8 wire takes a quarter of the bytes, scales included" {
	uplinks_carry 0.245 0.27 ring,wire=i8
}

@test "results are right and the same bits on all ranks, for every type" {
	for type in f64 f32 f16 bf16 i64 i32 i8 u8; do
		srun -N8 --ntasks-per-node=2 --mpi=pmix --ddl=ring ddl perf allreduce --type $type --sizes 8,4K,256K --check \
			--iters 1 --json | tee "$BATS_TEST_TMPDIR/$type"
		[ "$(grep -c '"correct":true' "$BATS_TEST_TMPDIR/$type")" = 3 ]
	done
}

@test "sbatch --ddl reaches the sruns of the batch script, also with uneven tasks and cyclic ranks" {
	job=$(script job <<'EOF'
srun -n 13 --distribution=cyclic --mpi=pmix ddl perf allreduce --sizes 8,64K --check --iters 2 --json
srun -r1 -N3 -n 5 --mpi=pmix ddl perf broadcast --sizes 8,64K --check --iters 2 --json
srun -r2 -N2 -n2 --mpi=pmix ddl perf barrier --iters 2 --json
EOF
	)
	sbatch --wait -N8 --ntasks-per-node=2 --ddl=multiring -o "$BATS_TEST_TMPDIR/out" "$job" || status=$?
	cat "$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '"correct":true' "$BATS_TEST_TMPDIR/out")" = 4 ]
	[ "$(grep -c '"ranks":13' "$BATS_TEST_TMPDIR/out")" = 2 ]
	[ "$(grep -c '"ranks":5' "$BATS_TEST_TMPDIR/out")" = 2 ]
	grep -q '"ranks":2' "$BATS_TEST_TMPDIR/out"
}

# tree_of OPTION...: the tree of the plan in force in a step
tree_of() {
	srun -N8 --mpi=pmix "$@" "$DDL_BUILD/bin/ddl" plan --text | tr ';' '\n' | grep ^tree=
}

@test "the plan in force has the same tree from the controller, from the nodes alone, and without srun's environment" {
	want=tree=$WHOLE_TREE
	[ "$(tree_of --ddl=ring)" = "$want" ]
	[ "$(tree_of --ddl=ring --export=NONE)" = "$want" ]
	plugin optional topology=env
	[ "$(tree_of --ddl=ring)" = "$want" ]
}

@test "without --ddl the ranks build the plan from the nodes' addresses" {
	got=$(srun -N8 --mpi=pmix ddl perf barrier --iters 1 --json)
	grep -q '"ranks":8' <<<"$got"
	[ "$(tree_of)" = "tree=$WHOLE_TREE" ]
}

@test "the components of a het job sum on their own, each with the plan of its nodes" {
	salloc -N2 : -N3 bash -c 'for group in 0 1; do srun --het-group=$group --mpi=pmix --ddl=ring ddl perf allreduce \
		--sizes 4K --check --iters 1 --json; done' >"$BATS_TEST_TMPDIR/out" 2>&1 || status=$?
	cat "$BATS_TEST_TMPDIR/out"
	grep -q '"ranks":2.*"correct":true' "$BATS_TEST_TMPDIR/out"
	grep -q '"ranks":3.*"correct":true' "$BATS_TEST_TMPDIR/out"
}

@test "without PMIx a step of several tasks is told how to start it" {
	run_apart srun -N2 --ddl=ring ddl perf barrier --iters 1
	[ "$status" != 0 ]
	# shellcheck disable=SC2154 # run_apart sets it
	grep -- '--mpi=pmix' <<<"$err"
}

@test "a killed rank is named by every survivor, nothing hangs and nothing is left behind" {
	task=$(task task <<'EOF'
if [ "$SLURM_PROCID" = 5 ]; then
	ddl perf allreduce --sizes 1M --iters 1000000 & victim=$!
	sleep 2
	kill -9 $victim
	wait $victim
	sleep 20 # the step must not be ended by this task's end
else
	exec ddl perf allreduce --sizes 1M --iters 1000000
fi
EOF
	)
	run_apart timeout 60 srun -N8 --mpi=pmix --ddl=ring "$task"
	[ "$status" != 124 ]
	for rank in 0 1 2 3 4 6 7; do
		grep -E "rank $rank \(n[0-9]+\): .*rank 5 on node n[0-9]+ (is gone|left)" <<<"$err"
	done
	for node in n1 n2 n3 n4 n5 n6 n7 n8; do
		[ -z "$(cluster exec $node sh -c 'ls -A /dev/shm')" ]
		refute grep '^ddl perf' <<<"$(cluster exec $node ps -eo args)"
	done
}

@test "a rank with another plan is named by all" {
	task=$(task task <<'EOF'
[ "$SLURM_PROCID" != 2 ] || export DDL_PLAN="${DDL_PLAN/leaf1/leaf9}"
exec ddl perf barrier --iters 1
EOF
	)
	run_apart timeout 60 srun -N4 --mpi=pmix --ddl=ring "$task"
	[ "$status" != 124 ]
	[ "$(grep -c 'rank 2 on node n[0-9]* has another plan than rank 0' <<<"$err")" -ge 1 ]
}

@test "a broken plan text is refused with a sentence" {
	run_apart timeout 60 env 'DDL_PLAN=1;tree=(((' srun -N2 --mpi=pmix ddl perf barrier --iters 1
	[ "$status" != 124 ]
	[ "$status" != 0 ]
	grep -i plan <<<"$err"
}

@test "a rank that never comes ends the others at their deadline" {
	task=$(task task <<'EOF'
[ "$SLURM_PROCID" != 1 ] || { sleep 12; exit 0; }
exec ddl perf barrier --iters 1
EOF
	)
	run_apart timeout 90 env DDL_TIMEOUT=4 srun -N3 --mpi=pmix --ddl=ring "$task"
	[ "$status" != 124 ]
	[ "$status" != 0 ]
	grep -E 'DDL_TIMEOUT|never|in time' <<<"$err"
}
