//! What the records of a candidate say, as the gate's own reports.

use axum::extract::{Path, State};
use sqlx::{PgPool, Row};
use warpproof_gate::ledger::read_segment;
use warpproof_gate::record::Body;
use warpproof_gate::view::{self, Evidence, ViewError, markup};

use super::Shown;
use super::layout::{Page, segment, time};
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, evidence};

/// How many negatives a page shows.
const NEGATIVES: i64 = 100;

/// A report that its own records do not bear out is no page.
fn unresolved(error: &ViewError) -> Refused {
    Refused::failed(format!("a report does not resolve: {error}"))
}

/// The records of segments, in the order given.
pub(super) async fn of_segments(pool: &PgPool, ids: &[String]) -> Result<Evidence, Refused> {
    let mut all = Evidence::default();
    for id in ids {
        let text = evidence::segment(pool, id).await?;
        let records = read_segment(id, text.as_bytes()).map_err(Refused::failed)?;
        for record in records {
            all.add(record.hash, record.body);
        }
    }
    Ok(all)
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
    let records = of_segments(&shared.pool, std::slice::from_ref(&id)).await?;
    let run = records.newest_run().ok_or_else(|| Refused::failed("a result without its run"))?.run.clone();
    let report = view::validation(&records, &run).map_err(|error| unresolved(&error))?;
    let tries = if attempts == 1 { String::new() } else { format!(", claimed {attempts} times") };
    let body = format!(
        "<p>Accepted {} from <b>{}</b>{tries}. Its records: <a href=\"/v1/segments/{}\">{}</a>.</p>\n{}",
        time(&accepted),
        markup(&worker),
        segment(&id),
        markup(&id),
        report.html_content()
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
    let ids: Vec<String> = rows.iter().rev().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let body = if ids.is_empty() {
        "<p class=\"nothing\">No candidate was green, measured and not fast enough: a valid negative. Where nothing is \
         measured, there are none.</p>\n"
            .to_owned()
    } else {
        let records = of_segments(&shared.pool, &ids).await?;
        view::negatives(&records).map_err(|error| unresolved(&error))?.html_content()
    };
    Ok(Page::new("/negatives", "Negatives", body))
}

/// How the candidates of a task came to be as fast as they are; nothing where none of its runs is there.
pub(super) fn history(records: &Evidence, task: &str) -> Result<String, Refused> {
    match view::history(records, task) {
        Ok(report) => Ok(report.html_content()),
        Err(ViewError::NoRun(_)) => Ok(String::new()),
        Err(error) => Err(unresolved(&error)),
    }
}

/// The name of the run in the records of one segment.
pub(in crate::server) fn run_of<'r>(bodies: impl Iterator<Item = &'r Body>) -> Option<&'r str> {
    bodies.into_iter().find_map(|body| match body {
        Body::Run(run) => Some(&*run.run),
        _ => None,
    })
}
