//! `warpproof verify`: verifies a ledger's integrity.

use clap::Args;
use serde_json::{Value, json};
use warpproof_evidence::ledger::{Problem, Verification as Verified};

use super::evidence::of_ledger;
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Verify a ledger's integrity
///
/// Verifies the hash of every line, the chain of lines, that all referenced records and objects
/// exist, and the hash of every object. Truncated lines that were never acknowledged are notes,
/// not errors.
///
/// Limits: verify cannot detect that the newest records were removed completely, or that the
/// whole ledger was rewritten. Compare it with a committed copy: a ledger only grows.
///
/// Exit codes: 0 sound · 1 problems found · 2 no ledger found · 3 written by a newer warpproof.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Verify {
    #[command(flatten)]
    ledger: LedgerFlags,
    #[command(flatten)]
    json: JsonFlag,
}

impl Verify {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let verified = self.verify(terminal);
        ended(verified, terminal)
    }

    fn verify(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let ledger = self.ledger.open()?;
        let progress = terminal.progress();
        progress.set_message("reading the ledger");
        let verified = ledger.verify().map_err(|error| Box::new(of_ledger(&error)))?;
        progress.finish_and_clear();
        if self.json.wanted {
            terminal.json(&document(&verified));
        } else {
            terminal.print(format_args!("{verified}\n"));
        }
        let kind = match verified.exit_code() {
            0 => return Ok(Outcome::Green),
            3 => Kind::Unsupported,
            _ => Kind::Evidence,
        };
        if !self.json.wanted {
            let help = match kind {
                Kind::Unsupported => "use the newer warpproof that wrote it",
                _ => "restore these files from a commit or a backup; a record cannot be repaired",
            };
            let sentence = format!("{} is damaged", ledger.root().display());
            let sentence = match kind {
                Kind::Unsupported => format!("{} cannot be read by this warpproof", ledger.root().display()),
                _ => sentence,
            };
            terminal.report(&Report::error(kind, sentence).help(help));
        }
        Ok(Outcome::Stopped(kind))
    }
}

fn document(verified: &Verified) -> Value {
    let problem = |problem: &Problem| json!({ "file": problem.file, "line": problem.line, "fault": problem.fault.to_string() });
    let tally = verified.tally;
    json!({
        "schema": "warpproof.verify/1",
        "sound": verified.is_sound(),
        "problems": verified.problems.iter().map(problem).collect::<Vec<_>>(),
        "more_problems": verified.more_problems,
        "notices": verified.notices,
        "more_notices": verified.more_notices,
        "segments": tally.segments,
        "records": tally.records,
        "objects": tally.objects,
        "bytes": tally.bytes,
    })
}
