//! The start page: health of the fleet, and results of the last two days.

use std::fmt::Write;

use axum::extract::State;
use sqlx::Row;
use warpproof_report::markup;

use super::Shown;
use super::chart::{Column, SCREENED, columns};
use super::layout::{Page, number};
use super::lists::runs_table;
use crate::server::refused::Refused;
use crate::server::{Shared, jobs};
use crate::wire::State as JobState;

const HOURS: i32 = 48;

pub(super) async fn overview(State(shared): State<Shared>) -> Shown {
    let pool = &shared.pool;
    let (mut waiting, mut held) = (0, 0);
    for queue in shared.queue().await? {
        match queue.state {
            JobState::Queued => waiting += queue.jobs,
            _ => held += queue.jobs,
        }
    }
    let vitals = shared.vitals().await?;
    let hours = hours(&shared).await?;
    let today: i64 = hours.iter().rev().take(24).flat_map(|hour| &hour.parts).map(|(_, count)| count).sum();
    let mut body = String::from("<div class=\"tiles\">");
    for (count, what) in [
        (waiting, "jobs queued"),
        (held, "jobs running"),
        (vitals.workers, "workers active in the last two minutes"),
        (today, "results in the last 24 hours"),
        (vitals.lost_today, "leases lost in the last 24 hours"),
    ] {
        let _ =
            write!(body, "<div class=\"tile\"><b>{}</b><span>{}</span></div>", number(count), markup(what));
    }
    body.push_str("</div>\n");
    body.push_str(&columns("Results per hour, last two days (UTC)", &hours));
    body.push_str("<h2>Newest runs</h2>\n");
    body.push_str(&runs_table(&jobs::runs(pool, i64::MAX, 10).await?));
    Ok(Page::new("/", "Fleet", body).refreshed(30))
}

/// The last hours with their verdicts, including hours without results.
async fn hours(shared: &Shared) -> Result<Vec<Column>, Refused> {
    let rows = sqlx::query(
        "SELECT to_char(hour AT TIME ZONE 'UTC', 'HH24:MI'), verdict, count(results.job)
         FROM generate_series(date_trunc('hour', now()) - make_interval(hours => $1 - 1), date_trunc('hour', now()),
                              interval '1 hour') AS hour
         LEFT JOIN results ON accepted_at >= hour AND accepted_at < hour + interval '1 hour'
              AND accepted_at >= date_trunc('hour', now()) - make_interval(hours => $1 - 1)
         GROUP BY hour, verdict ORDER BY hour, verdict",
    )
    .bind(HOURS)
    .fetch_all(&shared.pool)
    .await?;
    let mut columns: Vec<(String, Column)> = Vec::new();
    for row in &rows {
        let label: String = row.try_get(0)?;
        let verdict: Option<String> = row.try_get(1)?;
        // In two days each label occurs twice, but never consecutively.
        if columns.last().is_none_or(|(last, _)| *last != label) {
            columns.push((label.clone(), Column { label, parts: Vec::new() }));
        }
        // The query returns a row with count 0 for an hour without results.
        if let (Some((_, column)), count @ 1..) = (columns.last_mut(), row.try_get(2)?) {
            column.parts.push((verdict.unwrap_or_else(|| SCREENED.to_owned()), count));
        }
    }
    Ok(columns.into_iter().map(|(_, column)| column).collect())
}
