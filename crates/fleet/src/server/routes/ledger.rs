//! Routes of the ledger: import and export of segments, byte for byte.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use warpproof_evidence::ledger::is_segment_name;

use super::{hash, limit};
use crate::server::address::{Path, Query};
use crate::server::body::Payload;
use crate::server::evidence::{self, Segment};
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, inventory};
use crate::wire::{Imported, Refusal, SegmentView};

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct Page {
    /// Return segments whose number is above this.
    after: Option<i64>,
    /// Maximum number of segments.
    #[param(minimum = 0, maximum = 1000)]
    limit: Option<u32>,
}

fn text(body: String, kind: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], body).into_response()
}

fn segment_name(id: &str) -> Result<&str, Refused> {
    if is_segment_name(id) { Ok(id) } else { Err(Refused::wrong("expected the name of a segment")) }
}

/// List segments in order of acceptance
#[utoipa::path(get, path = "/v1/segments", tag = "ledger", params(Page), responses((status = 200, body = Vec<SegmentView>)))]
pub(super) async fn list(
    State(shared): State<Shared>,
    Query(page): Query<Page>,
) -> Result<Json<Vec<SegmentView>>, Refused> {
    let (after, limit) = (page.after.unwrap_or(0), limit(page.limit)?);
    patiently(|| evidence::segments(&shared.pool, after, limit)).await.map(Json)
}

/// Get the lines of a segment
#[utoipa::path(
    get, path = "/v1/segments/{id}", tag = "ledger", params(("id" = String, Path, pattern = "^[0-9A-Za-z-]{1,64}$")),
    responses((status = 200, body = String, content_type = "application/jsonl"), (status = 404, body = Refusal))
)]
pub(super) async fn get(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Response, Refused> {
    let id = segment_name(&id)?;
    let lines = patiently(|| evidence::segment(&shared.pool, id)).await?;
    Ok(text(lines, "application/jsonl"))
}

/// Import a segment
///
/// The segment must pass the checks of `warpproof verify`, and everything it refers to must exist on the server.
#[utoipa::path(
    put, path = "/v1/segments/{id}", tag = "ledger", params(("id" = String, Path, pattern = "^[0-9A-Za-z-]{1,64}$")),
    request_body(content = String, content_type = "application/jsonl"),
    responses(
        (status = 200, body = Imported), (status = 400, body = Refusal), (status = 409, body = Refusal),
        (status = 422, body = Refusal),
    )
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    Payload(bytes, _room): Payload,
) -> Result<Json<Imported>, Refused> {
    segment_name(&id)?;
    let segment =
        tokio::task::spawn_blocking(move || Segment::read(&id, &bytes)).await.map_err(Refused::failed)??;
    let named = segment.objects();
    let missing = patiently(|| inventory::missing(&shared.pool, &named)).await?;
    if !missing.is_empty() {
        return Err(inventory::refusal(&missing));
    }
    let new = patiently(|| evidence::import(&shared.pool, &segment)).await?;
    Ok(Json(Imported { id: segment.id, records: segment.records.len(), new }))
}

/// Get one record
#[utoipa::path(
    get, path = "/v1/records/{hash}", tag = "ledger", params(("hash" = String, Path, pattern = "^[0-9a-f]{64}$")),
    responses((status = 200, body = Object, content_type = "application/json"), (status = 404, body = Refusal))
)]
pub(super) async fn record(
    State(shared): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response, Refused> {
    let name = hash(&name)?;
    let line = patiently(|| evidence::record(&shared.pool, &name)).await?;
    Ok(text(line, "application/json"))
}
