#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# darknet.bats - examples/darknet is built against the installed copy and Debian's darknet, and two ranks learn scikit-learn's digits.

load helpers

setup_file() {
	export PYTHON=${PYTHON:-/usr/bin/python3}
	[ -e /usr/lib/darknet/libdarknet.so ] || skip "darknet is not installed (scripts/install-deps test)"
	"$PYTHON" -c 'import sklearn' 2>/dev/null || skip "scikit-learn is not installed (scripts/install-deps test)"
	install_copy
	cp -r "$EXAMPLES/darknet" "$BATS_FILE_TMPDIR/darknet"
	make -C "$BATS_FILE_TMPDIR/darknet" CFLAGS="-std=gnu11 -Wall -Wextra -Wshadow -Werror"
	"$PYTHON" "$EXAMPLES/darknet/digits.py" "$BATS_FILE_TMPDIR/digits"
}

# learnt EPOCHS RANKS: every epoch ended with equal replicas, and the last with nearly all digits known
learnt() {
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(grep -c "$2 replicas equal to the bit" <<<"$output")" = "$1" ]
	grep "^epoch $1:" <<<"$output" | sed 's/.*accuracy \([0-9.]*\).*/\1/' | awk '{ exit !($1 > 0.94) }'
}

@test "two ranks learn the digits, layer by layer, with equal replicas" {
	run on_ranks 2 "$BATS_FILE_TMPDIR/darknet/train" "$EXAMPLES/darknet/digits.cfg" "$BATS_FILE_TMPDIR/digits" 4
	learnt 4 2
}

@test "steps of several subdivisions start the all-reduce once, at their end" {
	sed 's/^batch=16/batch=32/; s/^subdivisions=1/subdivisions=2/' "$EXAMPLES/darknet/digits.cfg" >"$BATS_TEST_TMPDIR/digits.cfg"
	run on_ranks 2 "$BATS_FILE_TMPDIR/darknet/train" "$BATS_TEST_TMPDIR/digits.cfg" "$BATS_FILE_TMPDIR/digits" 4
	learnt 4 2
}

@test "a layer that it does not know is refused with a sentence" {
	sed 's/^\[connected\]/[local]\nfilters=4\nsize=1\n\n&/' "$EXAMPLES/darknet/digits.cfg" >"$BATS_TEST_TMPDIR/local.cfg"
	run "$BATS_FILE_TMPDIR/darknet/train" "$BATS_TEST_TMPDIR/local.cfg" "$BATS_FILE_TMPDIR/digits"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == *"knows those of [convolutional] and [connected] only"* ]]
}
