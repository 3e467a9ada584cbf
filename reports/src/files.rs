//! The report folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::summary::Summary;
use crate::{Input, export, markdown, plot};

/// A report file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{path}: {source}; name another folder for the report", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}", path = path.display())]
    Csv { path: PathBuf, source: csv::Error },
    #[error("{path}: {message}", path = path.display())]
    Parquet { path: PathBuf, message: String },
    #[error("{path}: cannot be drawn: {message}", path = path.display())]
    Plot { path: PathBuf, message: String },
}

/// Writes `report.md`, `summary.json`, `scores.csv`, `scores.parquet` and the plots that the run has data for, and returns
/// their paths. The folder is made if it is not there; older files of the same names are replaced.
pub fn write_all(dir: &Path, input: &Input<'_>, summary: &Summary) -> Result<Vec<PathBuf>, ReportError> {
    fs::create_dir_all(dir).map_err(|source| ReportError::Io { path: dir.to_owned(), source })?;
    let mut written = Vec::new();
    let mut write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        harness::file::replace(&path, bytes).map_err(|source| ReportError::Io { path: path.clone(), source })?;
        written.push(path);
        Ok(())
    };
    write("report.md", markdown(summary).as_bytes())?;
    let mut json = serde_json::to_vec_pretty(summary).expect("plain data serialises");
    json.push(b'\n');
    write("summary.json", &json)?;
    let csv = export::csv(input).map_err(|source| ReportError::Csv { path: dir.join("scores.csv"), source })?;
    write("scores.csv", &csv)?;
    for plot in plot::Plot::of(summary) {
        let svg = plot.draw(summary).map_err(|message| ReportError::Plot { path: dir.join(plot.file()), message })?;
        write(plot.file(), svg.as_bytes())?;
    }
    let path = dir.join("scores.parquet");
    export::parquet(input, &path)?;
    written.push(path);
    Ok(written)
}
