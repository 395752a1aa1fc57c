//! The sources: values that differ from run to run or from machine to machine, and the instructions that read them.

use super::super::facts::{Facts, NO_ROW};
use super::super::settings::Source;
use super::lane::Lane;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{Control, Copies, Counter, MemoryKind, Move, Participants};
use warpproof_sim::machine::{LANES, Width, at};
use warpproof_sim::memory::Heap;
use warpproof_sim::program::{Meta, Program, SpecialKind};
use warpproof_sim::{Device, Launch};

/// A set of sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources(u8);

impl Sources {
    pub(super) const NONE: Sources = Sources(0);
    pub(super) const ADDRESS: Sources = Sources::of(Source::Address);
    #[cfg(test)]
    pub(super) const CLOCK: Sources = Sources::of(Source::Clock);

    const fn of(source: Source) -> Sources {
        Sources(match source {
            Source::Clock => 1,
            Source::Timer => 2,
            Source::Machine => 4,
            Source::Address => 8,
        })
    }

    fn all(sources: &[Source]) -> Sources {
        sources.iter().fold(Sources::NONE, |all, one| all.with(Sources::of(*one)))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn with(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }

    pub(super) fn without(self, other: Sources) -> Sources {
        Sources(self.0 & !other.0)
    }

    /// The single sources of the set.
    pub(super) fn each(self) -> impl Iterator<Item = Source> {
        Source::ALL.into_iter().filter(move |source| self.0 & Sources::of(*source).0 != 0)
    }
}

/// The source that a special register belongs to. `%tid`, `%ctaid`, `%laneid` and their kin name the thread, `%dynamic_smem_size` is
/// an argument of the launch: those are the same everywhere. `%warpid` need not be the thread's number divided by 32 and may change
/// while the thread runs (PTX manual, special registers).
fn special(kind: &SpecialKind) -> Sources {
    match kind {
        SpecialKind::Smid
        | SpecialKind::Nsmid
        | SpecialKind::Warpid
        | SpecialKind::Nwarpid
        | SpecialKind::Gridid
        | SpecialKind::TotalSharedSize => Sources::of(Source::Machine),
        SpecialKind::Tid(_)
        | SpecialKind::Ntid(_)
        | SpecialKind::Ctaid(_)
        | SpecialKind::Nctaid(_)
        | SpecialKind::Laneid
        | SpecialKind::LanemaskEq
        | SpecialKind::LanemaskLe
        | SpecialKind::LanemaskLt
        | SpecialKind::LanemaskGe
        | SpecialKind::LanemaskGt
        | SpecialKind::DynamicSharedSize
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
        | SpecialKind::Zero => Sources::NONE,
    }
}

/// The special registers that an instruction reads.
fn named(meta: &Meta) -> Sources {
    let counter = match &meta.op {
        Op::Move(Move { counter: Some(counter), .. }) => Sources::of(match counter {
            Counter::Clock => Source::Clock,
            Counter::Timer => Source::Timer,
            Counter::Monitor => Source::Machine,
        }),
        _ => Sources::NONE,
    };
    meta.specials.iter().map(special).fold(counter, Sources::with)
}

/// Where sources enter a launch.
pub(crate) struct Entrances {
    /// By instruction: the sources it reads directly, and whether one of its constants is an address.
    own: Vec<(Sources, bool)>,
    /// By instruction: whether it is a branch that only waits or ends the launch.
    harmless: Vec<bool>,
    /// Offsets in parameter memory that hold an address, and the allocation.
    parameters: Vec<(u64, u16)>,
    /// Rows of constants that hold an address, and the allocation.
    constants: Vec<(u32, u16)>,
    /// Where the allocations begin.
    bases: Vec<u64>,
}

impl Entrances {
    pub(crate) fn of(device: &Device, launch: &Launch, facts: &Facts, allowed: &[Source]) -> Entrances {
        let program = launch.program();
        let allowed = Sources::all(allowed);
        let mut entrances = Entrances {
            own: Vec::with_capacity(program.metas.len()),
            harmless: Vec::new(),
            parameters: Vec::new(),
            constants: Vec::new(),
            bases: Vec::new(),
        };
        if allowed.without(Sources::ADDRESS) == allowed {
            entrances.find_addresses(&device.reading(), launch, &program, facts);
        }
        for pc in 0..program.metas.len() {
            let own = named(&program.metas[pc]).without(allowed);
            let operands = u32::try_from(pc).ok().and_then(|pc| facts.cold(pc)).map(|cold| &cold.operands);
            let constant = |row: &u32| entrances.constants.iter().any(|(constant, _)| constant == row);
            let pointer = operands.is_some_and(|rows| rows.iter().any(constant));
            entrances.own.push((own, pointer));
        }
        entrances.harmless = (0..program.metas.len()).map(|pc| entrances.only_waits(&program, pc)).collect();
        entrances
    }

    fn find_addresses(&mut self, heap: &Heap, launch: &Launch, program: &Program, facts: &Facts) {
        for (offset, value) in launch.parameter_words() {
            if let Some(base) = self.base(heap, value) {
                self.parameters.push((offset, base));
            }
        }
        for (row, values) in (0u32..).zip(&program.registers.w64) {
            let number = facts.numbering.number(Width::W64, row);
            let constant = facts.start.get(at(number)).is_some_and(|start| *start == 0);
            if let Some(base) = constant.then(|| self.base(heap, values.0[0])).flatten() {
                self.constants.push((number, base));
            }
        }
    }

    /// The number of the allocation that an address lies in.
    fn base(&mut self, heap: &Heap, address: u64) -> Option<u16> {
        let start = heap.allocation(heap.locate(address, 0).ok()?).base;
        let known = self.bases.iter().position(|base| *base == start);
        let at = known.unwrap_or_else(|| {
            self.bases.push(start);
            self.bases.len() - 1
        });
        u16::try_from(at).ok()
    }

    /// The sources that an instruction reads directly, and whether one of its constants is an address.
    #[inline]
    pub(super) fn own(&self, pc: u32) -> (Sources, bool) {
        self.own.get(at(pc)).copied().unwrap_or_default()
    }

    /// Whether a branch only waits, or ends the launch.
    pub(super) fn harmless(&self, pc: u32) -> bool {
        self.harmless.get(at(pc)).copied().unwrap_or(false)
    }

    /// The rows that hold an address when a warp starts.
    pub(super) fn constants(&self) -> impl Iterator<Item = (u32, [Lane; LANES])> {
        self.constants.iter().map(|(row, base)| (*row, [Lane::pointer(*base, NO_ROW); LANES]))
    }

    /// The taint of a load of `bytes` bytes from parameter memory.
    pub(super) fn parameter(&self, address: u64, bytes: u32, pc: u32) -> Lane {
        let word = self.parameters.iter().find(|(offset, _)| address / 8 == offset / 8);
        match word {
            Some((offset, base)) if *offset == address && bytes == 8 => Lane::pointer(*base, pc),
            Some((offset, base)) if *offset == address => Lane::pointer(*base, pc).converted(64, 8 * bytes),
            Some((_, base)) => Lane::pointer(*base, pc).upper_half(),
            None => Lane::CLEAN,
        }
    }

    /// Where an allocation begins.
    pub(super) fn address(&self, base: u16) -> Option<u64> {
        self.bases.get(usize::from(base)).copied()
    }

    /// Whether a branch closes a loop that only waits (it accesses no memory, and what it writes is not read outside
    /// the loop, or is a source itself), or one of its targets leads directly to `trap`.
    fn only_waits(&self, program: &Program, pc: usize) -> bool {
        let op = |pc: usize| &program.metas[pc].op;
        if *op(pc) == Op::Trap {
            return true;
        }
        if *op(pc) != Op::Branch {
            return false;
        }
        let target = at(program.code[pc].args.target);
        let traps = |from: usize| {
            let leaves = |op: &Op| {
                let effects = op.effects();
                !matches!(effects.control, Control::Next | Control::Call | Control::Trap)
                    || effects.participants == Participants::Block
            };
            let changes = |op: &Op| {
                matches!(
                    op,
                    Op::Trap | Op::Store(_) | Op::Atomic(_) | Op::SurfaceStore(_) | Op::SurfaceReduce(_)
                )
            };
            let way = (from..program.metas.len()).map(op).take_while(|op| !leaves(op));
            way.into_iter().find(|op| changes(op)) == Some(&Op::Trap)
        };
        if traps(target) || traps(pc + 1) {
            return true;
        }
        let body = target..pc;
        let plain = |pc: usize| {
            let effects = op(pc).effects();
            effects.memory.is_none_or(|memory| memory.kind == MemoryKind::Hint)
                && effects.control == Control::Next
                && effects.fence.is_none()
                && effects.copies == Copies::None
                && matches!(effects.participants, Participants::Lane)
        };
        if body.is_empty() || !body.clone().all(plain) {
            return false;
        }
        let inside = |other: usize| (target..=pc).contains(&other);
        let outside: Vec<usize> = (0..program.metas.len()).filter(|other| !inside(*other)).collect();
        body.into_iter().all(|writer| {
            let source = self.own.get(writer).is_some_and(|(own, _)| !own.is_empty());
            let read =
                |row: &(Width, u32)| outside.iter().any(|other| program.metas[*other].reads.contains(row));
            source || !program.metas[writer].writes.iter().any(read)
        })
    }
}
