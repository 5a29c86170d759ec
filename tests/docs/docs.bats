#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# docs.bats - every command that README.md and doc/ show is run on a Slurm cluster as it stands there, but for what `edits` changes, and
# must end well. What is not run is in `not_run`, with a reason.

load ../cluster/helpers

setup_file() {
	cluster_up --host-rate 0 --uplink-rate 0
	plugin optional
	export WORK=$BATS_FILE_TMPDIR/work DEST=$BATS_FILE_TMPDIR/dest
	mkdir -p "$WORK"
	DESTDIR=$DEST cmake --install "$DDL_BUILD" >"$BATS_FILE_TMPDIR/install.log"
	# a job whose second rank stops, for `ddl stat` and others that want the number of one
	cat >"$WORK/hang" <<-'END'
		#!/bin/bash
		srun --mpi=pmix bash -c 'trap : USR1; ddl perf barrier --iters 1000000 & p=$!
			[ "$PMIX_RANK" = 0 ] || { sleep 2; kill -STOP $p; }
			while kill -0 $p; do wait $p; done'
	END
	PATH=$DDL_BUILD/bin:$PATH
	JOB=$(cd "$WORK" && sbatch --parsable -N2 -n2 --ddl=auto "$WORK/hang")
	export JOB
	eventually ddl stat "$JOB"
}

teardown_file() {
	scancel "$JOB" || true
	cluster down
}

setup() {
	local libraries
	eval "$(cluster env)"
	docs=$BATS_TEST_DIRNAME top=$BATS_TEST_DIRNAME/../..
	libraries=$(dirname "$(find "$DEST" -name libddl.so)")
	export PKG_CONFIG_PATH=$libraries/pkgconfig LD_LIBRARY_PATH=$DDL_BUILD/lib
	export PATH=$DDL_BUILD/bin:/usr/bin:$PATH
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 XDG_CACHE_HOME=$WORK/cache
	unset DDL_PLAN DDL_MODE
}

edited() {
	sed -f "$docs/edits" | sed "s|CONF/|$(cluster folder)/etc/|; s|\<JOB\>|$JOB|"
}

# excused COMMAND: prints why it is not run, if so
excused() {
	local pattern reason
	while IFS=$'\t' read -r pattern reason; do
		[[ $pattern != \#* ]] || continue
		if [[ $1 =~ ^($pattern)$ ]]; then echo "$reason"; return; fi
	done <"$docs/not_run"
	# what this machine lacks
	if [[ $1 == 'sbatch ordered.sh' ]] && ! python3 -c 'import torch' 2>/dev/null; then echo "PyTorch is not installed"; fi
	if [[ $1 == 'sbatch mpirun.sh' ]] && ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then echo "Open MPI is not installed"; fi
}

# run_document FILE: all of its commands, in their order, in one folder
run_document() {
	local line command reason status n=0 before=0
	before=$(ls "$WORK")
	python3 "$docs/commands.py" "$1" "$WORK" >"$BATS_TEST_TMPDIR/commands"
	for file in "$WORK"/*; do # those of this document
		[ ! -f "$file" ] || grep -qxF "${file##*/}" <<<"$before" || { edited <"$file" >"$file.new" && mv "$file.new" "$file" && chmod +x "$file"; }
	done
	cd "$WORK" || return 1
	while IFS=$'\t' read -r line command; do
		[[ $command != look* ]] || continue
		n=$((n + 1))
		reason=$(excused "$command")
		if [ -n "$reason" ]; then
			echo "not run: $command ($reason)"
			continue
		fi
		status=0
		: >job.out
		timeout 120 bash -ec "$(edited <<<"$command")" >out 2>&1 </dev/null || status=$?
		if [ "$status" != 0 ]; then
			tail -n 30 out job.out
			echo "${1##*/}:$line: this ended with status $status: $command"
			return 1
		fi
		echo "good: $command"
	done <"$BATS_TEST_TMPDIR/commands"
	[ "$n" -gt 0 ]
}

@test "every command of README.md" {
	run_document "$top/README.md"
	no_node_suffers
}

@test "every command of doc/admin.md" {
	run_document "$top/doc/admin.md"
	no_node_suffers
}

@test "every command of doc/user.md" {
	run_document "$top/doc/user.md"
	no_node_suffers
}

@test "the ring of other libraries goes from leaf to leaf" {
	[ -s "$WORK/ordered.sh" ] || skip "doc/user.md was not run"
	python3 -c 'import torch' || skip "PyTorch is not installed"
	cd "$WORK"
	sbatch -W -o order.out ordered.sh || { cat order.out; return 1; }
	grep -x 'the ring goes n1 n4 n7 n2 n5 n8 n3 n6' order.out
}

@test "commands of all other documents exist: targets of make, scripts, subcommands" {
	for document in "$top"/README.md "$top"/CONTRIBUTING.md "$top"/doc/*.md "$top"/bench/README.md; do
		python3 "$docs/commands.py" "$document" >"$BATS_TEST_TMPDIR/commands"
		while IFS=$'\t' read -r line _ command; do
			read -ra words <<<"$command"
			case ${words[0]} in
			make)
				target=$(grep -oE '(^| )[a-z][a-z-]*$|(^| )[a-z][a-z-]*( |$)' <<<"${words[*]:1}" | head -1 | tr -d ' ')
				[ -z "$target" ] || grep -qE "^$target:|^\.PHONY:.* $target( |$)" "$top/Makefile" ;;
			bench/* | scripts/*) [ -x "$top/${words[0]}" ] ;;
			*) command -v "${words[0]}" ;;
			esac || { echo "$document:$line: there is no such command: $command"; return 1; }
		done < <(grep -P '\tlook\t' "$BATS_TEST_TMPDIR/commands")
	done
}

@test "a command that does not exist fails, one that fails too; every excuse is for something" {
	printf 'Try:\n\n```sh\nddl bogus\n```\n' >"$BATS_TEST_TMPDIR/wrong.md"
	refute run_document "$BATS_TEST_TMPDIR/wrong.md"
	printf '```sh\nddll info\n```\n' >"$BATS_TEST_TMPDIR/wrong.md"
	refute run_document "$BATS_TEST_TMPDIR/wrong.md"
	printf '```\nddl info\n```\n' >"$BATS_TEST_TMPDIR/wrong.md"
	refute run_document "$BATS_TEST_TMPDIR/wrong.md"
	for document in "$top"/README.md "$top"/doc/*.md; do python3 "$docs/commands.py" "$document"; done | cut -f2 >"$BATS_TEST_TMPDIR/all"
	while IFS=$'\t' read -r pattern reason; do
		[[ $pattern != \#* ]] || continue
		[ -n "$reason" ]
		grep -qxE "$pattern" "$BATS_TEST_TMPDIR/all" || { echo "no document has \"$pattern\" any more"; return 1; }
	done <"$docs/not_run"
}

@test "the picture of the README is what ddl draws" {
	"$top/scripts/pictures" --ddl "$DDL_BUILD/bin/ddl" --out "$BATS_TEST_TMPDIR"
	diff "$BATS_TEST_TMPDIR/plan.svg" "$top/doc/plan.svg"
}
