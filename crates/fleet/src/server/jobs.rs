//! Runs, jobs and leases in the database. Statements are constants with bound values; times are those of the database.

use std::collections::BTreeSet;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgPool, Row};
use warpproof_evidence::hash::Hash;

use super::inventory;
use super::refused::Refused;
use crate::wire::{
    Bundle, Claim, Failure, Heartbeat, JobView, Leased, QueueView, RunSummary, RunView, State, Submission,
    WorkerView,
};

/// Number of failures after which a job fails, reported by different workers if that many exist.
pub(super) const MAX_FAILURES: i32 = 3;
/// Maximum number of claims of a job.
pub(super) const MAX_ATTEMPTS: i32 = 100;
/// How long lost leases are kept, in days.
const REMEMBERED: i32 = 30;
/// Date format of the database for people.
pub(super) const UTC: &str = r#"'YYYY-MM-DD"T"HH24:MI:SS"Z"'"#;

/// A submission: one job for each candidate with new content; the others reuse existing jobs.
pub(super) struct Wish<'s> {
    pub(super) token: i64,
    pub(super) quota: i32,
    pub(super) submission: &'s Submission,
    /// Hash of the request.
    pub(super) request: Hash,
    pub(super) bundle: Hash,
    /// Hashes of the bundle's files.
    pub(super) objects: &'s BTreeSet<Hash>,
    /// One key per candidate.
    pub(super) keys: &'s [Hash],
    /// The task's name and version, if its file could be parsed.
    pub(super) task: Option<(String, i64)>,
}

pub(super) async fn submit(pool: &PgPool, wish: &Wish<'_>) -> Result<(), Refused> {
    let Wish { token, submission, .. } = wish;
    let mut transaction = pool.begin().await?;
    let made = sqlx::query(
        "INSERT INTO runs (run, token, request, task, task_name, task_version) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (run) DO NOTHING",
    )
    .bind(&submission.run)
    .bind(token)
    .bind(wish.request.as_bytes())
    .bind(&submission.bundle.task)
    .bind(wish.task.as_ref().map(|(name, _)| name))
    .bind(wish.task.as_ref().map(|(_, version)| version))
    .execute(&mut *transaction)
    .await?;
    if made.rows_affected() == 0 {
        let row = sqlx::query("SELECT request, token FROM runs WHERE run = $1")
            .bind(&submission.run)
            .fetch_one(&mut *transaction)
            .await?;
        let same =
            row.try_get::<Vec<u8>, _>(0)? == wish.request.as_bytes() && row.try_get::<i64, _>(1)? == *token;
        return if same {
            Ok(())
        } else {
            Err(Refused::conflict("run", "a different run with this name exists"))
        };
    }
    insert_bundle(&mut transaction, wish).await?;
    let keys: Vec<&[u8]> = wish.keys.iter().map(|key| &key.as_bytes()[..]).collect();
    // Existing jobs are locked in the order of the keys: two submissions never deadlock, and no concurrent request cancels a job
    // that this one joins.
    sqlx::query("SELECT key FROM jobs WHERE key = ANY($1) AND current ORDER BY key FOR UPDATE")
        .bind(&keys)
        .fetch_all(&mut *transaction)
        .await?;
    // Failed jobs and inconclusive measurements are retried; with `fresh`, all finished jobs.
    sqlx::query(
        "UPDATE jobs SET current = false WHERE key = ANY($1) AND current AND (state IN ('failed', 'cancelled')
         OR (state = 'done' AND ($2 OR EXISTS (SELECT FROM results WHERE results.job = jobs.job AND NOT lasting))))",
    )
    .bind(&keys)
    .bind(submission.fresh)
    .execute(&mut *transaction)
    .await?;
    // In the order of the keys, so that two submissions never deadlock.
    let added = sqlx::query(
        "INSERT INTO jobs (key, token, capability, priority, candidate, bundle)
         SELECT key, $3, $4, $5, candidate, $6 FROM unnest($1::bytea[], $2::text[]) AS wanted (key, candidate)
         ORDER BY key ON CONFLICT (key) WHERE current DO NOTHING",
    )
    .bind(&keys)
    .bind(&submission.candidates)
    .bind(token)
    .bind(&submission.capability)
    .bind(submission.priority)
    .bind(wish.bundle.as_bytes())
    .execute(&mut *transaction)
    .await?;
    if added.rows_affected() > 0 {
        // Submissions of one token run one after another, so that each counts the jobs of earlier ones.
        let held = sqlx::query("SELECT FROM tokens WHERE id = $1 FOR NO KEY UPDATE").bind(token);
        held.execute(&mut *transaction).await?;
        let row = sqlx::query(
            "SELECT count(*) FROM (SELECT FROM jobs WHERE token = $1 AND state IN ('queued', 'leased') LIMIT $2) AS open",
        )
        .bind(token)
        .bind(i64::from(wish.quota) + 1)
        .fetch_one(&mut *transaction)
        .await?;
        if row.try_get::<i64, _>(0)? > i64::from(wish.quota) {
            let message = format!("quota exceeded: this token allows {} unfinished jobs", wish.quota);
            return Err(Refused::new(axum::http::StatusCode::TOO_MANY_REQUESTS, "quota", message));
        }
    }
    sqlx::query(
        "INSERT INTO run_jobs (run, place, job, known)
         SELECT $1, place, jobs.job, jobs.state = 'done'
         FROM unnest($2::bytea[]) WITH ORDINALITY AS wanted (key, place)
         JOIN jobs ON jobs.key = wanted.key AND jobs.current",
    )
    .bind(&submission.run)
    .bind(&keys)
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(())
}

/// Inserts a bundle, or locks the existing one, so that it is not deleted before a job refers to it.
async fn insert_bundle(connection: &mut PgConnection, wish: &Wish<'_>) -> Result<(), Refused> {
    let body = serde_json::to_value(&wish.submission.bundle).map_err(Refused::failed)?;
    let held = "SELECT FROM bundles WHERE bundle = $1 FOR KEY SHARE";
    let held = sqlx::query(held).bind(wish.bundle.as_bytes()).fetch_optional(&mut *connection).await?;
    if held.is_none() {
        // If two transactions insert the same bundle, the second must see the first's row; that row is locked, so it is not
        // deleted.
        sqlx::query(
            "INSERT INTO bundles (bundle, body) VALUES ($1, $2)
             ON CONFLICT (bundle) DO UPDATE SET body = excluded.body",
        )
        .bind(wish.bundle.as_bytes())
        .bind(body)
        .execute(&mut *connection)
        .await?;
    }
    inventory::name_by_bundle(connection, &wish.bundle, wish.objects).await
}

/// The hexadecimal form of a hash in the database.
pub(super) fn named(bytes: &[u8]) -> Result<String, Refused> {
    Hash::from_bytes(bytes).map(|hash| hash.to_string()).map_err(Refused::failed)
}

fn state(word: &str) -> Result<State, Refused> {
    State::named(word).ok_or_else(|| Refused::failed(format!("unknown job state in the database: `{word}`")))
}

/// A run with its jobs.
pub(super) async fn run(pool: &PgPool, name: &str) -> Result<RunView, Refused> {
    let statement =
        format!("SELECT task, to_char(made_at AT TIME ZONE 'UTC', {UTC}) FROM runs WHERE run = $1");
    let row = sqlx::query(&statement).bind(name).fetch_optional(pool).await?;
    let row = row.ok_or_else(|| Refused::absent("run"))?;
    let jobs = sqlx::query(
        "SELECT job, candidate, state::text, known, verdict, coalesce(results.reason, jobs.reason), segment_id, record
         FROM run_jobs JOIN jobs USING (job) LEFT JOIN results USING (job) WHERE run = $1 ORDER BY place",
    )
    .bind(name)
    .fetch_all(pool)
    .await?;
    let view = |row: &PgRow| -> Result<JobView, Refused> {
        Ok(JobView {
            job: row.try_get(0)?,
            candidate: row.try_get(1)?,
            state: state(row.try_get(2)?)?,
            known: row.try_get(3)?,
            verdict: row.try_get(4)?,
            reason: row.try_get(5)?,
            segment: row.try_get(6)?,
            record: row.try_get::<Option<Vec<u8>>, _>(7)?.map(|hash| named(&hash)).transpose()?,
        })
    };
    let jobs: Vec<JobView> = jobs.iter().map(view).collect::<Result<_, _>>()?;
    let open = jobs.iter().filter(|job| !job.state.is_settled()).count();
    Ok(RunView {
        run: name.to_owned(),
        task: row.try_get(0)?,
        made_at: row.try_get(1)?,
        open: i64::try_from(open).unwrap_or(i64::MAX),
        jobs,
    })
}

/// Whether a run has unfinished jobs; `None` if the run does not exist.
pub(super) async fn open(pool: &PgPool, name: &str) -> Result<Option<bool>, Refused> {
    let row = sqlx::query(
        "SELECT EXISTS (SELECT FROM run_jobs JOIN jobs USING (job)
                 WHERE run_jobs.run = runs.run AND state IN ('queued', 'leased')) FROM runs WHERE run = $1",
    )
    .bind(name)
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Runs before a number, newest first.
pub(super) async fn runs(pool: &PgPool, before: i64, limit: i64) -> Result<Vec<RunSummary>, Refused> {
    let statement = format!(
        "SELECT run, number, task, to_char(runs.made_at AT TIME ZONE 'UTC', {UTC}),
                (SELECT count(*) FROM run_jobs WHERE run_jobs.run = runs.run),
                (SELECT count(*) FROM run_jobs JOIN jobs USING (job)
                 WHERE run_jobs.run = runs.run AND state IN ('queued', 'leased')),
                task_name, task_version, tokens.name,
                (SELECT coalesce(jsonb_object_agg(word, jobs), '{{}}') FROM (
                    SELECT coalesce(verdict, 'failed') AS word, count(*) AS jobs
                    FROM run_jobs JOIN jobs USING (job) LEFT JOIN results USING (job)
                    WHERE run_jobs.run = runs.run AND (verdict IS NOT NULL OR state = 'failed') GROUP BY 1) AS ended)
         FROM runs JOIN tokens ON tokens.id = runs.token WHERE number < $1 ORDER BY number DESC LIMIT $2"
    );
    let rows = sqlx::query(&statement).bind(before).bind(limit).fetch_all(pool).await?;
    let view = |row: &PgRow| -> Result<RunSummary, Refused> {
        Ok(RunSummary {
            run: row.try_get(0)?,
            number: row.try_get(1)?,
            task: row.try_get(2)?,
            made_at: row.try_get(3)?,
            jobs: row.try_get(4)?,
            open: row.try_get(5)?,
            task_name: row.try_get(6)?,
            task_version: row.try_get(7)?,
            submitter: row.try_get(8)?,
            verdicts: serde_json::from_value(row.try_get(9)?).map_err(Refused::failed)?,
        })
    };
    rows.iter().map(view).collect()
}

/// Cancels the waiting jobs of a run that no other run needs. Runs of other tokens are treated as not found.
pub(super) async fn cancel(pool: &PgPool, name: &str, token: i64) -> Result<(), Refused> {
    let own = sqlx::query("SELECT FROM runs WHERE run = $1 AND token = $2").bind(name).bind(token);
    own.fetch_optional(pool).await?.ok_or_else(|| Refused::absent("run"))?;
    let mut transaction = pool.begin().await?;
    // A submission that joins one of these jobs locks it: other runs are checked after the lock.
    let held = sqlx::query(
        "SELECT key FROM jobs WHERE state = 'queued' AND job IN (SELECT job FROM run_jobs WHERE run = $1)
         ORDER BY key FOR UPDATE",
    );
    held.bind(name).fetch_all(&mut *transaction).await?;
    let gone = sqlx::query(
        "UPDATE jobs SET state = 'cancelled', ended_at = now(), reason = 'canceled by the submitter'
         WHERE state = 'queued' AND job IN (SELECT job FROM run_jobs WHERE run = $1)
           AND NOT EXISTS (SELECT FROM run_jobs WHERE run_jobs.job = jobs.job AND run <> $1)
         RETURNING key, bundle",
    )
    .bind(name)
    .fetch_all(&mut *transaction)
    .await?;
    // Canceling a repeated evaluation restores the earlier result. Jobs with the same key have the same bundle.
    let (mut keys, mut bundles): (Vec<Vec<u8>>, BTreeSet<Vec<u8>>) = (Vec::new(), BTreeSet::new());
    for row in &gone {
        keys.push(row.try_get(0)?);
        bundles.insert(row.try_get(1)?);
    }
    let known = sqlx::query(
        "SELECT max(job), key FROM jobs WHERE bundle = ANY($1) AND key = ANY($2) AND state = 'done' GROUP BY key",
    )
    .bind(bundles.into_iter().collect::<Vec<_>>())
    .bind(keys)
    .fetch_all(&mut *transaction)
    .await?;
    let (mut jobs, mut keys): (Vec<i64>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    for row in &known {
        jobs.push(row.try_get(0)?);
        keys.push(row.try_get(1)?);
    }
    let forgotten = sqlx::query("UPDATE jobs SET current = false WHERE key = ANY($1) AND current").bind(keys);
    forgotten.execute(&mut *transaction).await?;
    let current = sqlx::query("UPDATE jobs SET current = true WHERE job = ANY($1)").bind(jobs);
    current.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

/// The statement of a claim for one capability: expired leases first, unless the job has lost too many, then waiting jobs; it also
/// updates the worker's last contact, unless that is recent. Locked rows are skipped, so that claims never wait for each other.
///
/// The literal limits of 256 are [`MAX_CLAIM`](crate::wire::MAX_CLAIM): for a limit given as a parameter the planner expects a
/// tenth of the table and reads all of it. The last limit restricts the number of rows taken.
pub const CLAIM: &str = "
    WITH ended AS MATERIALIZED (
        SELECT job, worker FROM jobs WHERE state = 'leased' AND capability = $1 AND lease_until < now() AND lost + 1 < $8
        ORDER BY lease_until LIMIT 256 FOR UPDATE SKIP LOCKED
    ), waiting AS MATERIALIZED (
        SELECT job FROM jobs WHERE state = 'queued' AND capability = $1
        ORDER BY priority DESC, job LIMIT 256 FOR UPDATE SKIP LOCKED
    ), taken AS MATERIALIZED (
        SELECT job, worker FROM ended UNION ALL SELECT job, NULL FROM waiting LIMIT $2
    ), missed AS (
        INSERT INTO lost_leases (job, worker) SELECT job, worker FROM taken WHERE worker IS NOT NULL
    ), seen AS (
        INSERT INTO workers (worker, token, capabilities, version) SELECT $4, $5, $6, $7
        WHERE NOT EXISTS (SELECT FROM workers WHERE worker = $4 AND token = $5 AND capabilities = $6 AND version = $7
                          AND last_seen > now() - interval '10 seconds' AND left_at IS NULL)
        ON CONFLICT (worker) DO UPDATE SET last_seen = now(), token = $5, capabilities = $6, version = $7, left_at = NULL
    ), claimed AS (
        UPDATE jobs SET attempts = attempts + 1, lost = lost + (state = 'leased')::integer, state = 'leased',
            lease_token = nextval('lease_tokens'), lease_until = now() + make_interval(secs => $3), worker = $4
        WHERE job = ANY (ARRAY(SELECT job FROM taken))
        RETURNING jobs.job, lease_token, capability, candidate, bundle
    )
    SELECT job, lease_token, capability, candidate, body FROM claimed JOIN bundles USING (bundle) ORDER BY job";

/// Leases jobs, for the scarcest capability first.
pub(super) async fn claim(
    pool: &PgPool,
    token: i64,
    most_lost: i32,
    claim: &Claim,
) -> Result<Vec<Leased>, Refused> {
    let mut jobs: Vec<Leased> = Vec::new();
    for capability in &claim.capabilities {
        let room = i64::from(claim.limit) - i64::try_from(jobs.len()).unwrap_or(i64::MAX);
        if room <= 0 {
            break;
        }
        let rows = sqlx::query(CLAIM)
            .bind(capability)
            .bind(room)
            .bind(f64::from(claim.lease_seconds))
            .bind(&claim.worker)
            .bind(token)
            .bind(&claim.capabilities)
            .bind(&claim.version)
            .bind(most_lost)
            .fetch_all(pool)
            .await?;
        for row in &rows {
            let body: serde_json::Value = row.try_get(4)?;
            let bundle: Bundle = serde_json::from_value(body).map_err(Refused::failed)?;
            jobs.push(Leased {
                job: row.try_get(0)?,
                token: row.try_get(1)?,
                capability: row.try_get(2)?,
                candidate: row.try_get(3)?,
                bundle,
            });
        }
    }
    Ok(jobs)
}

/// Extends valid leases, and returns the lost ones.
pub(super) async fn heartbeat(pool: &PgPool, beat: &Heartbeat) -> Result<Vec<i64>, Refused> {
    let jobs: Vec<i64> = beat.leases.iter().map(|lease| lease.job).collect();
    let tokens: Vec<i64> = beat.leases.iter().map(|lease| lease.token).collect();
    let rows = sqlx::query(
        "WITH seen AS (UPDATE workers SET last_seen = now() WHERE worker = $4)
         UPDATE jobs SET lease_until = now() + make_interval(secs => $3)
         FROM unnest($1::bigint[], $2::bigint[]) AS held (job, token)
         WHERE jobs.job = held.job AND jobs.lease_token = held.token AND state = 'leased' AND lease_until >= now()
         RETURNING jobs.job",
    )
    .bind(&jobs)
    .bind(&tokens)
    .bind(f64::from(beat.lease_seconds))
    .bind(&beat.worker)
    .fetch_all(pool)
    .await?;
    let mut held: Vec<i64> = Vec::new();
    for row in &rows {
        held.push(row.try_get(0)?);
    }
    Ok(jobs.into_iter().filter(|job| !held.contains(job)).collect())
}

fn lost() -> Refused {
    Refused::conflict("lease", "the lease has expired, or a newer lease of this job exists")
}

/// Returns a job to the queue; the claim is not counted.
pub(super) async fn release(pool: &PgPool, job: i64, token: i64) -> Result<(), Refused> {
    let done = sqlx::query(
        "UPDATE jobs SET state = 'queued', lease_until = NULL, attempts = attempts - 1
         WHERE job = $1 AND lease_token = $2 AND state = 'leased' AND lease_until >= clock_timestamp()",
    )
    .bind(job)
    .bind(token)
    .execute(pool)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(lost()) }
}

/// Records a failure: the job is retried, or fails. Each worker counts once as long as other workers could try, so that one broken
/// worker does not fail all jobs.
pub(super) async fn fail(pool: &PgPool, job: i64, failure: &Failure) -> Result<(), Refused> {
    let done = sqlx::query(
        "WITH held AS (
             SELECT job, capability, failures, attempts, CASE WHEN worker = ANY(failed_by) OR worker IS NULL
                 THEN failed_by ELSE failed_by || worker END AS voices
             FROM jobs WHERE job = $1 AND lease_token = $2 AND state = 'leased' AND lease_until >= clock_timestamp()
             FOR UPDATE
         ), others AS (
             SELECT count(*) AS alive FROM (
                 SELECT FROM workers, held WHERE last_seen > now() - interval '2 minutes' AND left_at IS NULL
                     AND held.capability = ANY(workers.capabilities) LIMIT $4) AS seen
         ), decided AS (
             SELECT *, attempts >= $5 OR (failures + 1 >= $4 AND cardinality(voices) >= alive) AS over FROM held, others
         )
         UPDATE jobs SET failures = jobs.failures + 1, failed_by = voices, reason = $3, lease_until = NULL,
             state = CASE WHEN over THEN 'failed' ELSE 'queued' END::job_state,
             ended_at = CASE WHEN over THEN now() END
         FROM decided WHERE jobs.job = decided.job",
    )
    .bind(job)
    .bind(failure.token)
    .bind(&failure.reason)
    .bind(MAX_FAILURES)
    .bind(MAX_ATTEMPTS)
    .execute(pool)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(lost()) }
}

/// Signs off a worker: it no longer counts as one that could retry a job.
pub(super) async fn goodbye(pool: &PgPool, worker: &str, token: i64) -> Result<(), Refused> {
    let statement = "UPDATE workers SET left_at = now() WHERE worker = $1 AND token = $2";
    sqlx::query(statement).bind(worker).bind(token).execute(pool).await?;
    Ok(())
}

/// Fails jobs that lost `most_lost` leases: they may crash every worker. The server runs this periodically.
pub(super) async fn give_up(pool: &PgPool, most_lost: i32) -> Result<u64, Refused> {
    let done = sqlx::query(
        "WITH spent AS (
             SELECT job, worker FROM jobs
             WHERE state = 'leased' AND lease_until < now() AND (lost + 1 >= $1 OR attempts >= $2)
             LIMIT 1000 FOR UPDATE SKIP LOCKED
         ), missed AS (
             INSERT INTO lost_leases (job, worker) SELECT job, worker FROM spent
         )
         UPDATE jobs SET state = 'failed', lease_until = NULL, ended_at = now(), lost = lost + 1,
             reason = 'failed after ' || attempts || CASE attempts WHEN 1 THEN ' attempt: ' ELSE ' attempts: ' END
                 || lost + 1 || CASE lost WHEN 0 THEN ' worker' ELSE ' workers' END
                 || ' stopped responding during it, the last was ' || spent.worker
         FROM spent WHERE jobs.job = spent.job",
    )
    .bind(most_lost)
    .bind(MAX_ATTEMPTS)
    .execute(pool)
    .await?;
    let old = "DELETE FROM lost_leases WHERE lost_at < now() - make_interval(days => $1)";
    sqlx::query(old).bind(REMEMBERED).execute(pool).await?;
    Ok(done.rows_affected())
}

/// The workers, most recent contact first.
pub(super) async fn workers(pool: &PgPool) -> Result<Vec<WorkerView>, Refused> {
    let statement = format!(
        "SELECT worker, capabilities, version, to_char(last_seen AT TIME ZONE 'UTC', {UTC}), coalesce(held.jobs, 0),
                coalesce(missed.leases, 0), left_at IS NOT NULL
         FROM workers LEFT JOIN (SELECT worker, count(*) AS jobs FROM jobs WHERE state = 'leased' GROUP BY worker) AS held
         USING (worker) LEFT JOIN (SELECT worker, count(*) AS leases FROM lost_leases GROUP BY worker) AS missed
         USING (worker) ORDER BY last_seen DESC LIMIT 10000"
    );
    let rows = sqlx::query(&statement).fetch_all(pool).await?;
    let view = |row: &PgRow| -> Result<WorkerView, Refused> {
        Ok(WorkerView {
            worker: row.try_get(0)?,
            capabilities: row.try_get(1)?,
            version: row.try_get(2)?,
            last_seen: row.try_get(3)?,
            leases: row.try_get(4)?,
            lost: row.try_get(5)?,
            left: row.try_get(6)?,
        })
    };
    rows.iter().map(view).collect()
}

/// A lease that expired without a response of its worker.
pub(super) struct LostLease {
    pub(super) lost_at: String,
    pub(super) worker: String,
    pub(super) task: String,
    pub(super) candidate: String,
    /// The current state of its job.
    pub(super) state: String,
}

/// The most recently lost leases, newest first.
pub(super) async fn lost_leases(pool: &PgPool, limit: i64) -> Result<Vec<LostLease>, Refused> {
    let statement = format!(
        "SELECT to_char(lost_at AT TIME ZONE 'UTC', {UTC}), lost_leases.worker, coalesce(body ->> 'task', ''),
                coalesce(candidate, ''), coalesce(state::text, 'removed')
         FROM lost_leases LEFT JOIN jobs USING (job) LEFT JOIN bundles USING (bundle) ORDER BY number DESC LIMIT $1"
    );
    let rows = sqlx::query(&statement).bind(limit).fetch_all(pool).await?;
    let view = |row: &PgRow| -> Result<LostLease, Refused> {
        Ok(LostLease {
            lost_at: row.try_get(0)?,
            worker: row.try_get(1)?,
            task: row.try_get(2)?,
            candidate: row.try_get(3)?,
            state: row.try_get(4)?,
        })
    };
    rows.iter().map(view).collect()
}

/// Numbers of waiting and leased jobs, by capability.
pub(super) async fn queue(pool: &PgPool) -> Result<Vec<QueueView>, Refused> {
    let rows = sqlx::query(
        "SELECT capability, state::text, count(*) FROM jobs WHERE state = 'queued' GROUP BY 1, 2
         UNION ALL SELECT capability, state::text, count(*) FROM jobs WHERE state = 'leased' GROUP BY 1, 2
         ORDER BY 1, 2",
    )
    .fetch_all(pool)
    .await?;
    let view = |row: &PgRow| -> Result<QueueView, Refused> {
        Ok(QueueView { capability: row.try_get(0)?, state: state(row.try_get(1)?)?, jobs: row.try_get(2)? })
    };
    rows.iter().map(view).collect()
}
