//! What the tests share: the binary, the dataset of the project, and readers of run folders.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::episode::Episode;
use harness::ids::Digest;
use harness::run::dir::StoredRun;
use harness::store::responses::Request;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The first slice of atlas, kept beside the run that was made with it: small, and it does not change.
pub(crate) fn atlas() -> PathBuf {
    root().join("reports/published/2026-11-30-local-1.5b/dataset")
}

/// The binary in a folder of its own, without the caller's endpoint settings.
pub(crate) fn toolgauge(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgauge"));
    command.current_dir(dir).env("NO_COLOR", "1").env("COLUMNS", "110");
    for name in ["OPENAI_BASE_URL", "OPENAI_API_KEY", "TOOLGAUGE_MODEL", "TOOLGAUGE_PROFILE", "TOOLGAUGE_LOG"] {
        command.env_remove(name);
    }
    for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"] {
        command.env_remove(name);
    }
    command
}

/// Runs the command line; the exit code, standard output and standard error.
pub(crate) fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    outcome(&toolgauge(dir).args(args).output().unwrap())
}

pub(crate) fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Runs the command line and insists that it succeeds; its standard output.
pub(crate) fn run_ok(dir: &Path, args: &[&str]) -> String {
    let (code, out, err) = run(dir, args);
    assert_eq!(code, 0, "{args:?}\n{out}\n{err}");
    out
}

/// Episodes of a run without their times, in plan order.
pub(crate) fn episodes(run: &Path) -> Vec<Episode> {
    StoredRun::read(run).unwrap().episodes.into_iter().map(Episode::without_times).collect()
}

/// The identity in [`write_profile`]. It stays the same where a run meets a server on another port.
const ENDPOINT: &str = "test-endpoint";

/// Writes `profile.toml`, of the model `m`.
pub(crate) fn write_profile(dir: &Path, concurrency: usize) {
    let profile = format!("version = 1\nid = \"{ENDPOINT}\"\nmodel = \"m\"\nconcurrency = {concurrency}\n");
    std::fs::write(dir.join("profile.toml"), profile).unwrap();
}

/// The key of a chat request in the store of a run with that profile and no repeats.
pub(crate) fn request_key(body: &serde_json::Value) -> Digest {
    let (route, endpoint) = ("chat/completions".to_owned(), ENDPOINT.to_owned());
    Request { route, endpoint, repeat: 0, body: body.clone() }.key()
}

/// A copy of the atlas dataset that a test may spoil.
pub(crate) fn atlas_copy(dir: &Path) -> PathBuf {
    let copy = dir.join("atlas");
    std::fs::create_dir_all(copy.join("tools")).unwrap();
    for sub in ["", "tools"] {
        for entry in std::fs::read_dir(atlas().join(sub)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), copy.join(sub).join(entry.file_name())).unwrap();
            }
        }
    }
    copy
}
