#!/bin/sh
# Tests against the real local model: provisions it (1.1 GB once), starts it behind its server, runs a small plan, and checks
# that the answers were usable, that they are stored, and that a second pass needs no server.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo build --quiet --package toolgauge-cli
gauge=${CARGO_TARGET_DIR:-target}/debug/toolgauge
python3 scripts/local_model.py with -- "$gauge" run --config scripts/eval-model.toml --out "$folder/run" --sample 2 \
    >"$folder/first"
"$gauge" run --resume "$folder/run" --offline >"$folder/second"
cmp "$folder/first" "$folder/second"
python3 - "$folder/run" <<'END'
import json, sys
episodes = [json.loads(line) for line in open(sys.argv[1] + "/episodes.jsonl")]
turns = [turn for episode in episodes for turn in episode["turns"]]
assert len(episodes) == 8, len(episodes)
assert all(episode["outcome"]["kind"] != "failed" for episode in episodes), "the server failed"
assert turns and all(turn["source"] == "reported" for turn in turns), "usage is not reported"
calls = [call for turn in turns for call in turn["calls"]]
assert any(call["verdict"]["kind"] == "valid" for call in calls), "no valid call: is the chat template in use?"
print(f"live: {len(episodes)} episodes, {len(turns)} turns, {len(calls)} calls")
END
