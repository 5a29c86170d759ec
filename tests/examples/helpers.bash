# SPDX-License-Identifier: Apache-2.0
# helpers.bash - what the tests of the examples share: an installed copy, and programs run against it.

export EXAMPLES=$BATS_TEST_DIRNAME/../../examples
export DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}

# Installs the build below the file's own folder: PREFIX, and the compiler, the loader and pkg-config find it there.
install_copy() {
	local name dest=$BATS_FILE_TMPDIR/dest
	for name in $(compgen -e | grep -E '^(DDL_PL|PMIX|SLURM|SBATCH)' || true); do unset "$name"; done
	DESTDIR=$dest cmake --install "$DDL_BUILD" >"$BATS_FILE_TMPDIR/install.log"
	PREFIX=$dest$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$DDL_BUILD/CMakeCache.txt")
	LIBDIR=$PREFIX/$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$DDL_BUILD/CMakeCache.txt")
	[ -e "$LIBDIR/libddl.so" ] || LIBDIR=$PREFIX/lib
	export PREFIX LIBDIR PKG_CONFIG_PATH=$LIBDIR/pkgconfig LD_LIBRARY_PATH=$LIBDIR
	unset C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH
}

# on_ranks N COMMAND...
on_ranks() {
	local n=$1
	shift
	"$PREFIX/bin/ddl" run -n "$n" --no-prefix "$@"
}

# prints TEXT COMMAND...: the command ends well, and this is all it prints
prints() {
	local text=$1
	shift
	run "$@"
	# shellcheck disable=SC2154 # run sets output and status
	echo "$output"
	[ "${status:-1}" -eq 0 ]
	[ "$output" = "$text" ]
}
