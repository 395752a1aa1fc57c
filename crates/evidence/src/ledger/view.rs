//! Queries for users: the newest records, and one record in full.

use super::verdicts::Tasks;
use super::{Ledger, LedgerError, Parents, Record};
use crate::hash::Hash;
use crate::record::{Body, RunRecord};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// Which records to return. An unset field does not restrict.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those of one run.
    pub run: Option<String>,
    /// Those of any of these runs; [`runs_of`] gives the runs of a task.
    pub runs: Option<BTreeSet<String>>,
    /// Those about one candidate.
    pub candidate: Option<String>,
    /// Those of one kind.
    pub kind: Option<String>,
    /// The maximum number, newest first.
    pub limit: Option<usize>,
}

impl Filter {
    /// Whether a record matches, ignoring the limit.
    pub fn wants(&self, record: &Record) -> bool {
        let body = &record.body;
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let of = |runs: &BTreeSet<String>| body.run().is_some_and(|run| runs.contains(run));
        self.runs.as_ref().is_none_or(of)
            && is(&self.run, body.run())
            && is(&self.candidate, body.candidate())
            && is(&self.kind, Some(body.kind()))
    }
}

impl fmt::Display for Record {
    /// One line: name, kind, run, and its most important content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, run) = (self.body.kind(), self.body.run().unwrap_or("-"));
        let line = format!("{} {:8} {run} {}", self.hash.short(), printable(kind), self.body);
        f.write_str(&printable(&line))
    }
}

/// A ledger is not trusted: characters that control a terminal or break a line are shown as their code.
fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

/// The matching records, newest first. Without a limit all are held in memory at once.
pub fn log(ledger: &Ledger, filter: &Filter) -> Result<Vec<Record>, LedgerError> {
    let limit = filter.limit.unwrap_or(usize::MAX);
    let mut newest = VecDeque::new();
    let mut tasks = Tasks::default();
    for record in ledger.records()? {
        let record = record?;
        tasks.see(&record);
        if filter.wants(&record) {
            newest.push_front(record);
            newest.truncate(limit);
        }
    }
    tasks.check(ledger, &newest)?;
    Ok(newest.into())
}

/// The runs of a task, by name.
pub fn runs_of(ledger: &Ledger, task: &str) -> Result<BTreeSet<String>, LedgerError> {
    let mut runs = BTreeSet::new();
    for record in ledger.records()? {
        if let Body::Run(run) = record?.body
            && run.task == task
        {
            runs.insert(run.run);
        }
    }
    Ok(runs)
}

/// The newest run; `None` in a ledger without runs.
pub fn newest_run(ledger: &Ledger) -> Result<Option<RunRecord>, LedgerError> {
    let mut newest = None;
    for record in ledger.records()? {
        if let Body::Run(run) = record?.body {
            newest = Some(run);
        }
    }
    Ok(newest)
}

/// One record with the records and objects it names, for display.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The record.
    pub record: Record,
    /// Its references, in order.
    pub references: Vec<Reference>,
}

/// A reference of a record.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its role: prev, head, from, step, about, or `object` and its name.
    pub role: String,
    /// Its name.
    pub hash: Hash,
    /// A one-line description; `None` if the ledger does not hold it.
    pub what: Option<String>,
}

/// The record whose name has this prefix, with all its references.
pub fn show(ledger: &Ledger, prefix: &str) -> Result<Shown, LedgerError> {
    let record = ledger.find(prefix)?;
    let mut named: Vec<(&str, Hash)> = match &record.parents {
        Parents::Prev(prev) => vec![("prev", *prev)],
        Parents::Heads(heads) => heads.iter().map(|head| ("head", *head)).collect(),
    };
    named.extend(record.body.references());
    let places = ledger.places(&named.iter().map(|(_, hash)| *hash).collect())?;
    let mut references: Vec<Reference> = Vec::new();
    let mut verdicts: Vec<Record> = Vec::new();
    let is_verdict = |record: &&Record| matches!(record.body, Body::Verdict(_));
    verdicts.extend(Some(&record).filter(is_verdict).cloned());
    for (role, hash) in named {
        let found = places.get(&hash).map(|place| ledger.read(place)).transpose()?;
        verdicts.extend(found.as_ref().filter(is_verdict).cloned());
        let what = found.map(|record| printable(&format!("{} {}", record.body.kind(), record.body)));
        references.push(Reference { role: role.to_owned(), hash, what });
    }
    for (name, hash) in record.body.objects() {
        let size = std::fs::metadata(ledger.object_path(&hash)).ok().map(|data| data.len());
        let what = size.map(|size| format!("{size} bytes"));
        references.push(Reference { role: format!("object {}", printable(name)), hash, what });
    }
    if !verdicts.is_empty() {
        Tasks::of(ledger)?.check(ledger, &verdicts)?;
    }
    Ok(Shown { record, references })
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, references } = self;
        writeln!(f, "record {}", record.hash)?;
        writeln!(f, "at     {}:{}", printable(&record.file()), record.place.line)?;
        writeln!(f, "kind   {}", printable(&record.body.to_string()))?;
        // The line itself, so that unknown fields are also shown.
        let json: Result<serde_json::Value, _> = serde_json::from_str(record.text());
        let pretty = json.as_ref().ok().and_then(|json| serde_json::to_string_pretty(json.get("body")?).ok());
        for line in pretty.unwrap_or_default().lines() {
            writeln!(f, "  {}", printable(line))?;
        }
        for Reference { role, hash, what } in references {
            let what = what.as_deref().unwrap_or("not in the ledger");
            writeln!(f, "{role:6} {} {what}", hash.short())?;
        }
        Ok(())
    }
}
