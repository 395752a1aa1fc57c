#!/usr/bin/env bash
# Makes the reports of the gate's run. Without one there are none, and the gate has said why.
set -euo pipefail

if [ -z "${RUN:-}" ]; then
    echo "there is no run to report: the gate did not come so far"
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
