//! The run directory: `manifest.json`, `plan.jsonl`, `episodes.jsonl`, `responses.jsonl`, and a lock.
//!
//! Episodes are plain JSON lines, flushed one by one. They can always be made again from the responses, so a line that a
//! crash left unfinished is cut off and its episode runs again, at no cost where its answers are stored.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::manifest::{Manifest, RUN_VERSION};
use super::plan::Job;
use crate::episode::{Episode, SCHEMA};
use crate::ids::JobKey;
use crate::store::log::LogError;
use crate::store::responses::ResponseStore;

/// A run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: is no run directory (it has no manifest.json)")]
    NotARun { path: PathBuf },
    #[error("{path}: exists already; resume it with --resume, or name another folder")]
    Exists { path: PathBuf },
    #[error("{path}: is not empty and no run; name a new folder")]
    NotEmpty { path: PathBuf },
    #[error("{path}: another process is working on this run; wait for it, or stop it")]
    Busy { path: PathBuf },
    #[error("{path}: format version {found} is newer than {known}, which this toolgauge reads; use a newer toolgauge")]
    Newer { path: PathBuf, found: u64, known: u32 },
    #[error("{path}:{line}: {message}; the file was changed by hand or damaged")]
    Damaged { path: PathBuf, line: usize, message: String },
    #[error(transparent)]
    Log(#[from] LogError),
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> RunDirError + '_ {
    move |source| RunDirError::Io { path: path.to_owned(), source }
}

/// A run directory open for writing. One process at a time.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    episodes: File,
    _lock: File,
}

/// A run as it stands on disk.
#[derive(Debug)]
pub struct StoredRun {
    pub path: PathBuf,
    pub manifest: Manifest,
    pub plan: Vec<Job>,
    /// In plan order; the last record of a job counts. Jobs without one are absent.
    pub episodes: Vec<Episode>,
}

impl RunDir {
    /// Creates the directory with its manifest and plan. The folder must not hold a run yet.
    pub fn create(path: &Path, manifest: &Manifest, plan: &[Job]) -> Result<Self, RunDirError> {
        if path.join("manifest.json").exists() {
            return Err(RunDirError::Exists { path: path.to_owned() });
        }
        std::fs::create_dir_all(path).map_err(io_at(path))?;
        // What a process left that died before it wrote the manifest is not in the way.
        let foreign = |name: &std::ffi::OsStr| {
            name != "lock" && name != "plan.jsonl" && name != "plan.partial" && name != "manifest.partial"
        };
        for entry in std::fs::read_dir(path).map_err(io_at(path))? {
            if foreign(&entry.map_err(io_at(path))?.file_name()) {
                return Err(RunDirError::NotEmpty { path: path.to_owned() });
            }
        }
        let lock = lock(path)?;
        if path.join("manifest.json").exists() {
            return Err(RunDirError::Exists { path: path.to_owned() });
        }
        write_lines(&path.join("plan.jsonl"), plan)?;
        // The manifest comes last: a folder with one is a whole run.
        write_manifest(path, manifest)?;
        Ok(Self { episodes: open_episodes(path)?, path: path.to_owned(), _lock: lock })
    }

    /// Opens a run to go on with it.
    pub fn resume(path: &Path) -> Result<(Self, StoredRun), RunDirError> {
        if !path.join("manifest.json").exists() {
            return Err(RunDirError::NotARun { path: path.to_owned() });
        }
        let lock = lock(path)?;
        // First: a run that is newer than this code is refused before anything in it is changed.
        let stored = StoredRun::read(path)?;
        let episodes = open_episodes(path)?;
        Ok((Self { episodes, path: path.to_owned(), _lock: lock }, stored))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the run's response store.
    pub fn responses(&self) -> Result<ResponseStore, RunDirError> {
        Ok(ResponseStore::open(&self.path.join("responses.jsonl"))?)
    }

    /// Appends a finished episode.
    pub fn add(&mut self, episode: &Episode) -> Result<(), RunDirError> {
        let mut line = serde_json::to_vec(episode).expect("plain data serialises");
        line.push(b'\n');
        self.episodes.write_all(&line).map_err(io_at(&self.path.join("episodes.jsonl")))
    }

    /// Replaces the manifest.
    pub fn update(&self, manifest: &Manifest) -> Result<(), RunDirError> {
        write_manifest(&self.path, manifest)
    }
}

impl StoredRun {
    /// Reads a run without changing it.
    pub fn read(path: &Path) -> Result<Self, RunDirError> {
        let manifest_path = path.join("manifest.json");
        let text = match std::fs::read_to_string(&manifest_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RunDirError::NotARun { path: path.to_owned() });
            }
            read => read.map_err(io_at(&manifest_path))?,
        };
        let damaged = |error: serde_json::Error| RunDirError::Damaged {
            path: manifest_path.clone(),
            line: error.line(),
            message: error.to_string(),
        };
        let value: Value = serde_json::from_str(&text).map_err(damaged)?;
        check_version(&manifest_path, &value["version"], RUN_VERSION)?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(damaged)?;
        let known = |label: &String| manifest.strategies.iter().any(|info| info.label == *label);
        if let Some(label) = manifest.reference.as_ref().filter(|label| !known(label)) {
            let message = format!("`reference` names no strategy of the run: {label:?}");
            return Err(RunDirError::Damaged { path: manifest_path, line: 1, message });
        }
        let plan: Vec<Job> = read_lines(&path.join("plan.jsonl"), None)?;
        if let Some(at) = plan.iter().position(|job| !known(&job.strategy)) {
            let message = format!("the manifest has no strategy {:?}", plan[at].strategy);
            return Err(RunDirError::Damaged { path: path.join("plan.jsonl"), line: at + 1, message });
        }
        if plan.len() != manifest.jobs {
            let message = format!("{} jobs are planned, the manifest says {}", plan.len(), manifest.jobs);
            return Err(RunDirError::Damaged { path: path.join("plan.jsonl"), line: plan.len(), message });
        }
        let mut last: HashMap<JobKey, Episode> = HashMap::new();
        let episodes_path = path.join("episodes.jsonl");
        for episode in read_lines::<Episode>(&episodes_path, Some(SCHEMA))? {
            // It may read as one of ours and mean something else.
            if episode.schema > SCHEMA {
                let found = u64::from(episode.schema);
                return Err(RunDirError::Newer { path: episodes_path, found, known: SCHEMA });
            }
            last.insert(episode.job.clone(), episode);
        }
        let episodes = plan.iter().filter_map(|job| last.remove(&job.key)).collect();
        Ok(Self { path: path.to_owned(), manifest, plan, episodes })
    }
}

fn check_version(path: &Path, found: &Value, known: u32) -> Result<(), RunDirError> {
    match found.as_u64() {
        Some(found) if found > u64::from(known) => Err(RunDirError::Newer { path: path.to_owned(), found, known }),
        _ => Ok(()),
    }
}

fn lock(path: &Path) -> Result<File, RunDirError> {
    let lock_path = path.join("lock");
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(io_at(&lock_path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RunDirError::Busy { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(io_at(&lock_path)(error)),
    }
}

/// Opens `episodes.jsonl` behind its last whole line.
fn open_episodes(path: &Path) -> Result<File, RunDirError> {
    let path = path.join("episodes.jsonl");
    let io = io_at(&path);
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(&io)?;
    let mut whole = 0;
    let mut line = Vec::new();
    let mut reader = BufReader::new(&file);
    while reader.read_until(b'\n', &mut line).map_err(&io)? > 0 {
        if line.ends_with(b"\n") {
            whole += line.len() as u64;
        }
        line.clear();
    }
    file.set_len(whole).map_err(&io)?;
    file.seek(SeekFrom::Start(whole)).map_err(&io)?;
    Ok(file)
}

fn read_lines<T: DeserializeOwned>(path: &Path, schema: Option<u32>) -> Result<Vec<T>, RunDirError> {
    // Bytes: an unfinished last line may end within a letter.
    let bytes = std::fs::read(path).map_err(io_at(path))?;
    let mut values = Vec::new();
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        match serde_json::from_slice(line) {
            Ok(value) => values.push(value),
            Err(error) => {
                if let (Some(known), Ok(value)) = (schema, serde_json::from_slice::<Value>(line)) {
                    check_version(path, &value["schema"], known)?;
                }
                let message = error.to_string();
                return Err(RunDirError::Damaged { path: path.to_owned(), line: index + 1, message });
            }
        }
    }
    Ok(values)
}

fn write_lines<T: Serialize>(path: &Path, values: &[T]) -> Result<(), RunDirError> {
    let mut bytes = Vec::new();
    for value in values {
        serde_json::to_writer(&mut bytes, value).expect("plain data serialises");
        bytes.push(b'\n');
    }
    write_whole(path, &bytes)
}

fn write_manifest(path: &Path, manifest: &Manifest) -> Result<(), RunDirError> {
    let mut bytes = serde_json::to_vec_pretty(manifest).expect("plain data serialises");
    bytes.push(b'\n');
    write_whole(&path.join("manifest.json"), &bytes)
}

/// Writes a file so that a crash leaves either the old one or the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RunDirError> {
    let partial = path.with_extension("partial");
    let write = || -> io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&partial, path)
    };
    write().map_err(io_at(path))
}
