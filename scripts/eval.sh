#!/bin/sh
# `just eval`: a real result without a key and without a choice.
#
#   --fresh    forget earlier plans and answers of this command and start over
#   --budget T time for the model-driven part, default 10m
set -eu
cd "$(dirname "$0")/.."

budget=10m
fresh=no
while [ $# -gt 0 ]; do
    case "$1" in
        --fresh) fresh=yes ;;
        --budget) shift; budget=${1:?--budget needs a time such as 10m} ;;
        *) echo "eval: unknown option $1; known: --fresh, --budget TIME" >&2; exit 2 ;;
    esac
    shift
done

say() { printf '\n%s\n' "$*" >&2; }

gauge=${CARGO_TARGET_DIR:-target}/debug/toolgauge
if [ ! -x "$gauge" ]; then
    say "Building toolgauge (first time only: about five minutes on two cores, half of it polars) …"
fi
cargo build --quiet --package toolgauge-cli

# Runs a plan, or goes on with it: the first call writes it, later ones reuse it.
#   $1 folder, the rest: arguments of the first call
run_or_resume() {
    folder=$1
    shift
    if [ -f "$folder/manifest.json" ]; then
        "$gauge" run --resume "$folder"
    else
        "$gauge" run --out "$folder" "$@"
    fi
}

retrieval=runs/eval-retrieval
if [ "$fresh" = yes ]; then
    rm -rf runs/eval-*
fi

say "Retrieval alone, no model:"
run_or_resume "$retrieval" --name eval-retrieval --dataset datasets/data/atlas --strategies random,bm25,bm25:words.stem=true \
    --reference bm25

strategies=oracle,eager,bm25-llm:k=5,skill-pick:max_skills=1:bodies=false
common="--dataset datasets/data/atlas --sizes 150 --strategies $strategies --reference bm25-llm:k=5 --budget $budget"

if [ -n "${OPENAI_BASE_URL:-}" ] && [ -n "${TOOLGAUGE_MODEL:-}" ]; then
    folder=runs/eval-$(printf '%s %s' "$OPENAI_BASE_URL" "$TOOLGAUGE_MODEL" | cksum | cut -d' ' -f1)
    say "With $TOOLGAUGE_MODEL at the endpoint in OPENAI_BASE_URL, at most 500,000 tokens:"
    # shellcheck disable=SC2086
    run_or_resume "$folder" --name eval-hosted $common --max-tokens 500000
else
    folder=runs/eval-local
    # A plan whose answers are all stored needs no server.
    if [ -f "$folder/manifest.json" ] && grep -q '"how": "complete"' "$folder/manifest.json"; then
        say "With the local model (stored answers; --fresh measures again):"
        "$gauge" run --resume "$folder" --offline
    else
        say "With a local model:"
        if [ -f "$folder/manifest.json" ]; then
            python3 scripts/local_model.py with -- "$gauge" run --resume "$folder"
        else
            # shellcheck disable=SC2086
            python3 scripts/local_model.py with -- "$gauge" run --out "$folder" --name eval-local $common
        fi
    fi
fi

cat >&2 <<END

Reports: $retrieval/report and $folder/report (Markdown, plots, CSV, Parquet).
Go on:   $gauge show $folder <query>        one query, turn by turn
         $gauge run --help                  your dataset, your strategies, your endpoint
         OPENAI_BASE_URL=… TOOLGAUGE_MODEL=… OPENAI_API_KEY=… ./just eval
END
