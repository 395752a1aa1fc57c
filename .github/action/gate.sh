#!/usr/bin/env bash
# Runs the gate and keeps its exit code for the last step: what it found is still to be reported.
set -euo pipefail

read -ra arguments <<< "${ARGUMENTS:-}"
code=0
judged=${RUNNER_TEMP:?}/warpproof-gate.json
warpproof gate "${TASK:?}" ${arguments[@]+"${arguments[@]}"} --ledger "${LEDGER:?}" --json > "$judged" || code=$?
cat "$judged"
# The run that holds the verdicts; a ledger may hold other tasks' too. Without one there is nothing to report.
run=$(sed -n 's/^  "run": "\([^"]*\)",*$/\1/p' "$judged")
echo "run=$run" >> "${GITHUB_OUTPUT:?}"
echo "exit-code=$code" >> "$GITHUB_OUTPUT"
echo "warpproof gate ended with $code"
