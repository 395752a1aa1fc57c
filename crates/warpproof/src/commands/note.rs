//! `warpproof note`: appends a note about a candidate to the ledger.

use clap::{Args, ValueEnum};
use warpproof_evidence::ledger::{Filter, Ledger, log};
use warpproof_evidence::record::{Body, NoteRecord};
use warpproof_evidence::vocabulary as name;
use warpproof_report::ViewError;

use super::evidence::{of_ledger, of_view};
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Outcome, Report};
use crate::terminal::Terminal;

/// Append a note about a candidate to the ledger
///
/// Reports quote notes: `report attempts` shows hypothesis, change and result, `report negatives`
/// adds the expected gain and the cost, and `report history` follows the parents. The newest note
/// on a topic is used; for suspects and ruled-out causes, all notes are.
///
/// Write a hypothesis before you run the gate. Creates the ledger if it does not exist.
#[derive(Debug, Args)]
pub(crate) struct Note {
    /// The topic of the note
    topic: Topic,
    /// The text of the note
    text: String,
    /// Attach the note to this candidate
    #[arg(long, value_name = "NAME")]
    candidate: String,
    /// Attach the note to this run [default: all runs]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Attach the note to this record, by its name or first digits (repeatable)
    #[arg(long, value_name = "REF")]
    about: Vec<String>,
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
    /// A cause that was ruled out
    RuledOut,
    /// The name of the candidate it was derived from
    Parent,
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
            Self::RuledOut => name::RULED_OUT,
            Self::Parent => name::PARENT,
        }
    }
}

impl Note {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let noted = self.append(terminal);
        ended(noted, terminal)
    }

    fn append(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
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
        let mut about = Vec::new();
        for reference in &self.about {
            about.push(ledger.find(reference).map_err(wrong)?.hash);
        }
        if !holds(&ledger, &Filter { candidate: Some(self.candidate.clone()), ..Filter::default() })? {
            let name = self.candidate.escape_debug();
            terminal.say(format_args!(
                "`{name}` is not in this ledger yet: reports show the note after it is evaluated"
            ));
        }
        let note = NoteRecord {
            topic: self.topic.name().to_owned(),
            text: self.text.clone(),
            run: self.run.clone(),
            candidate: Some(self.candidate.clone()),
            about,
        };
        let hash = ledger.writer().append(&Body::Note(note)).map_err(wrong)?;
        if self.json.wanted {
            terminal.json(&serde_json::json!({ "schema": "warpproof.note/1", "record": hash }));
        } else {
            terminal.print(format_args!("{}\n", hash.short()));
        }
        Ok(Outcome::Green)
    }
}

fn holds(ledger: &Ledger, filter: &Filter) -> Result<bool, Box<Report>> {
    let filter = Filter { limit: Some(1), ..filter.clone() };
    log(ledger, &filter).map(|found| !found.is_empty()).map_err(|error| Box::new(of_ledger(&error)))
}
