#!/usr/bin/env bash
# Writes the reports of the gate's run. Without a run there are none, and the gate has printed the reason.
set -euo pipefail

if [ -z "${RUN:-}" ]; then
    echo "nothing to report: the gate stopped before it created a run"
    exit
fi
mkdir -p "${REPORTS:?}"
warpproof verify --ledger "${LEDGER:?}"
warpproof report summary --run "$RUN" --ledger "$LEDGER" --format markdown >> "${GITHUB_STEP_SUMMARY:?}"
for view in summary validation; do
    warpproof report "$view" --run "$RUN" --ledger "$LEDGER" -o "$REPORTS/$view.html"
done
warpproof report history --ledger "$LEDGER" -o "$REPORTS/history.html"
warpproof report summary --run "$RUN" --ledger "$LEDGER" --format junit -o "$REPORTS/junit.xml"
warpproof report summary --run "$RUN" --ledger "$LEDGER" --format sarif -o "$REPORTS/gate.sarif"
echo "made=true" >> "${GITHUB_OUTPUT:?}"
