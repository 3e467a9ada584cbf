#!/bin/sh
# The project's own regression gate.
#
#   --write  renews the baseline; commit it with the change that moved it
#   --built  takes the command as the tests have just built it; building it alone, with fewer features, would take minutes more
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ "${1:-}" != --built ]; then
    cargo build --quiet --package toolgauge-cli
fi
"${CARGO_TARGET_DIR:-target}"/debug/toolgauge run --dataset datasets/data/atlas --strategies bm25 --split all --queries scaling --sizes 50,100,150 \
    --out "$folder/run" >/dev/null 2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
if [ "${1:-}" = --write ]; then
    "${CARGO_TARGET_DIR:-target}"/debug/toolgauge gate "$folder/run" --baseline reports/baselines/atlas-bm25.json --write
else
    "${CARGO_TARGET_DIR:-target}"/debug/toolgauge gate "$folder/run" --baseline reports/baselines/atlas-bm25.json --exact
fi
