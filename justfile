# The one list of tasks. `./just` runs it where `just` is not installed.

set shell := ["sh", "-eu", "-c"]

# A real result: the retrieval table, then a model on a sample of queries (10 minutes after the first build)
eval *ARGS:
    @sh scripts/eval.sh {{ARGS}}

# The default test suite: offline and deterministic
test:
    cargo test --workspace
    python3 -m unittest discover --start-directory scripts --quiet
    @sh scripts/gate.sh --built

# The project's own regression gate: every ranking of `bm25` on atlas against the committed baseline
gate:
    @sh scripts/gate.sh

# Formatting, lints, documentation, dependencies
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
    @sh scripts/deny.sh

# Tests against real servers of tools (npm, PyPI) and the local model: downloads 1.1 GB once, takes minutes
test-live:
    @sh scripts/test-live-mcp.sh
    @sh scripts/test-live.sh

# Twenty thousand episodes against the mock with a fifth of all requests in trouble: outcomes, memory, attempts (minutes)
soak *ARGS:
    python3 scripts/soak.py {{ARGS}}

# Lints and tests of what is built only by option: spans over OpenTelemetry
otel:
    cargo clippy -p toolgauge-cli --features otel --all-targets -- -D warnings
    cargo test -p toolgauge-cli --features otel observe

bench *ARGS:
    cargo bench --workspace {{ARGS}}
