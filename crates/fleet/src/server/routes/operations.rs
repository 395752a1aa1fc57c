//! Routes for operators: health, queue, workers, deletion of old results.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::server::body::Wanted;
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, jobs, retention};
use crate::wire::{QueueView, Refusal, Retained, Retention, WorkerView};

/// Maximum retention in days; a century.
const MAX_DAYS: u32 = 36_500;

/// How long the readiness check waits for the database.
const READY: Duration = Duration::from_secs(2);

/// Check whether the process responds
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses((status = 200, body = String)))]
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Check whether the server can reach its database
#[utoipa::path(
    get, path = "/readyz", tag = "operations", security(()),
    responses((status = 200, body = String), (status = 503, body = String))
)]
pub(super) async fn ready(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if *shared.stopping.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    match timeout(READY, sqlx::query("SELECT 1").execute(&shared.pool)).await {
        Ok(Ok(_)) => (StatusCode::OK, "ok\n"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the database cannot be reached\n"),
    }
}

/// Get counters for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "operations", security(()), responses((status = 200, body = String)))]
pub(super) async fn metrics(State(shared): State<Shared>) -> Response {
    // Without the database, the counters of this process are still available.
    let queue = timeout(READY, shared.queue()).await;
    let queue = queue.ok().and_then(Result::ok).unwrap_or_default();
    let vitals = timeout(READY, shared.vitals()).await.ok().and_then(Result::ok);
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, shared.metrics.text(&queue, vitals)).into_response()
}

/// List the workers
#[utoipa::path(get, path = "/v1/workers", tag = "operations", responses((status = 200, body = Vec<WorkerView>)))]
pub(super) async fn workers(State(shared): State<Shared>) -> Result<Json<Vec<WorkerView>>, Refused> {
    patiently(|| jobs::workers(&shared.pool)).await.map(Json)
}

/// Get the numbers of waiting and leased jobs
///
/// Counts are at most five seconds old.
#[utoipa::path(get, path = "/v1/queue", tag = "operations", responses((status = 200, body = Vec<QueueView>)))]
pub(super) async fn queue(State(shared): State<Shared>) -> Result<Json<Vec<QueueView>>, Refused> {
    patiently(|| shared.queue()).await.map(Json)
}

/// Delete old results
///
/// Drops partitions of jobs and of segments in which everything ended more than `days` days ago. Deletes objects that no task and
/// no record refers to, one day after they were last uploaded or requested.
#[utoipa::path(
    post, path = "/v1/retention", tag = "operations", request_body = Retention,
    responses((status = 200, body = Retained), (status = 400, body = Refusal))
)]
pub(super) async fn retain(
    State(shared): State<Shared>,
    Wanted(wanted): Wanted<Retention>,
) -> Result<Json<Retained>, Refused> {
    if wanted.days > MAX_DAYS {
        return Err(Refused::wrong(format!("expected at most {MAX_DAYS} days")));
    }
    // Continues even if the client disconnects: bytes are deleted while a row is locked.
    let retained =
        tokio::spawn(async move { retention::retain(&shared.pool, &shared.objects, wanted.days).await });
    retained.await.map_err(Refused::failed)?.map(Json)
}
