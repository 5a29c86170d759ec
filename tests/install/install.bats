#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# install.bats - what `make install` puts down is all that a user's program needs: it is compiled in C and in C++, found by
# pkg-config and by CMake, and run alone and with two ranks, against the installed copy only.

setup_file() {
	export DDL_BUILD=${DDL_BUILD:-$BATS_TEST_DIRNAME/../../build}
	export DEST=$BATS_FILE_TMPDIR/dest
	DESTDIR=$DEST cmake --install "$DDL_BUILD" >"$BATS_FILE_TMPDIR/install.log"
	PREFIX=$DEST$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$DDL_BUILD/CMakeCache.txt")
	LIBDIR=$PREFIX/$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$DDL_BUILD/CMakeCache.txt")
	[ -e "$LIBDIR/libddl.so" ] || LIBDIR=$PREFIX/lib
	export PREFIX LIBDIR PKG_CONFIG_PATH=$LIBDIR/pkgconfig
	unset C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH
	unset "${!DDL_PL@}" "${!PMIX@}" "${!SLURM@}"
}

setup() {
	source=$BATS_TEST_DIRNAME/consumer.c
	cd "$BATS_TEST_TMPDIR" || return 1
}

flags() {
	pkg-config "$@" ddl
}

# runs PROGRAM: alone, then as two ranks.
runs() {
	LD_LIBRARY_PATH=$LIBDIR run "$1"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = "1 ranks summed 1000 elements" ]
	LD_LIBRARY_PATH=$LIBDIR run "$PREFIX/bin/ddl" run -n 2 --no-prefix "$1"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = "2 ranks summed 1000 elements" ]
}

@test "a C11 program is built with pkg-config and runs" {
	# shellcheck disable=SC2046
	gcc -std=c11 -pedantic -Wall -Wextra -Werror "$source" $(flags --cflags --libs) -o consumer
	runs ./consumer
}

@test "a C++ program is built with pkg-config and runs" {
	# shellcheck disable=SC2046
	g++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror "$source" -x none $(flags --cflags --libs) -o consumer
	runs ./consumer
}

@test "CMake finds the installed copy and builds a program that runs" {
	cat >CMakeLists.txt <<-PROJECT
		cmake_minimum_required(VERSION 3.20)
		project(consumer LANGUAGES C)
		find_package(ddl 0.1 REQUIRED)
		add_executable(consumer $source)
		target_link_libraries(consumer PRIVATE ddl::ddl)
	PROJECT
	cmake -S . -B b -G Ninja -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
	cmake --build b
	runs b/consumer
}

@test "CMake refuses the installed copy where a later version is asked for" {
	printf 'cmake_minimum_required(VERSION 3.20)\nproject(consumer NONE)\nfind_package(ddl 99 REQUIRED)\n' >CMakeLists.txt
	run cmake -S . -B b -DCMAKE_PREFIX_PATH="$PREFIX"
	[ "$status" -ne 0 ]
}

@test "the library has a soname of its own, libddl.so.0" {
	readelf -d "$LIBDIR/libddl.so" | grep -q 'SONAME.*\[libddl\.so\.0\]'
	[ -e "$LIBDIR/libddl.so.0" ]
}

@test "the installed programs need nothing of the source or build tree" {
	run bash -c "readelf -d '$PREFIX/bin/ddl' '$LIBDIR/libddl.so' | grep -E 'R(UN)?PATH'"
	echo "$output"
	[[ $output != *"$(cd "$DDL_BUILD" && pwd)"* ]]
	[[ $output != *"$DEST"* ]]
	run "$PREFIX/bin/ddl" --version
	[ "$output" = "ddl $(flags --modversion)" ]
}

@test "headers, the manual and ddl.pc are where they belong" {
	for header in ddl.h error.h version.h; do [ -s "$PREFIX/include/ddl/$header" ]; done
	[ -z "$(find "$PREFIX/include" -name '*.in')" ]
	[ -s "$LIBDIR/pkgconfig/ddl.pc" ]
	compgen -G "$PREFIX/share/man/man1/ddl.1*"
	compgen -G "$PREFIX/share/man/man3/ddl_allreduce.3*"
}

@test "an installed tree works after it was moved" {
	cp -a "$DEST" moved
	export PKG_CONFIG_PATH=$PWD/moved${LIBDIR#"$DEST"}/pkgconfig
	# shellcheck disable=SC2046
	gcc -std=c11 "$source" $(flags --cflags --libs) -o consumer
	LIBDIR=$PWD/moved${LIBDIR#"$DEST"} PREFIX=$PWD/moved${PREFIX#"$DEST"} runs ./consumer
}

@test "the plugin is installed where its plugstack line says" {
	[ -e "$DDL_BUILD/lib/slurm/spank_ddl.so" ] || skip "built without the plugin"
	[ -e "$LIBDIR/slurm/spank_ddl.so" ]
	line=$(find "$DEST" -path '*plugstack.conf.d/ddl.conf' -exec grep -hE '^(optional|required)' {} +)
	path=$(awk '{ print $2 }' <<<"$line")
	[ -e "$DEST$path" ]
}

@test "the Python package lies where its Python looks, and finds the library of its own prefix" {
	package=$(find "$PREFIX" -path '*-packages/ddl' -type d)
	[ -n "$package" ] || skip "built without Python"
	[ -e "$package/torch/__init__.py" ] && [ -e "$package/py.typed" ]
	python=$(sed -n 's/^DDL_PYTHON:[A-Z]*=//p' "$DDL_BUILD/CMakeCache.txt")
	unset DDL_LIBRARY LD_LIBRARY_PATH
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${package%/ddl} run "$python" -c '
import ddl
print(open("/proc/self/maps").read().count("'"$LIBDIR"'/libddl.so") > 0, ddl.Comm.create().size)'
	echo "$output"
	[ "$output" = "True 1" ]
}
