//! Checks instructions against the module's `.target` and `.version`: instructions that need a later one are rejected, as
//! by ptxas.

use super::Linked;
use crate::isa::Needs;
use crate::stop::{Blame, Stop, StopKind};
use warpproof_ptx as ptx;

impl Linked {
    /// The stop for an instruction that the module's target or version does not support.
    pub(super) fn lacks(&self, instruction: &ptx::Instruction<'_>, needs: &Needs) -> Option<Box<Stop>> {
        let spelled = || {
            let words = std::iter::once(instruction.opcode).chain(instruction.modifiers.iter().copied());
            words.collect::<Vec<_>>().join(".")
        };
        let (sentence, help) = if self.sm < needs.sm
            || needs.specific && !self.is_specific()
            || needs.until.is_some_and(|until| self.sm >= until)
        {
            let (sm, suffix) = (needs.sm, if needs.specific { "a" } else { "" });
            (
                format!("`{}` needs sm_{sm}{suffix}; the module's target is {}", spelled(), self.target),
                if let Some(until) = needs.until {
                    if until == sm + 1 {
                        format!("compile for sm_{sm}a; no other architecture has this instruction")
                    } else {
                        format!("compile for sm_{sm}a or a later architecture below sm_{until}")
                    }
                } else if needs.specific {
                    format!(
                        "compile for sm_{sm}a, or for another architecture-specific target (ending in `a`) that supports it"
                    )
                } else {
                    format!("compile for sm_{sm} or later")
                },
            )
        } else if self.version < needs.version {
            let ((major, minor), (own, own_minor)) = (needs.version, self.version);
            (
                format!("`{}` needs PTX {major}.{minor}; the module is PTX {own}.{own_minor}", spelled()),
                format!(
                    "compile with a compiler that emits PTX {major}.{minor} or later, or raise `.version`"
                ),
            )
        } else {
            return None;
        };
        let mut stop = Stop::general(Blame::Input, StopKind::Malformed, sentence);
        stop.help = Some(help);
        Some(Box::new(stop))
    }

    /// The stop for a target that is later than the module's version.
    pub(super) fn too_old(&self) -> Option<Box<Stop>> {
        let (number, suffix) = (self.sm, self.target.trim_start_matches(|c: char| !c.is_ascii_digit()));
        let suffix = suffix.trim_start_matches(|c: char| c.is_ascii_digit());
        let needed = match (number, suffix) {
            (100 | 101, "" | "a") => (8, 6),
            (120, "" | "a") => (8, 7),
            (100 | 101 | 103 | 120 | 121, _) => (8, 8),
            (88 | 110, _) => (9, 0),
            _ => return None,
        };
        if self.version >= needed {
            return None;
        }
        let ((major, minor), (own, own_minor)) = (needed, self.version);
        let sentence =
            format!("target {} needs PTX {major}.{minor}; the module is PTX {own}.{own_minor}", self.target);
        let mut stop = Stop::general(Blame::Input, StopKind::Malformed, sentence);
        stop.help = Some(format!("compile with a compiler that emits PTX {major}.{minor} or later"));
        Some(Box::new(stop))
    }

    /// Whether the target includes the features specific to one architecture or family: `sm_90a`, `sm_100f`.
    fn is_specific(&self) -> bool {
        self.target.ends_with(['a', 'f'])
    }
}
