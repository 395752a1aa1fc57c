//! Shared-memory accesses out of bounds of one array that land in a neighboring array.
//!
//! All arrays of a block share one shared-memory window, so an index that is too large reaches the next array, not the
//! end of memory. The check is a static rule: an address that is computed from the name of exactly one variable must
//! stay inside that variable. It follows the names through the registers of the kernel, independent of the order of
//! instructions. Source: the kernel's own declarations.
//!
//! Can miss: addresses computed from two names, or from a value that was loaded; members of one structure; pieces of
//! dynamic shared memory, which has one name and no size. Never reports: an access inside its variable.

use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::shape::Shape;
use super::{Class, Severity};
use std::collections::HashMap;
use warpproof_sim::isa::Op;
use warpproof_sim::machine::{Access, AccessKind, Width, at, lanes_of};
use warpproof_sim::program::{Meta, Program};

/// What an address is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// One variable, by its number.
    One(usize),
    /// More than one variable.
    Many,
}

impl Source {
    fn join(known: Option<Source>, more: Option<Source>) -> Option<Source> {
        match (known, more) {
            (None, other) | (other, None) => other,
            (Some(a), Some(b)) if a == b => Some(a),
            _ => Some(Source::Many),
        }
    }
}

/// The variable that each access of a kernel must stay in.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    /// By instruction: the variable's number, where there is one.
    inside: Vec<Option<usize>>,
}

impl Arrays {
    pub(crate) fn of(program: &Program) -> Arrays {
        // A variable without a size is dynamic shared memory: the launch sets its size.
        let sized: HashMap<&str, usize> = program
            .shared_variables
            .iter()
            .enumerate()
            .filter(|(_, (_, _, size))| *size > 0)
            .map(|(i, (name, _, _))| (name.as_str(), i))
            .collect();
        if sized.len() < 2 && program.dynamic_shared.is_none() {
            // A single variable ends where shared memory ends; the bounds check covers that.
            return Arrays::default();
        }
        let named: Vec<Option<Source>> = program.metas.iter().map(|meta| named(meta, &sized)).collect();
        let mut rows: HashMap<(Width, u32), Source> = HashMap::new();
        // Each pass only moves rows from unknown to `One` to `Many`, so the loop ends, usually after two or three
        // passes.
        let mut changed = true;
        while changed {
            changed = false;
            for (pc, meta) in program.metas.iter().enumerate() {
                if !computes(&meta.op) {
                    continue;
                }
                let read = meta
                    .reads
                    .iter()
                    .fold(named[pc], |source, row| Source::join(source, rows.get(row).copied()));
                for row in &meta.writes {
                    let before = rows.get(row).copied();
                    let after = Source::join(before, read);
                    if let Some(source) = after.filter(|_| after != before) {
                        rows.insert(*row, source);
                        changed = true;
                    }
                }
            }
        }
        let mut inside = vec![None; program.code.len()];
        for (pc, inst) in program.code.iter().enumerate() {
            let address = inst.args.at[0];
            let width = if address.wide { Width::W64 } else { Width::W32 };
            let source = if computes(&program.metas[pc].op) {
                None
            } else {
                Source::join(named[pc], rows.get(&(width, address.row)).copied())
            };
            if let Some(Source::One(variable)) = source {
                inside[pc] = Some(variable);
            }
        }
        Arrays { inside }
    }

    /// The bytes that an instruction must stay in.
    pub(crate) fn variable(&self, program: &Program, pc: u32) -> Option<std::ops::Range<u32>> {
        let variable = self.inside.get(at(pc)).copied().flatten()?;
        let (_, start, size) = program.shared_variables.get(variable)?;
        Some(*start..start.saturating_add(*size))
    }

    /// Whether words with this shape are inside the variable that the instruction must stay in.
    #[inline]
    pub(crate) fn holds(&self, context: &Context, pc: u32, shape: &Shape) -> bool {
        let variable = self.variable(&context.program, pc);
        variable
            .is_none_or(|bytes| shape.lowest >= bytes.start && shape.highest.saturating_add(4) <= bytes.end)
    }

    /// An access of a warp to shared memory.
    pub(crate) fn access(&self, context: &Context, raw_findings: &mut RawFindings, access: &Access<'_>) {
        let Some(variable) = self.inside.get(at(access.pc)).copied().flatten() else { return };
        let Some((name, start, size)) = context.program.shared_variables.get(variable) else { return };
        let start = u64::from(*start);
        // An address below the start wraps around to a large offset.
        let room = u64::from(*size).checked_sub(u64::from(access.bytes));
        let leaves = |address: u64| room.is_none_or(|room| address.wrapping_sub(start) > room);
        // All lanes first, without branches: most accesses stay inside.
        if !access.addresses.0.iter().fold(false, |any, address| any | leaves(*address)) {
            return;
        }
        for lane in lanes_of(access.lanes) {
            let address = access.addresses.0[lane];
            if !leaves(address) {
                continue;
            }
            let key = (Class::Bounds, access.pc, 0, 0);
            raw_findings.add(key, Severity::Error, || {
                let thread = access.warp * 32 + u32::try_from(lane).unwrap_or(0);
                let verb = if access.kind == AccessKind::Read { "read" } else { "write" };
                let reached = u32::try_from(address).ok().and_then(|address| context.shared_name(address));
                let offset = i128::from(address) - i128::from(start);
                let place = match offset {
                    ..0 => format!("{} bytes before the start of `{name}`, which has {size} bytes", -offset),
                    _ => format!("at byte {offset} of `{name}`, which has {size} bytes"),
                };
                let into = match reached.filter(|reached| *reached != name) {
                    Some(neighbor) => format!("; it reaches into `{neighbor}`"),
                    None => String::new(),
                };
                Raw {
                    class: Class::Bounds,
                    severity: Severity::Error,
                    sentence: format!(
                        "{verb} of {} bytes {place}{into}; {}",
                        access.bytes,
                        context.thread(access.block, thread)
                    ),
                    spots: vec![Spot {
                        label: format!("outside `{name}`"),
                        pc: access.pc,
                        thread: Some((access.block, thread)),
                    }],
                    notes: vec![format!("the address is computed from `{name}` and no other variable")],
                    help: Some(format!("keep the access within the {size} bytes of `{name}`")),
                    count: 1,
                }
            });
        }
    }
}

/// The variable that an instruction names.
fn named(meta: &Meta, sized: &HashMap<&str, usize>) -> Option<Source> {
    // A name that is none of them may be dynamic memory, which is a source of its own.
    meta.symbols.iter().fold(None, |source, name| {
        Source::join(source, Some(sized.get(name.as_str()).map_or(Source::Many, |i| Source::One(*i))))
    })
}

/// Whether an instruction computes from registers to registers, so that its result may be an address made of its sources.
fn computes(op: &Op) -> bool {
    match op {
        Op::Arithmetic(_)
        | Op::Logic(_)
        | Op::Bits(_)
        | Op::Select(_)
        | Op::Move(_)
        | Op::ConvertAddress
        | Op::Convert(_)
        | Op::Shuffle(_) => true,
        Op::Compare(_)
        | Op::Test(_)
        | Op::TestSpace
        | Op::Load(_)
        | Op::Store(_)
        | Op::Atomic(_)
        | Op::Texture(_)
        | Op::SurfaceLoad(_)
        | Op::SurfaceStore(_)
        | Op::SurfaceReduce(_)
        | Op::ImageQuery
        | Op::CacheHint
        | Op::Discard
        | Op::CachePolicy
        | Op::CopyAsync(_)
        | Op::CommitGroup
        | Op::WaitGroup(_)
        | Op::WaitAll
        | Op::CopiesArrive
        | Op::Bulk(_)
        | Op::Fill
        | Op::TensorMap
        | Op::Mbarrier(_)
        | Op::Fence(_)
        | Op::Barrier(_)
        | Op::ClusterBarrier { .. }
        | Op::WarpSync { .. }
        | Op::Vote { .. }
        | Op::Match { .. }
        | Op::Redux { .. }
        | Op::Elect
        | Op::ActiveMask
        | Op::LoadMatrix(_)
        | Op::StoreMatrix(_)
        | Op::TransposeMatrix
        | Op::LoadTile(_)
        | Op::StoreTile(_)
        | Op::Multiply(_)
        | Op::MultiplyAsync(_)
        | Op::MultiplyFence
        | Op::MultiplyCommit
        | Op::MultiplyWait(_)
        | Op::Tensor(_)
        | Op::Branch
        | Op::BranchTable
        | Op::Call(_)
        | Op::Return
        | Op::Exit
        | Op::Trap
        | Op::Event
        | Op::Sleep
        | Op::GridDependency { .. }
        | Op::SetRegisters
        | Op::Stack(_)
        | Op::Parameter
        | Op::Refused => false,
    }
}
