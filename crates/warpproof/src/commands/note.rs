//! `warpproof note`: words about a candidate, kept beside its figures.

use clap::{Args, ValueEnum};
use warpproof_gate::ledger::{Filter, Ledger, log};
use warpproof_gate::record::{Body, NoteRecord};
use warpproof_gate::view::{ViewError, vocabulary as name};

use super::evidence::{of_ledger, of_view};
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Outcome, Report};
use crate::terminal::Terminal;

/// Append a note about a candidate to the ledger
///
/// Views quote notes: `report attempts` sets hypothesis, change and result side by side, `report
/// negatives` adds the expected gain and the cost, and `report history` follows the parents. Of
/// several on one topic the newest counts; of suspects and what was ruled out, all.
///
/// A hypothesis is best written before the gate is run: where there is no ledger yet, one is made.
#[derive(Debug, Args)]
pub(crate) struct Note {
    /// What it is about
    topic: Topic,
    /// The words
    text: String,
    /// The candidate
    #[arg(long, value_name = "NAME")]
    candidate: String,
    /// The run it is about [default: all of them]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// A record it is about, by its name or first digits; may be given several times
    #[arg(long, value_name = "REF")]
    about: Vec<String>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    ledger: LedgerFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Topic {
    /// What is expected, and why
    Hypothesis,
    /// The gain that is expected
    ExpectedGain,
    /// What is different from its parent
    Change,
    /// What it took
    Cost,
    /// What may be the cause of a result
    Suspect,
    /// What was shown not to be the cause
    RuledOut,
    /// The name of the candidate it was made from
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
            terminal
                .say(format_args!("`{name}` is new to this ledger: views show the note once it is judged"));
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
