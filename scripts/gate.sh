#!/bin/sh
# The project's own regression gate. `sh scripts/gate.sh --write` renews the baseline; commit it with the change that moved it.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo build --quiet --package toolgauge-cli
"${CARGO_TARGET_DIR:-target}"/debug/toolgauge run --dataset datasets/data/atlas --strategies bm25 --split all --queries scaling --sizes 50,100,150 \
    --out "$folder/run" >/dev/null 2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
if [ "${1:-}" = --write ]; then
    "${CARGO_TARGET_DIR:-target}"/debug/toolgauge gate "$folder/run" --baseline reports/baselines/atlas-bm25.json --write
else
    "${CARGO_TARGET_DIR:-target}"/debug/toolgauge gate "$folder/run" --baseline reports/baselines/atlas-bm25.json --exact
fi
