#!/bin/sh
# Certificates: a server whose authority nobody knows is refused; SSL_CERT_FILE and SSL_CERT_DIR make it known, for the name that its
# certificate is of and for no other. Nothing leaves the machine. Needs openssl and python3; Linux (elsewhere the system verifies).
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
if [ -z "${TOOLGAUGE_BIN:-}" ]; then cargo build --quiet --package toolgauge-cli; fi
gauge=${TOOLGAUGE_BIN:-${CARGO_TARGET_DIR:-target}/debug/toolgauge}
key=sk-tls-3f9c2a7be1d84c55

new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
# shellcheck disable=SC2086
openssl req -x509 $new_key -days 2 -subj /CN=authority -keyout "$folder/ca.key" -out "$folder/ca.pem" 2>/dev/null
# shellcheck disable=SC2086
openssl req $new_key -subj /CN=server -keyout "$folder/server.key" -out "$folder/server.csr" 2>/dev/null
printf 'subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n' >"$folder/extensions"
openssl x509 -req -in "$folder/server.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -CAcreateserial -days 2 \
    -extfile "$folder/extensions" -out "$folder/server.pem" 2>/dev/null
mkdir "$folder/roots"
cp "$folder/ca.pem" "$folder/roots/"

cat >"$folder/server.py" <<'END'
import http.server, json, ssl, sys
folder = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        with open(folder + "/asked", "a") as asked:
            asked.write(self.headers.get("Authorization", "") + "\n")
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.answer({"data": [{"id": "m"}]})
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer({"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": 9, "completion_tokens": 1}})
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/server.pem", folder + "/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
with open(folder + "/port.new", "w") as port:
    port.write(str(server.server_address[1]))
import os
os.rename(folder + "/port.new", folder + "/port")
server.serve_forever()
END
python3 "$folder/server.py" "$folder" 2>/dev/null &
server=$!
tries=0
until [ -f "$folder/port" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "test-live: the TLS server did not start" >&2; exit 1; }
    sleep 0.1
done
port=$(cat "$folder/port")

# Asks the host $1; the code that it ended with. The environment before it decides whom to trust.
ask() {
    rm -f "$folder/asked" "$folder/profile.toml"
    code=0
    OPENAI_API_KEY=$key "$gauge" doctor --base-url "https://$1:$port/v1" --model m --budget 20s -o "$folder/profile.toml" \
        >"$folder/said" 2>&1 || code=$?
    if grep -q "$key" "$folder/said"; then echo "test-live: the key was printed" >&2; exit 1; fi
}
refused() {
    if [ "$code" -ne 4 ] || ! grep -qi certificate "$folder/said" || [ -f "$folder/asked" ]; then
        echo "test-live: $1 was not refused (code $code):" >&2
        cat "$folder/said" >&2
        exit 1
    fi
}
accepted() {
    if [ "$code" -ne 0 ] || ! grep -qx "Bearer $key" "$folder/asked"; then
        echo "test-live: $1 was not accepted (code $code):" >&2
        cat "$folder/said" >&2
        exit 1
    fi
}
unset SSL_CERT_FILE SSL_CERT_DIR
if [ -f /etc/ssl/certs/ca-certificates.crt ] || [ -f /etc/pki/tls/certs/ca-bundle.crt ]; then
    ask localhost
    refused "an unknown authority"
fi
export SSL_CERT_FILE="$folder/ca.pem"
ask localhost
accepted "the authority in SSL_CERT_FILE"
ask 127.0.0.1
refused "a certificate of another name"
unset SSL_CERT_FILE
export SSL_CERT_DIR="$folder/roots"
ask localhost
accepted "the authority in SSL_CERT_DIR"
echo "live TLS: refused what is unknown or of another name, accepted what SSL_CERT_FILE and SSL_CERT_DIR name"
