#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# deb.bats - the Debian packages, installed for real, though in an overlay that is gone afterwards: enabled by one line, used by a job of a
# Slurm cluster, upgraded, removed.
# needs root

bats_require_minimum_version 1.5.0

setup_file() {
	if ! command -v dpkg-shlibdeps >/dev/null || ! command -v slurmctld >/dev/null; then
		skip "no Debian, or Slurm is not installed (scripts/install-deps package cluster)"
	fi
	"$BATS_TEST_DIRNAME/in-overlay" true || skip "this machine allows no overlay"
	export OUT=$BATS_FILE_TMPDIR/out
	"$BATS_TEST_DIRNAME/../../scripts/package" deb --out "$OUT" >"$BATS_FILE_TMPDIR/list"
	rm -rf "$OUT/tree"
}

field() { # FILE FIELD
	dpkg-deb -f "$1" "$2"
}

@test "the split is that of the RPM packages, and each depends on what it needs" {
	[ "$(for file in "$OUT"/*.deb; do field "$file" Package; done | sort | xargs)" = "ddl-doc ddl-tools libddl-dev libddl0 python3-ddl slurm-spank-ddl" ]
	[[ $(field "$OUT"/libddl-dev_*.deb Depends) == *"libddl0 (= "* ]]
	[[ $(field "$OUT"/ddl-tools_*.deb Depends) == *libjansson4* ]]
	[ "$(field "$OUT"/libddl0_*.deb Recommends)" = "libibverbs1, ibverbs-providers" ]
	run grep -E 'ibverbs|rdmacm|cuda' <<<"$(for file in "$OUT"/*.deb; do field "$file" Depends; done)"
	[ "$status" = 1 ]
	series=$(slurmd -V | sed -n 's/.* \([0-9]*\.[0-9]*\)\..*/\1/p')
	[ -n "$series" ]
	[[ $(field "$OUT"/slurm-spank-ddl_*.deb Conflicts) == *"slurm-wlm-basic-plugins (<< $series~), slurm-wlm-basic-plugins (>= "* ]]
	[[ $(field "$OUT"/slurm-spank-ddl_*.deb Version) == *+sl"${series/./}" ]]
}

@test "installed, enabled by one line, used by a job, upgraded with an edited configuration, removed without traces" {
	# All that the story needs goes along, since /tmp is another one in there.
	tar -cf "$BATS_TEST_TMPDIR/tar" -C "$OUT" . -C "$BATS_TEST_DIRNAME" story -C ../cluster cluster.sh
	# shellcheck disable=SC2016 # for the shell in there
	"$BATS_TEST_DIRNAME/in-overlay" bash -c 'cd "$(mktemp -d)" && tar -xf - && exec ./story </dev/null' <"$BATS_TEST_TMPDIR/tar"
}
