"""Runs llama.cpp's HTTP server; started by ../local_model.py inside the venv that holds xllamacpp.

The settings arrive as one JSON argument, the API key in the environment: an argument list is visible to
every user of the machine, an environment only to its owner.
"""
import ctypes
import json
import os
import signal
import sys
import threading
import time

KEY_VARIABLE = "TOOLGAUGE_LOCAL_MODEL_KEY"


def end_with_parent(parent):
    """Leave nothing running when the parent is gone, even when it was killed and could not tell us."""
    if sys.platform.startswith("linux"):
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)

    def watch():
        # Everywhere, not only where prctl is missing: it also covers a parent that died before prctl ran.
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main():
    config = json.loads(sys.argv[1])
    key = os.environ.pop(KEY_VARIABLE)
    end_with_parent(config["parent"])
    # The server holds nothing worth saving, and a shutdown in order would wait for a running generation.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = config["model"]
    params.model_alias = {config["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = config["port"]
    params.api_keys = [key]
    params.n_ctx = config["ctx"]
    params.n_parallel = 1  # llama.cpp divides the context among slots; with one, a request gets all of it
    params.cpuparams.n_threads = config["threads"]
    params.cpuparams_batch.n_threads = config["threads"]
    params.cpuparams.poll = 0  # busy waiting would take cores from the command that we serve
    params.cpuparams_batch.poll = 0
    params.use_jinja = True
    if config["template"]:
        with open(config["template"], encoding="utf-8") as handle:
            params.chat_template = handle.read()
    # Prompts that leave the slot are kept in memory, so that strategies that take turns do not make the server
    # read the same tool definitions again each time.
    params.cache_prompt = True
    params.cache_ram_mib = config["cache_ram_mib"]
    params.ctx_shift = False  # an overlong prompt must be refused, not silently cut
    params.ui = False
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
