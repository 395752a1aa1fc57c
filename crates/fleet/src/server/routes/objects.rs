//! Bytes by their hash.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use warpproof_gate::hash::Hash;

use super::hash;
use crate::server::body::Payload;
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, evidence};
use crate::wire::{Refusal, Stored};

/// Upload an object
#[utoipa::path(
    put, path = "/v1/objects/{hash}", tag = "objects", params(("hash" = String, Path)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Stored), (status = 400, body = Refusal), (status = 413, body = Refusal))
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    Payload(bytes): Payload,
) -> Result<Json<Stored>, Refused> {
    let named = hash(&name)?;
    if Hash::of(&bytes) != named {
        return Err(Refused::wrong("the bytes are not those the object is named by"));
    }
    let size = bytes.len();
    shared.objects.put(&named, bytes).await?;
    let stored = [(named, size)];
    patiently(|| evidence::note_objects(&shared.pool, &stored)).await?;
    Ok(Json(Stored { hash: name, bytes: u64::try_from(size).unwrap_or(u64::MAX) }))
}

/// The bytes of an object
#[utoipa::path(
    get, path = "/v1/objects/{hash}", tag = "objects", params(("hash" = String, Path)),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), (status = 404, body = Refusal))
)]
pub(super) async fn get(State(shared): State<Shared>, Path(name): Path<String>) -> Result<Response, Refused> {
    let bytes = shared.objects.get(&hash(&name)?).await?;
    // Never a page: whatever somebody uploaded, no browser runs it.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, bytes).into_response())
}

/// Whether an object is there
#[utoipa::path(
    head, path = "/v1/objects/{hash}", tag = "objects", params(("hash" = String, Path)),
    responses((status = 200), (status = 404))
)]
pub(super) async fn head(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refused> {
    shared.objects.size(&hash(&name)?).await?;
    Ok(StatusCode::OK)
}
