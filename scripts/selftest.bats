#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# selftest.bats - the checks of this folder check something: each passes on a small clean tree and names a fault planted in it.

# A tree of the project's shape that every check accepts, with a build folder.
setup() {
	scripts=$BATS_TEST_DIRNAME
	tree=$BATS_TEST_TMPDIR/tree
	mkdir -p "$tree"/{include/ddl,plan,spank,runtime/engine,runtime/sched,tools,scripts,doc/man}
	cp "$scripts"/check* "$scripts/cppcheck.suppressions" "$tree/scripts/"
	cp "$scripts/../.clang-format" "$scripts/../.clang-tidy" "$tree/"
	cd "$tree" || return 1
	echo 'project(ddl VERSION 0.1.0 LANGUAGES C)' >CMakeLists.txt
	header include/ddl/ddl.h DDL_H 'int ddl_one(void);'
	header plan/plan.h DDL_PLAN_H 'int ddl__plan(const char *text);'
	header runtime/engine/engine.h DDL_ENGINE_H 'int ddl__engine(void);'
	source_file plan/plan.c '#include <string.h>' '' '#include "plan.h"' '' 'int ddl__plan(const char *text)' '{' '	return (int)strlen(text);' '}'
	source_file runtime/one.c '#include <ddl/ddl.h>' '' 'int ddl_one(void)' '{' '	return 1;' '}'
	printf 'DDL_0.1 {\nglobal:\n\tddl_one;\nlocal:\n\t*;\n};\n' >runtime/libddl.map
	printf '.TH ddl_one 3\n.SH NAME\nddl_one \\- one\n' >doc/man/ddl_one.3
	printf '.TH ddl 7\n.SH ENVIRONMENT\nDDL_LOG\n' >doc/man/ddl.7
	build_tree
}

header() { # FILE GUARD DECLARATION
	printf '/* SPDX-License-Identifier: Apache-2.0 */\n#ifndef %s\n#define %s\n\n%s\n\n#endif\n' "$2" "$2" "$3" >"$1"
}

source_file() { # FILE LINE...
	local file=$1
	shift
	{ echo '/* SPDX-License-Identifier: Apache-2.0 */'; printf '%s\n' "$@"; } >"$file"
}

build_tree() {
	local file
	mkdir -p build/include/ddl build/lib build/ddl_plan.dir build/ddl_runtime.dir
	touch build/include/ddl/version.h
	for file in plan/*.c; do gcc -fPIC -Iplan -c "$file" -o "build/ddl_plan.dir/${file##*/}.o" || return 1; done
	for file in runtime/*.c; do gcc -fPIC -Iinclude -Iplan -c "$file" -o "build/ddl_runtime.dir/${file##*/}.o" || return 1; done
	gcc -shared -Wl,-soname,"${soname:-libddl.so.0}" -o build/lib/libddl.so build/ddl_runtime.dir/*.o
	for file in plan/*.c runtime/*.c; do
		printf '{\n  "directory": "%s",\n  "command": "gcc -Iinclude -Iplan -c %s",\n  "file": "%s"\n},\n' "$tree" "$tree/$file" "$tree/$file"
	done | sed '$s/,$//' | { echo '['; cat; echo ']'; } >build/compile_commands.json
}

# expect CHECK TEXT: the check fails and its output has the text.
expect() {
	run "scripts/$1"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"$2"* ]]
}

@test "every check accepts a clean tree" {
	for check in links symbols headers functions format docs tidy cppcheck shell; do
		run "scripts/check-$check"
		echo "$check: $output"
		[ "$status" -eq 0 ]
	done
}

@test "check-links names an include that plan/ may not have" {
	source_file plan/bad.c '#include "engine.h"'
	expect check-links 'plan/bad.c:2: plan may not know runtime/engine'
}

@test "check-links keeps schedules from knowing the engine" {
	source_file runtime/sched/bad.c '' '#include "engine.h"'
	expect check-links 'runtime/sched/bad.c:3: runtime/sched may not know runtime/engine'
}

@test "check-links names an include that climbs" {
	source_file spank/bad.c '#include "../plan/plan.h"'
	expect check-links 'spank/bad.c:2: the include of "../plan/plan.h" climbs'
}

@test "check-links names a function of plan/ that is not in libc" {
	source_file plan/bad.c 'double ddl_bad(double x);' 'double cos(double x);' 'double ddl_bad(double x)' '{' '	return cos(x);' '}'
	build_tree
	expect check-links 'plan/bad.c:1: uses cos, which is not in libc'
}

@test "check-links names a thread in plan/" {
	source_file plan/bad.c '#include <pthread.h>' 'void bad(pthread_t t);' 'void bad(pthread_t t)' '{' '	pthread_detach(t);' '}'
	build_tree
	expect check-links 'uses pthread_detach'
}

@test "check-links names a mutable global, also one inside a function" {
	source_file plan/bad.c 'int next(void);' 'int next(void)' '{' '	static int counter;' '' '	return ++counter;' '}'
	build_tree
	expect check-links 'plan/bad.c:1: counter is a mutable global'
}

@test "check-links names a mutable global that begins as an address, and lets constant ones be" {
	source_file plan/bad.c 'int next(void);' 'static const char *const words[] = { "a", "b" };' 'static const char *const *at = words;' \
		'int next(void)' '{' '	return *(++at)[0];' '}'
	build_tree
	expect check-links 'plan/bad.c:1: at is a mutable global'
	! grep -q words <<<"$output"
}

@test "check-symbols names an export that the map does not list" {
	source_file runtime/bad.c 'int ddl_two(void);' 'int ddl_two(void)' '{' '	return 2;' '}'
	build_tree
	expect check-symbols 'libddl.so exports ddl_two, which is not listed'
}

@test "check-symbols names a listed function that is not there" {
	sed -i 's/ddl_one;/ddl_one;\n\tddl_three;/' runtime/libddl.map
	expect check-symbols 'runtime/libddl.map:4: ddl_three is listed, but libddl.so does not export it'
}

@test "check-symbols names a wrong soname" {
	soname=libddl.so build_tree
	expect check-symbols 'the soname is libddl.so, not libddl.so.0'
}

@test "check-symbols names what the plugin should keep to itself" {
	mkdir -p build/lib/slurm
	echo 'const char plugin_name[] = "x", plugin_type[] = "y"; int plugin_version = 1; int slurm_spank_init(void) { return 0; } int init(void) { return 0; }' |
		gcc -x c -shared -fPIC -o build/lib/slurm/spank_ddl.so -
	expect check-symbols 'the plugin exports init'
}

@test "check-headers names a header that needs another one first" {
	header plan/bad.h DDL_BAD_H 'size_t ddl__bad(void);'
	expect check-headers 'plan/bad.h:5: does not compile alone'
}

@test "check-headers names a public header that is no C++" {
	header include/ddl/bad.h DDL_BAD_H 'int ddl_bad(int class);'
	expect check-headers 'include/ddl/bad.h:5: does not compile alone'
}

@test "check-functions names a function of 100 lines and takes one of 99" {
	long() { { echo '/* SPDX-License-Identifier: Apache-2.0 */'; echo 'int long_one(void)'; echo '{'; yes '	;' | head -n "$1"; echo '}'; } >plan/long.c; }
	long 99
	run scripts/check-functions
	[ "$status" -eq 0 ]
	long 100
	expect check-functions 'plan/long.c:3: the function has 100 lines'
}

@test "check-functions names a long file, a long line and a missing licence" {
	{ echo '/* SPDX-License-Identifier: Apache-2.0 */'; yes '' | head -n 800; } >plan/long.c
	expect check-functions 'plan/long.c:800: the file has 800 lines'
	source_file plan/long.c "$(printf '\t/* %0130d */' 0)"
	expect check-functions 'plan/long.c:2: the line has 144 columns'
	echo 'int x;' >plan/long.c
	expect check-functions 'plan/long.c:1: has no SPDX-License-Identifier line'
}

@test "check-format names a line that is laid out otherwise" {
	source_file plan/bad.c '' 'int bad( void ){return 1;}'
	expect check-format 'plan/bad.c:3: not laid out'
}

@test "check-docs names a function without a page and an alias to nowhere" {
	rm doc/man/ddl_one.3
	expect check-docs 'include/ddl/ddl.h:5: ddl_one has no manual page'
	echo '.so man3/ddl_none.3' >doc/man/ddl_one.3
	expect check-docs 'doc/man/ddl_one.3:1: is an alias to ddl_none.3'
}

@test "check-docs names an environment variable that nothing describes" {
	source_file plan/bad.c 'char *getenv(const char *);' 'char *bad(void);' 'char *bad(void)' '{' '	return getenv("DDL_SECRET_KNOB");' '}'
	expect check-docs 'plan/bad.c:6: the environment variable DDL_SECRET_KNOB is not described'
}

@test "check-docs names a page and a variable of a manual that the code does not have" {
	printf '.TH ddl_old 3\n.SH NAME\nddl_old \\- one\n' >doc/man/ddl_old.3
	expect check-docs 'doc/man/ddl_old.3:1: is about ddl_old, which ddl.h does not have'
	rm doc/man/ddl_old.3
	printf '.TP\n.B DDL_OLD_KNOB\nIt did something.\n' >>doc/man/ddl.7
	expect check-docs 'doc/man/ddl.7:5: describes DDL_OLD_KNOB, which nothing reads'
}

@test "check-docs names options that only the code, or only the page has, and words of --ddl" {
	printf '.TH DDL\\-LOOK 1\n.SH NAME\nddl\\-look \\- looks\n.TP\n.B \\-\\-far\nFar.\n' >doc/man/ddl-look.1
	source_file tools/look.c 'static const struct option options[] = { { "far", no_argument, NULL, 1 } };'
	scripts/check-docs
	source_file tools/look.c 'static const struct option options[] = { { "near-by", required_argument, NULL, 1 } };'
	expect check-docs 'tools/look.c:2: the option --near-by is not in doc/man/ddl-look.1'
	expect check-docs 'doc/man/ddl-look.1:5: describes --far, which tools/look*.c does not have'
	printf '.TH DDL\\-SPANK 8\n' >doc/man/ddl-spank.8
	source_file plan/options.c 'const struct ddl__choice ddl__modes[] = {' '	{ 1, "sideways", "not at all" },' '};'
	expect check-docs 'plan/options.c:1: sideways, of ddl__modes, is not in doc/man/ddl-spank.8'
}

@test "check-tidy names a fault that the compiler lets pass" {
	source_file runtime/bad.c '#include <stdlib.h>' 'void twice(void *p);' 'void twice(void *p)' '{' '	free(p);' '	free(p);' '}'
	build_tree
	expect check-tidy 'runtime/bad.c:7: '
}

@test "check-cppcheck names a fault" {
	source_file runtime/bad.c 'int bad(void);' 'int bad(void)' '{' '	int a[4] = { 0 };' '' '	return a[4];' '}'
	build_tree
	expect check-cppcheck 'runtime/bad.c:7: '
}

@test "check-shell names a fault" {
	printf '#!/bin/bash\n[ $x = "a" ] && echo `ls` "$unused[0]"\n' >scripts/bad
	expect check-shell 'scripts/bad:2: '
}
