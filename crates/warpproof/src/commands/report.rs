//! `warpproof report`: every report as a view of the ledger.

use std::path::Path;

use clap::{Args, ValueEnum};
use warpproof_gate::ledger::{Ledger, newest_run};
use warpproof_gate::record::Verdict;
use warpproof_gate::view::{self, Baseline, Candidate, Document, Evidence, Subject, ViewError};

use super::evidence::{of_ledger, of_view};
use super::flags::{Form, JsonFlag, LedgerFlags, OutputFlags, by_ending, ended};
use crate::report::{Kind, Outcome, Report as Message};
use crate::terminal::Terminal;

/// Make a report from the ledger
///
/// Every number of a report is a reference to a record; one that does not resolve is an error.
///
///   warpproof report                                  the newest run at a glance
///   warpproof report validation -o report.html        all of it, as a page that loads nothing
///   warpproof report comparison --baseline OLD --candidate NEW
///
/// A comparison names its roles: RUN:CANDIDATE, a run that has one candidate, or a candidate, which
/// stands for its newest verdict. Different devices, shapes or task versions are refused.
///
/// Exit codes: 0 made · 1 the ledger does not bear it out · 2 wrong usage, or nothing to report on.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Report {
    /// What to report
    #[arg(value_enum, default_value_t = View::Summary)]
    view: View,
    #[command(flatten)]
    ledger: LedgerFlags,
    /// The run [default: the newest]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// This candidate only; in a comparison, what is compared
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// In a comparison, what is compared with
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// The task of a history [default: that of the run]
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// How to write it [default: by the file's ending, else text]
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    #[command(flatten)]
    json: JsonFlag,
    /// In SARIF, the file that results point at [default: the task file of the run]
    #[arg(long, value_name = "FILE")]
    place: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum View {
    /// A run at a glance: headline, gates, decision
    Summary,
    /// All of a run: every figure with its threshold and source
    Validation,
    /// Two candidates, each in its role
    Comparison,
    /// How a task's kernels came to be as fast as they are
    History,
    /// What was green and did not pay
    Negatives,
    /// What was tried: hypothesis, change, result
    Attempts,
    /// The gates alone
    Checklist,
    /// What to do now
    Next,
    /// The text of the commit that merges a candidate
    MergeMessage,
    /// A comment for a pull request, in Markdown
    PrComment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a terminal
    Text,
    /// For code hosts, with footnotes that name records
    Markdown,
    /// One page that loads nothing, light and dark
    Html,
    /// The document, which can be held against the ledger later
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

/// What a view gave.
enum Made {
    Document(Box<Document>),
    /// In its one form.
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
        // What a ledger holds was made harmless by the form; nothing is stripped, so that a file and a pipe are the same.
        self.output.put(text.as_bytes())?;
        if let Some(file) = self.output.file() {
            terminal.say(format_args!("written to {}", file.display()));
        }
        Ok(Outcome::Green)
    }

    fn form(&self) -> Result<Format, Box<Message>> {
        self.output.form(self.json, self.format, Format::Text)
    }

    /// Whether the view is about one run.
    fn of_a_run(&self) -> bool {
        !matches!(self.view, View::Comparison | View::History | View::Negatives | View::Attempts)
    }

    /// What the flags of one view mean to another is said, not guessed.
    fn usage(&self) -> Result<(), Box<Message>> {
        let wrong =
            |sentence: String, help: &str| Err(Box::new(Message::error(Kind::Usage, sentence).help(help)));
        let view = self.view.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        match (self.view, &self.baseline, &self.candidate) {
            (View::Comparison, Some(_), Some(_)) => {}
            (View::Comparison, ..) => {
                return wrong(
                    "a comparison names both of its roles".to_owned(),
                    "--baseline RUN:CANDIDATE --candidate RUN:CANDIDATE",
                );
            }
            (_, Some(_), _) => {
                return wrong(format!("`{view}` has no baseline"), "`report comparison` has one");
            }
            (View::History | View::Negatives | View::Attempts, _, Some(_)) => {
                return wrong(
                    format!("`{view}` is about all candidates"),
                    "leave --candidate away, or ask for `report summary`",
                );
            }
            _ => {}
        }
        if self.run.is_some() && !self.of_a_run() && self.view != View::History {
            return wrong(format!("`{view}` is about all runs"), "leave --run away");
        }
        if self.task.is_some() && self.view != View::History {
            return wrong(format!("`{view}` is not about a task"), "`report history` is");
        }
        let form = self.form()?;
        let asked = self.format.or(self.json.wanted.then_some(form));
        match asked {
            Some(Format::Junit | Format::Sarif)
                if !matches!(self.view, View::Summary | View::Validation | View::Checklist) =>
            {
                wrong(format!("`{view}` has no such form"), "junit and sarif are forms of `report summary`")
            }
            Some(format)
                if matches!((self.view, format), (View::PrComment, f) if f != Format::Markdown)
                    || matches!((self.view, format), (View::MergeMessage, f) if f != Format::Text) =>
            {
                wrong(format!("`{view}` has one form only"), "leave --format away")
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
                let help = "a message is for one: name it with --candidate";
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
                view::comparison(evidence, &Baseline(baseline), &Candidate(candidate)).map_err(wrong)
            }
            View::Negatives => view::negatives(evidence).map_err(wrong),
            View::Attempts => view::attempts(evidence).map_err(wrong),
            _ => {
                let task = match (&self.task, &self.run) {
                    (Some(task), _) => task.clone(),
                    (None, Some(run)) => evidence.run(run).map_err(wrong)?.1.task.clone(),
                    (None, None) => match evidence.newest_run() {
                        Some(run) => run.task.clone(),
                        None => return Err(Box::new(nothing())),
                    },
                };
                view::history(evidence, &task).map_err(|error| match error {
                    ViewError::NoRun(task) => {
                        let sentence = format!("the ledger holds no run of task `{}`", task.escape_debug());
                        let help = "`warpproof log --kind run` lists the runs with their tasks";
                        Box::new(Message::error(Kind::Usage, sentence).help(help))
                    }
                    error => wrong(error),
                })
            }
        }
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
                return view::merge_message(evidence, run, candidate).map(Made::Text);
            }
            View::PrComment => return view::pull_request_comment(evidence, run).map(Made::Text),
            _ if form == Format::Junit => return view::junit(evidence, run).map(Made::Text),
            _ if form == Format::Sarif => {
                let task = record
                    .arguments
                    .iter()
                    .find(|argument| Path::new(argument).extension() == Some("toml".as_ref()));
                let place = self.place.as_ref().or(task).unwrap_or(&record.task);
                let sarif = view::sarif(evidence, run, &|_| place.clone())?;
                return Ok(Made::Text(format!("{sarif:#}\n")));
            }
            View::Validation => view::validation(evidence, run)?,
            View::Checklist => view::checklist(evidence, run)?,
            View::Next => view::next_step(evidence, run)?,
            _ => view::summary(evidence, run)?,
        };
        Ok(Made::Document(Box::new(document)))
    }
}

/// A document in a form that is its own; the others are made from the ledger.
fn written(document: &Document, form: Format) -> String {
    match form {
        Format::Markdown => document.markdown(),
        Format::Html => document.html(),
        Format::Json => document.json(),
        Format::Text | Format::Junit | Format::Sarif => document.text(),
    }
}

/// The form that a file's ending stands for.
pub(crate) fn form_of(file: Option<&Path>) -> Result<Format, Box<Message>> {
    by_ending(file, Format::Text)
}

/// The whole report of a run, in the form that a file's ending stands for.
pub(crate) fn of_gate(file: &Path, ledger: &Ledger, run: &str, task: &str) -> Result<String, Box<Message>> {
    let form = form_of(Some(file))?;
    let evidence = Evidence::read_run(ledger, run, None).map_err(|error| Box::new(of_ledger(&error)))?;
    let wrong = |error| Box::new(of_view(&error));
    match form {
        Format::Junit => view::junit(&evidence, run).map_err(wrong),
        Format::Sarif => view::sarif(&evidence, run, &|_| task.to_owned())
            .map(|sarif| format!("{sarif:#}\n"))
            .map_err(wrong),
        form => view::validation(&evidence, run).map(|document| written(&document, form)).map_err(wrong),
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
    let sentence = format!("the ledger {} holds no run yet", ledger.root().display());
    Message::error(Kind::Missing, sentence).help("run `warpproof gate TASK`")
}

fn nothing() -> Message {
    Message::error(Kind::Missing, "the ledger holds no run yet").help("run `warpproof gate TASK`")
}
