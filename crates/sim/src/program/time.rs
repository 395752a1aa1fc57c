//! Registers whose values come from a clock.
//!
//! A loop that waits often reads a clock, to sleep longer each time. Registers that hold times differ in each iteration, so
//! only the other registers decide whether the loop repeats itself.

use super::{Program, Width};
use crate::isa::Op;
use std::collections::BTreeSet;

/// Rows that depend on a clock through registers, by file. Values that pass through memory are not tracked.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeRows {
    pub(crate) preds: BTreeSet<u32>,
    pub(crate) w32: BTreeSet<u32>,
    pub(crate) w64: BTreeSet<u32>,
    pub(crate) w128: BTreeSet<u32>,
}

impl TimeRows {
    /// Whether no register holds a time.
    pub(crate) fn is_empty(&self) -> bool {
        [&self.preds, &self.w32, &self.w64, &self.w128].iter().all(|rows| rows.is_empty())
    }

    fn file(&mut self, width: Width) -> &mut BTreeSet<u32> {
        match width {
            Width::Pred => &mut self.preds,
            Width::W32 => &mut self.w32,
            Width::W64 => &mut self.w64,
            Width::W128 => &mut self.w128,
        }
    }

    pub(super) fn of(program: &Program) -> TimeRows {
        let mut rows = TimeRows::default();
        let clocks: Vec<usize> = (0..program.metas.len())
            .filter(|pc| matches!(&program.metas[*pc].op, Op::Move(moved) if moved.counter.is_some()))
            .collect();
        for (width, row) in clocks.iter().flat_map(|pc| program.metas[*pc].writes.iter()) {
            rows.file(*width).insert(*row);
        }
        let mut grows = !clocks.is_empty();
        while grows {
            grows = false;
            for meta in &program.metas {
                if meta.reads.iter().any(|(width, row)| rows.file(*width).contains(row)) {
                    for (width, row) in &meta.writes {
                        grows |= rows.file(*width).insert(*row);
                    }
                }
            }
        }
        rows
    }
}
