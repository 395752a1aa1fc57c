//! The build cache: results of NVRTC and ptxas, keyed by a hash of everything they depend on.
//!
//! An entry is written to a temporary file and renamed, so processes can share a cache without a lock: in the worst case two
//! processes do the same work. Each entry contains its own hash; a corrupt entry is removed and rebuilt. Cache failures cost time
//! but never change a result.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// First line of every entry. A new layout gets a new number, which makes old entries misses.
const MAGIC: &[u8] = b"warpproof build cache 1\n";
/// Cache size after old entries are removed.
const MAX_BYTES: u64 = 2 << 30;
/// Entries younger than this are never removed: another process may be about to read them.
const MIN_AGE: Duration = Duration::from_mins(10);

/// A directory of build results.
#[derive(Clone, Debug)]
pub struct BuildCache {
    dir: PathBuf,
}

/// The name of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Key(blake3::Hash);

/// Collects the inputs of an entry. Each piece is prefixed with its length, so that no two lists of pieces collide.
pub(crate) struct KeyBuilder(blake3::Hasher);

impl KeyBuilder {
    pub(crate) fn new(kind: &str) -> Self {
        let mut key = Self(blake3::Hasher::new());
        key.add(env!("CARGO_PKG_VERSION").as_bytes()).add(kind.as_bytes());
        key
    }

    pub(crate) fn add(&mut self, piece: &[u8]) -> &mut Self {
        self.0.update(&u64::try_from(piece.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(piece);
        self
    }

    /// Adds the identity of a program: name, size and modification time, which detects a replaced program.
    pub(crate) fn add_program(&mut self, path: &Path) -> &mut Self {
        self.add(path.as_os_str().as_encoded_bytes());
        if let Ok(data) = fs::metadata(path) {
            let time = data.modified().ok().and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok());
            self.add(&data.len().to_le_bytes());
            self.add(&time.unwrap_or_default().as_nanos().to_le_bytes());
        }
        self
    }

    pub(crate) fn finish(&self) -> Key {
        Key(self.0.finalize())
    }
}

impl BuildCache {
    /// The build cache inside Warpproof's cache directory.
    pub fn below(cache: &Path) -> Self {
        Self { dir: cache.join("build") }
    }

    fn path(&self, key: &Key) -> PathBuf {
        let name = key.0.to_hex();
        self.dir.join(&name[..2]).join(&name[2..])
    }

    /// The pieces stored under a key. A corrupt entry is removed and treated as a miss.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<Vec<u8>>> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let pieces = decode(&bytes);
        if pieces.is_none() {
            let _ = fs::remove_file(&path);
        }
        pieces
    }

    /// Stores pieces under a key. A full disk or an unwritable directory is not an error: see above.
    pub(crate) fn put(&self, key: &Key, pieces: &[&[u8]]) {
        let path = self.path(key);
        let Some(dir) = path.parent() else { return };
        let written = fs::create_dir_all(dir).and_then(|()| {
            let mut file = tempfile::Builder::new().prefix(".partial-").tempfile_in(dir)?;
            file.write_all(&encode(pieces))?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        });
        // One write in 64 checks whether the cache is too large.
        if written.is_ok() && key.0.as_bytes()[31].is_multiple_of(64) {
            self.drop_oldest(MAX_BYTES);
        }
    }

    /// Removes the oldest entries until the remaining ones fit.
    fn drop_oldest(&self, max_bytes: u64) {
        let mut entries = Vec::new();
        for shard in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            for entry in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
                if let Ok(data) = entry.metadata()
                    && let Ok(time) = data.modified()
                {
                    entries.push((time, data.len(), entry.path()));
                }
            }
        }
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        entries.sort();
        for (time, bytes, path) in entries {
            let young = time.elapsed().is_ok_and(|age| age < MIN_AGE);
            if total <= max_bytes || young {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total = total.saturating_sub(bytes);
            }
        }
    }
}

/// Magic, hash of the rest, then each piece prefixed with its length.
fn encode(pieces: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for piece in pieces {
        body.extend_from_slice(&u64::try_from(piece.len()).unwrap_or(u64::MAX).to_le_bytes());
        body.extend_from_slice(piece);
    }
    [MAGIC, blake3::hash(&body).as_bytes(), &body].concat()
}

fn decode(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (hash, mut body) = bytes.strip_prefix(MAGIC)?.split_at_checked(32)?;
    if blake3::hash(body).as_bytes() != hash {
        return None;
    }
    let mut pieces = Vec::new();
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk::<8>()?;
        let (piece, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        pieces.push(piece.to_vec());
        body = rest;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        KeyBuilder::new("test").add(text.as_bytes()).finish()
    }

    #[test]
    fn gives_back_what_was_stored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BuildCache::below(dir.path());
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("a"), &[b"ptx", b"", b"log"]);
        assert_eq!(cache.get(&key("a")), Some(vec![b"ptx".to_vec(), vec![], b"log".to_vec()]));
        assert_eq!(cache.get(&key("b")), None);
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let good = encode(&[b"one", b"two"]);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(decode(&bad), None, "byte {at}");
            assert_eq!(decode(&good[..at]), None, "cut at {at}");
        }
        let dir = tempfile::tempdir().unwrap();
        let cache = BuildCache::below(dir.path());
        cache.put(&key("a"), &[b"x"]);
        fs::write(cache.path(&key("a")), b"rubbish").unwrap();
        assert_eq!(cache.get(&key("a")), None);
        assert!(!cache.path(&key("a")).exists());
    }

    #[test]
    fn pieces_do_not_run_together() {
        let a = KeyBuilder::new("k").add(b"ab").add(b"c").finish();
        let b = KeyBuilder::new("k").add(b"a").add(b"bc").finish();
        assert_ne!(a.0, b.0);
    }

    #[test]
    fn old_entries_go_first_and_young_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BuildCache::below(dir.path());
        for (name, age) in [("old", 9000), ("older", 90000), ("young", 0)] {
            cache.put(&key(name), &[&[0; 1000]]);
            let file = fs::File::options().append(true).open(cache.path(&key(name))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        cache.drop_oldest(2500);
        assert!(cache.get(&key("older")).is_none());
        assert!(cache.get(&key("old")).is_some() && cache.get(&key("young")).is_some());
        cache.drop_oldest(0);
        assert!(cache.get(&key("old")).is_none() && cache.get(&key("young")).is_some());
    }
}
