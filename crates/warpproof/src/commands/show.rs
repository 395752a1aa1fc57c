//! `warpproof show`: prints one record in full, or one of its objects.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};
use warpproof_evidence::ledger::{self, Shown};

use super::evidence::of_ledger;
use super::flags::{JsonFlag, LedgerFlags, OutputFlags, ended};
use super::log::as_json;
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Show one record of a ledger in full, with the records and objects it names
///
/// REF is the record's name or a unique prefix of it. --object writes the bytes of an object of
/// the record, such as samples, PTX or a log.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The record's name, or at least its first four digits
    #[arg(value_name = "REF")]
    reference: String,
    #[command(flatten)]
    ledger: LedgerFlags,
    /// Write the bytes of this object of the record
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    object: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    json: JsonFlag,
}

impl Show {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let shown = self.show();
        ended(shown, terminal)
    }

    fn show(&self) -> Result<Outcome, Box<Report>> {
        let ledger = self.ledger.open()?;
        let wrong = |error| Box::new(of_ledger(&error));
        if let Some(name) = &self.object {
            let record = ledger.find(&self.reference).map_err(wrong)?;
            let objects = record.body.objects();
            let Some((_, hash)) = objects.iter().find(|(known, _)| known == name) else {
                return Err(Box::new(no_object(name, &record.hash.short(), &objects)));
            };
            let bytes = ledger.object(hash).map_err(wrong)?;
            self.output.put(&bytes)?;
            return Ok(Outcome::Green);
        }
        let shown = ledger::show(&ledger, &self.reference).map_err(wrong)?;
        let text = if self.json.wanted {
            format!("{:#}\n", document(&shown))
        } else {
            format!("{shown}{}", commands(&shown))
        };
        self.output.put(text.as_bytes())?;
        Ok(Outcome::Green)
    }
}

/// The command that prints each object of a record.
fn commands(shown: &Shown) -> String {
    let objects = shown.record.body.objects();
    if objects.is_empty() {
        return String::new();
    }
    let mut text = String::from("its objects:\n");
    for (name, _) in objects {
        // A name in the ledger may contain any character; quote it for the shell.
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        let name = name.replace('\'', "'\\''");
        // Writing to a string does not fail.
        let _ = writeln!(text, "  warpproof show {} --object '{name}'", shown.record.hash.short());
    }
    text
}

fn no_object<T>(name: &str, record: &str, objects: &[(&str, T)]) -> Report {
    let sentence = format!("record {record} has no object `{}`", name.escape_debug());
    let names: Vec<String> = objects.iter().map(|(name, _)| format!("`{}`", name.escape_debug())).collect();
    Report::error(Kind::Usage, sentence).help(match &*names {
        [] => "it has no objects; steps of a candidate have them".to_owned(),
        names => format!("its objects: {}", names.join(", ")),
    })
}

fn document(shown: &Shown) -> Value {
    let references: Vec<Value> = shown
        .references
        .iter()
        .map(|one| json!({ "role": one.role, "hash": one.hash, "what": one.what }))
        .collect();
    let mut document = as_json(&shown.record);
    document["schema"] = "warpproof.record/1".into();
    document["references"] = references.into();
    document
}
