#!/bin/sh
# `import mcp` against real servers: four from the npm index (one of them over streamable HTTP too) and three from the Python
# index, pinned, installed into a temporary folder that goes with the test. Needs node, npm and python3.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
http=
finish() {
    if [ -n "$http" ]; then kill "$http" 2>/dev/null || true; fi
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
cargo build --quiet --package toolgauge-cli
gauge=${CARGO_TARGET_DIR:-target}/debug/toolgauge
case "$gauge" in /*) ;; *) gauge=$PWD/$gauge ;; esac

echo "test-live: installing seven servers into $folder" >&2
npm install --silent --no-audit --no-fund --prefix "$folder/npm" \
    @modelcontextprotocol/server-everything@2026.8.31 \
    @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/server-memory@2026.8.31 \
    @modelcontextprotocol/server-sequential-thinking@2026.8.31
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    mcp-server-fetch==2026.10.24 mcp-server-git==2026.10.19 mcp-server-time==2026.10.19

mkdir "$folder/docs"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
PORT=$port "$folder/npm/node_modules/.bin/mcp-server-everything" streamableHttp >"$folder/http.log" 2>&1 &
http=$!
python3 - "$port" <<'END' || { cat "$folder/http.log" >&2; exit 1; }
import socket, sys, time
for _ in range(300):
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1).close()
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("the server over HTTP did not start")
END

cat >"$folder/servers.json" <<END
{
  "mcpServers": {
    "everything": {"command": "\${SERVERS}/npm/node_modules/.bin/mcp-server-everything", "args": ["stdio"]},
    "everything_http": {"type": "http", "url": "http://127.0.0.1:$port/mcp"},
    "filesystem": {"command": "\${SERVERS}/npm/node_modules/.bin/mcp-server-filesystem", "args": ["\${SERVERS}/docs"]},
    "memory": {
      "command": "\${SERVERS}/npm/node_modules/.bin/mcp-server-memory",
      "env": {"MEMORY_FILE_PATH": "\${SERVERS}/docs/memory.json"}
    },
    "thinking": {"command": "\${SERVERS}/npm/node_modules/.bin/mcp-server-sequential-thinking"},
    "fetch": {"command": "\${SERVERS}/venv/bin/mcp-server-fetch"},
    "git": {"command": "\${SERVERS}/venv/bin/mcp-server-git"},
    "time": {"command": "\${SERVERS}/venv/bin/mcp-server-time", "args": ["--local-timezone", "UTC"]}
  }
}
END
SERVERS=$folder "$gauge" import mcp "$folder/servers.json" --out "$folder/live" >"$folder/report"
cat "$folder/report"
# A snapshot of the same servers is the same dataset, and a run needs no server.
SERVERS=$folder "$gauge" import mcp "$folder/servers.json" --out "$folder/again" >/dev/null 2>&1
diff -r "$folder/live" "$folder/again"
python3 - "$folder" <<'END'
import json, pathlib, sys
live = pathlib.Path(sys.argv[1], "live")
servers = [json.loads(line) for line in (live / "servers.jsonl").open()]
tools = {path.stem: [json.loads(line) for line in path.open()] for path in (live / "tools").iterdir()}
expected = ["everything", "everything_http", "filesystem", "memory", "thinking", "fetch", "git", "time"]
assert [server["server"] for server in servers] == expected, servers
for server in servers:
    said = server["mcp"]
    assert said["name"] and said["version"] and said["protocol"] >= "2024-11-05", server
    assert tools[server["server"]], server
assert len(tools["filesystem"]) >= 10 and len(tools["git"]) >= 10, "suspiciously few tools"
names = lambda server: sorted(tool["name"] for tool in tools[server])
assert names("everything") == names("everything_http"), "stdio and HTTP list different tools"
assert any("annotations" in tool for tool in tools["filesystem"]), "annotations are lost"
assert not any(key in tool for list in tools.values() for tool in list for key in ("outputSchema", "_meta"))
assert sys.argv[1] not in "".join(path.read_text() for path in live.rglob("*.jsonl")), "a value of the configuration is stored"
print(f"live servers: {len(servers)} servers, {sum(map(len, tools.values()))} tools, protocols {sorted({server['mcp']['protocol'] for server in servers})}")
END
