//! Results that the server has not acknowledged yet, stored on disk.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::client::FleetError;
use crate::wire::Outcome;

/// A directory of results.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
}

fn local(path: &Path, error: &dyn std::fmt::Display) -> FleetError {
    FleetError::Local(format!("{}: {error}", path.display()))
}

impl Spool {
    pub(super) fn open(directory: &Path) -> Result<Self, FleetError> {
        let directory = directory.join("results");
        fs::create_dir_all(&directory).map_err(|error| local(&directory, &error))?;
        Ok(Self { directory })
    }

    fn path(&self, job: i64, token: i64) -> PathBuf {
        self.directory.join(format!("{job}-{token}.json"))
    }

    /// Writes a result atomically.
    pub(super) fn keep(&self, job: i64, outcome: &Outcome) -> Result<(), FleetError> {
        let path = self.path(job, outcome.token);
        let text = serde_json::to_vec(outcome).map_err(|error| local(&path, &error))?;
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            file.write_all(&text)?;
            file.as_file().sync_data()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok::<_, std::io::Error>(())
        };
        write().map_err(|error| local(&path, &error))
    }

    /// Removes a result that was accepted, or that can never be.
    pub(super) fn forget(&self, job: i64, token: i64) {
        // If it cannot be removed, it is sent again, which has no effect.
        let _removed = fs::remove_file(self.path(job, token));
    }

    /// Results left by an earlier worker, by job.
    pub(super) fn left(&self) -> Result<Vec<(i64, Outcome)>, FleetError> {
        let mut left = Vec::new();
        let entries = fs::read_dir(&self.directory).map_err(|error| local(&self.directory, &error))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let job =
                name.to_str().and_then(|name| name.strip_suffix(".json")?.split_once('-')?.0.parse().ok());
            let outcome = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
            match (job, outcome) {
                (Some(job), Some(outcome)) => left.push((job, outcome)),
                // An incomplete file of a worker that was killed while writing.
                _ => fs::remove_file(&path).map_err(|error| local(&path, &error))?,
            }
        }
        left.sort_by_key(|(job, _)| *job);
        Ok(left)
    }
}
