//! Objects by their hash, in a directory or an S3-compatible store.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path as Directory, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use warpproof_evidence::hash::{Hash, Hasher};

use super::body::Upload;
use super::refused::Refused;
use super::s3;

/// Part size of a multipart upload in bytes: S3 requires at least 5 MiB, except for the last part.
const PART: usize = 5 << 20;
const PIECE: usize = 512 << 10;
/// Maximum number of concurrent parts of an upload.
const PARTS: usize = 2;

/// The store of objects.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    /// The directory, if the store is one.
    directory: Option<PathBuf>,
    /// Subdirectories whose entries this server has already synced to disk.
    lasting: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Objects {
    /// Opens `s3://bucket/prefix`, with keys and endpoint from AWS's environment variables, or a directory.
    pub(super) async fn open(place: &str) -> Result<Self, String> {
        if let Some(place) = place.strip_prefix("s3://") {
            return Ok(Self { store: s3::open(place).await?, directory: None, lasting: Arc::default() });
        }
        let refused = |error: object_store::Error| format!("the object store {place}: {error}");
        if place.contains("://") {
            return Err(format!("the object store {place}: expected a directory or s3://BUCKET/PREFIX"));
        }
        std::fs::create_dir_all(Directory::new(place)).map_err(|error| format!("{place}: {error}"))?;
        let store = LocalFileSystem::new_with_prefix(place).map_err(refused)?;
        Ok(Self { store: Arc::new(store), directory: Some(PathBuf::from(place)), lasting: Arc::default() })
    }

    /// The path of an object. A hash contains no characters with a meaning in paths.
    fn path(hash: &Hash) -> Path {
        let name = hash.to_string();
        let (directory, file) = name.split_at(2);
        Path::from_iter(["objects", directory, file])
    }

    /// Stores bytes under their hash. They are written even if the file exists, because an existing file may be incomplete.
    pub(super) async fn put(&self, hash: &Hash, bytes: Vec<u8>) -> Result<(), Refused> {
        self.store.put(&Self::path(hash), PutPayload::from(bytes)).await?;
        self.settle(hash).await
    }

    /// Stores a stream if its bytes match the hash. Returns their number.
    pub(super) async fn put_stream(&self, hash: &Hash, mut upload: Upload) -> Result<usize, Refused> {
        let part = if self.directory.is_some() { PIECE } else { PART };
        let (mut hasher, mut count) = (Hasher::default(), 0usize);
        // Small objects are written at once; only objects larger than a part use a multipart upload.
        let mut first: Vec<u8> = Vec::new();
        let mut writer: Option<WriteMultipart> = None;
        let came = loop {
            let bytes = match upload.next().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) if hasher.hash() == *hash => break Ok(()),
                Ok(None) => break Err(Refused::wrong("the content does not match the object's hash")),
                Err(refused) => break Err(refused),
            };
            hasher.update(&bytes);
            count = count.saturating_add(bytes.len());
            match &mut writer {
                None if first.len() + bytes.len() <= part => first.extend_from_slice(&bytes),
                None => {
                    let parts = self.store.put_multipart(&Self::path(hash)).await?;
                    let mut parts = WriteMultipart::new_with_chunk_size(parts, part);
                    parts.write(&std::mem::take(&mut first));
                    parts.put(bytes);
                    writer = Some(parts);
                }
                Some(parts) => {
                    // Limits the number of concurrent parts.
                    if let Err(error) = parts.wait_for_capacity(PARTS).await {
                        break Err(error.into());
                    }
                    parts.put(bytes);
                }
            }
        };
        match (came, writer) {
            (Ok(()), None) => self.put(hash, first).await?,
            (Ok(()), Some(parts)) => {
                parts.finish().await?;
                self.settle(hash).await?;
            }
            (Err(refused), parts) => {
                if let Some(parts) = parts {
                    // The store collects parts that remain after a failed abort.
                    let _left = parts.abort().await;
                }
                return Err(refused);
            }
        }
        Ok(count)
    }

    /// Makes a written object durable.
    async fn settle(&self, hash: &Hash) -> Result<(), Refused> {
        let path = Self::path(hash);
        let Some(directory) = &self.directory else { return Ok(()) };
        // A directory store does not sync by itself, but an acknowledged object must be on disk.
        let file = directory.join(path.as_ref());
        let lasting = Arc::clone(&self.lasting);
        let synced = tokio::task::spawn_blocking(move || {
            File::open(&file)?.sync_all()?;
            let known =
                |parent: &Directory| lasting.lock().unwrap_or_else(PoisonError::into_inner).contains(parent);
            // Syncs the directory of the file always, and the directories above it once. Only Unix supports and needs this.
            let above: Vec<&Directory> = file.ancestors().skip(1).take(3).collect();
            let all = above.first().is_some_and(|parent| !known(parent));
            let parents = above.iter().take(if all { above.len() } else { 1 });
            parents.filter(|_| cfg!(unix)).try_for_each(|parent| File::open(parent)?.sync_all())?;
            let own = above.first().map(|parent| parent.to_path_buf());
            lasting.lock().unwrap_or_else(PoisonError::into_inner).extend(own.filter(|_| all));
            Ok::<_, std::io::Error>(())
        });
        synced.await.map_err(Refused::failed)?.map_err(Refused::failed)
    }

    /// Removes an object; a missing one is not an error.
    pub(super) async fn remove(&self, hash: &Hash) -> Result<(), Refused> {
        match self.store.delete(&Self::path(hash)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of an object, verified against its hash.
    pub(super) async fn get(&self, hash: &Hash) -> Result<bytes::Bytes, Refused> {
        let bytes = self.store.get(&Self::path(hash)).await?.bytes().await?;
        if Hash::of(&bytes) == *hash {
            Ok(bytes)
        } else {
            Err(Refused::failed(format!("the content of object {hash} does not match its hash")))
        }
    }
}
