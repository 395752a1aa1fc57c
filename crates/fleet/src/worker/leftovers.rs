//! Files that an evaluation leaves on disk. A task may have written anything there: directories without permissions, pipes
//! without a writer, links to other places.

use std::fs;
use std::io;
use std::path::Path;

/// Maximum depth and number of files in a ledger.
const MAX_DEPTH: usize = 8;
const MAX_ENTRIES: usize = 100_000;

/// Whether a directory contains only plain files and directories; other kinds of files are never opened.
pub(super) fn only_plain(directory: &Path) -> Result<(), String> {
    let found = fs::symlink_metadata(directory)
        .map_err(|error| format!("the evaluation wrote no ledger: {error}"))?;
    if !found.is_dir() {
        return Err("expected a ledger from the evaluation, found something else".to_owned());
    }
    let mut waiting = vec![(directory.to_owned(), 0)];
    let mut seen = 0;
    while let Some((directory, depth)) = waiting.pop() {
        let unreadable = |error: io::Error| format!("cannot read the ledger of the evaluation: {error}");
        for entry in fs::read_dir(&directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            seen += 1;
            if seen > MAX_ENTRIES || depth > MAX_DEPTH || !(kind.is_file() || kind.is_dir()) {
                return Err("unexpected file in the ledger of the evaluation".to_owned());
            }
            if kind.is_dir() {
                waiting.push((entry.path(), depth + 1));
            }
        }
    }
    Ok(())
}

/// Removes a directory with its contents, even if its writer removed the permissions. A directory that cannot be removed is moved
/// aside, to free its name; this is returned as an error.
pub(super) fn remove(directory: &Path, aside: &Path) -> Result<(), String> {
    let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::remove_dir_all(directory) {
        Ok(()) => return Ok(()),
        Err(error)
            if absent(&error) && fs::symlink_metadata(directory).is_err_and(|error| absent(&error)) =>
        {
            return Ok(());
        }
        Err(_) => unlock(directory),
    }
    let Err(error) = fs::remove_dir_all(directory) else { return Ok(()) };
    let mut number = 0;
    while fs::symlink_metadata(aside.join(number.to_string())).is_ok() {
        number += 1;
    }
    let place = aside.join(number.to_string());
    let moved = fs::create_dir_all(aside).and_then(|()| fs::rename(directory, &place));
    match moved {
        Ok(()) => {
            Err(format!("cannot remove {}, moved it to {}: {error}", directory.display(), place.display()))
        }
        Err(other) => Err(format!("cannot remove {}: {error}; cannot move it: {other}", directory.display())),
    }
}

/// Gives the owner access to all subdirectories.
#[cfg(unix)]
fn unlock(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        // A directory that cannot be unlocked cannot be removed; removing it reports the error.
        let _unlocked = fs::set_permissions(&directory, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            // A link is not a directory, so it is not followed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
}

#[cfg(not(unix))]
fn unlock(_: &Path) {}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn locked_directories_are_removed_and_links_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("job/a/b")).expect("made");
        fs::create_dir(at("kept")).expect("made");
        fs::write(at("kept/file"), "x").expect("written");
        symlink(at("kept"), at("job/link")).expect("linked");
        fs::write(at("job/a/b/file"), "x").expect("written");
        for name in ["job/a/b", "job/a", "kept"] {
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o000)).expect("locked");
        }
        remove(&at("job"), &at("left")).expect("removed");
        assert!(!at("job").exists() && !at("left").exists());
        assert_eq!(fs::metadata(at("kept")).expect("there").permissions().mode() & 0o777, 0);
        fs::set_permissions(at("kept"), fs::Permissions::from_mode(0o700)).expect("unlocked");
        assert!(at("kept/file").exists());
        remove(&at("job"), &at("left")).expect("removing a missing directory succeeds");
    }

    #[test]
    fn what_is_no_plain_file_is_not_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("ledger/segments")).expect("made");
        fs::write(at("ledger/segments/one"), "x").expect("written");
        assert_eq!(only_plain(&at("ledger")), Ok(()));
        assert!(only_plain(&at("nothing")).is_err());
        symlink(at("ledger"), at("linked")).expect("linked");
        assert!(only_plain(&at("linked")).is_err());
        symlink("/dev/zero", at("ledger/segments/two")).expect("linked");
        assert!(only_plain(&at("ledger")).is_err());
        fs::remove_file(at("ledger/segments/two")).expect("removed");
        // A pipe without a writer: opening it blocks forever.
        mknodat(CWD, at("ledger/segments/two"), FileType::Fifo, Mode::RUSR, 0).expect("made");
        assert!(only_plain(&at("ledger")).is_err());
    }
}
