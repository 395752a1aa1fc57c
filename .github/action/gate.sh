#!/usr/bin/env bash
# Runs the gate and keeps its exit code for the last step, so that the steps between can report the results.
set -euo pipefail

read -ra arguments <<< "${ARGUMENTS:-}"
code=0
result=${RUNNER_TEMP:?}/warpproof-gate.json
warpproof gate "${TASK:?}" ${arguments[@]+"${arguments[@]}"} --ledger "${LEDGER:?}" --json > "$result" || code=$?
cat "$result"
# The run that contains the verdicts; a ledger may contain runs of other tasks, too. Without a run there is nothing to report.
run=$(sed -n 's/^  "run": "\([^"]*\)",*$/\1/p' "$result")
echo "run=$run" >> "${GITHUB_OUTPUT:?}"
echo "exit-code=$code" >> "$GITHUB_OUTPUT"
echo "warpproof gate ended with $code"
