#!/bin/sh
# Tests against the real local model: provisions it (1.1 GB once), starts it behind its server, runs a small plan, and checks
# that the answers were usable, that they are stored, and that a second pass needs no server. Before it, the test of certificates.
set -eu
cd "$(dirname "$0")/.."
sh scripts/test-live-tls.sh
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

# Static embeddings on MetaTool: recall@5 about .73 where BM25 has .55, measured once by another implementation of both.
if [ -d "${TOOLGAUGE_DATA:-}/public/metatool" ]; then
    python3 scripts/embeddings.py
    "$gauge" import metatool "$TOOLGAUGE_DATA/public/metatool" -o "$folder/metatool" >/dev/null
    "$gauge" run -d "$folder/metatool" -s dense --out "$folder/dense" >/dev/null
    python3 - "$folder/dense" <<'END'
import json, sys
row = json.load(open(sys.argv[1] + "/report/summary.json"))["sizes"][0]["rows"][0]
recall = row["retrieval"]["means"]["recall@5"]
assert abs(recall - 0.735) < 0.015, recall
print(f"dense on MetaTool: recall@5 {recall:.3f}")
END
fi
