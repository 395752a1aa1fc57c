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
            || needs.only && self.sm != needs.sm
        {
            let (sm, suffix) = (needs.sm, if needs.specific { "a" } else { "" });
            (
                format!("`{}` needs sm_{sm}{suffix}; the module's target is {}", spelled(), self.target),
                if needs.only {
                    format!("compile for sm_{sm}a; no other architecture has this instruction")
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

    /// Whether the target includes the features specific to one architecture or family: `sm_90a`, `sm_100f`.
    fn is_specific(&self) -> bool {
        self.target.ends_with(['a', 'f'])
    }
}
