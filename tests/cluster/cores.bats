#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# cores.bats - service threads and Slurm's bindings: which core serves which rank, and that it is never one outside of the rank's own.

load helpers

setup_file() {
	cluster_up --plugin "$PLUGIN" --nodes 2 --leaves 1 --cpus "$(nproc)" --host-rate 0 --uplink-rate 0 --conf TaskPlugin=task/affinity
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

# info OPTION...: rank 0's rows of `ddl info` with a service thread in each task, as JSON, in $rows
info() {
	rows=$(srun --mpi=pmix --ddl=ring,progress=1 --label "$@" ddl info --json | sed -n 's/^ *0: //p' | jq -c .ranks.rows)
	jq -r '.[] | "\(.rank) \(.node) \(.usable): \(.service)"' <<<"$rows"
}

# all FILTER: it holds of every row
all() {
	jq -e "length > 0 and all(.[]; $1)" <<<"$rows" >/dev/null
}

# serve OPTION...: runs an all-reduce with a service thread in each task and lists, for each of them, the hardware threads of the
# program and those of its service thread: "0-1 1"
serve() {
	local task
	task=$(script serve <<'EOT'
ddl perf allreduce --sizes 256K --iters 3000 --warmup 0 --check >"$1.$SLURM_PROCID" 2>&1 &
pid=$! comm=
for _ in {1..500}; do
	for comm in /proc/$pid/task/*/comm; do
		[ "$(cat "$comm" 2>/dev/null)" = ddl-progress ] && break 2
	done
	sleep 0.01
done
list() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$1"; }
echo "$(list /proc/$pid/status) $(list "${comm%/comm}/status")"
wait $pid || { cat "$1.$SLURM_PROCID" >&2; exit 1; }
EOT
	)
	chmod +x "$task"
	srun --mpi=pmix --ddl=ring,progress=1 "$@" "$task" "$BATS_TEST_TMPDIR/perf"
}

@test "with a mask of one core the service thread is not bound, ddl info says so, and all is right" {
	info -N1 -n2 -c1 --cpu-bind=cores
	[ "$(jq length <<<"$rows")" = 2 ]
	all '.cpus == [] and (.usable | test("^[0-9]+$")) and (.service | test("may use a single hardware thread"))'
	served=$(serve -N1 -n2 -c1 --cpu-bind=cores)
	echo "$served"
	[ "$(awk 'NF == 2 && $1 == $2' <<<"$served" | sort -u | wc -l)" = 2 ]
}

@test "bound tasks are served by a core of their own mask, tasks without binding by different ones" {
	[ "$(nproc)" -ge 4 ] || skip "two tasks of two cores need a machine with four"
	info -N1 -n2 -c2 --cpu-bind=cores
	all '(.cpus | length) == 1 and (.cpus[0] | tostring) == (.usable | split("[-,]"; "")[1])'
	info -N1 -n2 -c2 --cpu-bind=none
	[ "$(jq '[.[].cpus[0]] | unique | map(select(. != null)) | length' <<<"$rows")" = 2 ]
	served=$(serve -N1 -n2 -c2 --cpu-bind=cores)
	echo "$served"
	[ "$(awk '{ n = split($1, own, /[-,]/) } NF == 2 && $2 == own[n]' <<<"$served" | wc -l)" = 2 ]
}

@test "tasks that need all the cores they share are not bound, also from node to node of one machine" {
	[ "$(nproc)" -lt 4 ] || skip "two tasks have cores to spare here"
	info -N2 -n2 -c "$(nproc)" --cpu-bind=none
	all '.cpus == [] and (.service | test("^not bound: 2 ranks here may use these"))'
}

@test "named cores are taken, each task's from its own mask" {
	export DDL_PROGRESS_CORES=0-$(($(nproc) - 1))
	info -N1 -n2 -c1 --cpu-bind=cores
	all '(.cpus | length) == 1 and (.cpus[0] | tostring) == .usable and (.service | test("as DDL_PROGRESS_CORES says"))'
	[ "$(jq '[.[].cpus[0]] | unique | length' <<<"$rows")" = 2 ]
	DDL_PROGRESS_CORES=0-1 info -N1 -n2 --cpu-bind=none
	[ "$(jq -c '[.[].cpus[0]] | sort' <<<"$rows")" = '[0,1]' ]
	DDL_PROGRESS_CORES=0-1 serve -N1 -n2 --cpu-bind=none >"$BATS_TEST_TMPDIR/served"
	cat "$BATS_TEST_TMPDIR/served"
	[ "$(awk '{ print $2 }' "$BATS_TEST_TMPDIR/served" | sort | xargs)" = "0 1" ]
	refute grep -qx '\([0-9]*\) \1' "$BATS_TEST_TMPDIR/served" # the program's mask is what it was
}

@test "named cores outside of the mask are refused, on every rank alike" {
	DDL_PROGRESS_CORES=1 run_apart srun -N1 -n2 -c1 --cpu-bind=map_cpu:0,0 --mpi=pmix --ddl=ring,progress=1 \
		ddl perf allreduce --sizes 1K --iters 2
	[ "$status" != 0 ]
	# shellcheck disable=SC2154 # run_apart sets it
	grep -F 'DDL_PROGRESS_CORES=1: this process may use none of these hardware threads, only 0' <<<"$err"
}

@test "without service threads ddl info asks no other rank" {
	# shellcheck disable=SC2016 # the task's shell expands it
	srun -N1 -n2 --mpi=pmix --ddl=ring bash -c '[ "$SLURM_PROCID" = 1 ] || ddl info' >"$BATS_TEST_TMPDIR/info"
	grep -F 'none: ddl_test and ddl_wait make progress' "$BATS_TEST_TMPDIR/info"
}
