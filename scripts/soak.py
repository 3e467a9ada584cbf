#!/usr/bin/env python3
"""A long run in bad weather: tens of thousands of episodes against the mock, one request in five in trouble (soak.toml).

    python3 scripts/soak.py [--episodes 20000] [--in-flight 64] [--keep]

What is checked: every planned episode ends with a named outcome; something happens at least every two minutes; memory does not
grow while the model is asked; the attempts that the run recorded are the requests in the mock's log, one for one. Exits with 1 if
anything of this is not so. Builds the release binaries; Python's standard library is enough. Linux, for /proc.
"""
import argparse
import collections
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "soak.toml"
DATASET = ROOT / "datasets" / "data" / "atlas"
SIZES = [150, 500]
STRATEGIES = [
    ("bm25-llm", {"k": 1}),
    ("bm25-llm", {"k": 3}),
    ("skill-pick", {"max_skills": 1, "bodies": False, "prefilter_above": 30}),
]
STALL_S = 120
TIMEOUT_S = 10
MIB = 1 << 20
# Memory is flat if, over the last three quarters of the time in which the model is asked, the line through the samples rises by no
# more than the larger of these, and no sample lies above the mean by more than twice that.
FLAT_MIB, FLAT_SHARE = 16, 0.05
# Of the requests that met a fault.
SHARE, SHARE_TOLERANCE = 0.20, 0.02
OUTCOMES = {"completed", "no_selection", "not_runnable", "truncated", "filtered", "limit", "failed"}


def say(*words):
    print(*words, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--episodes", type=int, default=20_000, metavar="N", help="at least so many (default 20000)")
    parser.add_argument("--in-flight", type=int, default=64, metavar="N", help="requests at a time (default 64)")
    parser.add_argument("--growth", type=float, default=0, metavar="KIB",
                        help="memory that an episode may cost for good and still count as flat (default 0)")
    parser.add_argument("--keep", action="store_true", help="keep the run and the log; kept anyway if a check fails")
    args = parser.parse_args()
    if args.episodes < 1 or args.in_flight < 1:
        parser.error("--episodes and --in-flight are at least 1")
    return args


def plan_of(episodes):
    """Repeats and sample that give at least so many episodes; a sample of None is every query."""
    with open(DATASET / "queries.jsonl", encoding="utf-8") as lines:
        queries = [json.loads(line) for line in lines]
    asked = sum(1 for query in queries if query.get("split") == "test" and query.get("scaling"))
    per_query = len(SIZES) * len(STRATEGIES)
    if episodes >= asked * per_query:
        return math.ceil(episodes / (asked * per_query)), None
    return 1, math.ceil(episodes / per_query)


def write_experiment(folder, episodes, in_flight):
    repeats, sample = plan_of(episodes)
    (folder / "profile.toml").write_text(
        f'version = 1\nid = "soak"\nmodel = "mock"\nconcurrency = {in_flight}\nadaptive = false\n', encoding="utf-8")
    lines = ['name = "soak"', f"dataset = {json.dumps(str(DATASET))}", f"sizes = {SIZES}", 'queries = "scaling"',
             f"repeats = {repeats}"]
    if sample is not None:
        lines.append(f"sample = {sample}")
    lines += ["[endpoint]", 'profile = "profile.toml"', f"timeout_s = {TIMEOUT_S}"]
    for kind, params in STRATEGIES:
        given = ", ".join(f"{name} = {json.dumps(value)}" for name, value in params.items())
        label = f"{kind} {next(iter(params))}={next(iter(params.values()))}"
        lines += ["[[strategy]]", f'kind = "{kind}"', f'label = "{label}"', f"params = {{ {given} }}"]
    path = folder / "experiment.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Server:
    """The mock with the script, and its log in a file."""

    def __init__(self, binary, log):
        self.process = subprocess.Popen([binary, "--script", SCRIPT, "--log", log], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http"):
            self.process.wait()
            sys.exit("soak: the mock did not start")

    def stop(self):
        """Ends it in order, so that the log is whole; what it has to complain of."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "the mock did not stop"
        return None if code == 0 else f"the mock ended with {code}: lines of its log may be missing"


def rss(pid):
    """Resident memory in bytes; None once the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def sizes_of(run):
    """Bytes of everything a run writes: whatever it does, these change."""
    total = 0
    for folder, _, names in os.walk(run):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except OSError:
                pass
    return total


class Lines:
    """Counts the lines of a growing file without reading any twice."""

    def __init__(self, path):
        self.path, self.offset, self.count = path, 0, 0

    def update(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                new = file.read()
        except FileNotFoundError:
            return 0
        self.offset += len(new)
        self.count += new.count(b"\n")
        return self.count


def watch(process, run):
    """Samples once a second until the process ends: seconds, memory, episodes. Whether it stalled, in which case it was ended."""
    samples, episodes = [], Lines(run / "episodes.jsonl")
    started = progress = said = time.monotonic()
    size = 0
    while process.poll() is None:
        time.sleep(1)
        now = time.monotonic()
        memory = rss(process.pid)
        if memory is not None:
            samples.append((now - started, memory, episodes.update()))
        if (found := sizes_of(run)) != size:
            size, progress = found, now
        if now - progress > STALL_S:
            process.kill()
            process.wait()
            return samples, True
        if now - said >= 30 and samples:
            said = now
            say(f"  {samples[-1][0]:6.0f} s  {samples[-1][2]:>7,} episodes  {samples[-1][1] / MIB:7.1f} MiB")
    return samples, False


def slope(points):
    """Least squares: how much y rises per x."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def flatness(samples, growth_kib=0):
    """A line of words on memory, and what is wrong with it if anything is. `samples` as of `watch`, of the asking alone."""
    if len(samples) < 20:
        return f"memory: {len(samples)} samples are too few to say anything", None
    start = samples[0][0] + (samples[-1][0] - samples[0][0]) / 4
    late = [sample for sample in samples if sample[0] >= start]
    seconds, episodes = late[-1][0] - late[0][0], late[-1][2] - late[0][2]
    mean, most = sum(memory for _, memory, _ in late) / len(late), max(memory for _, memory, _ in late)
    rise = slope([(at, memory) for at, memory, _ in late]) * seconds
    allowed = max(FLAT_MIB * MIB, FLAT_SHARE * mean) + growth_kib * 1024 * episodes
    per_episode = rise / 1024 / episodes if episodes else 0.0
    words = (f"memory: mean {mean / MIB:.1f} MiB, most {most / MIB:.1f} MiB, trend {rise / MIB:+.1f} MiB over {seconds:.0f} s and "
             f"{episodes:,} episodes ({per_episode:+.2f} KiB each); flat is a trend up to {allowed / MIB:.1f} MiB and a maximum up to "
             f"{(mean + 2 * allowed) / MIB:.1f} MiB")
    if rise > allowed:
        return words, f"memory grows by {rise / MIB:.1f} MiB, {allowed / MIB:.1f} MiB are allowed"
    if most > mean + 2 * allowed:
        return words, f"memory peaks at {most / MIB:.1f} MiB over a mean of {mean / MIB:.1f} MiB"
    return words, None


def label(outcome):
    """The name of an outcome as in tables."""
    detail = outcome.get("why") or outcome.get("which") or outcome.get("error")
    return f"{outcome['kind']}({detail})" if detail else outcome["kind"]


def read_lines(path):
    """Whole lines; what was ended in the middle of one leaves half of it."""
    with open(path, "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield json.loads(line)


def check_episodes(run, violations):
    """Every job once, with an outcome that has a name."""
    planned = [job["key"] for job in read_lines(run / "plan.jsonl")]
    seen, outcomes = collections.Counter(), collections.Counter()
    for episode in read_lines(run / "episodes.jsonl"):
        seen[episode["job"]] += 1
        outcome = episode["outcome"]
        outcomes[label(outcome)] += 1
        if outcome.get("kind") not in OUTCOMES or (outcome["kind"] == "failed" and not outcome.get("error")):
            violations.append(f"an outcome without a name: {outcome}")
        if episode["leaks"]:
            violations.append(f"episode {episode['job']} leaks")
    missing = [key for key in planned if key not in seen]
    if missing:
        violations.append(f"{len(missing)} of {len(planned)} planned episodes have no record, the first is {missing[0]}")
    if len(seen) != sum(seen.values()) or set(seen) - set(planned):
        violations.append("episodes are recorded twice, or were never planned")
    say(f"episodes: {len(seen):,} of {len(planned):,}")
    for name, count in outcomes.most_common():
        say(f"  {count:>8,}  {name}")


def check_store(run, violations):
    """Attempts that the run recorded, failed ones and all, and the tokens of answers that could not be used."""
    attempts = failed = answers = 0
    kinds, open_keys = collections.Counter(), set()
    for line in read_lines(run / "responses.jsonl"):
        record = line["rec"]
        kind = record.get("type")
        if kind == "intent":
            open_keys.add(record["key"])
        elif kind == "response":
            failures = record["response"].get("failed", [])
            answers += 1
            attempts += 1 + len(failures)
            failed += len(failures)
        elif kind == "failure":
            failures = record["attempts"]
            attempts += len(failures)
            failed += len(failures)
        elif kind == "refusal":
            # Its failed attempts are counted and not described.
            failures = [record["refusal"]["error"]]
            attempts += record["refusal"]["attempts"]
            failed += record["refusal"]["attempts"]
        if kind in ("response", "failure", "refusal"):
            open_keys.discard(record["key"])
            kinds.update(failure["kind"] for failure in failures)
    if open_keys:
        violations.append(f"{len(open_keys)} requests were written down and have no end")
    finish = json.loads((run / "manifest.json").read_text(encoding="utf-8")).get("finish") or {}
    if finish.get("failed_attempts") != failed or finish.get("possibly_billed") != len(open_keys):
        violations.append(f"the manifest says {finish}, the store {failed} failed attempts and {len(open_keys)} open requests")
    if finish.get("how") not in ("complete", "complete with failures"):
        violations.append(f"the run is {finish.get('how')!r} and not complete")
    say(f"attempts: {attempts:,} recorded, {failed:,} failed; {answers:,} answers kept")
    for name, count in kinds.most_common():
        say(f"  {count:>8,}  {name}")
    return attempts, finish.get("wasted_tokens", 0)


def check_log(log, attempts, counted, in_flight, violations):
    """The server's own word on the same; `counted` are the tokens of answers that could not be used."""
    requests = struck = most = wasted = wasted_tokens = 0
    faults = collections.Counter()
    script = SCRIPT.read_text(encoding="utf-8")
    names = set(re.findall(r'name = "([^"]+)"', script))
    # The model had answered, and nobody could use it. Of an answer that was cut nobody can read what it used either.
    cut, useless = (set(re.findall(r'name = "([^"]+)".*' + what, script)) for what in (r"damage = \{.*after", r"shape\.choices"))
    for entry in read_lines(log):
        if not entry["path"].endswith("/chat/completions"):
            violations.append(f"a request to {entry['path']}")
            continue
        requests += 1
        most = max(most, entry["in_flight"])
        faults.update(entry["faults"])
        struck += bool(entry["faults"])
        if entry["status"] == 200 and (cut | useless).intersection(entry["faults"]):
            wasted += 1
            wasted_tokens += 0 if cut.intersection(entry["faults"]) else entry["tokens"] or 0
        if entry["rules"]:
            violations.append(f"the server applied rules that the script does not have: {entry['rules']}")
    share = struck / requests if requests else 0.0
    say(f"server: {requests:,} requests, {100 * share:.1f} % met a fault, at most {most} in flight of {in_flight}")
    say("  " + ", ".join(f"{name} {count:,}" for name, count in faults.most_common()))
    say(f"wasted: {wasted:,} answers of the model came and could not be used; those that came whole say {wasted_tokens:,} tokens")
    if counted != wasted_tokens:
        violations.append(f"the manifest says {counted:,} wasted tokens, the server {wasted_tokens:,}")
    if requests != attempts:
        violations.append(f"{attempts:,} attempts are recorded, {requests:,} requests came")
    if requests >= 5_000 and abs(share - SHARE) > SHARE_TOLERANCE:
        violations.append(f"{100 * share:.1f} % of requests met a fault, {100 * SHARE:.0f} % are meant to")
    if requests >= 40_000 and names - set(faults):
        violations.append(f"faults that never struck: {', '.join(sorted(names - set(faults)))}")


def soak(folder, args, violations):
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release"
    experiment = write_experiment(folder, args.episodes, args.in_flight)
    run, log = folder / "run", folder / "requests.jsonl"
    server = Server(target / "toolgauge-mock", log)
    env = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "TOOLGAUGE_PROFILE")}
    env |= {"OPENAI_BASE_URL": server.url, "TOOLGAUGE_MODEL": "mock", "NO_COLOR": "1"}
    command = [target / "toolgauge", "run", "--config", experiment, "--out", run, "--max-failures", str(10 * args.episodes + 10_000)]
    say(f"running in {folder}")
    process = None
    try:
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            process = subprocess.Popen(command, env=env, stdout=out, stderr=err, cwd=ROOT)
            samples, stalled = watch(process, run)
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        trouble = server.stop()
    if stalled:
        violations.append(f"nothing happened for {STALL_S} s after {samples[-1][2] if samples else 0} episodes")
    elif process.returncode != 0:
        violations.append(f"toolgauge ended with {process.returncode}: {(folder / 'err').read_text(errors='replace')[-2000:]}")
    if trouble:
        violations.append(trouble)
    if not (run / "manifest.json").exists():
        return
    planned = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["jobs"]
    if planned < args.episodes:
        violations.append(f"{planned} episodes are planned, {args.episodes} were asked for")
    check_episodes(run, violations)
    check_log(log, *check_store(run, violations), args.in_flight, violations)
    # The report that follows reads everything at once, which is another matter.
    words, problem = flatness([sample for sample in samples if sample[2] < planned], args.growth)
    say(words)
    if problem:
        violations.append(problem)


def main():
    args = arguments()
    subprocess.run(["cargo", "build", "--release", "--package", "toolgauge-cli", "--package", "toolgauge-mock"],
                   cwd=ROOT, check=True)
    folder = Path(tempfile.mkdtemp(prefix="toolgauge-soak-"))
    violations = []
    finished = False
    try:
        soak(folder, args, violations)
        finished = True
    finally:
        if args.keep or violations or not finished:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder)
    for violation in violations:
        say(f"VIOLATION: {violation}")
    say("soak failed" if violations else "soak passed")
    return 1 if violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
