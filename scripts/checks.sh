# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# checks.sh - what the check-* scripts share; sourced. They all take
#   --root DIR    the tree to look at (default: the one the script lies in)
#   --build DIR   its build folder (default: ROOT/build)
# print what they checked, and fail with FILE:LINE: SENTENCE for every fault found.
set -euo pipefail
export LC_ALL=C

name=${0##*/}
root=$(cd "$(dirname "$0")/.." && pwd)
build=
while [ $# -gt 0 ]; do
	case $1 in
	--root) root=$(cd "$2" && pwd); shift 2 ;;
	--build) build=$(cd "$2" && pwd); shift 2 ;;
	*) echo "$name: unknown argument \"$1\"; usage: $name [--root DIR] [--build DIR]" >&2; exit 2 ;;
	esac
done
build=${build:-$root/build}
cd "$root"
faults=$(mktemp)
trap 'rm -f "$faults"' EXIT

# The tree's files that match the patterns: those git knows; without git, those that are there.
sources() {
	if [ -e .git ]; then
		git ls-files -- "$@" | while read -r file; do [ ! -e "$file" ] || echo "$file"; done
	else
		local pattern
		for pattern in "$@"; do find . -path ./build -prune -o -type f -name "${pattern##*/}" -print; done | sed 's|^\./||' | sort -u
	fi
}

# fault FILE LINE SENTENCE
fault() {
	echo "$1:$2: $3" >>"$faults"
}

# need FILE...: files of the build folder without which there is nothing to check.
need() {
	local file
	for file; do
		[ -e "$file" ] || { echo "$name: $file is not there; build first (make)" >&2; exit 1; }
	done
}

# done_checking WHAT: the end of every check.
done_checking() {
	local n
	n=$(sort -u "$faults" | wc -l)
	sort -u "$faults" >&2
	if [ "$n" -gt 0 ]; then
		echo "$name: $n faults in $1" >&2
		exit 1
	fi
	echo "$name: $1: good"
}
