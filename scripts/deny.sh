#!/bin/sh
# Checks licences, sources and banned crates; gets cargo-deny into the project's cache folder if it is not on the machine.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2
root=${TOOLGAUGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/toolgauge}/cargo-deny-$version
if command -v cargo-deny >/dev/null 2>&1; then
    tool=cargo-deny
else
    tool=$root/bin/cargo-deny
    if [ ! -x "$tool" ]; then
        echo "toolgauge: installing cargo-deny $version into $root (a few minutes)" >&2
        cargo install --quiet --locked --version "$version" --root "$root" cargo-deny
    fi
fi
"$tool" check bans licenses sources
# polars must not drag in an HTTP stack of its own: one careless feature anywhere would.
if cargo tree --quiet --package toolgauge-reports --invert object_store >/dev/null 2>&1; then
    echo "toolgauge: polars pulls in object_store; see the comment at polars-io in Cargo.toml" >&2
    exit 1
fi
