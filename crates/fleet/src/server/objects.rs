//! Bytes by their hash, in a directory or anywhere that speaks S3.

use std::fs::File;
use std::path::{Path as Directory, PathBuf};
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, PutPayload};
use warpproof_gate::hash::Hash;

use super::refused::Refused;

/// The store of objects.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Where the store is a directory.
    directory: Option<PathBuf>,
}

impl Objects {
    /// Opens `s3://bucket/prefix`, with keys and endpoint from the variables that AWS's own tools read, or a directory.
    pub(super) fn open(place: &str) -> Result<Self, String> {
        let refused = |error: object_store::Error| format!("the object store {place}: {error}");
        if let Some(rest) = place.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build().map_err(refused)?;
            let prefix = Path::parse(prefix).map_err(|error| refused(error.into()))?;
            return Ok(Self { store: Arc::new(PrefixStore::new(store, prefix)), directory: None });
        }
        if place.contains("://") {
            return Err(format!("the object store {place}: a directory or s3://BUCKET/PREFIX is wanted"));
        }
        std::fs::create_dir_all(Directory::new(place)).map_err(|error| format!("{place}: {error}"))?;
        let store = LocalFileSystem::new_with_prefix(place).map_err(refused)?;
        Ok(Self { store: Arc::new(store), directory: Some(PathBuf::from(place)) })
    }

    /// Where an object is. A hash has no character that a path could be made of.
    fn path(hash: &Hash) -> Path {
        let name = hash.to_string();
        let (directory, file) = name.split_at(2);
        Path::from_iter(["objects", directory, file])
    }

    /// Keeps bytes under the name they have.
    pub(super) async fn put(&self, hash: &Hash, bytes: Vec<u8>) -> Result<(), Refused> {
        let path = Self::path(hash);
        // What is there has these very bytes.
        if let Ok(found) = self.store.head(&path).await
            && found.size == u64::try_from(bytes.len()).unwrap_or(u64::MAX)
        {
            return Ok(());
        }
        self.store.put(&path, PutPayload::from(bytes)).await?;
        let Some(directory) = &self.directory else { return Ok(()) };
        // A directory does not wait for the disk by itself, and what is acknowledged must be there.
        let file = directory.join(path.as_ref());
        let synced = tokio::task::spawn_blocking(move || {
            File::open(&file)?.sync_all()?;
            let parents = file.ancestors().skip(1).take(3);
            // Only Unix has, and needs, a way to make names lasting.
            parents.filter(|_| cfg!(unix)).try_for_each(|parent| File::open(parent)?.sync_all())
        });
        synced.await.map_err(Refused::failed)?.map_err(Refused::failed)
    }

    /// The bytes of an object, which are those it is named by.
    pub(super) async fn get(&self, hash: &Hash) -> Result<bytes::Bytes, Refused> {
        let bytes = self.store.get(&Self::path(hash)).await?.bytes().await?;
        if Hash::of(&bytes) == *hash {
            Ok(bytes)
        } else {
            Err(Refused::failed(format!("the bytes of object {hash} are not those it is named by")))
        }
    }

    /// Whether it is there.
    pub(super) async fn size(&self, hash: &Hash) -> Result<u64, Refused> {
        Ok(self.store.head(&Self::path(hash)).await?.size)
    }
}
