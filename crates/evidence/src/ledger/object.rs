//! Objects: bytes named by their hash.

use super::{Ledger, LedgerError};
use crate::hash::Hash;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

/// Maximum bytes of an object.
pub const MAX_OBJECT: u64 = 1 << 30;
/// Prefix of the names of files that are being written.
pub(super) const TEMPORARY: &str = ".tmp-";

impl Ledger {
    pub(super) fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    /// The file of an object.
    pub fn object_path(&self, hash: &Hash) -> PathBuf {
        let name = hash.to_string();
        let (directory, file) = name.split_at(2);
        self.objects().join(directory).join(file)
    }

    /// Whether a file with this name exists. Its bytes are not checked.
    pub fn has_object(&self, hash: &Hash) -> bool {
        fs::symlink_metadata(self.object_path(hash)).is_ok_and(|data| data.is_file())
    }

    /// The bytes of an object, verified against its name.
    pub fn object(&self, hash: &Hash) -> Result<Vec<u8>, LedgerError> {
        if !self.has_object(hash) {
            return Err(LedgerError::NoSuchObject(*hash));
        }
        let path = self.object_path(hash);
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(LedgerError::io(&path))?;
        let read = file.take(MAX_OBJECT + 1).read_to_end(&mut bytes).map_err(LedgerError::io(&path))?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read > MAX_OBJECT {
            return Err(LedgerError::TooLarge { what: "an object", bytes: read, limit: MAX_OBJECT });
        }
        if Hash::of(&bytes) == *hash { Ok(bytes) } else { Err(LedgerError::DamagedObject(*hash)) }
    }

    /// Stores these bytes; they are on the disk when this returns. Existing objects are not written again.
    pub fn put_object(&self, bytes: &[u8]) -> Result<Hash, LedgerError> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if size > MAX_OBJECT {
            return Err(LedgerError::TooLarge { what: "an object", bytes: size, limit: MAX_OBJECT });
        }
        let hash = Hash::of(bytes);
        let path = self.object_path(&hash);
        let directory = path.parent().unwrap_or(&self.root);
        if self.object(&hash).is_ok() {
            // Another process may have renamed it without making the name durable yet.
            self.sync_directory(directory).map_err(LedgerError::io(directory))?;
        } else {
            // A changed object is repaired: its name determines its content.
            self.make_directory(&self.objects())?;
            self.make_directory(directory)?;
            self.replace(&path, bytes)?;
        }
        Ok(hash)
    }

    /// Creates a directory whose parent exists, and makes its name durable.
    pub(super) fn make_directory(&self, directory: &std::path::Path) -> Result<(), LedgerError> {
        match fs::create_dir(directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(LedgerError::Io(directory.to_owned(), error)),
        }
        let parent = directory.parent().unwrap_or(&self.root);
        self.sync_directory(parent).map_err(LedgerError::io(parent))
    }
}
