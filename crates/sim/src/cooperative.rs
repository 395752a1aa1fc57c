//! Cooperative launches: the workspace that the driver gives a grid, and the report if `grid.sync()` traps without one.
//!
//! `grid.sync()` of CUDA's cooperative groups is plain code between two block barriers: the first thread of each block adds
//! to a counter in the workspace (release) and polls it until all blocks have done so (acquire). The checks therefore see
//! this happens-before order without special treatment. The source is the public header
//! `cooperative_groups/details/sync.h`. The workspace is two words, a size and the counter, and its address is in
//! `%envreg1` (upper half) and `%envreg2`.

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
    /// Whether the kernel synchronizes its grid with cooperative groups and so needs a cooperative launch: it reads the
    /// workspace address, and traps if there is no workspace. Reading the address alone is harmless: `this_grid()` does
    /// so for a rank or a size.
    pub fn synchronizes_grid(&self) -> bool {
        let traps = self.metas.iter().any(|meta| meta.op == Op::Trap);
        traps && asks_for_workspace(self)
    }
}

fn asks_for_workspace(program: &Program) -> bool {
    let asks = |kind| matches!(kind, SpecialKind::Environment(1 | 2));
    program.specials.iter().any(|special| asks(special.kind))
}

/// Adds the explanation to the stop of a launch that is not cooperative, if `grid.sync()` trapped.
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
        "grid.sync() needs a cooperative launch, but this launch is not cooperative"
            .clone_into(&mut stop.sentence);
        stop.notes.push(
            "without a cooperative launch the grid has no workspace, and cooperative groups trap".to_owned(),
        );
        stop.help = Some(
            "launch the kernel with --cooperative (in a task: cooperative = true), and in your program with \
             cudaLaunchCooperativeKernel"
                .to_owned(),
        );
    }
}
