//! Results, and the ledger that consists of them: segments with their exact lines.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgPool, Row};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Parents, Record, read_segment};
use warpproof_evidence::record::{Body, Outcome, Stage, StepRecord, VerdictRecord};
use warpproof_evidence::verdict::unsupported;
use warpproof_gate::session::{Screen, lasting};

use super::inventory;
use super::jobs::UTC;
use super::pages;
use super::refused::Refused;
use crate::wire::{Accepted, Bundle, SegmentView};

/// A parsed and internally consistent segment.
pub(super) struct Segment {
    pub(super) id: String,
    /// The hash of all its bytes.
    pub(super) hash: Hash,
    bytes: usize,
    pub(super) records: Vec<Record>,
}

impl Segment {
    /// Parses a segment with the checks of `verify`.
    pub(super) fn read(id: &str, text: &[u8]) -> Result<Self, Refused> {
        let records = read_segment(id, text).map_err(|problem| {
            Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "segment", problem.to_string())
        })?;
        Ok(Self { id: id.to_owned(), hash: Hash::of(text), bytes: text.len(), records })
    }

    /// The objects its records refer to.
    pub(super) fn objects(&self) -> BTreeSet<Hash> {
        self.records.iter().flat_map(|record| record.body.objects()).map(|(_, hash)| hash).collect()
    }

    /// The records it refers to that are in other segments.
    pub(super) fn foreign(&self) -> BTreeSet<Hash> {
        let own: BTreeSet<Hash> = self.records.iter().map(|record| record.hash).collect();
        let mut named: BTreeSet<Hash> = BTreeSet::new();
        for record in &self.records {
            if let Parents::Heads(heads) = &record.parents {
                named.extend(heads);
            }
            named.extend(record.body.references().into_iter().map(|(_, hash)| hash));
        }
        named.difference(&own).copied().collect()
    }
}

/// The evaluated result of a job.
pub(super) struct Judged {
    /// The record of the verdict, or of the run if stages were requested.
    record: Hash,
    verdict: Option<VerdictRecord>,
    lasting: bool,
    standings: Vec<pages::Standing>,
}

/// Checks that a segment belongs to exactly this job, and returns its result.
pub(super) fn judged(segment: &Segment, bundle: &Bundle, candidate: &str) -> Result<Judged, Refused> {
    let wrong = |why: &str| {
        Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "result", format!("not a result of this job: {why}"))
    };
    if !segment.foreign().is_empty() {
        return Err(wrong("its segment refers to records of other runs"));
    }
    let mut runs = segment.records.iter().filter_map(|record| match &record.body {
        Body::Run(run) => Some((record.hash, run)),
        _ => None,
    });
    let (Some((own, run)), None) = (runs.next(), runs.next()) else {
        return Err(wrong("expected exactly one run"));
    };
    let task = bundle.files.get(&bundle.task);
    if task != Some(&run.task_hash.to_string()) {
        return Err(wrong("it belongs to another task"));
    }
    // A run through a subset of the stages gives no verdict.
    let judges = if bundle.stages.is_some() { &[][..] } else { &[candidate] };
    if run.candidates != judges {
        return Err(wrong("it belongs to other candidates"));
    }
    let given = bundle.secret.as_deref().map(|secret| u64::from_str_radix(secret, 16));
    let used = run.chosen.as_deref().map(|secret| u64::from_str_radix(secret, 16));
    if given != used {
        return Err(wrong("it was evaluated with another chosen secret"));
    }
    let mut verdicts = segment.records.iter().filter_map(|record| match &record.body {
        Body::Verdict(verdict) if verdict.candidate == candidate && verdict.run == run.run => {
            Some((record.hash, verdict))
        }
        _ => None,
    });
    let (verdict, None) = (verdicts.next(), verdicts.next()) else {
        return Err(wrong("it has two verdicts"));
    };
    let steps: BTreeMap<Hash, &StepRecord> = segment
        .records
        .iter()
        .filter_map(|record| match &record.body {
            Body::Step(step) => Some((record.hash, step)),
            _ => None,
        })
        .collect();
    let rests: Option<Vec<&StepRecord>> =
        verdict.iter().flat_map(|(_, verdict)| &verdict.steps).map(|hash| steps.get(hash).copied()).collect();
    let rests = rests.ok_or_else(|| wrong("its verdict is not based on steps"))?;
    if let Some(why) = verdict.and_then(|(_, verdict)| unsupported(None, verdict, &rests)) {
        return Err(wrong(&format!("its verdict does not follow from its steps: {why}")));
    }
    let Some(stages) = &bundle.stages else {
        let (record, verdict) = verdict.ok_or_else(|| wrong("it has no verdict"))?;
        if rests.is_empty() {
            return Err(wrong("its verdict is not based on steps"));
        }
        if rests.iter().any(|step| step.candidate != candidate || step.run != run.run) {
            return Err(wrong("its verdict is based on steps of other runs"));
        }
        let lasting = rests.into_iter().all(lasting);
        let standings = pages::standings_of(&segment.records, &run.run, &run.task_hash);
        return Ok(Judged { record, verdict: Some(verdict.clone()), lasting, standings });
    };
    // Each requested stage in order, up to the first that fails; a failure has a verdict.
    if steps.values().any(|step| step.candidate != candidate || step.run != run.run) {
        return Err(wrong("it belongs to other candidates"));
    }
    let Screen { steps, .. } = Screen::of(&segment.records, candidate);
    let done: Vec<Stage> = steps.iter().map(|step| step.stage).collect();
    let red = |step: &StepRecord| matches!(step.outcome, Outcome::Fail | Outcome::Inconclusive);
    let failed = steps.iter().position(red);
    let whole = failed.map_or(stages.len(), |at| at + 1);
    if Some(&done[..]) != stages.get(..whole) {
        return Err(wrong("it ran other stages"));
    }
    if failed.is_some() != verdict.is_some() || rests.len() != verdict.map_or(0, |_| steps.len()) {
        return Err(wrong("expected a verdict if and only if a stage failed"));
    }
    // A candidate that did not run all stages does not appear on a leaderboard.
    Ok(Judged {
        record: own,
        verdict: verdict.map(|(_, verdict)| verdict.clone()),
        lasting: steps.iter().all(lasting),
        standings: Vec::new(),
    })
}

/// The task and the candidate of a job.
pub(super) async fn job(pool: &PgPool, job: i64) -> Result<(Bundle, String), Refused> {
    let row = sqlx::query("SELECT body, candidate FROM jobs JOIN bundles USING (bundle) WHERE job = $1")
        .bind(job)
        .fetch_optional(pool)
        .await?
        .ok_or_else(|| Refused::absent("job"))?;
    let bundle = serde_json::from_value(row.try_get(0)?).map_err(Refused::failed)?;
    Ok((bundle, row.try_get(1)?))
}

/// Accepts a result once, in one transaction: the fencing token must be the newest, and the lease must be valid.
pub(super) async fn accept(
    pool: &PgPool,
    (job, token): (i64, i64),
    segment: &Segment,
    judged: &Judged,
) -> Result<Accepted, Refused> {
    let mut transaction = pool.begin().await?;
    let answer = |replayed: bool| Accepted {
        job,
        segment: segment.id.clone(),
        verdict: judged.verdict.as_ref().map(|one| one.verdict.to_string()),
        replayed,
    };
    // A concurrent request waits here. Values are read after the wait, and so must the clock be.
    let row = sqlx::query("SELECT state::text, lease_token, worker FROM jobs WHERE job = $1 FOR UPDATE")
        .bind(job)
        .fetch_optional(&mut *transaction)
        .await?
        .ok_or_else(|| Refused::absent("job"))?;
    let state: String = row.try_get(0)?;
    let newest: Option<i64> = row.try_get(1)?;
    let worker: Option<String> = row.try_get(2)?;
    if state == "done" {
        let row = sqlx::query("SELECT lease_token, content FROM results WHERE job = $1")
            .bind(job)
            .fetch_optional(&mut *transaction)
            .await?;
        let same = match row {
            Some(row) => {
                row.try_get::<i64, _>(0)? == token && row.try_get::<Vec<u8>, _>(1)? == segment.hash.as_bytes()
            }
            None => false,
        };
        return if same {
            Ok(answer(true))
        } else {
            Err(Refused::conflict("done", "the job already has another result"))
        };
    }
    let holds: bool = sqlx::query(
        "SELECT coalesce(state = 'leased' AND lease_token = $2 AND lease_until >= clock_timestamp(), false)
         FROM jobs WHERE job = $1",
    )
    .bind(job)
    .bind(token)
    .fetch_one(&mut *transaction)
    .await?
    .try_get(0)?;
    if !holds || newest != Some(token) {
        return Err(Refused::conflict("lease", "the lease has expired, or a newer lease of this job exists"));
    }
    let (number, new) = insert(&mut transaction, segment).await?;
    if !new {
        return Err(Refused::conflict("segment", "this segment belongs to another job"));
    }
    sqlx::query(
        "INSERT INTO results (job, lease_token, content, segment, segment_id, record, verdict, reason, lasting, worker)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(job)
    .bind(token)
    .bind(segment.hash.as_bytes())
    .bind(number)
    .bind(&segment.id)
    .bind(judged.record.as_bytes())
    .bind(judged.verdict.as_ref().map(|one| one.verdict.as_str()))
    // The database cannot store U+0000; the record keeps the original text.
    .bind(judged.verdict.as_ref().map_or_else(String::new, |one| one.reason.replace('\0', "\u{fffd}")))
    .bind(judged.lasting)
    .bind(worker.unwrap_or_default())
    .execute(&mut *transaction)
    .await?;
    pages::insert_standings(&mut transaction, job, &judged.standings).await?;
    sqlx::query(
        "UPDATE jobs SET state = 'done', lease_until = NULL, ended_at = now(), reason = NULL WHERE job = $1",
    )
    .bind(job)
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(answer(false))
}

/// Inserts a segment with its lines; returns its number, and whether it is new.
async fn insert(connection: &mut PgConnection, segment: &Segment) -> Result<(i64, bool), Refused> {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let row = sqlx::query(
        "INSERT INTO segments (id, hash, bytes, lines) VALUES ($1, $2, $3, $4)
         ON CONFLICT (id) DO NOTHING RETURNING number",
    )
    .bind(&segment.id)
    .bind(segment.hash.as_bytes())
    .bind(count(segment.bytes))
    .bind(i32::try_from(segment.records.len()).unwrap_or(i32::MAX))
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else {
        let row = sqlx::query("SELECT number, hash FROM segments WHERE id = $1")
            .bind(&segment.id)
            .fetch_one(&mut *connection)
            .await?;
        return if row.try_get::<Vec<u8>, _>(1)? == segment.hash.as_bytes() {
            Ok((row.try_get(0)?, false))
        } else {
            Err(Refused::conflict("segment", "a different segment with this name exists"))
        };
    };
    let number: i64 = row.try_get(0)?;
    let (mut lines, mut hashes) = (Vec::new(), Vec::new());
    let (mut kinds, mut runs, mut candidates, mut texts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, record) in segment.records.iter().enumerate() {
        // The database cannot store U+0000; in JSON it is an escape, and a line that contains it raw is not a valid record.
        let clean = |text: &str| text.replace('\0', "\u{fffd}");
        lines.push(i32::try_from(at + 1).unwrap_or(i32::MAX));
        hashes.push(&record.hash.as_bytes()[..]);
        kinds.push(clean(record.body.kind()));
        runs.push(record.body.run().map(clean));
        candidates.push(record.body.candidate().map(clean));
        texts.push(record.text());
    }
    sqlx::query(
        "INSERT INTO lines (segment, line, hash, kind, run, candidate, text)
         SELECT $1, * FROM unnest($2::int[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[])",
    )
    .bind(number)
    .bind(&lines)
    .bind(&hashes)
    .bind(&kinds)
    .bind(&runs)
    .bind(&candidates)
    .bind(&texts)
    .execute(&mut *connection)
    .await?;
    inventory::name_by_segment(connection, number, &segment.objects()).await?;
    Ok((number, true))
}

/// Imports a segment that was written elsewhere.
pub(super) async fn import(pool: &PgPool, segment: &Segment) -> Result<bool, Refused> {
    let foreign: Vec<Hash> = segment.foreign().into_iter().collect();
    let names: Vec<&[u8]> = foreign.iter().map(|hash| &hash.as_bytes()[..]).collect();
    let mut transaction = pool.begin().await?;
    let rows = sqlx::query("SELECT DISTINCT hash FROM lines WHERE hash = ANY($1)")
        .bind(&names)
        .fetch_all(&mut *transaction)
        .await?;
    let mut there = BTreeSet::new();
    for row in &rows {
        there.insert(row.try_get::<Vec<u8>, _>(0)?);
    }
    let missing: Vec<String> = foreign
        .iter()
        .filter(|hash| !there.contains(&hash.as_bytes()[..]))
        .map(ToString::to_string)
        .collect();
    if !missing.is_empty() {
        let message = "the segment refers to records that are missing on this server";
        return Err(Refused::missing("missing_records", message, missing));
    }
    let (_, new) = insert(&mut transaction, segment).await?;
    transaction.commit().await?;
    Ok(new)
}

/// The exact text of a segment.
pub(super) async fn segment(pool: &PgPool, id: &str) -> Result<String, Refused> {
    let rows = sqlx::query(
        "SELECT text FROM lines WHERE segment = (SELECT number FROM segments WHERE id = $1) ORDER BY line",
    )
    .bind(id)
    .fetch_all(pool)
    .await?;
    if rows.is_empty() {
        return Err(Refused::absent("segment"));
    }
    let mut text = String::new();
    for row in &rows {
        text.push_str(row.try_get(0)?);
        text.push('\n');
    }
    Ok(text)
}

/// Segments after a number, in order.
pub(super) async fn segments(pool: &PgPool, after: i64, limit: i64) -> Result<Vec<SegmentView>, Refused> {
    let statement = format!(
        "SELECT number, id, bytes, lines, to_char(made_at AT TIME ZONE 'UTC', {UTC})
         FROM segments WHERE number > $1 ORDER BY number LIMIT $2"
    );
    let rows = sqlx::query(&statement).bind(after).bind(limit).fetch_all(pool).await?;
    let view = |row: &PgRow| -> Result<SegmentView, Refused> {
        Ok(SegmentView {
            number: row.try_get(0)?,
            id: row.try_get(1)?,
            bytes: row.try_get(2)?,
            lines: row.try_get(3)?,
            made_at: row.try_get(4)?,
        })
    };
    rows.iter().map(view).collect()
}

/// The line of one record.
pub(super) async fn record(pool: &PgPool, hash: &Hash) -> Result<String, Refused> {
    let row = sqlx::query("SELECT text FROM lines WHERE hash = $1 LIMIT 1")
        .bind(&hash.as_bytes()[..])
        .fetch_optional(pool)
        .await?;
    Ok(row.ok_or_else(|| Refused::absent("record"))?.try_get(0)?)
}
