//! Routes of runs: submission and status.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use warpproof_evidence::hash::Hash;
use warpproof_task::{MAX_BYTES, Task};

use super::{hash, limit, word};
use crate::bundle;
use crate::server::access::Caller;
use crate::server::address::{Path, Query};
use crate::server::body::Large;
use crate::server::jobs::{self, Wish};
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, inventory};
use crate::wire::{MAX_CANDIDATES, Refusal, RunSummary, RunView, Submission};

/// Part of the job key; changes whenever the same content may be evaluated differently.
const RULES: &str = concat!("warpproof fleet 1, ", env!("CARGO_PKG_VERSION"));
/// Maximum wait for a run in one request, in seconds.
const MAX_WAIT: u64 = 30;
/// Poll interval of a run: other servers may have accepted its last result.
const LOOK: Duration = Duration::from_millis(500);
/// Minimum interval between two polls.
const BETWEEN: Duration = Duration::from_millis(250);

fn check(submission: &Submission) -> Result<(), Refused> {
    let Submission { run, bundle, candidates, capability, .. } = submission;
    let digits = run.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if run.len() != 32 || !digits {
        return Err(Refused::wrong("expected a run name of 32 lowercase hexadecimal digits"));
    }
    word("a capability", capability, 128)?;
    if candidates.is_empty() || candidates.len() > MAX_CANDIDATES {
        return Err(Refused::wrong(format!("expected 1 to {MAX_CANDIDATES} candidates")));
    }
    let mut seen = BTreeSet::new();
    for candidate in candidates {
        word("a candidate's name", candidate, 512)?;
        if !seen.insert(candidate) {
            return Err(Refused::wrong("duplicate candidate"));
        }
    }
    bundle::check_files(&bundle.files).map_err(Refused::wrong)?;
    for name in bundle.files.values() {
        hash(name)?;
    }
    if !bundle.files.contains_key(&bundle.task) {
        return Err(Refused::wrong("the task file is not among the files"));
    }
    let secret = bundle.secret.as_deref();
    if secret.is_some_and(|secret| secret.len() > 16 || u64::from_str_radix(secret, 16).is_err()) {
        return Err(Refused::wrong("expected a secret of 1 to 16 hexadecimal digits"));
    }
    if bundle.stages.as_ref().is_some_and(|stages| stages.is_empty() || !stages.is_sorted_by(|a, b| a < b)) {
        return Err(Refused::wrong("expected at least one stage, each once and in order"));
    }
    Ok(())
}

/// The hash of a bundle.
fn bundle_hash(submission: &Submission) -> Hash {
    let bundle = &submission.bundle;
    let secret = bundle.secret.as_deref().map(|secret| u64::from_str_radix(secret, 16).unwrap_or(0));
    let mut pieces = vec![bundle.task.clone(), format!("{secret:x?}")];
    pieces.extend(bundle.files.iter().flat_map(|(path, hash)| [path.clone(), hash.clone()]));
    // After pairs, so that it cannot be confused with a file.
    pieces.extend(bundle.stages.as_ref().map(|stages| format!("{stages:?}")));
    Hash::of_pieces(pieces.iter().map(String::as_bytes))
}

/// The name and the version of a submission's task, if this server can parse its file.
async fn task_of(shared: &Shared, submission: &Submission) -> Result<Option<(String, i64)>, Refused> {
    let Some(name) = submission.bundle.files.get(&submission.bundle.task) else { return Ok(None) };
    let name = hash(name)?;
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    if patiently(|| inventory::size(&shared.pool, &name)).await?.is_none_or(|bytes| bytes > most) {
        return Ok(None);
    }
    let bytes = shared.objects.get(&name).await?;
    let read = move || {
        let task = Task::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
        Some((task.name.value, i64::from(task.version.value)))
    };
    tokio::task::spawn_blocking(read).await.map_err(Refused::failed)
}

/// Submit candidates
///
/// Results of the same content are returned immediately. All objects must have been uploaded before.
#[utoipa::path(
    post, path = "/v1/runs", tag = "runs", request_body = Submission,
    responses(
        (status = 200, body = RunView), (status = 400, body = Refusal), (status = 409, body = Refusal),
        (status = 422, body = Refusal, description = "objects are missing"), (status = 429, body = Refusal),
    )
)]
pub(super) async fn submit(
    State(shared): State<Shared>,
    caller: Caller,
    Large(submission, _room): Large<Submission>,
) -> Result<Json<RunView>, Refused> {
    check(&submission)?;
    let mut wanted = BTreeSet::new();
    for name in submission.bundle.files.values() {
        wanted.insert(hash(name)?);
    }
    let missing = patiently(|| inventory::missing(&shared.pool, &wanted)).await?;
    if !missing.is_empty() {
        return Err(inventory::refusal(&missing));
    }
    let bundle = bundle_hash(&submission);
    // Everything that an evaluation depends on. The server computes the key: a client that chose it could claim another result's
    // verdict.
    let own = bundle.to_string();
    let keys: Vec<Hash> = submission
        .candidates
        .iter()
        .map(|candidate| {
            let pieces = [RULES, &submission.capability, &own, candidate];
            Hash::of_pieces(pieces.iter().map(|piece| piece.as_bytes()))
        })
        .collect();
    let request = serde_json::to_vec(&submission).map_err(Refused::failed)?;
    let task = task_of(&shared, &submission).await?;
    let wish = Wish {
        task,
        token: caller.id,
        quota: caller.quota,
        submission: &submission,
        request: Hash::of(&request),
        bundle,
        objects: &wanted,
        keys: &keys,
    };
    patiently(|| jobs::submit(&shared.pool, &wish)).await?;
    let count = u64::try_from(keys.len()).unwrap_or(u64::MAX);
    shared.metrics.submitted.fetch_add(count, Ordering::Relaxed);
    patiently(|| jobs::run(&shared.pool, &submission.run)).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct Wait {
    /// Seconds to wait for the last job.
    #[serde(default)]
    #[param(minimum = 0, maximum = 30)]
    wait: u64,
}

/// Get the state of a run
#[utoipa::path(
    get, path = "/v1/runs/{run}", tag = "runs", params(("run" = String, Path, pattern = "^[0-9a-f]{32}$"), Wait),
    responses((status = 200, body = RunView), (status = 404, body = Refusal))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    Path(run): Path<String>,
    Query(wait): Query<Wait>,
) -> Result<Json<RunView>, Refused> {
    word("a run's name", &run, 64)?;
    if wait.wait > MAX_WAIT {
        return Err(Refused::wrong(format!("expected a wait of at most {MAX_WAIT} seconds")));
    }
    let clock = &shared.clock;
    let end = clock.now() + Duration::from_secs(wait.wait);
    loop {
        // Registered before the check, so that no end is missed in between.
        let ended = shared.ended.notified();
        let open = patiently(|| jobs::open(&shared.pool, &run)).await?;
        let open = open.ok_or_else(|| Refused::absent("run"))?;
        if !open || clock.now() >= end || *shared.stopping.borrow() {
            return patiently(|| jobs::run(&shared.pool, &run)).await.map(Json);
        }
        let left = end.saturating_duration_since(clock.now());
        let again = clock.now() + BETWEEN.min(left);
        let _looked = clock.timeout(LOOK.min(left), ended).await;
        // Several results in a short time cause only one poll.
        clock.sleep_until(again).await;
    }
}

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct Page {
    /// Return runs whose number is below this.
    before: Option<i64>,
    /// Maximum number of runs.
    #[param(minimum = 0, maximum = 1000)]
    limit: Option<u32>,
}

/// List runs, newest first
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(Page), responses((status = 200, body = Vec<RunSummary>)))]
pub(super) async fn list(
    State(shared): State<Shared>,
    Query(page): Query<Page>,
) -> Result<Json<Vec<RunSummary>>, Refused> {
    let (before, limit) = (page.before.unwrap_or(i64::MAX), limit(page.limit)?);
    patiently(|| jobs::runs(&shared.pool, before, limit)).await.map(Json)
}

/// Cancel the waiting jobs of a run that no other run needs
///
/// Requires the token that submitted the run.
#[utoipa::path(
    post, path = "/v1/runs/{run}/cancel", tag = "runs", params(("run" = String, Path, pattern = "^[0-9a-f]{32}$")),
    responses((status = 204), (status = 404, body = Refusal))
)]
pub(super) async fn cancel(
    State(shared): State<Shared>,
    caller: Caller,
    Path(run): Path<String>,
) -> Result<StatusCode, Refused> {
    word("a run's name", &run, 64)?;
    patiently(|| jobs::cancel(&shared.pool, &run, caller.id)).await?;
    shared.ended.notify_waiters();
    Ok(StatusCode::NO_CONTENT)
}
