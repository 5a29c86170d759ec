#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# pytorch.bats - PyTorch trains in a Slurm job, from sbatch --ddl on: no MASTER_ADDR, gradients over the library, equal replicas.

load helpers

setup_file() {
	export PYTHON=${PYTHON:-/usr/bin/python3}
	"$PYTHON" -c 'import torch, sklearn' 2>/dev/null || skip "PyTorch or scikit-learn is not installed (scripts/install-deps test)"
	cluster_up --nodes 4 --leaves 2 --plugin "$PLUGIN"
}

teardown_file() {
	cluster down
}

setup() {
	job_setup
	python_setup
	train=$BATS_TEST_DIRNAME/../../examples/pytorch/train.sh
}

teardown() {
	no_node_suffers
}

# trained FILE EPOCHS RANKS: every epoch ended with equal replicas, and the last with nearly all digits known
trained() {
	cat "$1"
	[ "$(grep -c "$3 replicas equal to the bit" "$1")" = "$2" ]
	grep "^epoch $2:" "$1" | sed 's/.*accuracy \([0-9.]*\).*/\1/' | awk '{ exit !($1 > 0.94) }'
}

@test "sbatch --ddl=multiring examples/pytorch/train.sh trains, and replicas are equal to the bit" {
	sbatch --wait --ddl=multiring -o "$BATS_TEST_TMPDIR/out" "$train" --epochs 5 || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
	trained "$BATS_TEST_TMPDIR/out" 5 4
}

@test "the optimizer without DDP trains with bfloat16 on the wire, two ranks a node" {
	sbatch --wait --ddl=multiring -N2 --ntasks-per-node=2 -o "$BATS_TEST_TMPDIR/out" "$train" --epochs 5 --way optimizer \
		--wire bfloat16 || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
	trained "$BATS_TEST_TMPDIR/out" 5 4
}

@test "a group of some ranks finds its own plan in a job" {
	cat >"$BATS_TEST_TMPDIR/groups.py" <<'EOF'
import torch, torch.distributed as dist, ddl.torch
dist.init_process_group("ddl")
rank, ranks = dist.get_rank(), dist.get_world_size()
for members in ([0, 1], [1, 2, 3], [0, 3]):
    group = dist.new_group(members)
    if rank in members:
        t = torch.full((100000,), float(rank))
        dist.all_reduce(t, group=group)
        assert t[99999].item() == sum(members)
dist.barrier()
if rank == 0:
    print("all groups are well")
EOF
	srun -N4 --mpi=pmix --ddl=multiring "$PYTHON" "$BATS_TEST_TMPDIR/groups.py" | tee "$BATS_TEST_TMPDIR/out"
	grep -q "all groups are well" "$BATS_TEST_TMPDIR/out"
}

@test "a rank that is killed does not leave the others hanging" {
	cat >"$BATS_TEST_TMPDIR/death.py" <<'EOF'
import os, signal, torch, torch.distributed as dist, ddl.torch
dist.init_process_group("ddl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
ddl.torch.comm_hook(model)
for step in range(5):
    if step == 2 and dist.get_rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        model(torch.randn(2, 100)).sum().backward()
    except RuntimeError as e:  # through the C++ of autograd
        print("survivor:", str(e).splitlines()[0], flush=True)
        break
EOF
	srun -N4 --mpi=pmix --ddl=multiring --kill-on-bad-exit=0 "$PYTHON" "$BATS_TEST_TMPDIR/death.py" >"$BATS_TEST_TMPDIR/out" 2>&1 ||
		true
	cat "$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '^survivor: .*rank 2 on node' "$BATS_TEST_TMPDIR/out")" = 3 ]
}
