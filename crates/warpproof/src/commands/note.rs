//! `warpproof note`: appends a note about a candidate to the ledger.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Filter, Ledger, log};
use warpproof_evidence::record::{Body, Figure, FigureKind, NoteRecord};
use warpproof_evidence::vocabulary as name;
use warpproof_report::ViewError;
use warpproof_report::claims::Time;

use super::evidence::{of_ledger, of_view};
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Append a note about a candidate to the ledger
///
/// Reports quote notes: `report attempts` shows hypothesis, change, result and suspects,
/// `report negatives` the expected gain and the cost, `report history` follows the parents, and
/// `report stage` shows all of them. The newest note on a topic is used; for suspects, tests,
/// lessons, options and measured figures, all notes are.
///
///   warpproof note hypothesis "stores wait for loads" --candidate v2
///   warpproof note measured 656us --candidate v2 --device L4 --source report.md
///   warpproof note suspect "the table of lanes is wrong" --candidate v3
///   warpproof note ruled-out "each place occurs once" --about SUSPECT --about STEP
///   warpproof note option "three stages" --target 590us --effort "4 hours" --risk low
///
/// Write a hypothesis before you run the gate. Creates the ledger if it does not exist.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Note {
    /// The topic of the note
    topic: Topic,
    /// The text of the note; for `measured`, a time such as 656us
    text: String,
    /// Attach the note to this candidate [default: that of the suspect; lessons and options need none]
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// Attach the note to this run [default: all runs]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Attach the note to this record, by its name or first digits (repeatable)
    ///
    /// For `test`, `ruled-out` and `confirmed`, the suspect, and the steps that decided it.
    #[arg(long, value_name = "REF")]
    about: Vec<String>,
    /// Attach the note to this task [default: that of the candidate]
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// State the device of a measured time
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// State the file that a measured time was taken from; the ledger stores it
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// State the shape of a measured time
    #[arg(long, value_name = "TEXT")]
    shape: Option<String>,
    /// State the target of an option
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    /// State the effort of an option
    #[arg(long, value_name = "TEXT")]
    effort: Option<String>,
    /// State the risk of an option
    #[arg(long, value_name = "TEXT")]
    risk: Option<String>,
    /// State the rationale of an option
    #[arg(long, value_name = "TEXT")]
    rationale: Option<String>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    ledger: LedgerFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Topic {
    /// The expected result, and the reason
    Hypothesis,
    /// The expected gain
    ExpectedGain,
    /// The difference from its parent
    Change,
    /// The cost of the attempt
    Cost,
    /// A possible cause of a result
    Suspect,
    /// The test that would decide a suspect
    Test,
    /// A cause that was ruled out
    RuledOut,
    /// A cause that was confirmed
    Confirmed,
    /// The name of the candidate it was derived from
    Parent,
    /// A latency from a file, labeled *reported*
    Measured,
    /// What was learned
    Lesson,
    /// A possible next stage
    Option,
}

impl Topic {
    /// As records and views spell it.
    fn name(self) -> &'static str {
        match self {
            Self::Hypothesis => name::HYPOTHESIS,
            Self::ExpectedGain => name::EXPECTED_GAIN,
            Self::Change => name::CHANGE,
            Self::Cost => name::COST,
            Self::Suspect => name::SUSPECT,
            Self::Test => name::TEST,
            Self::RuledOut => name::RULED_OUT,
            Self::Confirmed => name::CONFIRMED,
            Self::Parent => name::PARENT,
            Self::Measured => name::MEASURED,
            Self::Lesson => name::LESSON,
            Self::Option => name::OPTION,
        }
    }

    /// Whether the note decides a suspect, or states how to.
    fn is_about_a_suspect(self) -> bool {
        matches!(self, Self::Test | Self::RuledOut | Self::Confirmed)
    }
}

impl Note {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let noted = self.append(terminal);
        ended(noted, terminal)
    }

    fn append(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        self.usage()?;
        let time = self.time()?;
        let source = self.source.as_deref().map(|file| read(file, time.as_ref())).transpose()?;
        let (ledger, made) = self.ledger.create()?;
        if made {
            terminal.say(format_args!("new ledger at {}", ledger.root().display()));
        }
        let wrong = |error| Box::new(of_ledger(&error));
        if let Some(run) = &self.run
            && !holds(
                &ledger,
                &Filter { run: self.run.clone(), kind: Some("run".to_owned()), ..Filter::default() },
            )?
        {
            return Err(Box::new(of_view(&ViewError::NoRun(run.clone()))));
        }
        let (mut about, mut suspect) = (Vec::new(), None);
        for reference in &self.about {
            let record = ledger.find(reference).map_err(wrong)?;
            about.push(record.hash);
            if let Body::Note(note) = record.body
                && note.topic == name::SUSPECT
            {
                suspect = Some(note);
            }
        }
        if self.topic == Topic::Test && suspect.is_none() {
            return Err(usage("`test` requires a suspect".to_owned(), "select it with --about SUSPECT"));
        }
        let candidate = self.candidate.clone().or_else(|| suspect.and_then(|note| note.candidate));
        if candidate.is_none() && !matches!(self.topic, Topic::Lesson | Topic::Option) {
            let help = if self.topic.is_about_a_suspect() {
                "use --candidate NAME, or --about SUSPECT"
            } else {
                "use --candidate NAME"
            };
            return Err(usage(format!("`{}` requires a candidate", value(self.topic)), help));
        }
        let task = self.task_of(&ledger, candidate.as_deref())?;
        if let Some(candidate) = &candidate
            && time.is_none()
            && !holds(&ledger, &Filter { candidate: Some(candidate.clone()), ..Filter::default() })?
        {
            let name = candidate.escape_debug();
            terminal.say(format_args!(
                "`{name}` is not in this ledger yet: reports show the note after it is evaluated"
            ));
        }
        let objects: BTreeMap<String, Hash> = match &source {
            Some(content) => {
                let hash = ledger.put_object(content).map_err(wrong)?;
                BTreeMap::from([(name::SOURCE.to_owned(), hash)])
            }
            None => BTreeMap::new(),
        };
        let note = NoteRecord {
            topic: self.topic.name().to_owned(),
            text: self.text.clone(),
            run: self.run.clone(),
            candidate,
            about,
            fields: self.fields(task),
            figures: time.iter().filter_map(|time| self.figure(time)).collect(),
            objects,
        };
        let hash = ledger.writer().append(&Body::Note(note)).map_err(wrong)?;
        if self.json.wanted {
            terminal.json(&serde_json::json!({ "schema": "warpproof.note/1", "record": hash }));
        } else {
            terminal.print(format_args!("{}\n", hash.short()));
        }
        Ok(Outcome::Green)
    }

    /// Rejects flags that do not apply to the topic.
    fn usage(&self) -> Result<(), Box<Report>> {
        let measured = [
            ("--device", self.device.is_some()),
            ("--source", self.source.is_some()),
            ("--shape", self.shape.is_some()),
        ];
        let option = [
            ("--target", self.target.is_some()),
            ("--effort", self.effort.is_some()),
            ("--risk", self.risk.is_some()),
            ("--rationale", self.rationale.is_some()),
        ];
        for (topic, flags) in [(Topic::Measured, &measured[..]), (Topic::Option, &option[..])] {
            if let Some((flag, _)) = flags.iter().find(|(_, given)| *given && self.topic != topic) {
                let sentence = format!("`{}` does not take {flag}", value(self.topic));
                return Err(usage(sentence, &format!("use `note {}`, or omit {flag}", value(topic))));
            }
        }
        if self.topic == Topic::Measured {
            let missing = measured.iter().take(2).find(|(_, given)| !given);
            if let Some((flag, _)) = missing {
                let sentence = format!("`measured` requires {flag}");
                return Err(usage(sentence, "use --device NAME and --source FILE"));
            }
        }
        Ok(())
    }

    /// The time of a measured latency.
    fn time(&self) -> Result<Option<Time>, Box<Report>> {
        if self.topic != Topic::Measured {
            return Ok(None);
        }
        let wrong = || {
            let sentence = format!("expected a time, found `{}`", self.text.escape_debug());
            usage(sentence, "write a number and a unit: 656us, 2.87ms")
        };
        Time::parse(self.text.trim()).map(Some).ok_or_else(wrong)
    }

    /// The task that the note belongs to: the given one, or that of the candidate's newest verdict, or for a reported
    /// figure that of the newest run.
    fn task_of(&self, ledger: &Ledger, candidate: Option<&str>) -> Result<Option<String>, Box<Report>> {
        let wrong = |error| Box::new(of_ledger(&error));
        if self.task.is_some() || self.topic != Topic::Measured {
            return Ok(self.task.clone());
        }
        let newest = |kind: &str, candidate: Option<&str>, run: Option<&str>| {
            let (kind, limit) = (Some(kind.to_owned()), Some(1));
            let (candidate, run) = (candidate.map(str::to_owned), run.map(str::to_owned));
            log(ledger, &Filter { kind, candidate, run, limit, ..Filter::default() }).map_err(wrong)
        };
        let verdict = newest("verdict", candidate, None)?;
        let run = verdict.first().and_then(|record| record.body.run());
        Ok(newest("run", None, run)?.first().and_then(|record| match &record.body {
            Body::Run(run) => Some(run.task.clone()),
            _ => None,
        }))
    }

    fn fields(&self, task: Option<String>) -> BTreeMap<String, String> {
        let file = self.source.as_ref().map(|file| file.display().to_string());
        let fields = [
            (name::TASK, task),
            (name::DEVICE, self.device.clone()),
            (name::SOURCE, file),
            (name::TARGET, self.target.clone()),
            (name::EFFORT, self.effort.clone()),
            (name::RISK, self.risk.clone()),
            (name::RATIONALE, self.rationale.clone()),
        ];
        fields.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?))).collect()
    }

    fn figure(&self, time: &Time) -> Option<Figure> {
        let figure = Figure::new(name::LATENCY, time.us, "us", FigureKind::Reported).ok()?;
        Some(match &self.shape {
            Some(shape) => figure.at(shape),
            None => figure,
        })
    }
}

/// Reads the source of a time, and verifies that it states the time.
fn read(file: &Path, time: Option<&Time>) -> Result<Vec<u8>, Box<Report>> {
    let shown = file.display();
    let content = std::fs::read(file)
        .map_err(|error| Box::new(Report::error(Kind::Missing, format!("cannot read {shown}: {error}"))))?;
    let stated = match (time, std::str::from_utf8(&content)) {
        (Some(time), Ok(text)) => time.is_in(text),
        // The content of a picture or an archive is not searched.
        _ => true,
    };
    if stated {
        return Ok(content);
    }
    let sentence = format!("{shown} does not state this time");
    Err(usage(sentence, "write the time as the file has it, or select another file with --source"))
}

fn usage(sentence: String, help: &str) -> Box<Report> {
    Box::new(Report::error(Kind::Usage, sentence).help(help))
}

/// A topic as it is written on the command line.
fn value(topic: Topic) -> String {
    topic.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn holds(ledger: &Ledger, filter: &Filter) -> Result<bool, Box<Report>> {
    let filter = Filter { limit: Some(1), ..filter.clone() };
    log(ledger, &filter).map(|found| !found.is_empty()).map_err(|error| Box::new(of_ledger(&error)))
}
