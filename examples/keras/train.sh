#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# train.sh - train.py as a batch job:    sbatch --ddl=multiring examples/keras/train.sh [ARGUMENTS OF train.py]
#
# PYTHON names another interpreter than python3. Slurm runs a copy of this script, so train.py is found by where it was submitted.
#SBATCH --job-name=keras --nodes=4 --ntasks-per-node=1
set -euo pipefail
script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\([^ ]*\).*/\1/p')
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
exec srun --mpi=pmix "${PYTHON:-python3}" "$(dirname "$script")/train.py" "$@"
