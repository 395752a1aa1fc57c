//! Pages with the gate's reports, generated from a candidate's records.

use axum::extract::{Path, State};
use sqlx::{PgPool, Row};
use warpproof_evidence::ledger::read_segment;
use warpproof_report::{self, Evidence, ViewError, markup};

use super::Shown;
use super::layout::{Page, segment, time};
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, evidence};

/// Maximum number of negative results on a page.
const NEGATIVES: i64 = 100;

/// A report that its records do not support is an error.
fn unresolved(error: &ViewError) -> Refused {
    Refused::failed(format!("the records do not support the report: {error}"))
}

/// Maximum size of the segments used for one page, in bytes.
const BYTES: i64 = 32 << 20;

/// Builds a report from segments, the most important ones first; also returns the number of segments left out because of the size
/// limit.
pub(super) async fn reported<T: Send + 'static>(
    pool: &PgPool,
    ids: &[String],
    report: impl FnOnce(&Evidence) -> Result<T, Refused> + Send + 'static,
) -> Result<(T, usize), Refused> {
    let rows = sqlx::query(
        "SELECT id, bytes FROM segments JOIN unnest($1::text[]) WITH ORDINALITY AS wanted (id, place) USING (id)
         ORDER BY place",
    )
    .bind(ids)
    .fetch_all(pool)
    .await?;
    let mut left = BYTES;
    let mut texts: Vec<(String, String)> = Vec::new();
    for row in &rows {
        let (id, bytes): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        if bytes > left {
            break;
        }
        left -= bytes;
        let text = evidence::segment(pool, &id).await?;
        texts.push((id, text));
    }
    let left_out = ids.len().saturating_sub(texts.len());
    // Names of segments begin with their time.
    texts.sort();
    let read = move || {
        let mut all = Evidence::default();
        for (id, text) in texts {
            for record in read_segment(&id, text.as_bytes()).map_err(Refused::failed)? {
                all.add(record.hash, record.body);
            }
        }
        report(&all)
    };
    let made = tokio::task::spawn_blocking(read).await.map_err(Refused::failed)??;
    Ok((made, left_out))
}

/// A note about results that are not shown.
pub(super) fn left_out(count: usize) -> String {
    if count == 0 {
        return String::new();
    }
    format!("<p class=\"nothing\">{count} older results are not shown: the page would be too large.</p>\n")
}

pub(super) async fn job(State(shared): State<Shared>, Path(job): Path<i64>) -> Shown {
    let row = patiently(|| async {
        let statement = "SELECT candidate, segment_id, results.worker, attempts,
                to_char(accepted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
             FROM jobs JOIN results USING (job) WHERE job = $1";
        Ok(sqlx::query(statement).bind(job).fetch_optional(&shared.pool).await?)
    })
    .await?
    .ok_or_else(|| Refused::absent("result"))?;
    let candidate: String = row.try_get(0)?;
    let id: String = row.try_get(1)?;
    let (worker, attempts): (String, i32) = (row.try_get(2)?, row.try_get(3)?);
    let accepted: String = row.try_get(4)?;
    let report = |records: &Evidence| {
        // The segment of a result is read completely, or not at all.
        let Some(run) = records.newest_run() else { return Ok(None) };
        let report = warpproof_report::validation(records, &run.run).map_err(|error| unresolved(&error))?;
        Ok(Some(report.html_content()))
    };
    let (report, _) = reported(&shared.pool, std::slice::from_ref(&id), report).await?;
    let report = report.unwrap_or_else(|| {
        "<p class=\"nothing\">The records are too large to show on a page.</p>\n".to_owned()
    });
    let tries = if attempts == 1 { String::new() } else { format!(", claimed {attempts} times") };
    let body = format!(
        "<p>Accepted {} from <b>{}</b>{tries}. Its records: <a href=\"/v1/segments/{}\">{}</a>.</p>\n{}",
        time(&accepted),
        markup(&worker),
        segment(&id),
        markup(&id),
        report
    );
    Ok(Page::new("/runs", candidate, body))
}

pub(super) async fn negatives(State(shared): State<Shared>) -> Shown {
    let rows = patiently(|| async {
        let statement =
            "SELECT segment_id FROM results WHERE verdict = 'DEFER' ORDER BY accepted_at DESC LIMIT $1";
        Ok(sqlx::query(statement).bind(NEGATIVES).fetch_all(&shared.pool).await?)
    })
    .await?;
    let ids: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let body = if ids.is_empty() {
        "<p class=\"nothing\">No candidate passed all checks and was measured as not fast enough. Negative results \
         require measurements.</p>\n"
            .to_owned()
    } else {
        let report = |records: &Evidence| {
            Ok(warpproof_report::negatives(records).map_err(|error| unresolved(&error))?.html_content())
        };
        let (report, left) = reported(&shared.pool, &ids, report).await?;
        report + &left_out(left)
    };
    Ok(Page::new("/negatives", "Negatives", body))
}

/// The history of the best candidates of a task; empty if none of its runs is available.
pub(super) fn history(records: &Evidence, task: &str) -> Result<String, Refused> {
    match warpproof_report::history(records, task) {
        Ok(report) => Ok(report.html_content()),
        Err(ViewError::NoRun(_)) => Ok(String::new()),
        Err(error) => Err(unresolved(&error)),
    }
}
