//! Findings in the host's code, with call sites instead of instructions.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use warpproof_diagnostic::host::HostClass;
use warpproof_diagnostic::{Place, Report, Severity, sarif};

use super::{KEPT, MOST, Record, Reporter};
use crate::settings::Format;
use crate::site::{FrameRecord, Site};

/// A finding in the host's code.
#[derive(Clone, Debug)]
pub struct HostFinding {
    /// Its class.
    pub class: HostClass,
    /// Whether it is a warning instead of an error.
    pub warning: bool,
    /// One lowercase sentence.
    pub sentence: String,
    /// Call sites with what happens there; the first is the place to fix.
    pub places: Vec<(String, Site)>,
    /// Additional lines.
    pub notes: Vec<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// How often it occurred.
    pub count: u64,
}

impl HostFinding {
    /// An error of this class.
    pub fn new(class: HostClass, sentence: impl Into<String>) -> HostFinding {
        HostFinding {
            class,
            warning: false,
            sentence: sentence.into(),
            places: Vec::new(),
            notes: Vec::new(),
            help: None,
            count: 1,
        }
    }

    /// Adds a call site.
    #[must_use]
    pub fn at(mut self, text: impl Into<String>, site: Site) -> HostFinding {
        self.places.push((text.into(), site));
        self
    }

    /// Adds a line.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> HostFinding {
        self.notes.push(note.into());
        self
    }

    /// Sets the fix.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> HostFinding {
        self.help = Some(help.into());
        self
    }
}

/// A call site as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlaceRecord {
    /// What happens there.
    pub text: String,
    /// The frames of the program, innermost first.
    pub frames: Vec<FrameRecord>,
}

/// A finding in the host's code as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Name of the class.
    pub class: String,
    /// `error` or `warning`.
    pub severity: String,
    /// One sentence.
    pub sentence: String,
    /// Call sites; the first is the place to fix.
    pub places: Vec<HostPlaceRecord>,
    /// Additional lines.
    pub notes: Vec<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// How often it occurred.
    pub count: u64,
}

/// Frames of callers that a report names.
const CALLERS: usize = 4;

impl HostRecord {
    /// The finding as a diagnostic. `readable` makes names of functions in a text readable.
    pub fn report(&self, readable: impl Fn(&str) -> String) -> Report {
        let mut report = Report::warning(readable(&self.sentence));
        if self.severity == "error" {
            report.severity = Severity::Error;
        }
        report.code = Some(self.class.clone());
        for place in &self.places {
            let known = place.frames.iter().position(|frame| frame.file.is_some());
            let frame = known.and_then(|at| place.frames.get(at));
            let shown = frame.and_then(|frame| {
                let text = readable(&place.text);
                Some(Place::new(frame.shown_file()?, frame.line).label(Some(text)))
            });
            match (shown, place.frames.first()) {
                (Some(shown), _) if report.place.is_none() => report.place = Some(shown),
                (Some(shown), _) => report.context.push(shown),
                (None, Some(frame)) => {
                    report = report.note(format!("{}: {}", readable(&place.text), frame.place()), None);
                }
                (None, None) => {}
            }
            let callers = place.frames.iter().skip(known.map_or(1, |at| at + 1));
            let callers: Vec<String> = callers
                .filter(|frame| frame.file.is_some())
                .take(CALLERS)
                .map(|frame| match &frame.function {
                    Some(function) => format!("`{}` at {}", readable(function), frame.place()),
                    None => frame.place(),
                })
                .collect();
            if !callers.is_empty() {
                let what = readable(&place.text);
                let sentence = format!("{what}: called by {}", callers.join(", called by "));
                report = report.note(sentence, None);
            }
        }
        for note in &self.notes {
            report = report.note(readable(note), None);
        }
        report.help.clone_from(&self.help);
        report
    }

    /// The finding as plain lines.
    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.class, self.sentence);
        for place in &self.places {
            for (frame, what) in place
                .frames
                .iter()
                .zip([place.text.as_str()].into_iter().chain(std::iter::repeat("called here")))
            {
                let _ = write!(text, "\n  at {}: {what}", frame.place());
            }
        }
        for note in &self.notes {
            let _ = write!(text, "\n  {note}");
        }
        if let Some(help) = &self.help {
            let _ = write!(text, "\n  help: {help}");
        }
        text
    }
}

impl Reporter {
    /// Reports a finding in the host's code the first time it occurs at its call sites.
    pub fn host(&mut self, finding: &HostFinding) {
        let sites: Vec<Site> = finding.places.iter().map(|(_, site)| *site).collect();
        let key = format!("host\n{}\n{sites:?}", finding.class.name());
        if self.seen.len() >= MOST || !self.seen.insert(key) {
            return;
        }
        let places = finding
            .places
            .iter()
            .map(|(text, site)| HostPlaceRecord { text: text.clone(), frames: self.symbols.frames(*site) });
        let record = HostRecord {
            class: finding.class.name().to_owned(),
            severity: if finding.warning { "warning" } else { "error" }.to_owned(),
            sentence: finding.sentence.clone(),
            places: places.collect(),
            notes: finding.notes.clone(),
            help: finding.help.clone(),
            count: finding.count,
        };
        self.keep(&Record::Host(record.clone()));
        match self.format {
            Format::Quiet => {}
            Format::Text => self.write(&format!("warpproof: {}\n", record.text())),
            Format::Json => {
                if let Ok(line) = serde_json::to_string(&Record::Host(record)) {
                    self.write(&format!("{line}\n"));
                }
            }
            Format::Sarif => {
                if self.results.len() < KEPT {
                    let report = record.report(str::to_owned);
                    self.results.push(sarif::host_result(&report, finding.class, finding.count));
                    self.write_sarif();
                }
            }
        }
    }

    /// A call site for a sentence: file and line, or else function and module; `None` if it is unknown.
    pub fn place_of(&mut self, site: Site) -> Option<String> {
        let frames = self.symbols.frames(site);
        let known = frames.iter().find(|frame| frame.file.is_some()).or(frames.first());
        known.map(FrameRecord::place)
    }
}
