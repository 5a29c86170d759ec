#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # status, out, err: run_apart
# pytorch.bats - PyTorch trains over RDMA in a Slurm job. In the guest it takes its time: some 20 seconds of a processor's.

bats_require_minimum_version 1.5.0
load nodes

setup_file() {
	export PYTHON=${PYTHON:-/usr/bin/python3}
	"$PYTHON" -c 'import torch, sklearn' 2>/dev/null || skip "PyTorch or scikit-learn is not installed (scripts/install-deps test)"
	nodes_up
}

teardown_file() {
	cluster down
}

teardown() {
	nodes_serve_on
}

@test "the example trains over RDMA, and replicas are equal to the bit" {
	python_setup
	export DDL_LOG=info
	note
	job "$PYTHON" "$BATS_TEST_DIRNAME/../../examples/pytorch/train.py" --epochs 2
	[ "$status" = 0 ]
	[ "$(grep -c '2 replicas equal to the bit' <<<"$out")" = 2 ]
	for rank in 0 1; do grep "rank $rank on node n$((rank + 1)) reaches other ranks: 1 over verbs\$" <<<"$err"; done
	refute grep 'over tcp' <<<"$err"
	# 44 times 100 KB of gradients
	for node in 1 2; do [ $(($(since h${node}r0) + $(since h${node}r1))) -gt 4000000 ]; done
}
