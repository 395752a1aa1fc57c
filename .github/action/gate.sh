#!/usr/bin/env bash
# Runs the gate and keeps its exit code for the last step: what it found is still to be reported.
set -euo pipefail

read -ra arguments <<< "${ARGUMENTS:-}"
code=0
warpproof gate "${TASK:?}" ${arguments[@]+"${arguments[@]}"} --ledger "${LEDGER:?}" || code=$?
echo "exit-code=$code" >> "${GITHUB_OUTPUT:?}"
echo "warpproof gate ended with $code"
