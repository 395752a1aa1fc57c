//! The state of a warp when its block starts.

use super::{Grid, Row, WarpState, cluster_address};
use crate::program::SpecialKind;

/// Prepares a warp to start. It keeps only the memory of the previous one.
pub(super) fn start_warp(state: &mut WarpState, grid: &Grid<'_>, block: [u32; 3], id: u32, threads: u32) {
    let program = grid.program;
    let WarpState { mut regs, mut local, .. } = std::mem::take(state);
    regs.copy_from(&program.registers);
    local.reset(program.frame);
    if grid.cluster_size() > 1 {
        program.name_rank(&mut regs, cluster_address(grid.cluster_rank(block), 0));
    }
    for special in &program.specials {
        special.write(&mut regs, &special_row(grid, special.kind, block, id));
    }
    let existing = threads - id * 32;
    let mask = if existing >= 32 { u32::MAX } else { (1 << existing) - 1 };
    *state = WarpState { id, regs, local, exited: !mask, ..WarpState::default() };
    state.subwarp.mask = mask;
    state.subwarp.pc = program.entry;
}

/// A special register of all lanes of a warp.
fn special_row(grid: &Grid<'_>, kind: SpecialKind, block: [u32; 3], warp: u32) -> Row<u64> {
    let first = warp * 32;
    let mut row = Row([0u64; 32]);
    match kind {
        SpecialKind::Tid(axis) => {
            // Incremented instead of divided: divisions in every lane of every warp of every block would be measurable.
            let mut thread = grid.thread(first);
            for value in &mut row.0 {
                *value = u64::from(thread[axis]);
                thread[0] += 1;
                if thread[0] == grid.threads[0] {
                    thread = [0, thread[1] + 1, thread[2]];
                }
                if thread[1] == grid.threads[1] {
                    thread = [thread[0], 0, thread[2] + 1];
                }
            }
        }
        SpecialKind::Laneid
        | SpecialKind::LanemaskEq
        | SpecialKind::LanemaskLe
        | SpecialKind::LanemaskLt
        | SpecialKind::LanemaskGe
        | SpecialKind::LanemaskGt => {
            for (lane, value) in (0u32..).zip(&mut row.0) {
                *value = grid.special(kind, block, first + lane, lane, warp);
            }
        }
        _ => row = Row::splat(grid.special(kind, block, first, 0, warp)),
    }
    row
}
