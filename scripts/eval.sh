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
#   $1 folder, $2 experiment file, the rest: flags of both
run_or_resume() {
    folder=$1
    experiment=$2
    shift 2
    if [ -f "$folder/manifest.json" ]; then
        "$gauge" run --resume "$folder" "$@"
    else
        case "$experiment" in
            *model*) "$gauge" run --config "$experiment" --out "$folder" --budget "$budget" "$@" ;;
            *) "$gauge" run --config "$experiment" --out "$folder" "$@" ;;
        esac
    fi
}

retrieval=runs/eval-retrieval
if [ "$fresh" = yes ]; then
    rm -rf runs/eval-*
fi

say "Retrieval alone, no model:"
if [ -f "$retrieval/manifest.json" ] || python3 scripts/embeddings.py; then
    run_or_resume "$retrieval" scripts/eval-retrieval.toml
else
    say "Without dense, whose vectors cannot be had:"
    run_or_resume "$retrieval" scripts/eval-retrieval.toml --strategies random,bm25,bm25:words.stem=true,bm25f,linear-scan
fi

if [ -n "${OPENAI_BASE_URL:-}" ] && [ -n "${TOOLGAUGE_MODEL:-}" ]; then
    folder=runs/eval-$(printf '%s %s' "$OPENAI_BASE_URL" "$TOOLGAUGE_MODEL" | cksum | cut -d' ' -f1)
    say "With $TOOLGAUGE_MODEL at the endpoint in OPENAI_BASE_URL, at most ${TOOLGAUGE_MAX_TOKENS:-500000} tokens:"
    run_or_resume "$folder" scripts/eval-model.toml --max-tokens "${TOOLGAUGE_MAX_TOKENS:-500000}"
else
    folder=runs/eval-local
    # A plan whose answers are all stored needs no server.
    if [ -f "$folder/manifest.json" ] && grep -q '"how": "complete"' "$folder/manifest.json"; then
        say "With the local model (stored answers; --fresh measures again):"
        "$gauge" run --resume "$folder" --offline
    elif [ -f "$folder/manifest.json" ]; then
        say "With the local model (going on with an unfinished run):"
        python3 scripts/local_model.py with -- "$gauge" run --resume "$folder"
    else
        say "With a local model:"
        python3 scripts/local_model.py with -- \
            "$gauge" run --config scripts/eval-model.toml --out "$folder" --budget "$budget"
    fi
fi

cat >&2 <<END

Reports: $retrieval/report and $folder/report (Markdown, plots, CSV, Parquet).
Go on:   $gauge show $folder <query>        one query, turn by turn
         $gauge run --help                  your dataset, your strategies, your endpoint
         OPENAI_BASE_URL=… TOOLGAUGE_MODEL=… OPENAI_API_KEY=… ./just eval
END
