# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# ranks.bash - starts `ddl perf` on the hosts of the fabric, one process a rank, and waits for them; loaded by the bats files.
#
# Rank r runs on host r / PER_HOST, or on host_of[r] where a test sets that. Its output lies in $BATS_TEST_TMPDIR/out.r and err.r, its process id in pid[r], and after
# wait_ranks its exit status in status_of[r]. Ranks find each other through files in a folder that each test has for itself.

load "${BASH_SOURCE[0]%/*}/shm"

fabric() {
	"$BATS_TEST_DIRNAME/fabric.sh" --name "$FABRIC" "$@"
}

# exec_on HOST COMMAND...: in place of this shell. Who has another fabric says otherwise.
exec_on() {
	exec "$BATS_TEST_DIRNAME/fabric.sh" --name "$FABRIC" exec "$@"
}

# start_rank R N PER_HOST ARGUMENTS...: environment comes from the caller (DDL_TIMEOUT=5 start_rank ...).
start_rank() {
	local r=$1 n=$2 per_host=$3
	shift 3
	mkdir -p "$BATS_TEST_TMPDIR/store"
	exec_on "${host_of[r]:-$((r / per_host))}" "${DDL_COMMAND:-$DDL_BUILD/bin/ddl}" perf "$@" --store "$BATS_TEST_TMPDIR/store" --rank "$r" --ranks "$n" \
		</dev/null >"$BATS_TEST_TMPDIR/out.$r" 2>"$BATS_TEST_TMPDIR/err.$r" 3>&- 4>&- &
	pid[r]=$!
}

# start_ranks N PER_HOST ARGUMENTS...
start_ranks() {
	local n=$1 per_host=$2 r
	shift 2
	for ((r = 0; r < n; r++)); do start_rank "$r" "$n" "$per_host" "$@"; done
}

# wait_ranks R...: waits for those ranks. Whoever still runs after 60 seconds hangs: it is killed, and that is a failure.
wait_ranks() {
	local r tries
	for r; do
		for ((tries = 0; tries < 600; tries++)); do
			[ -d "/proc/${pid[r]}" ] || break
			! grep -q '^State:.Z' "/proc/${pid[r]}/status" 2>/dev/null || break
			sleep 0.1
		done
		if [ $tries = 600 ]; then
			echo "rank $r hangs"
			kill -KILL "${pid[r]}" 2>/dev/null || true
		fi
		status_of[r]=0
		wait "${pid[r]}" || status_of[r]=$?
	done
	show
}

# until_true SECONDS COMMAND...: polls; fails when the command has not succeeded by then.
until_true() {
	local tries
	for ((tries = $1 * 20; tries > 0; tries--)); do
		"${@:2}" && return 0
		sleep 0.05
	done
	echo "never came true: ${*:2}"
	return 1
}

sent_more_than() { # HOST BYTES
	[ "$(fabric sent "$1")" -gt "$2" ]
}

show() { # what the ranks said, for the log of a failing test
	local file
	for file in "$BATS_TEST_TMPDIR"/err.* "$BATS_TEST_TMPDIR"/out.*; do
		[ ! -s "$file" ] || { echo "--- ${file##*/}"; tr '\r' '\n' <"$file" | tail -n 20; }
	done
}

# every_survivor_names LOST R...: each of the ranks R ended by itself with an error, and one of its sentences names rank LOST.
every_survivor_names() {
	local lost=$1 r
	shift
	for r; do
		[ "${status_of[r]}" -gt 0 ] || { echo "rank $r ended with 0"; return 1; }
		[ "${status_of[r]}" -lt 128 ] || { echo "rank $r was killed by a signal (${status_of[r]})"; return 1; }
		grep -qE "rank $lost\b" "$BATS_TEST_TMPDIR/err.$r" || { echo "rank $r does not name rank $lost"; return 1; }
	done
}

# all_good R...: each of the ranks ended with 0.
all_good() {
	local r
	for r; do
		[ "${status_of[r]}" = 0 ] || { echo "rank $r ended with ${status_of[r]}"; return 1; }
	done
}

# rows FILE: how many rows of `ddl perf --json` there are, and that all say the result was correct.
rows() {
	jq -e -s 'all(.[]; .correct == true)' "$1" >/dev/null && jq -s length "$1"
}

# footprint: what a run could leave behind on this machine.
footprint() {
	shm_files
	find "${TMPDIR:-/tmp}" -maxdepth 1 -name '*ddl*' -newer "$BATS_TEST_TMPDIR/start"
}
