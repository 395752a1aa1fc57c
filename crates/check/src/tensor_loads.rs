//! Registers of `tcgen05.ld` that may not have arrived.
//!
//! An instruction that reads such a register waits for it: the PTX manual (memory model of `tcgen05`, canonical patterns) orders true
//! dependencies through registers (quoted in NVIDIA/cutlass, issue 2525, and vllm-project/flash-attention, pull request 182), and
//! the code of CUTLASS and Triton relies on it. Nothing else is ordered: an instruction that overwrites such a register before
//! `tcgen05.wait::ld` may be overtaken by the load. This is reported.

use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use std::collections::BTreeMap;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::TensorOp;
use warpproof_sim::machine::{Width, at};
use warpproof_sim::observe::Issue;

/// The loads of a warp that it has not waited for, by instruction: the registers that nothing has read since.
type Pending = BTreeMap<u32, Vec<(Width, u32)>>;

/// The loads of a block.
#[derive(Debug, Default)]
pub(super) struct TensorLoads {
    warps: BTreeMap<u32, Pending>,
}

impl TensorLoads {
    /// A warp executes a load.
    pub(super) fn start(&mut self, context: &Context, warp: u32, pc: u32) {
        let registers = context.program.metas[at(pc)].writes.to_vec();
        let pending = self.warps.entry(warp).or_default();
        // Loads of a warp are executed in order: the last one has its registers.
        for old in pending.values_mut() {
            old.retain(|register| !registers.contains(register));
        }
        pending.insert(pc, registers);
    }

    /// A warp has waited for its loads.
    pub(super) fn wait(&mut self, warp: u32) {
        self.warps.remove(&warp);
    }

    /// Whether all registers of a warp have arrived.
    pub(super) fn are_complete(&self, warp: u32) -> bool {
        !self.warps.contains_key(&warp)
    }

    /// An instruction is about to be executed.
    pub(super) fn issue(
        &mut self,
        context: &Context,
        block: u32,
        raw_findings: &mut RawFindings,
        issue: &Issue<'_>,
    ) {
        let Some(pending) = self.warps.get_mut(&issue.warp) else { return };
        let meta = &context.program.metas[at(issue.pc)];
        let mut overwritten = None;
        for (load, registers) in pending.iter_mut() {
            registers.retain(|register| !meta.reads.contains(register));
            let before = registers.len();
            registers.retain(|register| !meta.writes.contains(register));
            overwritten = overwritten.or((registers.len() < before).then_some(*load));
        }
        pending.retain(|_, registers| !registers.is_empty());
        if pending.is_empty() {
            self.warps.remove(&issue.warp);
        }
        if matches!(meta.op, Op::Tensor(TensorOp::Load)) {
            return;
        }
        let Some(load) = overwritten else { return };
        let thread = Some((block, issue.warp * 32 + issue.exec.trailing_zeros().min(31)));
        raw_findings.add((Class::TensorMemory, issue.pc, load, 2), Severity::Error, || Raw {
            class: Class::TensorMemory,
            severity: Severity::Error,
            sentence: "a register of tcgen05.ld is overwritten before the warp has waited for the load"
                .to_owned(),
            spots: vec![
                Spot { label: "overwritten here".to_owned(), pc: issue.pc, thread },
                Spot { label: "in flight since this load".to_owned(), pc: load, thread: None },
            ],
            notes: vec!["the value of the load may replace the new one".to_owned()],
            help: Some(
                "execute tcgen05.wait::ld.sync.aligned between the load and this instruction".to_owned(),
            ),
            count: 1,
        });
    }
}
