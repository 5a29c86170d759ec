#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# stat.bats - what can be seen of a job: ddl stat, hang dumps, statistics and traces, of processes that ddl run starts.

# shellcheck disable=SC2154 # status, output, stderr: run
bats_require_minimum_version 1.5.0
load shm

setup() {
	DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	ddl=$DDL_BUILD/bin/ddl launcher=
	cd "$BATS_TEST_TMPDIR" || return 1
	unset DDL_MODE DDL_PLAN DDL_TIMEOUT DDL_STATS DDL_TRACE DDL_TRACE_SIZE DDL_DUMP_SIGNAL SLURM_JOB_ID PMIX_NAMESPACE PMIX_RANK
	! "$ddl" run true 2>&1 | grep -q 'built without PMIx' || skip "this build has no PMIx"
	shm_before=$(shm_files)
}

teardown() {
	if [ -n "$launcher" ]; then
		kill "$launcher" 2>/dev/null || true
		[ -z "${pids[*]}" ] || kill -CONT "${pids[@]}" 2>/dev/null || true
		wait "$launcher" 2>/dev/null || true
	fi
	[ "$(shm_files)" = "$shm_before" ]
}

# eventually COMMAND...: tries for at most 20 seconds
eventually() {
	local _
	for _ in {1..200}; do
		if "$@"; then return 0; fi
		sleep 0.1
	done
	echo "it did not happen within 20 seconds: $*"
	return 1
}

# start N ARGUMENTS...: `ddl perf` in the background, whose output goes to out; waits until all ranks show and reduce. pids[r] is rank r's process.
start() {
	local n=$1
	shift
	"$ddl" run -n "$n" "$ddl" perf allreduce --iters 1000000 --warmup 0 "$@" >out 2>&1 3>&- 4>&- &
	launcher=$!
	job=ddl-run.$launcher
	eventually all_show "$n"
	mapfile -t pids < <("$ddl" stat --local --json "$job" | jq -r 'select(has("rank")) | "\(.rank) \(.pid)"' | sort -n | cut -d' ' -f2)
	[ "${#pids[@]}" = "$n" ]
}

all_show() {
	[ "$("$ddl" stat --local --json "$job" | jq -s '[.[] | select(has("rank") and .starts > 20)] | length')" = "$1" ]
}

stat_says() {
	"$ddl" stat --local "$job" | grep -E -- "$1"
}

out_says() {
	tr '\r' '\n' <out | grep -E -- "$1"
}

@test "ddl stat names the rank that is stopped, and who waits for it" {
	start 4 --sizes 1M --algorithm ring
	kill -STOP "${pids[2]}"
	eventually stat_says "^rank 2 on node [^ ]+ \(process ${pids[2]}\) is stopped .*: rank.* waits? for it in request [0-9]+ \((all-reduce of 262144 f32|barrier)"
	run "$ddl" stat --local "$job"
	[ "$status" = 0 ]
	[ "$(sed -n 2p <<<"$output" | awk '{print $1, $4}')" = "2 stopped" ] # those to blame come first
	[ "$(grep -c "^rank " <<<"$output")" = 1 ]
	kill -CONT "${pids[2]}"
	eventually goes_on
}

# Nobody is to blame any more, and starts grow.
goes_on() {
	local before after
	before=$("$ddl" stat --local --json "$job" | jq -s '[.[] | .starts // 0] | add')
	sleep 0.2
	after=$("$ddl" stat --local --json "$job" | jq -s '[.[] | .starts // 0] | add')
	[ "$after" -gt "$before" ] && ! stat_says '^rank '
}

@test "without a job ddl stat tells of this machine, of what is not there it says so, and wrong words are refused" {
	start 2 --sizes 1M
	"$ddl" stat | grep "\[$job\]"
	run "$ddl" stat --local no-such-job
	[ "$status" = 0 ]
	[ "$output" = "no process with a communicator was found" ]
	run "$ddl" stat "4242; rm"
	[ "$status" = 2 ]
	[[ "$output" = *"is not a Slurm job's number"* ]]
	run "$ddl" stat 1 2
	[ "$status" = 2 ]
	run "$ddl" stat --timeout 0 1
	[ "$status" = 2 ]
	run env PATH=/nowhere "$ddl" stat 4242
	[ "$status" = 1 ]
	[[ "$output" = *"squeue does not tell of job 4242"*"ddl stat --local"* ]]
}

@test "nodes that do not answer in time, and answers that are none, are told" {
	mkdir bin
	printf '#!/bin/sh\necho "3 ${STATE:-RUNNING} n[1-3]"\n' >bin/squeue
	printf '#!/bin/sh\necho "{\\"answered\\":\\"n1\\"}"; echo garbage; echo "{\\"answered\\":\\"n3\\"}"; exec sleep 60\n' >bin/srun
	chmod +x bin/*
	run --separate-stderr env PATH="$PWD/bin:$PATH" "$ddl" stat --timeout 1 4242.0
	[ "$status" = 0 ]
	[[ "$stderr" = *'a node answered "garbage", which is left out'* ]]
	[[ "$stderr" = *"not all nodes answered within 1 s"* ]]
	[[ "$stderr" = *"1 of 3 nodes did not answer: n2; "* ]]
	run env STATE=PENDING PATH="$PWD/bin:$PATH" "$ddl" stat 4242
	[ "$status" = 1 ]
	[ "$output" = "ddl stat: job 4242 does not run: it is PENDING" ]
}

@test "a signal makes a rank say which step waits for which rank on which node, and the program goes on" {
	mkdir trace
	DDL_TRACE=trace start 3 --sizes 1M --algorithm ring
	kill -STOP "${pids[1]}"
	eventually stat_says '^rank 1 on node'
	kill -USR1 "${pids[2]}" "${pids[0]}"
	eventually out_says '^\[2\] ddl: asked by a signal: rank 2 of 3 on node .*: 1 active request$'
	eventually out_says 'lane [0-9]+ step [0-9]+ of [0-9]+ \(.*\) waits for (data from|room at) rank 1 on node'
	out_says 'request [0-9]+ \((all-reduce of 262144 f32 .*|barrier)\), start [0-9]+: nothing moved for [0-9.]+ s, [0-9]+ of [0-9]+ bytes done'
	grep 'asked by a signal' trace/dump.2.txt
	jq -e '.otherData.rank == 0' "trace/ddl-$job-0.json" >/dev/null # written with the dump
	kill -CONT "${pids[1]}"
	eventually goes_on
	kill -USR1 "${pids[0]}"
	eventually goes_on
}

@test "DDL_DUMP_SIGNAL chooses another signal, or none, and refuses others" {
	DDL_DUMP_SIGNAL=USR2 start 2 --sizes 1M
	kill -USR2 "${pids[0]}"
	eventually out_says '^\[0\] ddl: asked by a signal'
	kill -USR1 "${pids[0]}" # nobody handles it
	eventually out_says 'rank 0 was killed by signal 10'
	run env DDL_DUMP_SIGNAL=KILL "$ddl" run -n 1 "$ddl" perf barrier --iters 1
	[ "$status" = 1 ]
	[[ "$output" = *"DDL_DUMP_SIGNAL=KILL: choose from USR1, USR2, off"* ]]
}

@test "a deadline that passes dumps too" {
	DDL_TIMEOUT=3 start 3 --sizes 1M --algorithm ring
	kill -STOP "${pids[0]}"
	eventually out_says 'ddl: the deadline has passed: rank [12] of 3 on node'
	out_says 'waits for (data from|room at) rank 0 on node'
}

@test "DDL_STATS=1 makes rank 0 print a table with least and most over the ranks" {
	DDL_STATS=1,alone run --separate-stderr "$ddl" run -n 3 "$ddl" perf allreduce --sizes 64K --iters 7 --warmup 0 --algorithm ring
	[ "$status" = 0 ]
	[ "$(grep -c 'ddl: statistics of communicator ddl-run' <<<"$stderr")" = 1 ]
	grep -E '^\[0\] ddl: all-reduce of 16384 f32 .* 7 starts: .* alone [0-9.]+ ms; rank [0-2] on node [^ ]+ waited the least' <<<"$stderr"
	# 7 starts of 2(N-1)/N of 64 KiB
	grep -A1 'all-reduce of 16384 f32' <<<"$stderr" | grep -E 'all +597\.[0-9] KiB +597\.[0-9] KiB'
}

@test "DDL_STATS=FILE writes JSON in which bytes add up, also where only one rank asks for it" {
	# shellcheck disable=SC2016 # for the ranks
	run "$ddl" run -n 3 sh -c '[ $PMIX_RANK != 0 ] || export DDL_STATS=stats.json; exec "$0" perf allreduce --sizes 64K --iters 7 --warmup 0 --algorithm ring' "$ddl"
	[ "$status" = 0 ]
	jq -e '.ranks == 3 and .of_rank_0_alone == false' stats.json
	[ "$(jq '.requests[] | select(.what | startswith("all-reduce of 16384 f32")) | .all.sum.bytes_sent' stats.json)" = $((7 * 2 * 2 * 65536)) ]
	jq -e '([.requests[].all.sum.bytes_received] | add) == ([.peers[].bytes_received] | add)' stats.json
	for bad in 2 alone,what stats.txt; do
		run env DDL_STATS=$bad "$ddl" run -n 1 "$ddl" perf barrier --iters 1
		[ "$status" = 1 ]
		[[ "$output" = *"DDL_STATS: \"${bad#alone,}\" is none of 0, 1, alone and a file's name that ends with .json"* ]]
	done
}

# trace_of N FOLDER: a trace of some all-reduces of N ranks.
trace_of() {
	mkdir "$2"
	DDL_TRACE=$2 "$ddl" run -n "$1" "$ddl" perf allreduce --sizes 256K --iters 3 --algorithm ring >/dev/null
}

@test "merged traces are sorted, name ranks and nodes, and every slice that was sent arrives" {
	trace_of 3 trace
	run "$ddl" trace merge trace
	[ "$status" = 0 ]
	[[ "$output" = "trace/trace.json: "*" events of 3 ranks; their clocks agree within "* ]]
	jq -e '[.traceEvents[] | select(has("ts")) | .ts] | . == sort' trace/trace.json
	[ "$(jq -r '.traceEvents[] | select(.name == "process_name") | .args.name' trace/trace.json | cut -d' ' -f1,2 | xargs)" = "rank 0 rank 1 rank 2" ]
	jq -e '[.traceEvents[] | select(.ph == "s") | .id] as $sent | [.traceEvents[] | select(.ph == "f") | .id] as $got
		| ($sent | length) > 30 and ($sent | sort) == ($got | sort)' trace/trace.json
	jq -e '[.traceEvents[] | select(.cat == "work") | .name] | unique | length > 1' trace/trace.json
	[ "$(jq '[.traceEvents[] | select(.cat == "request" and (.name | startswith("all-reduce of 65536 f32")))] | length' trace/trace.json)" -ge 9 ]
}

@test "files that are cut, broken or no traces are said, and the rest is merged" {
	trace_of 4 trace
	files=(trace/ddl-*.json)
	head -c -500 "${files[1]}" >short.json
	mv short.json "${files[1]}"
	sed -i '20s/.*/{"ph":7},/' "${files[2]}"
	: >trace/ddl-empty-0.json
	echo '{"otherData":{"format":"another"},"traceEvents":[' >trace/ddl-other-0.json
	run --separate-stderr "$ddl" trace merge trace -o merged.json
	[ "$status" = 0 ]
	[[ "$output" = *" of 4 ranks;"* ]]
	[ "$(grep -c 'is left out: it is no trace that a rank wrote' <<<"$stderr")" = 2 ]
	grep -F "${files[1]} is cut at line" <<<"$stderr"
	grep -F "${files[2]} is broken at line 20" <<<"$stderr"
	jq -e '[.traceEvents[].pid] | unique | length == 4' merged.json
	run "$ddl" trace merge .
	[ "$status" = 1 ]
	run "$ddl" trace merge /nowhere
	[ "$status" = 1 ]
	run "$ddl" trace merge
	[ "$status" = 2 ]
}

@test "traces of nodes whose clocks differ by days fit together" {
	unshare -T true 2>/dev/null || skip "this machine does not allow time namespaces"
	mkdir trace
	# shellcheck disable=SC2016 # for the ranks
	DDL_TRACE=trace "$ddl" run -n 3 sh -c 'far="unshare -T --fork --monotonic 300000"; [ $PMIX_RANK = 1 ] || far=
		exec $far "$0" perf allreduce --sizes 64K --iters 5 --algorithm ring' "$ddl" >/dev/null
	ahead=$(jq .otherData.clock_ahead_ns trace/ddl-*-1.json)
	[ "$ahead" -gt 299990000000000 ]
	[ "$ahead" -lt 300010000000000 ]
	"$ddl" trace merge trace
	# whatever was received had been sent, but for the clocks' error
	jq -e '([.otherData.files[].clock_error_ns] | max / 1000 * 2) as $error
		| ([.traceEvents[] | select(.ph == "s") | {key: .id, value: .ts}] | from_entries) as $sent
		| [.traceEvents[] | select(.ph == "f") | .ts - $sent[.id]] | length > 20 and min > -$error - 10000' trace/trace.json
}

@test "a trace's ring is bounded by DDL_TRACE_SIZE, and says how many spans it dropped" {
	mkdir trace
	DDL_TRACE=trace DDL_TRACE_SIZE=1 "$ddl" run -n 2 "$ddl" perf allreduce --sizes 8 --iters 20000 >/dev/null
	jq -e '.otherData.spans == 16384 and .otherData.dropped > 1000' trace/ddl-*-1.json
	run env DDL_TRACE=trace DDL_TRACE_SIZE=0 "$ddl" run -n 1 "$ddl" perf barrier --iters 1
	[ "$status" = 1 ]
	[[ "$output" = *"DDL_TRACE_SIZE=0 is not a whole number from 1 to 65536"* ]]
}
