//! Leaderboards: latencies of accepted candidates, by task, shape, device, and whether measured or predicted.

use std::fmt::Write;

use axum::extract::{Path, Query, State};
use serde::Deserialize;
use sqlx::{PgConnection, PgPool, Row};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Record;
use warpproof_report::{self, Evidence, markup};

use super::Shown;
use super::chart::course;
use super::evidence::{history, left_out, reported};
use super::layout::{Page, Table, number, pill, segment, time};
use crate::server::Shared;
use crate::server::jobs::named;
use crate::server::refused::{Refused, patiently};

/// Number of places on a leaderboard.
const PLACES: usize = 25;
/// Number of the best results used for the chart.
const LOOKED_AT: i64 = 500;

/// The latency of a candidate, and its task file.
pub(in crate::server) struct Standing {
    one: warpproof_report::Standing,
    task_hash: Hash,
}

/// The latencies of a run's candidates from its records. A run without a valid report has none; its verdict is not affected.
pub(in crate::server) fn of(records: &[Record], run: &str, task_hash: &Hash) -> Vec<Standing> {
    let mut evidence = Evidence::default();
    for record in records {
        evidence.add(record.hash, record.body.clone());
    }
    let all = warpproof_report::standings(&evidence, run).unwrap_or_default();
    all.into_iter().map(|one| Standing { one, task_hash: *task_hash }).collect()
}

/// Stores the latencies of a result, in the transaction that accepts the result.
pub(in crate::server) async fn insert(
    connection: &mut PgConnection,
    job: i64,
    standings: &[Standing],
) -> Result<(), Refused> {
    if standings.is_empty() {
        return Ok(());
    }
    // The database cannot store U+0000.
    let texts = |text: fn(&warpproof_report::Standing) -> &str| -> Vec<String> {
        standings.iter().map(|standing| text(&standing.one).replace('\0', "\u{fffd}")).collect()
    };
    let versions: Vec<i64> =
        standings.iter().map(|one| i64::try_from(one.one.task_version).unwrap_or(i64::MAX)).collect();
    let latencies: Vec<f64> = standings.iter().map(|one| one.one.latency).collect();
    let hashes: Vec<&[u8]> = standings.iter().map(|one| &one.task_hash.as_bytes()[..]).collect();
    let records: Vec<&[u8]> = standings.iter().map(|one| &one.one.record.as_bytes()[..]).collect();
    sqlx::query(
        "WITH wanted AS (
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::text[],
                                  $7::float8[], $8::text[], $9::text[], $10::text[], $11::bytea[])
             AS one (task, task_version, task_hash, shape, kind, device, latency, unit, candidate, verdict, record)
         ), board AS (
             INSERT INTO boards (task, task_version, task_hash, shape, kind, device)
             SELECT DISTINCT task, task_version, task_hash, shape, kind, device FROM wanted ORDER BY 1, 2, 3, 4, 5, 6
             ON CONFLICT DO NOTHING
         )
         INSERT INTO standings (task, task_version, task_hash, shape, kind, device, latency, unit, candidate, verdict,
                                record, bundle, job)
         SELECT wanted.*, bundle, job FROM wanted, jobs WHERE job = $12",
    )
    .bind(texts(|one| &one.task))
    .bind(versions)
    .bind(hashes)
    .bind(texts(|one| &one.case))
    .bind(texts(|one| one.kind.as_str()))
    .bind(texts(|one| &one.device))
    .bind(latencies)
    .bind(texts(|one| &one.unit))
    .bind(texts(|one| &one.candidate))
    .bind(texts(|one| one.verdict.as_str()))
    .bind(records)
    .bind(job)
    .execute(&mut *connection)
    .await?;
    Ok(())
}

pub(super) async fn tasks(State(shared): State<Shared>) -> Shown {
    let rows = patiently(|| async {
        let statement = "SELECT task, max(task_version), count(DISTINCT (shape)), count(DISTINCT (device))
             FROM boards GROUP BY task ORDER BY task LIMIT 1000";
        Ok(sqlx::query(statement).fetch_all(&shared.pool).await?)
    })
    .await?;
    let mut table = Table::new(&["task", "newest version", "shapes", "devices"]);
    for row in &rows {
        let task: String = row.try_get(0)?;
        table.row(&[
            format!("<a href=\"/tasks/{}\">{}</a>", segment(&task), markup(&task)),
            number(row.try_get(1)?),
            number(row.try_get(2)?),
            number(row.try_get(3)?),
        ]);
    }
    let body = table
        .or("No results yet. Candidates that passed are listed with their latency, predicted or measured.");
    Ok(Page::new("/tasks", "Leaderboards", body))
}

/// The selected leaderboard of a task.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    version: Option<i64>,
    file: Option<String>,
    shape: Option<String>,
    kind: Option<String>,
    device: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Board {
    version: i64,
    /// The hash of the task file.
    file: String,
    shape: String,
    kind: String,
    device: String,
}

impl Board {
    fn is(&self, wanted: &Wanted) -> bool {
        wanted.version.is_none_or(|version| version == self.version)
            && wanted.file.as_ref().is_none_or(|file| *file == self.file)
            && wanted.shape.as_ref().is_none_or(|shape| *shape == self.shape)
            && wanted.kind.as_ref().is_none_or(|kind| *kind == self.kind)
            && wanted.device.as_ref().is_none_or(|device| *device == self.device)
    }

    fn name(&self) -> String {
        let short: String = self.file.chars().take(8).collect();
        format!("{}, {} for {}, version {} ({short})", self.shape, self.kind, self.device, self.version)
    }

    fn query(&self) -> String {
        format!(
            "version={}&amp;file={}&amp;shape={}&amp;kind={}&amp;device={}",
            self.version,
            segment(&self.file),
            segment(&self.shape),
            segment(&self.kind),
            segment(&self.device)
        )
    }
}

async fn boards(pool: &PgPool, task: &str) -> Result<Vec<Board>, Refused> {
    // Measured latencies come before predicted ones, newer versions before older ones.
    let rows = sqlx::query(
        "SELECT task_version, shape, kind, device, task_hash FROM boards WHERE task = $1
         ORDER BY task_version DESC, kind, shape, device, made_at DESC LIMIT 200",
    )
    .bind(task)
    .fetch_all(pool)
    .await?;
    let board = |row: &sqlx::postgres::PgRow| -> Result<Board, Refused> {
        Ok(Board {
            version: row.try_get(0)?,
            shape: row.try_get(1)?,
            kind: row.try_get(2)?,
            device: row.try_get(3)?,
            file: named(&row.try_get::<Vec<u8>, _>(4)?)?,
        })
    };
    rows.iter().map(board).collect()
}

pub(super) async fn task(
    State(shared): State<Shared>,
    Path(task): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Shown {
    let boards = patiently(|| boards(&shared.pool, &task)).await?;
    let board =
        boards.iter().find(|board| board.is(&wanted)).ok_or_else(|| Refused::absent("leaderboard"))?;
    let rows = patiently(|| async {
        // Candidates with the same files count as one, however often they were evaluated.
        let statement = "SELECT candidate, latency, unit, best.verdict, job, segment_id,
                to_char(made_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
             FROM (SELECT DISTINCT ON (candidate, bundle) * FROM standings
                   WHERE task = $1 AND task_version = $2 AND shape = $3 AND kind = $4 AND device = $5
                     AND task_hash = decode($7, 'hex')
                   ORDER BY candidate, bundle, latency) AS best LEFT JOIN results USING (job)
             ORDER BY latency, job LIMIT $6";
        let query = sqlx::query(statement)
            .bind(&task)
            .bind(board.version)
            .bind(&board.shape)
            .bind(&board.kind)
            .bind(&board.device)
            .bind(LOOKED_AT)
            .bind(&board.file)
            .fetch_all(&shared.pool)
            .await?;
        Ok(query)
    })
    .await?;
    let mut body = String::from("<ul class=\"boards\">");
    for one in &boards {
        let here = if one == board { " aria-current=\"page\"" } else { "" };
        let _ = write!(body, "<li><a href=\"?{}\"{here}>{}</a></li>", one.query(), markup(&one.name()));
    }
    body.push_str("</ul>\n");
    let mut table = Table::new(&["", "candidate", &format!("latency, {}", board.kind), "verdict", "since"]);
    let mut segments: Vec<String> = Vec::new();
    let mut times: Vec<(String, f64)> = Vec::new();
    let mut unit = String::new();
    for (place, row) in rows.iter().enumerate() {
        let candidate: String = row.try_get(0)?;
        let latency: f64 = row.try_get(1)?;
        let made: String = row.try_get(6)?;
        unit = row.try_get(2)?;
        times.push((made.clone(), latency));
        if place >= PLACES {
            continue;
        }
        let (job, verdict): (i64, String) = (row.try_get(4)?, row.try_get(3)?);
        segments.extend(row.try_get::<Option<String>, _>(5)?);
        table.row(&[
            number(i64::try_from(place + 1).unwrap_or(i64::MAX)),
            format!("<a href=\"/jobs/{job}\">{}</a>", markup(&candidate)),
            format!("{latency:.3} {}", markup(&unit)),
            pill(&verdict),
            time(&made),
        ]);
    }
    body.push_str(&table.or("No candidates."));
    let course_title = format!("Best latency so far, {} for {}", board.kind, board.device);
    body.push_str(&course(&course_title, &unit, board.kind == "predicted", &best_so_far(times)));
    let name = task.clone();
    let (report, left) =
        reported(&shared.pool, &segments, move |records: &Evidence| history(records, &name)).await?;
    body.push_str("<h2>History</h2>\n");
    body.push_str(&report);
    body.push_str(&left_out(left));
    Ok(Page::new("/tasks", task, body))
}

/// The results that were the best when they were accepted, in order of time.
fn best_so_far(mut times: Vec<(String, f64)>) -> Vec<(String, f64)> {
    times.sort_by(|one, other| one.0.cmp(&other.0));
    let mut best: Vec<(String, f64)> = Vec::new();
    for (made, latency) in times {
        if best.last().is_none_or(|(_, than)| latency < *than) {
            best.push((made, latency));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_better_than_all_before_it_is_on_the_course() {
        let at = |hour: &str, latency: f64| (hour.to_owned(), latency);
        let times = vec![at("03", 4.0), at("01", 9.0), at("02", 9.5), at("04", 5.0)];
        assert_eq!(best_so_far(times), vec![at("01", 9.0), at("03", 4.0)]);
    }
}
