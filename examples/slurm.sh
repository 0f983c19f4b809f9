#!/usr/bin/env bash
# Two nodes of four GPUs. Slurm sends SIGTERM before it ends a job: the run is saved then, and the next job continues it.
#SBATCH --job-name=tinygpt
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
set -euo pipefail

run=${RUN:-$PWD/runs/mega-1}
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
if [[ -d $run ]]; then
  what=(--resume "$run")
else
  what=(--preset mega --data shakespeare-full --out "$run")
fi
srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 4 \
  --rdzv-backend c10d --rdzv-endpoint "$head:29500" --rdzv-id "$SLURM_JOB_ID" \
  -m tinygpt train "${what[@]}" --device cuda --compile
