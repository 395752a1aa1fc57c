//! Partitions: created in advance, dropped when they are old.
//!
//! Results are partitioned by ranges of job numbers, and lines by ranges of segment numbers; numbers grow with time, so a range
//! also corresponds to a period. Dropping a partition costs the same whatever its size. Afterwards, objects that are no longer
//! referenced are deleted too.

use sqlx::{PgPool, Row};

use super::inventory;
use super::objects::Objects;
use super::refused::Refused;
use crate::wire::Retained;

/// A partitioned table.
struct Stretched {
    table: &'static str,
    /// Prefix of the partition names.
    prefix: &'static str,
    /// Query for the last value of its key sequence.
    newest: &'static str,
    stretch: i64,
}

const TABLES: [Stretched; 2] = [
    Stretched {
        table: "results",
        prefix: "results_from_",
        newest: "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('jobs', 'job')::regclass), 0)",
        stretch: 1_000_000,
    },
    Stretched {
        table: "lines",
        prefix: "lines_from_",
        newest: "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('segments', 'number')::regclass), 0)",
        stretch: 100_000,
    },
];

/// Creates the current and the next partition. Rows from before a partition existed are in the default partition.
pub(super) async fn ensure_partitions(pool: &PgPool) -> Result<(), Refused> {
    for Stretched { table, prefix, newest, stretch } in &TABLES {
        let newest: i64 = sqlx::query(newest).fetch_one(pool).await?.try_get(0)?;
        for ahead in 0..2 {
            let from = (newest / stretch + ahead) * stretch;
            let to = from + stretch;
            // Only our own numbers: no part of a request enters the statement.
            let statement = format!(
                "CREATE TABLE IF NOT EXISTS {prefix}{from} PARTITION OF {table} FOR VALUES FROM ({from}) TO ({to})"
            );
            match sqlx::query(&statement).execute(pool).await {
                Ok(_) => {}
                // Another server was faster, or the default partition already has rows of this range, which stay there.
                Err(sqlx::Error::Database(error))
                    if ["42P07", "42P17", "23514", "23505"]
                        .contains(&error.code().unwrap_or_default().as_ref()) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The partitions of a table by their first number.
async fn partitions(pool: &PgPool, prefix: &str) -> Result<Vec<i64>, Refused> {
    let rows = sqlx::query(
        "SELECT substr(relname, length($1) + 1)::bigint FROM pg_class
         WHERE relname ~ ('^' || $1 || '[0-9]+$') AND relkind = 'r' AND pg_table_is_visible(oid) ORDER BY 1",
    )
    .bind(prefix)
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| row.try_get(0).map_err(Refused::from)).collect()
}

/// Rows deleted per transaction.
const BATCH: i64 = 10_000;

/// The first job that must be kept: one that is unfinished, ended recently, or belongs to a recent run. If none, the next job
/// number.
const KEEP_JOB: &str = "SELECT coalesce(
        least((SELECT min(job) FROM jobs WHERE ended_at IS NULL),
              (SELECT min(job) FROM jobs WHERE ended_at >= now() - make_interval(secs => $1)),
              (SELECT min(job) FROM run_jobs JOIN runs USING (run)
               WHERE runs.made_at >= now() - make_interval(secs => $1))),
        (SELECT max(job) + 1 FROM jobs), 0)";

/// The first segment that must be kept.
const KEEP_SEGMENT: &str = "SELECT coalesce(
        least((SELECT min(segment) FROM results),
              (SELECT min(number) FROM segments WHERE made_at >= now() - make_interval(secs => $1))),
        (SELECT max(number) + 1 FROM segments), 0)";

async fn first_kept(pool: &PgPool, statement: &str, seconds: f64) -> Result<i64, Refused> {
    Ok(sqlx::query(statement).bind(seconds).fetch_one(pool).await?.try_get(0)?)
}

/// Repeats a statement until it affects no rows, one batch per transaction.
async fn in_batches(pool: &PgPool, statement: &str, bound: i64) -> Result<u64, Refused> {
    let mut all = 0;
    loop {
        let done = sqlx::query(statement).bind(bound).bind(BATCH).execute(pool).await?.rows_affected();
        all += done;
        if done == 0 {
            return Ok(all);
        }
    }
}

/// Drops partitions unless the lock takes too long: a waiting lock request blocks all later ones.
async fn drop_partitions(pool: &PgPool, prefix: &str, partitions: &[i64]) -> Result<u64, Refused> {
    let mut dropped = 0;
    for from in partitions {
        let mut transaction = pool.begin().await?;
        sqlx::query("SET LOCAL lock_timeout = '5s'").execute(&mut *transaction).await?;
        match sqlx::query(&format!("DROP TABLE {prefix}{from}")).execute(&mut *transaction).await {
            Ok(_) => transaction.commit().await?,
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03") => {
                return Err(Refused::conflict("busy", "a partition is in use; try again later"));
            }
            Err(error) => return Err(error.into()),
        }
        dropped += 1;
    }
    Ok(dropped)
}

/// Drops partitions in which everything ended more than `days` days ago, and their jobs, runs and segments, then unreferenced
/// objects. It works in small steps; the next call continues where this one stopped.
pub(super) async fn retain(pool: &PgPool, objects: &Objects, days: u32) -> Result<Retained, Refused> {
    let mut retained = drop_stretches(pool, days).await?;
    retained.objects = inventory::collect(pool, objects).await?;
    Ok(retained)
}

async fn drop_stretches(pool: &PgPool, days: u32) -> Result<Retained, Refused> {
    let mut retained = Retained::default();
    let [results, lines] = &TABLES;
    let seconds = f64::from(days) * 86_400.0;
    let keep = first_kept(pool, KEEP_JOB, seconds).await?;
    let old = |from: &i64, keep: i64, stretch: i64| from + stretch <= keep;
    let dropped: Vec<i64> = partitions(pool, results.prefix)
        .await?
        .into_iter()
        .filter(|from| old(from, keep, results.stretch))
        .collect();
    if let Some(last) = dropped.last() {
        let end = last + results.stretch;
        // From here on no new run reuses these jobs; a run that did so meanwhile keeps them.
        let forgotten = "UPDATE jobs SET current = false
             WHERE job IN (SELECT job FROM jobs WHERE job < $1 AND current ORDER BY job LIMIT $2)";
        in_batches(pool, forgotten, end).await?;
        if first_kept(pool, KEEP_JOB, seconds).await? < end {
            return Ok(retained);
        }
        for statement in [
            "DELETE FROM run_jobs WHERE ctid = ANY (ARRAY(SELECT ctid FROM run_jobs WHERE job < $1 LIMIT $2))",
            "DELETE FROM standings WHERE ctid = ANY (ARRAY(SELECT ctid FROM standings WHERE job < $1 LIMIT $2))",
            "DELETE FROM results_rest WHERE ctid = ANY (ARRAY(SELECT ctid FROM results_rest WHERE job < $1 LIMIT $2))",
        ] {
            in_batches(pool, statement, end).await?;
        }
        let gone =
            "DELETE FROM jobs WHERE job IN (SELECT job FROM jobs WHERE job < $1 ORDER BY job LIMIT $2)";
        retained.jobs = in_batches(pool, gone, end).await?;
        let gone = "DELETE FROM runs WHERE run IN (
             SELECT run FROM runs WHERE made_at < now() - make_interval(secs => $1::bigint)
             AND NOT EXISTS (SELECT FROM run_jobs WHERE run_jobs.run = runs.run) LIMIT $2)";
        retained.runs = in_batches(pool, gone, i64::from(days) * 86_400).await?;
        retained.partitions += drop_partitions(pool, results.prefix, &dropped).await?;
    }
    let keep = first_kept(pool, KEEP_SEGMENT, seconds).await?;
    let dropped: Vec<i64> = partitions(pool, lines.prefix)
        .await?
        .into_iter()
        .filter(|from| old(from, keep, lines.stretch))
        .collect();
    if let Some(last) = dropped.last() {
        let end = last + lines.stretch;
        let gone = "DELETE FROM lines_rest WHERE ctid = ANY (ARRAY(SELECT ctid FROM lines_rest WHERE segment < $1 LIMIT $2))";
        in_batches(pool, gone, end).await?;
        let gone = "DELETE FROM segment_objects WHERE ctid = ANY (ARRAY(SELECT ctid FROM segment_objects WHERE segment < $1 LIMIT $2))";
        in_batches(pool, gone, end).await?;
        let gone = "DELETE FROM segments WHERE number IN (SELECT number FROM segments WHERE number < $1 ORDER BY number LIMIT $2)";
        retained.segments = in_batches(pool, gone, end).await?;
        retained.partitions += drop_partitions(pool, lines.prefix, &dropped).await?;
    }
    Ok(retained)
}
