//! Routes of objects, by hash.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use utoipa::ToSchema;
use warpproof_evidence::hash::Hash;

use super::hash;
use crate::server::address::Path;
use crate::server::body::{Large, Upload};
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, inventory};
use crate::wire::{MAX_UPLOADS, Refusal, Stored, Uploads};

/// Schema of a binary body.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only its schema is used")]
struct Binary(Vec<u8>);

/// Upload an object
#[utoipa::path(
    put, path = "/v1/objects/{hash}", tag = "objects", params(("hash" = String, Path, pattern = "^[0-9a-f]{64}$")),
    request_body(content = Binary, content_type = "application/octet-stream"),
    responses((status = 200, body = Stored), (status = 400, body = Refusal), (status = 413, body = Refusal))
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    upload: Upload,
) -> Result<Json<Stored>, Refused> {
    let named = hash(&name)?;
    let wanted = BTreeSet::from([named]);
    patiently(|| inventory::announce(&shared.pool, &wanted)).await?;
    let bytes = shared.objects.put_stream(&named, upload).await?;
    let noted = [(named, bytes)];
    patiently(|| inventory::note(&shared.pool, &noted)).await?;
    Ok(Json(stored(named, bytes)))
}

fn stored(hash: Hash, bytes: usize) -> Stored {
    Stored { hash: hash.to_string(), bytes: u64::try_from(bytes).unwrap_or(u64::MAX) }
}

/// Stores objects; their bytes must match their hashes.
pub(super) async fn keep(shared: &Shared, objects: Vec<(Hash, Vec<u8>)>) -> Result<(), Refused> {
    if objects.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<Hash> = objects.iter().map(|(hash, _)| *hash).collect();
    let new = patiently(|| inventory::announce(&shared.pool, &wanted)).await?;
    let mut stored = Vec::new();
    for (hash, bytes) in objects.into_iter().filter(|(hash, _)| new.contains(hash)) {
        stored.push((hash, bytes.len()));
        shared.objects.put(&hash, bytes).await?;
    }
    patiently(|| inventory::note(&shared.pool, &stored)).await
}

/// Decodes base64 objects and verifies their hashes.
pub(super) fn read(objects: BTreeMap<String, String>) -> Result<Vec<(Hash, Vec<u8>)>, Refused> {
    let mut read = Vec::new();
    for (name, text) in objects {
        let bytes =
            STANDARD.decode(text).map_err(|error| Refused::wrong(format!("object {name}: {error}")))?;
        let named = hash(&name)?;
        if Hash::of(&bytes) != named {
            return Err(Refused::wrong(format!("the content of object {name} does not match its hash")));
        }
        read.push((named, bytes));
    }
    Ok(read)
}

/// Upload several objects
///
/// For small objects, all in one body. Either all are stored, or the first one that does not match its hash is reported.
#[utoipa::path(
    post, path = "/v1/objects", tag = "objects", request_body = Uploads,
    responses((status = 200, body = Vec<Stored>), (status = 400, body = Refusal), (status = 413, body = Refusal))
)]
pub(super) async fn put_all(
    State(shared): State<Shared>,
    Large(uploads, _room): Large<Uploads>,
) -> Result<Json<Vec<Stored>>, Refused> {
    if uploads.objects.len() > MAX_UPLOADS {
        return Err(Refused::wrong(format!("expected at most {MAX_UPLOADS} objects in one upload")));
    }
    let objects =
        tokio::task::spawn_blocking(move || read(uploads.objects)).await.map_err(Refused::failed)??;
    let answer = objects.iter().map(|(hash, bytes)| stored(*hash, bytes.len())).collect();
    keep(&shared, objects).await?;
    Ok(Json(answer))
}

/// Get the bytes of an object
#[utoipa::path(
    get, path = "/v1/objects/{hash}", tag = "objects", params(("hash" = String, Path, pattern = "^[0-9a-f]{64}$")),
    responses((status = 200, body = Binary, content_type = "application/octet-stream"), (status = 404, body = Refusal))
)]
pub(super) async fn get(State(shared): State<Shared>, Path(name): Path<String>) -> Result<Response, Refused> {
    let bytes = shared.objects.get(&hash(&name)?).await?;
    // Never as a page: a browser must not run uploaded content.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, bytes).into_response())
}

/// Check whether an object exists
#[utoipa::path(
    head, path = "/v1/objects/{hash}", tag = "objects", params(("hash" = String, Path, pattern = "^[0-9a-f]{64}$")),
    responses((status = 200), (status = 404))
)]
pub(super) async fn head(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refused> {
    // The client is about to refer to it, so it is kept for now.
    let wanted = BTreeSet::from([hash(&name)?]);
    let missing = patiently(|| inventory::missing(&shared.pool, &wanted)).await?;
    if missing.is_empty() { Ok(StatusCode::OK) } else { Err(Refused::absent("object")) }
}
