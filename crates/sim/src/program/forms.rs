//! The forms of the instructions of a kernel, each found once.

use super::decode::Decoder;
use crate::isa;
use std::collections::hash_map::Entry;
use warpproof_ptx as ptx;

/// The entry of an instruction in the table, its modifiers, and what it needs.
pub(super) type Found = (usize, isa::Modifiers<'static>, isa::Needs);

impl<'s, 'd> Decoder<'s, 'd> {
    /// The form of an instruction; an error is whether the opcode is known.
    pub(super) fn form(&mut self, instruction: &'d ptx::Instruction<'s>) -> Result<&Found, bool> {
        match self.forms.entry((instruction.opcode, &instruction.modifiers)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let (entry, modifiers) = isa::find(instruction.opcode, &instruction.modifiers)?;
                let needs = isa::needs(entry, &modifiers);
                Ok(place.insert((entry, modifiers, needs)))
            }
        }
    }
}
