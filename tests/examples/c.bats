#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# c.bats - examples/c is built as its Makefile says, against the installed copy alone, and each program does what it says.

load helpers

setup_file() {
	install_copy
	cp -r "$EXAMPLES/c" "$BATS_FILE_TMPDIR/c"
	make -C "$BATS_FILE_TMPDIR/c" CFLAGS="-std=c11 -pedantic -Wall -Wextra -Werror"
}

@test "minimal: all ranks sum a vector" {
	prints "1 ranks: 1 2 3 4" "$BATS_FILE_TMPDIR/c/minimal"
	prints "3 ranks: 3 6 9 12" on_ranks 3 "$BATS_FILE_TMPDIR/c/minimal"
}

@test "persistent: ranks find the line that their points lie on" {
	prints "2 ranks found y = 3.000 x + 1.000" on_ranks 2 "$BATS_FILE_TMPDIR/c/persistent"
}

@test "overlap: every layer gets the sum of its gradients, with a service thread and without" {
	prints "2 ranks summed 8 layers in 4 steps" on_ranks 2 "$BATS_FILE_TMPDIR/c/overlap"
	DDL_PROGRESS=0 prints "3 ranks summed 8 layers in 4 steps" on_ranks 3 "$BATS_FILE_TMPDIR/c/overlap"
}
