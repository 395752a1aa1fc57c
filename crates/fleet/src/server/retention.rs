//! Partitions, made before they are needed and dropped when they are old.
//!
//! Results are in stretches of jobs and lines in stretches of segments; numbers rise with time, so that a stretch is also a
//! time. Dropping a stretch costs the same whatever is in it. Bytes in the object store and the lists of
//! files of tasks stay.

use sqlx::{PgPool, Row};

use super::refused::Refused;
use crate::wire::Retained;

/// A table in stretches.
struct Stretched {
    table: &'static str,
    /// How the names of its partitions start.
    prefix: &'static str,
    /// The sequence its key is drawn from.
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

/// Makes the partitions that are written to now and next. What came before a partition was there is in the rest's.
pub(super) async fn ensure_partitions(pool: &PgPool) -> Result<(), Refused> {
    for Stretched { table, prefix, newest, stretch } in &TABLES {
        let newest: i64 = sqlx::query(newest).fetch_one(pool).await?.try_get(0)?;
        for ahead in 0..2 {
            let from = (newest / stretch + ahead) * stretch;
            let to = from + stretch;
            // Numbers of ours only: nothing of a request is part of a statement.
            let statement = format!(
                "CREATE TABLE IF NOT EXISTS {prefix}{from} PARTITION OF {table} FOR VALUES FROM ({from}) TO ({to})"
            );
            match sqlx::query(&statement).execute(pool).await {
                Ok(_) => {}
                // Another server was faster, or the rest's partition has rows of this stretch already: they stay there.
                Err(sqlx::Error::Database(error))
                    if ["42P07", "42P17", "23514", "23505"]
                        .contains(&error.code().unwrap_or_default().as_ref()) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The partitions of a table by where they begin.
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

/// Drops whole stretches in which everything ended longer ago than so many days, and the jobs, runs and segments of them.
pub(super) async fn retain(pool: &PgPool, days: u32) -> Result<Retained, Refused> {
    let mut retained = Retained::default();
    let [results, lines] = &TABLES;
    let days = f64::from(days) * 86_400.0;
    // The first job that must stay; where all may go, the next that will be made.
    let keep: i64 = sqlx::query(
        "SELECT coalesce(
             least((SELECT min(job) FROM jobs WHERE ended_at IS NULL),
                   (SELECT min(job) FROM jobs WHERE ended_at >= now() - make_interval(secs => $1))),
             (SELECT max(job) + 1 FROM jobs), 0)",
    )
    .bind(days)
    .fetch_one(pool)
    .await?
    .try_get(0)?;
    let old = |from: &i64, keep: i64, stretch: i64| from + stretch <= keep;
    let dropped: Vec<i64> = partitions(pool, results.prefix)
        .await?
        .into_iter()
        .filter(|from| old(from, keep, results.stretch))
        .collect();
    let mut transaction = pool.begin().await?;
    if let Some(last) = dropped.last() {
        let end = last + results.stretch;
        for from in &dropped {
            sqlx::query(&format!("DROP TABLE {}{from}", results.prefix)).execute(&mut *transaction).await?;
            retained.partitions += 1;
        }
        for statement in [
            "DELETE FROM run_jobs WHERE job < $1",
            "DELETE FROM results_rest WHERE job < $1",
            "DELETE FROM standings WHERE job < $1",
        ] {
            sqlx::query(statement).bind(end).execute(&mut *transaction).await?;
        }
        let gone =
            sqlx::query("DELETE FROM jobs WHERE job < $1").bind(end).execute(&mut *transaction).await?;
        retained.jobs = gone.rows_affected();
        let gone = sqlx::query(
            "DELETE FROM runs WHERE made_at < now() - make_interval(secs => $1)
             AND NOT EXISTS (SELECT FROM run_jobs WHERE run_jobs.run = runs.run)",
        )
        .bind(days)
        .execute(&mut *transaction)
        .await?;
        retained.runs = gone.rows_affected();
    }
    let keep: i64 = sqlx::query(
        "SELECT coalesce(
             least((SELECT min(segment) FROM results),
                   (SELECT min(number) FROM segments WHERE made_at >= now() - make_interval(secs => $1))),
             (SELECT max(number) + 1 FROM segments), 0)",
    )
    .bind(days)
    .fetch_one(&mut *transaction)
    .await?
    .try_get(0)?;
    let dropped: Vec<i64> = partitions(pool, lines.prefix)
        .await?
        .into_iter()
        .filter(|from| old(from, keep, lines.stretch))
        .collect();
    if let Some(last) = dropped.last() {
        let end = last + lines.stretch;
        for from in &dropped {
            sqlx::query(&format!("DROP TABLE {}{from}", lines.prefix)).execute(&mut *transaction).await?;
            retained.partitions += 1;
        }
        sqlx::query("DELETE FROM lines_rest WHERE segment < $1").bind(end).execute(&mut *transaction).await?;
        let gone = sqlx::query("DELETE FROM segments WHERE number < $1")
            .bind(end)
            .execute(&mut *transaction)
            .await?;
        retained.segments = gone.rows_affected();
    }
    transaction.commit().await?;
    Ok(retained)
}
