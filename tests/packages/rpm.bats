#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# rpm.bats - the RPM packages: what is in them, installed into an empty root, verified, used, upgraded and removed.

bats_require_minimum_version 1.5.0

setup_file() {
	command -v rpmbuild >/dev/null || skip "rpmbuild is not installed (scripts/install-deps package)"
	export OUT=$BATS_FILE_TMPDIR/out
	"$BATS_TEST_DIRNAME/../../scripts/package" rpm --out "$OUT" >"$BATS_FILE_TMPDIR/list"
	rm -rf "$OUT/BUILD" "$OUT/BUILDROOT"
}

setup() {
	root=$BATS_TEST_TMPDIR/root
	mapfile -t packages < <(find "$OUT/RPMS" -name '*.rpm')
}

package() { # NAME
	find "$OUT/RPMS" -name "$1-[0-9]*.rpm"
}

# in_root ARGUMENTS...: rpm on an empty root of its own.
in_root() {
	rpm --root "$root" --dbpath /rpmdb --noplugins "$@"
}

installed() {
	mkdir -p "$root"
	in_root --initdb
	in_root -i --nodeps "${packages[@]}"
}

@test "there is one package for each who installs, and the sources" {
	names=$(for file in "${packages[@]}"; do rpm -qp --qf '%{NAME}\n' "$file"; done | sort | xargs)
	[ "$names" = "ddl-doc ddl-tools libddl libddl-devel python3-ddl slurm-spank-ddl" ]
	[ "$(find "$OUT/SRPMS" -name '*.src.rpm' | wc -l)" = 1 ]
	tar -tzf "$OUT"/SOURCES/ddl-*.tar.gz | grep -qE '^ddl-[0-9.]+/ddl.spec$'
}

@test "the plugin's package carries Slurm's series and requires its libslurm" {
	series=$(slurmd -V | sed -n 's/.* \([0-9]*\)\.\([0-9]*\)\..*/sl\1\2/p')
	[ -n "$series" ]
	file=$(package slurm-spank-ddl)
	[[ $(rpm -qp --qf '%{RELEASE}' "$file") == 1."$series"* ]]
	rpm -qp --requires "$file" | grep -E '^libslurm\.so\.[0-9]+\(\)\(64bit\)$'
	mkdir -p "$root"
	in_root --initdb
	run in_root -i "$file"
	[ "$status" != 0 ]
	grep -E 'libslurm\.so\.[0-9]+\(\)\(64bit\) is needed by slurm-spank-ddl' <<<"$output"
	[ "$(rpm -qp --configfiles "$file")" = /etc/slurm/plugstack.conf.d/ddl.conf ]
}

@test "nothing but the plugin requires Slurm, and nothing a card's library" {
	for file in "${packages[@]}"; do
		requires=$(rpm -qp --requires "$file")
		run grep -E 'ibverbs|cuda|rdmacm|hwloc' <<<"$requires"
		[ "$status" = 1 ]
		[[ $file == *slurm-spank-ddl* ]] || [ "$(grep -c libslurm <<<"$requires")" = 0 ]
	done
	rpm -qp --recommends "$(package libddl)" | grep '^libibverbs'
}

@test "an empty root takes them, rpm -V finds every file as it was packaged, and programs run from there" {
	installed
	for name in ddl-doc ddl-tools libddl libddl-devel python3-ddl slurm-spank-ddl; do
		in_root -V --nodeps "$name"
	done
	library=$(find "$root" -name 'libddl.so.?')
	[ "$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" = "${library##*/}" ]
	[ "$(in_root -qf "${library#"$root"}" --qf '%{NAME}')" = libddl ]
	[ "$(in_root -qf "${library#"$root"}/../libddl.so" --qf '%{NAME}')" = libddl-devel ] ||
		in_root -ql libddl-devel | grep -q '/libddl\.so$'
	plugin=$(find "$root" -name spank_ddl.so)
	grep -Fx "optional ${plugin#"$root"}" "$root/etc/slurm/plugstack.conf.d/ddl.conf"
	LD_LIBRARY_PATH=${library%/*} "$root/usr/bin/ddl" plan --nodes 'n[1-4]' | grep n4
	PYTHONPATH=$(dirname "$(find "$root" -path '*-packages/ddl' -type d)") DDL_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -c 'import ddl; print(ddl.library_version())' | grep -E '^[0-9.]+$'
	grep -F "${library%/*}" <(PKG_CONFIG_PATH=${library%/*}/pkgconfig pkg-config --variable=libdir ddl | xargs realpath)
}

@test "a configuration that was edited survives an upgrade, and what is removed leaves it as .rpmsave and nothing else" {
	installed
	echo 'optional /elsewhere/spank_ddl.so default=ring' >"$root/etc/slurm/plugstack.conf.d/ddl.conf"
	in_root -U --nodeps --replacepkgs "$(package slurm-spank-ddl)"
	[ "$(cat "$root/etc/slurm/plugstack.conf.d/ddl.conf")" = 'optional /elsewhere/spank_ddl.so default=ring' ]
	in_root -e ddl-doc ddl-tools libddl-devel python3-ddl libddl slurm-spank-ddl
	[ "$(cd "$root" && find . -type f -not -path './rpmdb/*')" = ./etc/slurm/plugstack.conf.d/ddl.conf.rpmsave ]
}

@test "rpmlint has nothing to say but what packaging/rpm/rpmlint.toml explains" {
	command -v rpmlint >/dev/null || skip "rpmlint is not installed (scripts/install-deps package)"
	rpmlint -c "$BATS_TEST_DIRNAME/../../packaging/rpm/rpmlint.toml" "${packages[@]}" "$OUT"/SRPMS/*.rpm
}
