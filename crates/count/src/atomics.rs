//! How ptxas translates atomics, as far as it affects counts: an `atom` whose old value is unused becomes a reduction, and
//! ptxas merges the lanes of a warp into one operation if it can prove that they all use one address. These rules were
//! derived from the SASS that ptxas emits; `crates/count/tests/count/atomics.rs` has the cases.

use std::collections::HashSet;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::Combine;
use warpproof_sim::machine::{Type, Width};
use warpproof_sim::memory::Space;
use warpproof_sim::program::{Meta, Program, SpecialKind};

/// Iterations of the data-flow analysis that finds registers that differ between lanes; without a fixed point by then, all
/// registers count as differing.
const ROUNDS: usize = 32;

/// Register facts of a program with atomics; other programs are not analyzed.
pub(super) struct Atomics {
    /// Registers that some instruction reads.
    read: HashSet<(Width, u32)>,
    /// Registers that may differ between the lanes of a warp.
    differ: HashSet<(Width, u32)>,
}

impl Atomics {
    pub(super) fn of(program: &Program) -> Atomics {
        let mut found = Atomics { read: HashSet::new(), differ: HashSet::new() };
        if !program.metas.iter().any(|meta| matches!(meta.op, Op::Atomic(_))) {
            return found;
        }
        for meta in &program.metas {
            found.read.extend(meta.reads.iter().copied());
        }
        // A value differs if something it is made of does.
        let differs = |special: &SpecialKind| match special {
            SpecialKind::Tid(_)
            | SpecialKind::Laneid
            | SpecialKind::LanemaskEq
            | SpecialKind::LanemaskLe
            | SpecialKind::LanemaskLt
            | SpecialKind::LanemaskGe
            | SpecialKind::LanemaskGt => true,
            SpecialKind::Ntid(_)
            | SpecialKind::Ctaid(_)
            | SpecialKind::Nctaid(_)
            | SpecialKind::Warpid
            | SpecialKind::Nwarpid
            | SpecialKind::Smid
            | SpecialKind::Nsmid
            | SpecialKind::Gridid
            | SpecialKind::DynamicSharedSize
            | SpecialKind::TotalSharedSize
            | SpecialKind::Reserved(_)
            | SpecialKind::ReservedSize
            | SpecialKind::Environment(_)
            | SpecialKind::ClusterId(_)
            | SpecialKind::NclusterId(_)
            | SpecialKind::ClusterCtaid(_)
            | SpecialKind::ClusterNctaid(_)
            | SpecialKind::ClusterCtarank
            | SpecialKind::ClusterNctarank
            | SpecialKind::IsExplicitCluster
            | SpecialKind::Zero => false,
        };
        let source = |meta: &Meta| match &meta.op {
            Op::Atomic(atomic) => atomic.returns,
            Op::Move(moved) if moved.counter.is_some() => true,
            _ => meta.specials.iter().any(differs),
        };
        let sources: Vec<bool> = program.metas.iter().map(source).collect();
        let mut settled = false;
        for _ in 0..ROUNDS {
            let before = found.differ.len();
            for (meta, source) in program.metas.iter().zip(&sources) {
                if *source || meta.reads.iter().any(|row| found.differ.contains(row)) {
                    found.differ.extend(meta.writes.iter().copied());
                }
            }
            settled = found.differ.len() == before;
            if settled {
                break;
            }
        }
        if !settled {
            found.differ.extend(program.metas.iter().flat_map(|meta| meta.writes.iter().copied()));
        }
        found
    }

    /// Whether no instruction reads the result.
    fn unread(&self, program: &Program, pc: usize) -> bool {
        program.metas.get(pc).is_some_and(|meta| meta.writes.iter().all(|row| !self.read.contains(row)))
    }

    /// Whether an `atom` of global memory is a reduction to ptxas.
    pub(super) fn reduces(&self, program: &Program, pc: usize) -> bool {
        let Op::Atomic(atomic) = &program.metas[pc].op else { return false };
        let reduces = match atomic.combine {
            Combine::CompareAndSwap | Combine::Exchange => false,
            Combine::And
            | Combine::Or
            | Combine::Xor
            | Combine::Add
            | Combine::Inc
            | Combine::Dec
            | Combine::Min
            | Combine::Max => true,
        };
        atomic.returns && atomic.space == Space::Global && reduces && self.unread(program, pc)
    }

    /// Whether ptxas makes one operation of the lanes of a warp if they all name one address.
    pub(super) fn merges(&self, program: &Program, pc: usize) -> bool {
        let meta = &program.metas[pc];
        let Op::Atomic(atomic) = &meta.op else { return false };
        if !matches!(atomic.ty, Type::U32 | Type::S32 | Type::B32) || !atomic.combine.commutes() {
            return false;
        }
        let inst = &program.code[pc];
        let address = inst.args.at[0];
        let base = (if address.wide { Width::W64 } else { Width::W32 }, address.row);
        // A variable's address is a constant.
        let register = meta.reads.contains(&base);
        if register && self.differ.contains(&base) {
            return false;
        }
        let values = meta.reads.len() - usize::from(register);
        let constant = values <= usize::from(inst.guard.is_some());
        self.unread(program, pc) || (atomic.combine == Combine::Add && constant)
    }
}
