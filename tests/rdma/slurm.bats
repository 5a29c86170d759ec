#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # status, out, err: run_apart
# slurm.bats - jobs over RDMA as users have them: a real Slurm with the plugin and PMIx starts the ranks, on two nodes that have two rails
# each, and nobody says which devices are to be taken.

bats_require_minimum_version 1.5.0
load nodes

setup_file() {
	nodes_up
}

teardown_file() {
	cluster down
}

setup() {
	export DDL_TIMEOUT=120 DDL_LOG=info
	perf=("$DDL" perf allreduce --iters 2 --check --json)
}

teardown() {
	nodes_serve_on
}

slurmd_may_lock() { # BYTES
	local node
	for node in n1 n2; do
		cluster exec $node prlimit --pid "$(cat "$CLUSTER/run/slurmd.$node.pid")" --memlock="$1:$1"
	done
}

# job_of_user COMMAND...: of one who may lock 64 KiB where the job is submitted, and has no right to more. The job says what it may.
job_of_user() {
	cd /
	# shellcheck disable=SC2016 # for another shell
	run_apart prlimit --memlock=65536:65536 setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups \
		srun -N2 --mpi=pmix --ddl=multiring sh -c 'ulimit -l; exec "$@"' sh "$@"
	echo "$out"
}

right() { # ROWS: so many results in JSON, all of them right
	[ "$(grep -c '"correct":true' <<<"$out")" = "$1" ]
	refute grep '"correct":false' <<<"$out"
}

lines() { # N TEXT: so many lines of $out are that
	[ "$(grep -cxF -- "$2" <<<"$out")" = "$1" ]
}

says() { # VERDICT CHECK TEXT: $out has such a line of `ddl check`
	grep -E "^$1  $2 " <<<"$out" | grep -F -- "$3"
}

@test "a job goes over both rails, which nobody has named" {
	note
	DDL_STATS=1 DDL_MEASURE=0 job "${perf[@]}" --algorithm ring --sizes 8,1000004,4M
	[ "$status" = 0 ]
	right 3
	over '1 over verbs'
	for interface in h1r0 h1r1 h2r0 h2r1; do sent_more $interface 10000000; done
	grep -A 4 'all-reduce of 1048576 f32' <<<"$err" >"$BATS_TEST_TMPDIR/long"
	[ "$(grep -cE 'rail [01] +18.0 MiB +18.0 MiB' "$BATS_TEST_TMPDIR/long")" = 2 ]
}

@test "ranks of one node go through shared memory, and over RDMA to the other node's" {
	RANKS=4 job "${perf[@]}" --sizes 8,1M
	[ "$status" = 0 ]
	right 2
	RANKS=4 over '1 over shm, 2 over verbs'
}

@test "in a batch script's job nothing is amiss with RDMA, and each node takes its own ports" {
	batch "$BATS_TEST_TMPDIR/log" -N2 --ddl=multiring "$(script job <<<"srun --mpi=pmix $DDL check")"
	out=$(cat "$BATS_TEST_TMPDIR/log")
	echo "$out"
	refute grep -E '^fail  (rdma|rails|uverbs|gid|memlock|transports|allreduce) ' <<<"$out"
	for node in 1 2; do
		says pass rails "n$node: RDMA goes over rxh${node}r0 port 1 (RoCE v2, IPv4, GID index 1), rxh${node}r1 port 1 (RoCE v2, IPv4, GID index 1)"
	done
	says pass memlock 'without a limit'
	says pass allreduce '2 ranks sum'
}

@test "every algorithm gives the bits that it gives over TCP" {
	seed=$RANDOM
	echo "seed $seed"
	job "$DDL_BUILD/tests/same_bits" $seed 1
	[ "$status" = 0 ]
	[ "$(grep -c 'results, the same bits over verbs and tcp' <<<"$out")" = 2 ]
}

@test "a user's job may lock what slurmd may, and goes over RDMA" {
	job_of_user "${perf[@]}" --sizes 8,4M
	[ "$status" = 0 ]
	lines 2 unlimited
	right 2
	over '1 over verbs'
}

@test "where slurmd may lock little jobs go over TCP and say why, ddl check says what to do, and the prolog of the examples helps" {
	slurmd_may_lock $((8 << 20))
	job_of_user "${perf[@]}" --sizes 8,4M
	[ "$status" = 0 ]
	lines 2 8192
	right 2
	over '1 over tcp'
	for rank in 0 1; do
		one_line "$err" "rank $rank: 67108864 bytes could not be registered with .* 8192 KiB may be locked here .*: set LimitMEMLOCK=infinity for slurmd"
	done
	job_of_user "$DDL" check
	[ "$status" != 0 ]
	says fail memlock 'so TCP serves'
	grep -A 1 '^fail  memlock' <<<"$out" | grep -F -- '-> LimitMEMLOCK=infinity for slurmd (systemctl edit slurmd)'
	install -m 755 "$BATS_TEST_DIRNAME/../../slurm-conf/examples/prolog.d/memlock" "$BATS_TEST_TMPDIR/prolog"
	mv "$BATS_TEST_TMPDIR/prolog" "$CLUSTER/prolog"
	job_of_user "${perf[@]}" --sizes 8
	[ "$status" = 0 ]
	lines 2 unlimited
	over '1 over verbs'
}

# under_way: a job that goes on until something happens, once some of it has been sent over every rail. Its srun is $srun.
under_way() {
	note
	srun -N2 --mpi=pmix --ddl=multiring --kill-on-bad-exit=0 "$DDL" perf allreduce --sizes 1M --iters 100000 --algorithm ring \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	srun=$!
	for interface in h1r0 h1r1 h2r0 h2r1; do until_true 120 sent_more $interface 3000000; done
	refute no_objects
}

# ends: so does the job, with an error, and what it had in the devices
ends() {
	local status=0
	until_true 120 no_ranks
	wait $srun || status=$?
	cat "$BATS_TEST_TMPDIR/err"
	[ "$status" != 0 ]
	until_true 60 no_objects
}

@test "a rank that is killed is named, and ends the job" {
	under_way
	kill -KILL "$(ranks_on 2)"
	ends
	grep 'ddl perf: rank 0 (n1): rank 1 on node n2 is gone' "$BATS_TEST_TMPDIR/err"
}

@test "scancel ends a job in the middle" {
	under_way
	scancel "$(squeue -h -o %A)"
	ends
}
