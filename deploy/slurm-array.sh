#!/bin/bash
# Workers as a Slurm array: sbatch --array=1-32 deploy/slurm-array.sh
# Set WARPPROOF_FLEET and WARPPROOF_FLEET_TOKEN in the environment of sbatch; compute nodes only open outgoing connections.
#SBATCH --job-name=warpproof-work
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
# Each task has a directory of its own below TMPDIR: two workers never share one.
# SIGTERM to the script ten minutes before the end: the worker finishes its current evaluations and returns the other jobs.
#SBATCH --signal=B:TERM@600
set -eu
warpproof-fleet worker --fleet "$WARPPROOF_FLEET" --jobs "${SLURM_CPUS_PER_TASK:-1}" --until-idle \
    --name "slurm-${SLURM_ARRAY_JOB_ID:-0}-${SLURM_ARRAY_TASK_ID:-0}" \
    --directory "${TMPDIR:?}/warpproof-${SLURM_ARRAY_JOB_ID:-0}-${SLURM_ARRAY_TASK_ID:-0}" &
worker=$!
trap 'kill -TERM "$worker"' TERM
# A signal ends the first `wait`, but not the worker.
wait "$worker" || wait "$worker"
