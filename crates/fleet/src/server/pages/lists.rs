//! Pages of runs, workers and the queue.

use std::fmt::Write;

use axum::extract::{Path, Query, State};
use serde::Deserialize;
use warpproof_report::markup;

use super::Shown;
use super::layout::{Page, Table, number, pill, segment, time};
use crate::server::refused::patiently;
use crate::server::{Shared, jobs};
use crate::wire::{RunSummary, State as JobState};

/// Maximum number of runs on a page.
const RUNS: i64 = 50;
/// Maximum number of lost leases on a page.
const LOST: i64 = 50;
/// Maximum number of candidates of a run on a page.
const CANDIDATES: usize = 1000;

#[derive(Debug, Deserialize)]
pub(super) struct Before {
    /// Show runs whose number is below this.
    before: Option<i64>,
}

pub(super) async fn runs(State(shared): State<Shared>, Query(page): Query<Before>) -> Shown {
    let before = page.before.unwrap_or(i64::MAX);
    let runs = patiently(|| jobs::runs(&shared.pool, before, RUNS)).await?;
    let mut body = runs_table(&runs);
    if let Some(last) = runs.last().filter(|_| i64::try_from(runs.len()).is_ok_and(|count| count == RUNS)) {
        let _ =
            writeln!(body, "<p class=\"more\"><a href=\"/runs?before={}\">Older runs</a></p>", last.number);
    }
    Ok(Page::new("/runs", "Runs", body))
}

/// Runs, newest first.
pub(super) fn runs_table(runs: &[RunSummary]) -> String {
    let mut table =
        Table::new(&["run", "task", "version", "submitted by", "submitted (UTC)", "candidates", "verdicts"]);
    for run in runs {
        let short: String = run.run.chars().take(8).collect();
        table.row(&[
            format!("<a href=\"/runs/{}\">{}</a>", segment(&run.run), markup(&short)),
            markup(run.task_name.as_deref().unwrap_or(&run.task)),
            run.task_version.map(|version| version.to_string()).unwrap_or_default(),
            markup(&run.submitter),
            time(&run.made_at),
            number(run.jobs),
            verdicts(run),
        ]);
    }
    table.or("No runs yet. To submit one: `warpproof gate TASK --fleet URL`.")
}

/// Number of candidates per verdict, and number of unfinished ones.
fn verdicts(run: &RunSummary) -> String {
    let mut out: Vec<String> = Vec::new();
    for (word, count) in &run.verdicts {
        let count = if run.jobs == 1 { String::new() } else { format!(" {}", number(*count)) };
        out.push(pill(word) + &count);
    }
    if run.open > 0 {
        out.push(pill(&format!("{} open", number(run.open))));
    }
    out.join(" ")
}

pub(super) async fn run(State(shared): State<Shared>, Path(run): Path<String>) -> Shown {
    let view = patiently(|| jobs::run(&shared.pool, &run)).await?;
    let mut counts: Vec<(String, usize)> = Vec::new();
    for job in &view.jobs {
        let word = job.verdict.clone().unwrap_or_else(|| word(job.state).to_owned());
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    let mut body = format!(
        "<p>Submitted {} (UTC), task file <b>{}</b>.</p>\n<p>",
        time(&view.made_at),
        markup(&view.task)
    );
    for (word, count) in &counts {
        let _ = write!(body, "{} {}&ensp;", pill(word), number(i64::try_from(*count).unwrap_or(i64::MAX)));
    }
    body.push_str("</p>\n");
    let mut table = Table::new(&["candidate", "verdict", "why", ""]);
    for job in view.jobs.iter().take(CANDIDATES) {
        let verdict = job.verdict.as_deref().unwrap_or(word(job.state));
        let name = markup(&job.candidate);
        let name = match job.segment {
            Some(_) => format!("<a href=\"/jobs/{}\">{name}</a>", job.job),
            None => name,
        };
        table.row(&[
            name,
            pill(verdict),
            markup(job.reason.as_deref().unwrap_or_default()),
            if job.known { "cached".to_owned() } else { String::new() },
        ]);
    }
    body.push_str(&table.or("This run has no candidates."));
    if view.jobs.len() > CANDIDATES {
        let _ = writeln!(
            body,
            "<p class=\"nothing\">Showing the first {} of {}; see /v1/runs for the others.</p>",
            number(i64::try_from(CANDIDATES).unwrap_or(i64::MAX)),
            number(i64::try_from(view.jobs.len()).unwrap_or(i64::MAX))
        );
    }
    let short: String = view.run.chars().take(8).collect();
    let page = Page::new("/runs", format!("Run {short}"), body);
    Ok(if view.open > 0 { page.refreshed(5) } else { page })
}

fn word(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Leased => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

pub(super) async fn workers(State(shared): State<Shared>) -> Shown {
    let columns =
        ["worker", "capabilities", "version", "last seen (UTC)", "jobs", "lost leases, 30 days", ""];
    let mut table = Table::new(&columns);
    for worker in patiently(|| jobs::workers(&shared.pool)).await? {
        table.row(&[
            markup(&worker.worker),
            markup(&worker.capabilities.join(", ")),
            markup(&worker.version),
            time(&worker.last_seen),
            number(worker.leases),
            number(worker.lost),
            if worker.left { pill("left") } else { String::new() },
        ]);
    }
    let mut body = table.or("No workers yet. To start one: `warpproof-fleet worker --fleet URL`.");
    let lost = patiently(|| jobs::lost_leases(&shared.pool, LOST)).await?;
    body.push_str("<h2>Lost leases</h2>\n<p>A worker stopped responding while it evaluated the job.</p>\n");
    let mut table = Table::new(&["lost (UTC)", "worker", "task", "candidate", "job"]);
    for one in &lost {
        table.row(&[
            time(&one.lost_at),
            markup(&one.worker),
            markup(&one.task),
            markup(&one.candidate),
            pill(&one.state),
        ]);
    }
    body.push_str(&table.or("None in the last 30 days."));
    Ok(Page::new("/workers", "Workers", body).refreshed(10))
}

pub(super) async fn queue(State(shared): State<Shared>) -> Shown {
    let mut table = Table::new(&["capability", "state", "jobs"]);
    for queue in patiently(|| shared.queue()).await? {
        table.row(&[markup(&queue.capability), pill(word(queue.state)), number(queue.jobs)]);
    }
    Ok(Page::new("/queue", "Queue", table.or("The queue is empty, and no job is running.")).refreshed(10))
}
