#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# job.sh - an example as a batch job:    make -C examples/c && sbatch --ddl=multiring examples/c/job.sh [minimal|persistent|overlap]
#
# Slurm runs a copy of this script, so the programs are found by where it was submitted.
#SBATCH --job-name=ddl-example --nodes=4 --ntasks-per-node=1
set -euo pipefail
script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\([^ ]*\).*/\1/p')
exec srun --mpi=pmix "$(dirname "$script")/${1:-overlap}"
