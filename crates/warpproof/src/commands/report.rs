//! `warpproof report`: makes every report as a view of the ledger.

use std::path::Path;

use clap::{Args, ValueEnum};
use warpproof_evidence::ledger::{Ledger, newest_run};
use warpproof_evidence::record::Verdict;
use warpproof_report::{self, Baseline, Candidate, Document, Evidence, Subject, ViewError};

use super::evidence::{of_ledger, of_view};
use super::flags::{Form, JsonFlag, LedgerFlags, OutputFlags, by_ending, ended};
use crate::report::{Kind, Outcome, Report as Message};
use crate::terminal::Terminal;

/// Make a report from the ledger
///
/// Every number in a report refers to a record; a reference that does not resolve is an error.
///
///   warpproof report                                  summary of the newest run
///   warpproof report validation -o report.html        full report, as a self-contained page
///   warpproof report comparison --baseline OLD --candidate NEW
///   warpproof report stage --candidate NEW -o stage.md
///
/// A comparison takes RUN:CANDIDATE, a run with one candidate, or a candidate, which selects its
/// newest verdict. Different devices, shapes or task versions are rejected.
///
/// Exit codes: 0 success · 1 the ledger does not support it · 2 wrong usage, or no records.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Report {
    /// The report to make
    #[arg(value_enum, default_value_t = View::Summary)]
    view: View,
    #[command(flatten)]
    ledger: LedgerFlags,
    /// Report on this run [default: the newest]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Report only this candidate; in a comparison, the new one [default for stage: the newest]
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// Compare with this baseline [default for stage: the candidate's parent]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Show the history of this task [default: the run's task]
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Set the output format [default: from the file's extension, or text]
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    #[command(flatten)]
    json: JsonFlag,
    /// Attach SARIF results to this file [default: the task file of the run]
    #[arg(long, value_name = "FILE")]
    place: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum View {
    /// Summary of a run: headline, gates, decision
    Summary,
    /// Full report of a run: every figure with its threshold and source
    Validation,
    /// Comparison of a candidate with a baseline
    Comparison,
    /// History of a task's kernels
    History,
    /// Candidates that passed and were not faster
    Negatives,
    /// All attempts: hypothesis, change, result
    Attempts,
    /// One page about a candidate, from its parent to the next options
    Stage,
    /// Gates only
    Checklist,
    /// Next steps
    Next,
    /// Commit message for merging a candidate
    MergeMessage,
    /// Comment for a pull request, in Markdown
    PrComment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for a terminal
    Text,
    /// Markdown, with footnotes that name records
    Markdown,
    /// Self-contained page with light and dark themes
    Html,
    /// The document, which can be verified against the ledger
    Json,
    /// JUnit XML of a run, for build servers
    Junit,
    /// SARIF 2.1.0 of a run, for code scanning
    Sarif,
}

impl Form for Format {
    const JSON: Self = Self::Json;
    const ENDINGS: &'static [(&'static str, Self)] = &[
        ("txt", Self::Text),
        ("md", Self::Markdown),
        ("html", Self::Html),
        ("htm", Self::Html),
        ("json", Self::Json),
        ("xml", Self::Junit),
        ("sarif", Self::Sarif),
    ];
}

/// The result of a view.
enum Made {
    Document(Box<Document>),
    /// In its only format.
    Text(String),
}

impl Report {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let reported = self.report(terminal);
        ended(reported, terminal)
    }

    fn report(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Message>> {
        self.usage()?;
        let ledger = self.ledger.open()?;
        let text = match self.make(&ledger)? {
            Made::Text(text) => text,
            Made::Document(document) => written(&document, self.form()?),
        };
        // The format has escaped the ledger's content; nothing is stripped, so that a file and a pipe get the same bytes.
        self.output.put(text.as_bytes())?;
        if let Some(file) = self.output.file() {
            terminal.say(format_args!("wrote {}", file.display()));
        }
        Ok(Outcome::Green)
    }

    fn form(&self) -> Result<Format, Box<Message>> {
        let usual = if self.view == View::Stage { Format::Markdown } else { Format::Text };
        self.output.form(self.json, self.format, usual)
    }

    /// Whether the view is about one run.
    fn of_a_run(&self) -> bool {
        !matches!(
            self.view,
            View::Comparison | View::History | View::Negatives | View::Attempts | View::Stage
        )
    }

    /// Rejects flags that do not apply to the view.
    fn usage(&self) -> Result<(), Box<Message>> {
        let wrong =
            |sentence: String, help: &str| Err(Box::new(Message::error(Kind::Usage, sentence).help(help)));
        let view = self.view.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        match (self.view, &self.baseline, &self.candidate) {
            (View::Stage, ..) | (View::Comparison, Some(_), Some(_)) => {}
            (View::Comparison, ..) => {
                return wrong(
                    "a comparison requires --baseline and --candidate".to_owned(),
                    "--baseline RUN:CANDIDATE --candidate RUN:CANDIDATE",
                );
            }
            (_, Some(_), _) => {
                return wrong(format!("`{view}` does not take --baseline"), "use `report comparison`");
            }
            (View::History | View::Negatives | View::Attempts, _, Some(_)) => {
                return wrong(
                    format!("`{view}` does not take --candidate: it covers all candidates"),
                    "omit --candidate, or use `report summary`",
                );
            }
            _ => {}
        }
        if self.run.is_some() && !self.of_a_run() && !matches!(self.view, View::History | View::Stage) {
            return wrong(format!("`{view}` does not take --run: it covers all runs"), "omit --run");
        }
        if self.task.is_some() && self.view != View::History {
            return wrong(format!("`{view}` does not take --task"), "use `report history`");
        }
        let form = self.form()?;
        let asked = self.format.or(self.json.wanted.then_some(form));
        match asked {
            Some(Format::Junit | Format::Sarif)
                if !matches!(self.view, View::Summary | View::Validation | View::Checklist) =>
            {
                wrong(
                    format!("`{view}` does not support this format"),
                    "use junit and sarif with `report summary`",
                )
            }
            Some(format)
                if matches!((self.view, format), (View::PrComment, f) if f != Format::Markdown)
                    || matches!((self.view, format), (View::MergeMessage, f) if f != Format::Text) =>
            {
                wrong(format!("`{view}` has only one format"), "omit --format")
            }
            _ => Ok(()),
        }
    }

    fn make(&self, ledger: &Ledger) -> Result<Made, Box<Message>> {
        let broken = |error| Box::new(of_ledger(&error));
        if !self.of_a_run() {
            let evidence = Evidence::read(ledger).map_err(broken)?;
            return self.of_all(&evidence).map(|document| Made::Document(Box::new(document)));
        }
        let run = match &self.run {
            Some(run) => run.clone(),
            None => newest_run(ledger).map_err(broken)?.ok_or_else(|| Box::new(no_run(ledger)))?.run,
        };
        let evidence = Evidence::read_run(ledger, &run, self.candidate.as_deref()).map_err(broken)?;
        let form = self.form()?;
        self.of_run(&evidence, &run, form).map_err(|error| match (&error, self.view) {
            (ViewError::Several(..), View::MergeMessage) => {
                let help = "select one with --candidate";
                Box::new(of_view(&error).help(help))
            }
            _ => Box::new(of_view(&error)),
        })
    }

    fn of_all(&self, evidence: &Evidence) -> Result<Document, Box<Message>> {
        let wrong = |error| Box::new(of_view(&error));
        match self.view {
            View::Comparison => {
                let subject = |text: &Option<String>| {
                    Subject::resolve(evidence, text.as_deref().unwrap_or_default()).map_err(wrong)
                };
                let (baseline, candidate) = (subject(&self.baseline)?, subject(&self.candidate)?);
                warpproof_report::comparison(evidence, &Baseline(baseline), &Candidate(candidate))
                    .map_err(wrong)
            }
            View::Stage => self.stage(evidence),
            View::Negatives => warpproof_report::negatives(evidence).map_err(wrong),
            View::Attempts => warpproof_report::attempts(evidence).map_err(wrong),
            _ => {
                let task = match (&self.task, &self.run) {
                    (Some(task), _) => task.clone(),
                    (None, Some(run)) => evidence.run(run).map_err(wrong)?.1.task.clone(),
                    (None, None) => match evidence.newest_run() {
                        Some(run) => run.task.clone(),
                        None => return Err(Box::new(nothing())),
                    },
                };
                warpproof_report::history(evidence, &task).map_err(|error| match error {
                    ViewError::NoRun(task) => {
                        let sentence = format!("the ledger has no run of task `{}`", task.escape_debug());
                        let help = "`warpproof log --kind run` lists the runs with their tasks";
                        Box::new(Message::error(Kind::Usage, sentence).help(help))
                    }
                    error => wrong(error),
                })
            }
        }
    }

    /// The page about one candidate: the given one, or the one that was evaluated last.
    fn stage(&self, evidence: &Evidence) -> Result<Document, Box<Message>> {
        let wrong = |error| Box::new(of_view(&error));
        let subject = match (&self.candidate, &self.run) {
            (Some(candidate), Some(run)) => Subject { run: run.clone(), candidate: candidate.clone() },
            (Some(candidate), None) => Subject::resolve(evidence, candidate).or_else(|error| {
                // A candidate without a verdict is known by its steps.
                warpproof_report::newest_subject(evidence, None, Some(candidate)).ok_or_else(|| wrong(error))
            })?,
            (None, run) => match warpproof_report::newest_subject(evidence, run.as_deref(), None) {
                Some(subject) => subject,
                None => {
                    return Err(run
                        .as_ref()
                        .map_or_else(|| Box::new(nothing()), |run| wrong(ViewError::NoRun(run.clone()))));
                }
            },
        };
        let before = match &self.baseline {
            Some(baseline) => Some(Subject::resolve(evidence, baseline).or_else(|error| {
                warpproof_report::newest_subject(evidence, self.run.as_deref(), Some(baseline))
                    .ok_or_else(|| wrong(error))
            })?),
            None => None,
        };
        warpproof_report::stage(evidence, &subject, before.as_ref()).map_err(wrong)
    }

    fn of_run(&self, evidence: &Evidence, run: &str, form: Format) -> Result<Made, ViewError> {
        let record = evidence.run(run)?.1;
        let candidates = evidence.candidates_of(run);
        if let Some(name) = self.candidate.as_ref().filter(|_| candidates.is_empty()) {
            return Err(ViewError::NoCandidate(name.clone(), Some(run.to_owned())));
        }
        let document = match self.view {
            View::MergeMessage => {
                let candidate = merged(evidence, run, &candidates)?;
                return warpproof_report::merge_message(evidence, run, candidate).map(Made::Text);
            }
            View::PrComment => return warpproof_report::pull_request_comment(evidence, run).map(Made::Text),
            _ if form == Format::Junit => return warpproof_report::junit(evidence, run).map(Made::Text),
            _ if form == Format::Sarif => {
                let task = record
                    .arguments
                    .iter()
                    .find(|argument| Path::new(argument).extension() == Some("toml".as_ref()));
                let place = self.place.as_ref().or(task).unwrap_or(&record.task);
                let sarif = warpproof_report::sarif(evidence, run, &|_| place.clone())?;
                return Ok(Made::Text(format!("{sarif:#}\n")));
            }
            View::Validation => warpproof_report::validation(evidence, run)?,
            View::Checklist => warpproof_report::checklist(evidence, run)?,
            View::Next => warpproof_report::next_step(evidence, run)?,
            _ => warpproof_report::summary(evidence, run)?,
        };
        Ok(Made::Document(Box::new(document)))
    }
}

/// Renders a document; JUnit and SARIF are made from the ledger instead.
fn written(document: &Document, form: Format) -> String {
    match form {
        Format::Markdown => document.markdown(),
        Format::Html => document.html(),
        Format::Json => document.json(),
        Format::Text | Format::Junit | Format::Sarif => document.text(),
    }
}

/// The format of a file's extension.
pub(crate) fn form_of(file: Option<&Path>) -> Result<Format, Box<Message>> {
    by_ending(file, Format::Text)
}

/// The full report of a run, in the format of a file's extension.
pub(crate) fn of_gate(file: &Path, ledger: &Ledger, run: &str, task: &str) -> Result<String, Box<Message>> {
    let form = form_of(Some(file))?;
    let evidence = Evidence::read_run(ledger, run, None).map_err(|error| Box::new(of_ledger(&error)))?;
    let wrong = |error| Box::new(of_view(&error));
    match form {
        Format::Junit => warpproof_report::junit(&evidence, run).map_err(wrong),
        Format::Sarif => warpproof_report::sarif(&evidence, run, &|_| task.to_owned())
            .map(|sarif| format!("{sarif:#}\n"))
            .map_err(wrong),
        form => warpproof_report::validation(&evidence, run)
            .map(|document| written(&document, form))
            .map_err(wrong),
    }
}

/// The candidate to merge: the only one, or the only one with that verdict.
fn merged<'a>(evidence: &'a Evidence, run: &str, candidates: &[&'a str]) -> Result<&'a str, ViewError> {
    if let [one] = candidates {
        return Ok(one);
    }
    let mut merged = Vec::new();
    for candidate in candidates {
        let judged = evidence.judged(run, candidate)?;
        if judged.verdict.is_some_and(|(_, record)| record.verdict == Verdict::Merge) {
            merged.push(*candidate);
        }
    }
    match &*merged {
        [one] => Ok(one),
        many => Err(ViewError::Several(run.to_owned(), many.iter().map(ToString::to_string).collect())),
    }
}

fn no_run(ledger: &Ledger) -> Message {
    let sentence = format!("the ledger {} has no runs yet", ledger.root().display());
    Message::error(Kind::Missing, sentence).help("run `warpproof gate TASK`")
}

fn nothing() -> Message {
    Message::error(Kind::Missing, "the ledger has no runs yet").help("run `warpproof gate TASK`")
}
