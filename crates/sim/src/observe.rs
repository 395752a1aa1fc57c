//! Who listens to a run: checks and counters. Execution knows none of them, and a run without a listener pays for none.

use crate::machine::Access;
use crate::program::Meta;

/// An instruction about to be executed by the lanes in `exec`.
#[derive(Clone, Copy, Debug)]
pub struct Issue {
    /// The block's linear index.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The instruction's index in the code.
    pub pc: u32,
    /// The lanes that execute it.
    pub exec: u32,
    /// Lanes of the warp that have not exited.
    pub live: u32,
}

/// A listener to one block's run. Blocks may run in parallel, so each gets a listener of its own.
pub trait Observer: Send {
    /// Before an instruction is executed.
    fn issue(&mut self, _issue: &Issue, _meta: &Meta) {}
    /// After a memory access was found possible and was made.
    fn access(&mut self, _access: &Access<'_>) {}
    /// When all threads of a barrier have arrived.
    fn barrier(&mut self, _block: u32, _id: u32) {}
}
