#!/usr/bin/env bash
# Makes the reports of the newest run. Without a ledger there are none, and the gate has said why.
set -euo pipefail

if [ ! -f "${LEDGER:?}/FORMAT" ]; then
    echo "no ledger at $LEDGER: the gate did not come so far"
    exit
fi
mkdir -p "${REPORTS:?}"
warpproof verify --ledger "$LEDGER"
warpproof report summary --ledger "$LEDGER" --format markdown >> "${GITHUB_STEP_SUMMARY:?}"
for view in summary validation history; do
    warpproof report "$view" --ledger "$LEDGER" -o "$REPORTS/$view.html"
done
warpproof report summary --ledger "$LEDGER" --format junit -o "$REPORTS/junit.xml"
warpproof report summary --ledger "$LEDGER" --format sarif -o "$REPORTS/gate.sarif"
echo "made=true" >> "${GITHUB_OUTPUT:?}"
