# SPDX-License-Identifier: Apache-2.0
# helpers.bash - what the cluster tests share: a cluster of their own (prefix ddlt, or PREFIX_OF_TESTS), the plugin of the build
# folder, plans in and out.

export PREFIX_OF_TESTS=${PREFIX_OF_TESTS:-ddlt}
DDL_BUILD=$(readlink -f "${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}")
export DDL_BUILD
CLUSTER_TESTS=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
PLUGIN=$DDL_BUILD/lib/slurm/spank_ddl.so
# shellcheck disable=SC2034 # read by the tests that load this
WHOLE_TREE='spine1(leaf1(n[1,4,7]),leaf2(n[2,5,8]),leaf3(n[3,6]))'

cluster() {
	"$CLUSTER_TESTS/cluster.sh" --prefix $PREFIX_OF_TESTS "$@"
}

# A stale cluster of an interrupted run goes first. Nothing of an outer job or plan may shine in.
cluster_up() {
	local name
	for name in $(compgen -e | grep -E '^(SLURM|SBATCH|DDL_(PLAN|MODE))' || true); do unset "$name"; done
	[ -e "$PLUGIN" ] || { echo "$PLUGIN is not built; DDL_BUILD tells where the build is" >&2; return 1; }
	cluster down
	cluster up "$@"
	eval "$(cluster env)"
}

# Loads the plugin with arguments: plugin optional|required [ARGUMENT...]. A copy of it, beside the cluster's state: the build folder
# may lie where only its owner may look, and a user's srun loads the plugin too.
plugin() {
	local need=$1 copy
	shift
	copy=$(cluster folder)/spank_ddl.so
	cmp -s "$PLUGIN" "$copy" || install -m 755 "$PLUGIN" "$copy"
	cluster plugstack "$need $copy $*"
}

# What a test with jobs begins with: the cluster, the plugin, the build's programs, and nothing of an earlier job's environment.
job_setup() {
	local name
	eval "$(cluster env)"
	plugin optional
	export PATH=$DDL_BUILD/bin:$PATH
	for name in $(compgen -e | grep '^DDL_' | grep -vx DDL_BUILD || true); do unset "$name"; done
}

# Programs in Python find the package and the library of this tree.
python_setup() {
	export DDL_LIBRARY=$DDL_BUILD/lib/libddl.so.0 PYTHONPATH=$BATS_TEST_DIRNAME/../../python PYTHONDONTWRITEBYTECODE=1
}

# show FILE: what matters of an output, for the one who reads why a test failed
show() {
	grep -E '^(DDL_(PLAN|MODE)|SLURM_STEP_(NODELIST|TASKS)|SLURM_TOPO|srun|slurm)' "$1" | sort | uniq -c || true
}

# run_apart COMMAND...: fills $status, $out, $err; bats' own run mixes the last two.
run_apart() {
	status=0
	"$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
	# shellcheck disable=SC2034 # read by the tests that load this
	out=$(cat "$BATS_TEST_TMPDIR/out")
	err=$(cat "$BATS_TEST_TMPDIR/err")
	echo "status $status"
	show "$BATS_TEST_TMPDIR/out"
	echo "err: $err"
}

# plan_in FILE|-: the only DDL_PLAN in the output of `env` on all tasks; fails if there is none, or if there are several.
plan_in() {
	local plans
	plans=$(sed -n 's/^DDL_PLAN=//p' "$1" | sort -u)
	[ -n "$plans" ] || { echo "no plan" >&2; return 1; }
	[ "$(wc -l <<<"$plans")" = 1 ] || { echo "different plans: $plans" >&2; return 1; }
	echo "$plans"
}

# field PLAN KEY: the value
field() {
	tr ';' '\n' <<<"$1" | sed -n "s/^$2=//p"
}

# nodes_of TREE: the nodes in a plan's tree, sorted; nodes_of HOSTLIST does as well
nodes_of() {
	scontrol show hostnames "$(sed 's/[A-Za-z0-9]*(//g; s/)//g' <<<"$1")" | sort | xargs
}

# script NAME: a batch script from stdin; prints its path
script() {
	{
		echo '#!/bin/bash'
		cat
	} >"$BATS_TEST_TMPDIR/$1"
	echo "$BATS_TEST_TMPDIR/$1"
}

# batch OUT OPTION... SCRIPT: submits and waits; the output goes to OUT
batch() {
	local file=$1
	shift
	sbatch -W -o "$file" "$@" || { cat "$file"; return 1; }
	show "$file"
}

# refute COMMAND...: it must fail. (A bare `!` is exempt from bash's errexit, so it would never fail a test.)
refute() {
	if "$@"; then return 1; fi
}

no_ddl_in() {
	refute grep -E '^DDL_(PLAN|MODE)=' "$1"
}

# Every node is up; none was drained.
no_node_suffers() {
	local states
	states=$(sinfo -h -N -o '%N %t')
	refute grep -E 'drain|drng|down|fail' <<<"$states"
}

# rpcs TYPE: how many slurmctld got since `sdiag --reset`
rpcs() {
	sdiag | sed -n "s/^[[:space:]]*$1 .*count:\([0-9]*\).*/\1/p" | head -n 1 | grep . || echo 0
}

# eventually COMMAND...: tries for at most 15 seconds
eventually() {
	local _
	for _ in {1..150}; do
		if "$@"; then return 0; fi
		sleep 0.1
	done
	echo "it did not happen within 15 seconds: $*" >&2
	return 1
}

# one_line TEXT PATTERN: exactly one line of TEXT matches
one_line() {
	[ "$(grep -cE "$2" <<<"$1")" = 1 ] || { echo "not exactly one line like $2 in: $1"; return 1; }
}
