#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# run.bats - ddl run: processes find each other through PMIx, their output, signals and exit codes, and that nothing is left behind.

# shellcheck disable=SC2154,SC2016,SC2012 # status, output, stderr: run; the quoted programs are for other shells
bats_require_minimum_version 1.5.0

setup() {
	DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	ddl=$DDL_BUILD/bin/ddl exchange=$DDL_BUILD/tests/pmix_exchange
	export TMPDIR=$BATS_TEST_TMPDIR/tmp mark=ddl-run-test-$$-$BATS_TEST_NUMBER
	mkdir -p "$TMPDIR"
	unset DDL_MODE DDL_PLAN DDL_TIMEOUT PMIX_NAMESPACE PMIX_RANK
	! "$ddl" run true 2>&1 | grep -q 'built without PMIx' || skip "this build has no PMIx"
}

# No process that carries our mark may run any more, and nothing may lie in the folder for temporary files.
teardown() {
	wait_gone "$mark" || { echo "processes were left: $(marked)"; return 1; }
	[ -z "$(ls -A "$TMPDIR")" ] || { echo "files were left: $(ls -A "$TMPDIR")"; return 1; }
}

# Processes whose environment carries the mark, other than this shell and its own.
marked() {
	grep -lsz "^left=$mark\$" /proc/[0-9]*/environ | cut -d/ -f3
}

wait_gone() {
	local try=100
	while [ -n "$(marked)" ]; do
		[ $((try--)) -gt 0 ] || return 1
		sleep 0.1
	done
}

# Waits until that many ranks have said that they are ready, by a file each.
wait_ready() {
	local try=300
	while [ "$(find "$BATS_TEST_TMPDIR" -maxdepth 1 -name 'ready.*' | wc -l)" -lt "$1" ]; do
		[ $((try--)) -gt 0 ] || return 1
		sleep 0.1
	done
}

run_ddl() {
	left=$mark run --separate-stderr "$ddl" run "$@"
}

@test "eight processes exchange values, three times over" {
	run_ddl -n 8 "$exchange" 3 4096
	[ "$status" -eq 0 ]
	[ "$(grep -c '^\[[0-7]\] ok [0-7] of 8 on ' <<<"$output")" -eq 8 ]
}

@test "large values and a single process work too" {
	run_ddl -n 3 "$exchange" 1 1000000
	[ "$status" -eq 0 ]
	run_ddl -n 1 "$exchange" 2 0
	[ "$status" -eq 0 ]
	[[ "$output" = "[0] ok 0 of 1 on "* ]]
}

@test "a rank that never comes is named within the deadline" {
	left=$mark run --separate-stderr "$ddl" run -n 4 "$exchange" 1 100 1500 absent 2
	[ "$status" -eq 1 ]
	[[ "$output" = *"fence: -110 rank 2 of 4 never came to the exchange over PMIx within 1500 ms"* ]]
}

@test "a rank that dies before the fence ends the others" {
	run_ddl -n 4 "$exchange" 1 100 30000 die 1
	[ "$status" -eq 137 ] || [ "$status" -eq 1 ] # 1: the others noticed and ended before it was collected
	[[ "$stderr" = *"ddl run: rank 1 was killed by signal 9 (Killed)"* ]]
}

@test "PMIx_Abort ends all, with its message and status" {
	run_ddl -n 3 "$exchange" 1 100 30000 abort 2
	[ "$status" -eq 9 ]
	[[ "$stderr" = *"ddl run: rank 2 called PMIx_Abort with status 9: the loss is not a number"* ]]
}

@test "lines carry the rank, and the two outputs stay apart" {
	run_ddl -n 2 sh -c 'echo out $PMIX_RANK; echo err $PMIX_RANK >&2; printf "no line feed"'
	[ "$status" -eq 0 ]
	[ "$(sort <<<"$output")" = "$(printf '[0] no line feed\n[0] out 0\n[1] no line feed\n[1] out 1')" ]
	[ "$(sort <<<"$stderr")" = "$(printf '[0] err 0\n[1] err 1')" ]
}

@test "--no-prefix leaves bytes as they are" {
	left=$mark "$ddl" run -n 1 --no-prefix sh -c 'printf "a\rb\r\n\nc"' >"$BATS_TEST_TMPDIR/out"
	[ "$(od -An -c "$BATS_TEST_TMPDIR/out" | tr -d ' ')" = 'a\rb\r\n\nc' ]
}

@test "lines of many ranks are never torn, even long ones" {
	left=$mark "$ddl" run -n 8 sh -c 'for i in $(seq 50); do printf "%05000d\n" $PMIX_RANK; done' >"$BATS_TEST_TMPDIR/out"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/out")" -eq 400 ]
	[ "$(grep -cE '^\[([0-7])\] 0{4999}\1$' "$BATS_TEST_TMPDIR/out")" -eq 400 ]
}

@test "the exit status is that of the first failure, and the others are ended" {
	run_ddl -n 4 sh -c '[ $PMIX_RANK = 2 ] && exit 7; sleep 600'
	[ "$status" -eq 7 ]
	[ "$stderr" = "ddl run: rank 2 ended with status 7; ending the others" ]
}

@test "--no-kill-on-bad-exit lets the others finish" {
	run_ddl -n 2 --no-kill-on-bad-exit sh -c '[ $PMIX_RANK = 0 ] && exit 4; sleep 0.5; echo finished'
	[ "$status" -eq 4 ]
	[ "$output" = "[1] finished" ]
}

@test "who ignores SIGTERM is killed after the grace" {
	run_ddl -n 2 --grace 1 sh -c 'trap "" TERM; [ $PMIX_RANK = 0 ] && exit 4; while :; do sleep 0.1; done'
	[ "$status" -eq 4 ]
}

@test "signals reach every process" {
	left=$mark "$ddl" run -n 2 --no-kill-on-bad-exit sh -c \
		'trap "echo got USR1; exit 0" USR1; touch '"$BATS_TEST_TMPDIR"'/ready.$PMIX_RANK; while :; do sleep 0.1; done' \
		>"$BATS_TEST_TMPDIR/out" 3>&- &
	wait_ready 2
	kill -USR1 $!
	wait $!
	[ "$(sort "$BATS_TEST_TMPDIR/out")" = "$(printf '[0] got USR1\n[1] got USR1')" ]
}

@test "SIGTERM to ddl run ends the processes, and the status says so" {
	left=$mark "$ddl" run -n 2 sh -c 'touch '"$BATS_TEST_TMPDIR"'/ready.$PMIX_RANK; exec sleep 600' 3>&- &
	wait_ready 2
	kill -TERM $!
	rc=0
	wait $! || rc=$?
	[ "$rc" -eq 143 ]
}

@test "nothing survives when ddl run itself is killed, and its files go" {
	left=$mark "$ddl" run -n 3 sh -c 'sleep 600 & touch '"$BATS_TEST_TMPDIR"'/ready.$PMIX_RANK; sleep 600' 3>&- &
	wait_ready 3
	[ -n "$(marked)" ]
	kill -KILL $!
	wait $! || true
	wait_gone "$mark"
	local try=100
	while [ -n "$(ls -A "$TMPDIR")" ] && [ $((try--)) -gt 0 ]; do sleep 0.1; done
}

@test "what a rank leaves in the background ends with it" {
	run_ddl -n 2 sh -c 'sleep 600 & echo started'
	[ "$status" -eq 0 ]
}

@test "standard input goes to rank 0, the others read nothing" {
	left=$mark run --separate-stderr bash -c "printf 'one\ntwo\n' | $ddl run -n 3 cat"
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf '[0] one\n[0] two')" ]
}

@test "a reader that goes away ends the run" {
	left=$mark run bash -c "set -o pipefail; $ddl run -n 2 yes 2>/dev/null | head -n 1"
	[ "$status" -eq 141 ]
}

@test "a full disk ends the run with a sentence" {
	left=$mark run -1 --separate-stderr bash -c "$ddl run -n 2 yes >/dev/full"
	[ "$(grep -c 'the output could not be written: No space left on device' <<<"$stderr")" -eq 1 ]
}

@test "a program that cannot be started is a sentence" {
	left=$mark run -127 --separate-stderr "$ddl" run -n 2 /nonexistent/program
	[ "$stderr" = "ddl run: the program /nonexistent/program cannot be started: No such file or directory" ]
	run_ddl -n 2 /etc/passwd
	[ "$status" -eq 126 ]
}

@test "too few open files are a sentence, not a wait for ever" {
	for n in 8 16 24; do
		left=$mark run -1 --separate-stderr bash -c "ulimit -n $n && $ddl run -n 4 true"
		[ "$stderr" = "ddl run: 4 processes need 32 open files here: raise \`ulimit -n\`" ]
	done
	left=$mark run -0 --separate-stderr bash -c "ulimit -n 32 && $ddl run -n 4 $exchange"
}

@test "ranks that may open too few files say so" {
	left=$mark run -1 --separate-stderr "$ddl" run -n 8 bash -c "ulimit -n 28 && exec $ddl perf barrier --transports shm"
	grep -q 'raise `ulimit -n`' <<<"$stderr"
}

@test "wrong usage is a sentence and status 2" {
	for wrong in "" "-n" "-n 0 true" "-n x true" "-n 99999 true" "--nonsense true" "--grace -1 true" "--ddl=what true" "-n 2"; do
		run_ddl $wrong
		[ "$status" -eq 2 ]
		[[ "$stderr" = "ddl run: "* ]]
	done
}

@test "--ddl goes into the environment, and off takes it out" {
	DDL_PLAN=old run_ddl -n 1 --ddl=multiring,rings=2 sh -c 'echo "$DDL_MODE ${DDL_PLAN-no plan}"'
	[ "$output" = "[0] multiring,rings=2 no plan" ]
	DDL_MODE=ring run_ddl -n 1 --ddl=off sh -c 'echo "${DDL_MODE-no mode}"'
	[ "$output" = "[0] no mode" ]
	DDL_MODE=ring DDL_PLAN=kept run_ddl -n 1 sh -c 'echo "$DDL_MODE $DDL_PLAN"'
	[ "$output" = "[0] ring kept" ]
}

@test "--topology makes a plan for this machine" {
	local host
	host=$(uname -n)
	printf 'SwitchName=leaf1 Nodes=%s\nSwitchName=leaf2 Nodes=other\nSwitchName=top Switches=leaf[1-2]\n' "${host%%.*}" \
		>"$BATS_TEST_TMPDIR/topology.conf"
	run_ddl -n 2 --ddl=ring --topology "$BATS_TEST_TMPDIR/topology.conf" sh -c 'echo "$DDL_PLAN"'
	[ "$status" -eq 0 ]
	[[ "${lines[0]}" = *"job=run;mode=ring;src=file/tree"*"leaf1(${host%%.*});tasks=2"* ]]
	run_ddl -n 2 --ddl=ring --topology /nonexistent true
	[ "$status" -eq 2 ]
}

@test "it works without root" {
	[ "$(id -u)" -eq 0 ] || skip "this is not root anyway"
	local open
	open=$(mktemp -d /tmp/ddl-run-test.XXXXXX)
	mkdir -m 1777 "$open/tmp"
	chmod 755 "$open"
	cp "$ddl" "$exchange" "$open"
	TMPDIR=$open/tmp left=$mark run --separate-stderr setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$open/ddl" run -n 4 "$open/pmix_exchange"
	[ -z "$(ls -A "$open/tmp")" ]
	rm -r "$open"
	[ "$status" -eq 0 ]
	[ "$(grep -c '\] ok ' <<<"$output")" -eq 4 ]
}

@test "ddl itself is found where it was started from, also outside of PATH" {
	run env PATH=/usr/bin:/bin "$ddl" run -n 2 ddl perf barrier --iters 2 --json
	echo "$output"
	[ "$status" -eq 0 ]
	grep -q '"ranks":2' <<<"$output"
}
