//! For those who run a fleet: is it well, what waits, who works, what may go.

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

/// The longest that anything is kept for, in days; a century.
const MAX_DAYS: u32 = 36_500;

/// How long readiness waits for the database.
const READY: Duration = Duration::from_secs(2);

/// Whether the process answers
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses((status = 200, body = String)))]
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Whether it can do its work
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

/// Counters for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "operations", security(()), responses((status = 200, body = String)))]
pub(super) async fn metrics(State(shared): State<Shared>) -> Response {
    // Without the database there are still the counters of this process.
    let queue = timeout(READY, shared.queue()).await;
    let queue = queue.ok().and_then(Result::ok).unwrap_or_default();
    let vitals = timeout(READY, shared.vitals()).await.ok().and_then(Result::ok);
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, shared.metrics.text(&queue, vitals)).into_response()
}

/// The workers
#[utoipa::path(get, path = "/v1/workers", tag = "operations", responses((status = 200, body = Vec<WorkerView>)))]
pub(super) async fn workers(State(shared): State<Shared>) -> Result<Json<Vec<WorkerView>>, Refused> {
    patiently(|| jobs::workers(&shared.pool)).await.map(Json)
}

/// What waits and what is held
///
/// Counted within the last five seconds.
#[utoipa::path(get, path = "/v1/queue", tag = "operations", responses((status = 200, body = Vec<QueueView>)))]
pub(super) async fn queue(State(shared): State<Shared>) -> Result<Json<Vec<QueueView>>, Refused> {
    patiently(|| shared.queue()).await.map(Json)
}

/// Drop what is old
///
/// Whole stretches of jobs and of segments go, when all in them ended longer ago than so many days. Of objects go those that no
/// task and no record names any more, a day after they were uploaded or asked for last.
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
    // To its end, also when whoever asked hangs up: bytes are removed while a row is held.
    let retained =
        tokio::spawn(async move { retention::retain(&shared.pool, &shared.objects, wanted.days).await });
    retained.await.map_err(Refused::failed)?.map(Json)
}
