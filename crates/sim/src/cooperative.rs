//! Cooperative launches: the workspace that the driver gives a grid, and what is said where there is none.
//!
//! `grid.sync()` of CUDA's cooperative groups is plain code: the first thread of each block adds to a counter in the workspace
//! (release) and reads it until all blocks did (acquire), between two barriers of the block. So the checks see the order that it
//! makes without knowing it. Its source is the public header `cooperative_groups/details/sync.h`; the workspace is two words, a
//! size and the counter, and its address is in `%envreg1` (upper half) and `%envreg2`.

use crate::isa::Op;
use crate::machine::Outcome;
use crate::memory::Heap;
use crate::program::{Program, SpecialKind};
use crate::stop::{Blame, Stop, StopKind};

/// Bytes of the workspace: its size and the counter.
const BYTES: u64 = 8;

/// Allocates the workspace of a launch.
pub(crate) fn workspace(heap: &mut Heap) -> Result<u64, Box<Stop>> {
    let limit = |cause: String| Box::new(Stop::general(Blame::Limit, StopKind::Limit, cause));
    let address = heap.allocate("the grid's workspace", BYTES).map_err(|error| limit(error.to_string()))?;
    let size = u32::try_from(BYTES).unwrap_or_default().to_le_bytes();
    heap.write(address, &size).map_err(|_| limit("the grid's workspace cannot be written".to_owned()))?;
    Ok(address)
}

impl Program {
    /// Whether it synchronizes its grid by cooperative groups, and so must be launched cooperatively: it asks for the grid's
    /// workspace, and traps where there is none. To ask alone is harmless: `this_grid()` does, for a rank or a size.
    pub fn synchronizes_grid(&self) -> bool {
        let traps = self.metas.iter().any(|meta| meta.op == Op::Trap);
        traps && asks_for_workspace(self)
    }
}

fn asks_for_workspace(program: &Program) -> bool {
    let asks = |kind| matches!(kind, SpecialKind::Environment(1 | 2));
    program.specials.iter().any(|special| asks(special.kind))
}

/// Says why a launch that is not cooperative stopped, if it is `grid.sync()` that trapped.
pub(crate) fn explain(outcome: &mut Outcome, program: &Program) {
    if !asks_for_workspace(program) {
        return;
    }
    if let Some(stop) = &mut outcome.stop
        && stop.kind == StopKind::Trap
        && stop.place.as_ref().is_none_or(|place| {
            place.source.is_empty()
                || place.source.iter().any(|line| line.file.contains("cooperative_groups"))
        })
    {
        "grid.sync() needs a cooperative launch, and this launch is not one".clone_into(&mut stop.sentence);
        stop.notes.push("without one the grid has no workspace, and cooperative groups trap".to_owned());
        stop.help = Some(
            "launch it with --cooperative (in a task: cooperative = true), and in your program with \
             cudaLaunchCooperativeKernel"
                .to_owned(),
        );
    }
}
