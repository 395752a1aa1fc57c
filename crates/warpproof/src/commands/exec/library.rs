//! Finds the CUDA library of `exec`: named by a variable, next to this program, or embedded in it.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::cannot;
use crate::report::{Kind, Report};

/// The library's file, as cargo names it.
const FILE: &str = "libwarpproof_cuda.so";

/// The library that is embedded in this program, if any.
static CARRIED: OnceLock<&'static [u8]> = OnceLock::new();

/// Remembers what the program carries.
pub(crate) fn carry(driver: Option<&'static [u8]>) {
    if let Some(driver) = driver {
        // A program has one.
        let _same = CARRIED.set(driver);
    }
}

/// The library's file.
pub(super) fn find() -> Result<PathBuf, Box<Report>> {
    if let Some(named) = env::var_os("WARPPROOF_LIBRARY") {
        let path = PathBuf::from(named);
        return path.is_file().then_some(path.clone()).ok_or_else(|| {
            let sentence = format!("expected a file in WARPPROOF_LIBRARY, found {}", path.display());
            Box::new(Report::error(Kind::Missing, sentence))
        });
    }
    let folder = env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
    let places = folder.iter().flat_map(|folder| {
        [
            folder.join("libcuda.so.1"),
            folder.join(FILE),
            folder.join("deps").join(FILE),
            folder.join("../lib/warpproof").join(FILE),
            folder.join("../lib").join(FILE),
        ]
    });
    if let Some(found) = places.into_iter().find(|path| path.is_file()) {
        return Ok(found);
    }
    if let Some(carried) = CARRIED.get() {
        return unpack(carried, &cache()).map_err(|cause| cannot("write the library to the cache", &cause));
    }
    let report = Report::error(Kind::Missing, format!("{FILE} is not next to this program"));
    let help = "build it: `cargo build --release -p warpproof-runtime`; or name it in WARPPROOF_LIBRARY";
    Err(Box::new(report.help(help)))
}

/// Writes the library to the cache, under a name derived from its content, unless it exists.
fn unpack(library: &[u8], cache: &Path) -> io::Result<PathBuf> {
    let folder = cache.join("driver").join(blake3::hash(library).to_hex().as_str());
    fs::create_dir_all(&folder)?;
    place(&folder, FILE, library)
}

/// Writes a file unless it has these bytes. It is renamed into its place, so that other processes never see a part of it.
fn place(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let place = folder.join(name);
    if !fs::read(&place).is_ok_and(|known| known == bytes) {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.persist(&place).map_err(|error| error.error)?;
    }
    Ok(place)
}

/// Links the library under the names that programs look for.
pub(super) fn link(folder: &Path, library: &Path) -> io::Result<()> {
    let library = library.canonicalize()?;
    for name in ["libcuda.so.1", "libcuda.so"] {
        let place = folder.join(name);
        if fs::read_link(&place).is_ok_and(|known| known == library) {
            continue;
        }
        // Another process may create the same link at the same time.
        let _old = fs::remove_file(&place);
        match std::os::unix::fs::symlink(&library, &place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    // The CUDA runtime: its functions are in the same library.
    for shim in warpproof_cuda::shim::ALL {
        let Some(machine) = warpproof_cuda::shim::Machine::own() else { break };
        place(folder, shim.name, &warpproof_cuda::shim::write(&shim, machine))?;
    }
    Ok(())
}

/// Warpproof's cache.
fn cache() -> PathBuf {
    let named = env::var_os("WARPPROOF_CACHE").map(PathBuf::from);
    let home =
        || env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cache")));
    named.or_else(|| home().map(|home| home.join("warpproof"))).unwrap_or_else(env::temp_dir)
}

/// A directory that stays, in the user's cache.
pub(super) fn lasting(library: &Path) -> io::Result<PathBuf> {
    let key = blake3::hash(library.canonicalize()?.as_os_str().as_encoded_bytes()).to_hex();
    let folder = cache().join("driver").join(key.get(..16).unwrap_or_default());
    fs::create_dir_all(&folder)?;
    link(&folder, library)?;
    Ok(folder)
}

/// A directory that stays, with the library under the names that linkers look for.
pub(crate) fn driver_folder() -> Result<PathBuf, Box<Report>> {
    lasting(&find()?).map_err(|cause| cannot("create the library's directory", &cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_is_written_once_and_renewed_when_it_was_changed() {
        let cache = tempfile::tempdir().expect("a directory");
        let place = unpack(b"library", cache.path()).expect("written");
        assert_eq!(fs::read(&place).expect("read"), b"library");
        let written = fs::metadata(&place).and_then(|file| file.modified()).expect("a time");
        assert_eq!(unpack(b"library", cache.path()).expect("known"), place);
        assert_eq!(fs::metadata(&place).and_then(|file| file.modified()).expect("a time"), written);
        // Truncated, as if an earlier write had filled the disk.
        fs::write(&place, b"lib").expect("written");
        assert_eq!(unpack(b"library", cache.path()).expect("renewed"), place);
        assert_eq!(fs::read(&place).expect("read"), b"library");
        assert_ne!(unpack(b"another", cache.path()).expect("written"), place);
    }
}
