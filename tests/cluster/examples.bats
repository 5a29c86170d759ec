#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# examples.bats - the batch scripts of the examples in C and with darknet, as jobs, from sbatch --ddl on. That of PyTorch is in
# pytorch.bats; those of JAX and Keras run where PYTHON has these packages.

load helpers
load ../examples/helpers

setup_file() {
	export PYTHON=${PYTHON:-/usr/bin/python3}
	install_copy
	for part in c darknet jax keras; do cp -r "$EXAMPLES/$part" "$BATS_FILE_TMPDIR/$part"; done
	make -C "$BATS_FILE_TMPDIR/c"
	[ ! -e /usr/lib/darknet/libdarknet.so ] || make -C "$BATS_FILE_TMPDIR/darknet"
	cluster_up --nodes 4 --leaves 2 --plugin "$PLUGIN"
}

teardown_file() {
	cluster down
}

setup() {
	job_setup
	python_setup
}

teardown() {
	no_node_suffers
}

# job SCRIPT ARGUMENTS...: its output in $output
job() {
	local status=0
	sbatch --wait --ddl=multiring -o "$BATS_TEST_TMPDIR/out" "$@" || status=$?
	output=$(cat "$BATS_TEST_TMPDIR/out")
	echo "$output"
	return $status
}

# learnt EPOCHS: every epoch of a training ended with equal replicas, and the last with nearly all digits known
learnt() {
	[ "$(grep -c '4 replicas equal to the bit' <<<"$output")" = "$1" ]
	grep "^epoch $1:" <<<"$output" | sed 's/.*accuracy \([0-9.]*\).*/\1/' | awk '{ exit !($1 > 0.85) }'
}

@test "examples/c/job.sh runs each program on four nodes" {
	job "$BATS_FILE_TMPDIR/c/job.sh" minimal
	[ "$output" = "4 ranks: 4 8 12 16" ]
	job "$BATS_FILE_TMPDIR/c/job.sh" persistent
	[ "$output" = "4 ranks found y = 3.000 x + 1.000" ]
	job "$BATS_FILE_TMPDIR/c/job.sh"
	[ "$output" = "4 ranks summed 8 layers in 4 steps" ]
}

@test "examples/darknet/train.sh learns the digits, and replicas are equal to the bit" {
	[ -e "$BATS_FILE_TMPDIR/darknet/train" ] || skip "darknet is not installed (scripts/install-deps test)"
	"$PYTHON" -c 'import sklearn' 2>/dev/null || skip "scikit-learn is not installed (scripts/install-deps test)"
	job "$BATS_FILE_TMPDIR/darknet/train.sh" 3
	learnt 3
}

@test "examples/jax/train.sh learns the digits, and replicas are equal to the bit" {
	"$PYTHON" -c 'import jax, sklearn' 2>/dev/null || skip "JAX or scikit-learn is not installed for $PYTHON"
	job "$BATS_FILE_TMPDIR/jax/train.sh" --epochs 3
	learnt 3
}

@test "examples/keras/train.sh learns the digits, and replicas are equal to the bit" {
	"$PYTHON" -c 'import keras, tensorflow, sklearn' 2>/dev/null || skip "TensorFlow or scikit-learn is not installed for $PYTHON"
	job "$BATS_FILE_TMPDIR/keras/train.sh" --epochs 3
	learnt 3
}
