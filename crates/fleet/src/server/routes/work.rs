//! Routes of workers: claims, heartbeats and results.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use warpproof_evidence::hash::Hash;

use super::{objects, word};
use crate::server::access::Caller;
use crate::server::address::Path;
use crate::server::body::{Large, Wanted};
use crate::server::evidence::{self, Segment};
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, inventory, jobs};
use crate::wire::{
    Accepted, Beaten, Claim, Claimed, Failure, Goodbye, Heartbeat, MAX_CLAIM, Outcome, Refusal, Release,
};

/// Objects with their bytes.
type Objects = Vec<(Hash, Vec<u8>)>;

/// Maximum duration of a lease, in seconds.
const MAX_LEASE: u32 = 3_600;

fn lease(seconds: u32) -> Result<(), Refused> {
    if (1..=MAX_LEASE).contains(&seconds) {
        return Ok(());
    }
    Err(Refused::wrong(format!("expected a lease of 1 to {MAX_LEASE} seconds")))
}

/// Claim jobs
///
/// Each job has a fencing token: only the newest one is accepted, and only while the lease is valid.
#[utoipa::path(
    post, path = "/v1/claims", tag = "work", request_body = Claim,
    responses((status = 200, body = Claimed), (status = 400, body = Refusal), (status = 409, body = Refusal))
)]
pub(super) async fn claim(
    State(shared): State<Shared>,
    caller: Caller,
    Wanted(claim): Wanted<Claim>,
) -> Result<Json<Claimed>, Refused> {
    word("a worker's name", &claim.worker, 128)?;
    if claim.version != env!("CARGO_PKG_VERSION") {
        let ours = env!("CARGO_PKG_VERSION");
        let message = format!("expected a worker of warpproof {ours}: results depend on the version");
        return Err(Refused::conflict("version", message));
    }
    if claim.capabilities.is_empty() || claim.capabilities.len() > 16 {
        return Err(Refused::wrong("expected 1 to 16 capabilities"));
    }
    for capability in &claim.capabilities {
        word("a capability", capability, 128)?;
    }
    if claim.limit == 0 || claim.limit > MAX_CLAIM {
        return Err(Refused::wrong(format!("expected a claim of 1 to {MAX_CLAIM} jobs")));
    }
    lease(claim.lease_seconds)?;
    // Claims are admitted in order, a few at a time: concurrent claims skip each other's locked jobs, which would make the last one
    // wait longest.
    let jobs = patiently(|| async {
        let _turn = shared.claims.acquire().await.map_err(Refused::failed)?;
        jobs::claim(&shared.pool, caller.id, shared.attempts, &claim).await
    });
    let jobs = jobs.await?;
    let count = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    shared.metrics.claimed.fetch_add(count, Ordering::Relaxed);
    Ok(Json(Claimed { jobs }))
}

/// Extend leases
#[utoipa::path(
    post, path = "/v1/heartbeats", tag = "work", request_body = Heartbeat,
    responses((status = 200, body = Beaten), (status = 400, body = Refusal))
)]
pub(super) async fn heartbeat(
    State(shared): State<Shared>,
    Wanted(beat): Wanted<Heartbeat>,
) -> Result<Json<Beaten>, Refused> {
    word("a worker's name", &beat.worker, 128)?;
    lease(beat.lease_seconds)?;
    if beat.leases.len() > 4_096 {
        return Err(Refused::wrong("expected at most 4096 jobs"));
    }
    let lost = patiently(|| jobs::heartbeat(&shared.pool, &beat)).await?;
    Ok(Json(Beaten { lost }))
}

/// Sign off a worker
///
/// The worker has released its jobs. It no longer counts as one that could retry a failed job.
#[utoipa::path(
    post, path = "/v1/goodbyes", tag = "work", request_body = Goodbye,
    responses((status = 204), (status = 400, body = Refusal))
)]
pub(super) async fn goodbye(
    State(shared): State<Shared>,
    caller: Caller,
    Wanted(goodbye): Wanted<Goodbye>,
) -> Result<StatusCode, Refused> {
    word("a worker's name", &goodbye.worker, 128)?;
    patiently(|| jobs::goodbye(&shared.pool, &goodbye.worker, caller.id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Release a job that was not started
#[utoipa::path(
    post, path = "/v1/jobs/{job}/release", tag = "work", params(("job" = i64, Path, minimum = 1, maximum = 9223372036854775807i64)), request_body = Release,
    responses((status = 204), (status = 409, body = Refusal))
)]
pub(super) async fn release(
    State(shared): State<Shared>,
    Path(job): Path<i64>,
    Wanted(release): Wanted<Release>,
) -> Result<StatusCode, Refused> {
    patiently(|| jobs::release(&shared.pool, job, release.token)).await?;
    shared.metrics.released.fetch_add(1, Ordering::Relaxed);
    Ok(StatusCode::NO_CONTENT)
}

/// Report that a job failed
///
/// The job is retried; after the third failure it fails. Each worker counts once, as long as other workers could try.
#[utoipa::path(
    post, path = "/v1/jobs/{job}/failure", tag = "work", params(("job" = i64, Path, minimum = 1, maximum = 9223372036854775807i64)), request_body = Failure,
    responses((status = 204), (status = 409, body = Refusal))
)]
pub(super) async fn fail(
    State(shared): State<Shared>,
    Path(job): Path<i64>,
    Wanted(failure): Wanted<Failure>,
) -> Result<StatusCode, Refused> {
    word("a reason", &failure.reason, 4_096)?;
    patiently(|| jobs::fail(&shared.pool, job, &failure)).await?;
    shared.metrics.failed.fetch_add(1, Ordering::Relaxed);
    shared.ended.notify_waiters();
    Ok(StatusCode::NO_CONTENT)
}

/// Send a result
///
/// A result is accepted once: with the newest fencing token, while the lease is valid. Sending the same result again returns the
/// same response.
#[utoipa::path(
    post, path = "/v1/jobs/{job}/result", tag = "work", params(("job" = i64, Path, minimum = 1, maximum = 9223372036854775807i64)), request_body = Outcome,
    responses(
        (status = 200, body = Accepted), (status = 400, body = Refusal), (status = 404, body = Refusal),
        (status = 409, body = Refusal), (status = 413, body = Refusal), (status = 422, body = Refusal),
    )
)]
pub(super) async fn accept(
    State(shared): State<Shared>,
    Path(job): Path<i64>,
    Large(outcome, _room): Large<Outcome>,
) -> Result<Json<Accepted>, Refused> {
    let answer = take(&shared, job, outcome).await;
    let counter = match &answer {
        Ok(Accepted { replayed: true, .. }) => &shared.metrics.replayed,
        Ok(_) => &shared.metrics.accepted,
        Err(_) => &shared.metrics.refused,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    if answer.is_ok() {
        shared.ended.notify_waiters();
    }
    answer.map(Json)
}

async fn take(shared: &Shared, job: i64, outcome: Outcome) -> Result<Accepted, Refused> {
    let token = outcome.token;
    let (segment, mut objects) =
        tokio::task::spawn_blocking(move || read(outcome)).await.map_err(Refused::failed)??;
    let (bundle, candidate) = patiently(|| evidence::job(&shared.pool, job)).await?;
    let judged = evidence::judged(&segment, &bundle, &candidate)?;
    let wanted = segment.objects();
    if let Some((hash, _)) = objects.iter().find(|(hash, _)| !wanted.contains(hash)) {
        return Err(Refused::wrong(format!("no record refers to object {hash}")));
    }
    let brought: BTreeSet<Hash> = objects.iter().map(|(hash, _)| *hash).collect();
    let (new, missing): (Vec<Hash>, Vec<Hash>) = patiently(|| inventory::missing(&shared.pool, &wanted))
        .await?
        .into_iter()
        .partition(|hash| brought.contains(hash));
    if !missing.is_empty() {
        return Err(inventory::refusal(&missing));
    }
    // Objects are stored before the records that refer to them.
    objects.retain(|(hash, _)| new.contains(hash));
    objects::keep(shared, objects).await?;
    patiently(|| evidence::accept(&shared.pool, (job, token), &segment, &judged)).await
}

/// Parses a segment, and verifies the objects against their hashes.
fn read(outcome: Outcome) -> Result<(Segment, Objects), Refused> {
    let segment = Segment::read(&outcome.segment, outcome.text.as_bytes())?;
    Ok((segment, objects::read(outcome.objects)?))
}
