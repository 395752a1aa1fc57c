//! Properties of a kernel's instructions that the checks need: decoded once from the program, then looked up by number.

use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{self, Atomic, Combine, Copies, Fence, Memory, MemoryKind, Semantics};
use warpproof_sim::machine::{Width, at};
use warpproof_sim::memory::Space;
use warpproof_sim::program::{Meta, Program, Values};

/// The scope of an ordered access or a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    /// The threads of a block.
    Block,
    /// The device, and wider scopes.
    Device,
}

/// The memory ordering of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ordering {
    /// The scope of a strong access: threads in it may access the same bytes concurrently. `None` for a weak access.
    pub strong: Option<Scope>,
    /// Release: earlier accesses of the thread are visible to threads that observe this one.
    pub release: bool,
    /// Acquire: what the writer of the observed value released is visible now.
    pub acquire: bool,
}

impl Ordering {
    /// An ordinary access.
    pub(crate) const WEAK: Ordering = Ordering { strong: None, release: false, acquire: false };
}

/// The kind of an instruction, as far as the checks need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// None of the others.
    Other,
    /// A fence of that scope, and whether it is sequentially consistent.
    Fence(Scope, bool),
    /// Works on an mbarrier.
    Mbarrier,
    /// Reads through the non-coherent read-only cache (`ld.global.nc`).
    ReadOnly,
    /// A `cp.async` itself.
    Copy,
    /// `cp.async.commit_group`.
    Commit,
    /// `cp.async.wait_group`, with the number of groups it leaves in flight.
    Wait(u32),
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub kind: Kind,
    pub ordering: Ordering,
    /// A volatile load that does not poll: weak, except that it may be concurrent with atomics.
    pub volatile: bool,
}

/// The instructions of a program by number.
#[derive(Debug)]
pub(crate) struct Sites {
    list: Vec<Site>,
    /// Whether threads can be ordered only by barriers of the whole block and `bar.warp.sync`, which lets the checks
    /// record less.
    pub barriers_only: bool,
    /// Whether the happens-before order may depend on the schedule: the kernel has locks, flags, tickets, or barriers
    /// for some of the threads.
    pub order_matters: bool,
    /// Instructions by which blocks can observe each other, sorted by how likely their order matters: those that take
    /// tickets and locks, then flags, then the rest.
    pub steps: Vec<u32>,
    /// By instruction: whether threads can observe each other by it.
    pub noticed: Vec<bool>,
}

impl Sites {
    pub(crate) fn of(program: &Program) -> Sites {
        let values = Values::of(program);
        let mut barriers_only = true;
        let mut sites = Vec::with_capacity(program.metas.len());
        let swaps = swaps(program);
        let polled = polled(program);
        let mut order_matters = false;
        let (mut steps, mut noticed) = (Vec::new(), Vec::with_capacity(program.metas.len()));
        for (pc, meta) in program.metas.iter().enumerate() {
            let mut site = Site::of(&meta.op);
            let load =
                if let Op::Load(load) = &meta.op { Some(load).filter(|load| !load.uniform) } else { None };
            // `volatile` keeps the access from being optimized away, and makes it strong for a thread that polls. A thread that
            // reads data that way and relies on the lanes of a warp to run in step has a race all the same. To read a variable
            // again that was polled is part of polling it.
            let polls = || polled.iter().any(|other| values.same_address(pc, *other));
            if load.is_some_and(|load| load.semantics == Semantics::Volatile) && !polls() {
                site.ordering = Ordering::WEAK;
                site.volatile = true;
            }
            if load.is_some() && site.kind == Kind::Other && site.ordering == Ordering::WEAK {
                site.ordering.strong = guesses(program, pc, &swaps, &values);
            }
            let named = match &meta.op {
                Op::Barrier(barrier) => !barrier.whole_block(),
                Op::ClusterBarrier { .. } => true,
                Op::WarpSync { everyone } => !everyone,
                _ => false,
            };
            let memory = meta.op.effects().memory;
            let returns = memory.is_some_and(|memory| memory.kind == MemoryKind::Atomic);
            let takes = returns && meta.writes.iter().any(|row| read(program, *row));
            let flag = load.is_some() && site.ordering.strong.is_some() && self::polls(program, pc);
            let atomic = matches!(meta.op, Op::Atomic(_) | Op::SurfaceReduce(_));
            let strong =
                (load.is_some() || matches!(meta.op, Op::Store(_))) && site.ordering.strong.is_some();
            if (atomic || strong) && memory.is_some_and(|memory| memory.space != Space::Shared) {
                let rank = if takes { 0 } else { 2 - u32::from(strong) };
                steps.extend(u32::try_from(pc).ok().map(|pc| (rank, pc)));
            }
            noticed.push(atomic || strong || named || site.kind == Kind::Mbarrier);
            order_matters |= takes || flag || named || site.kind == Kind::Mbarrier;
            barriers_only &= !named
                && site.kind != Kind::Mbarrier
                && !matches!(site.kind, Kind::Fence(..))
                && !site.ordering.release
                && !site.ordering.acquire;
            sites.push(site);
        }
        steps.sort_unstable();
        let steps = steps.into_iter().map(|(_, pc)| pc).collect();
        Sites { list: sites, barriers_only, order_matters, steps, noticed }
    }

    /// An instruction by its number.
    pub(crate) fn get(&self, pc: u32) -> Site {
        self.list.get(at(pc)).copied().unwrap_or(Site {
            kind: Kind::Other,
            ordering: Ordering::WEAK,
            volatile: false,
        })
    }
}

/// By instruction: the kind of a commutative atomic whose result no instruction reads. Two of a kind may change places.
pub(crate) fn combines(program: &Program) -> Vec<Option<u32>> {
    let mut kinds: Vec<Atomic> = Vec::new();
    let kind = |meta: &Meta| {
        let Op::Atomic(atomic) = &meta.op else { return None };
        if !atomic.combine.commutes() || meta.writes.iter().any(|row| read(program, *row)) {
            return None;
        }
        let known = kinds.iter().position(|kind| kind == atomic).unwrap_or_else(|| {
            kinds.push(*atomic);
            kinds.len() - 1
        });
        u32::try_from(known).ok()
    };
    program.metas.iter().map(kind).collect()
}

/// Whether any instruction reads a row.
fn read(program: &Program, row: (Width, u32)) -> bool {
    program.metas.iter().any(|meta| meta.reads.contains(&row))
}

/// Volatile loads that poll.
fn polled(program: &Program) -> Vec<usize> {
    let volatile = |pc: usize| match &program.metas[pc].op {
        Op::Load(load) => load.semantics == Semantics::Volatile && polls(program, pc),
        _ => false,
    };
    (0..program.metas.len()).filter(|pc| volatile(*pc)).collect()
}

/// Whether a load polls: its value decides a branch that continues or leaves a loop around the load.
fn polls(program: &Program, load: usize) -> bool {
    let branches = |pc: usize| program.metas[pc].op == Op::Branch;
    let Some(end) = (load..program.code.len()).find(|&pc| {
        let inst = &program.code[pc];
        branches(pc) && at(inst.args.target) <= load
    }) else {
        return false;
    };
    // Rows that the value reaches, in one pass through the loop.
    let mut reached: Vec<(Width, u32)> = program.metas[load].writes.to_vec();
    let mut decides = false;
    for pc in load + 1..=end {
        let meta = &program.metas[pc];
        if !meta.reads.iter().any(|row| reached.contains(row)) {
            continue;
        }
        if branches(pc) {
            let target = at(program.code[pc].args.target);
            decides |= target <= load || target > end;
        }
        reached.extend_from_slice(&meta.writes);
    }
    decides
}

/// The compare-and-swaps of a program.
fn swaps(program: &Program) -> Vec<(usize, Scope)> {
    let swap = |(pc, meta): (usize, &Meta)| match &meta.op {
        Op::Atomic(atomic) if atomic.combine == Combine::CompareAndSwap => {
            Some((pc, Scope::of(atomic.scope)))
        }
        _ => None,
    };
    program.metas.iter().enumerate().filter_map(swap).collect()
}

/// Whether the value of a load is the first guess of a compare-and-swap of the same address, and in which scope: the
/// programming guide's way to make atomics of one's own. If others have changed the bytes, the swap finds out.
fn guesses(program: &Program, load: usize, swaps: &[(usize, Scope)], values: &Values<'_>) -> Option<Scope> {
    let (swap, scope) = *swaps.iter().find(|(pc, _)| *pc > load && values.same_address(load, *pc))?;
    // The value may go to the register that the loop around the swap begins with.
    let mut reached: Vec<(Width, u32)> = program.metas[load].writes.to_vec();
    for meta in &program.metas[load + 1..swap] {
        if matches!(meta.op, Op::Move(_)) && meta.reads.iter().any(|row| reached.contains(row)) {
            reached.extend_from_slice(&meta.writes);
        }
    }
    program.metas[swap].reads.iter().any(|row| reached.contains(row)).then_some(scope)
}

impl Scope {
    /// The reach of a scope that an instruction names; the device if it names none.
    fn of(named: Option<op::Scope>) -> Scope {
        match named {
            Some(op::Scope::Cta) => Scope::Block,
            Some(op::Scope::Cluster | op::Scope::Gpu | op::Scope::Sys) | None => Scope::Device,
        }
    }
}

impl Site {
    /// What an instruction means by itself, without the program around it.
    fn of(op: &Op) -> Site {
        let effects = op.effects();
        let kind = match (effects.fence, effects.copies, effects.memory) {
            (Some(Fence::Memory { scope, sequential, .. }), ..) => {
                Kind::Fence(Scope::of(Some(scope)), sequential)
            }
            (_, Copies::Start | Copies::Bulk, _) => Kind::Copy,
            (_, Copies::Commit | Copies::WaitAll, _) => Kind::Commit,
            (_, Copies::Wait(left), _) => Kind::Wait(left),
            (.., Some(Memory { kind: MemoryKind::Mbarrier, .. })) => Kind::Mbarrier,
            (.., Some(Memory { read_only: true, .. })) => Kind::ReadOnly,
            (
                Some(Fence::Proxy { .. }) | None,
                Copies::None | Copies::Arrive | Copies::BulkCommit | Copies::BulkWait,
                _,
            ) => Kind::Other,
        };
        let ordering = effects.memory.map_or(Ordering::WEAK, |memory| Ordering::of(&memory));
        Site { kind, ordering, volatile: false }
    }
}

impl Ordering {
    fn of(memory: &Memory) -> Ordering {
        let strong = Some(Scope::of(memory.scope));
        match memory.semantics {
            Semantics::Weak => Ordering::WEAK,
            Semantics::Volatile | Semantics::Mmio => {
                Ordering { strong: Some(Scope::Device), release: false, acquire: false }
            }
            Semantics::Relaxed => Ordering { strong, release: false, acquire: false },
            Semantics::Acquire => Ordering { strong, release: false, acquire: true },
            Semantics::Release => Ordering { strong, release: true, acquire: false },
            Semantics::AcquireRelease => Ordering { strong, release: true, acquire: true },
        }
    }
}
