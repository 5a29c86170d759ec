#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# train.sh - train.c as a batch job:    make -C examples/darknet && sbatch --ddl=multiring examples/darknet/train.sh [EPOCHS]
#
# FOLDER names the images (default: digits beside this script; made where it is missing); all nodes must see it. PYTHON names
# another interpreter than python3. Slurm runs a copy of this script, so the program is found by where it was submitted.
#SBATCH --job-name=darknet --nodes=4 --ntasks-per-node=1
set -euo pipefail
script=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\([^ ]*\).*/\1/p')
here=$(dirname "$script")
folder=${FOLDER:-$here/digits}
[ -e "$folder/train.list" ] || "${PYTHON:-python3}" "$here/digits.py" "$folder"
exec srun --mpi=pmix "$here/train" "$here/digits.cfg" "$folder" "$@"
