//! Properties of a kernel's instructions that the checks need: decoded once from the program, then looked up by number.

use crate::machine::{Width, at};
use crate::program::Program;

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
        let threads_count = |tokens: &Words<'_>| tokens.operands > 1;
        let mut barriers_only = true;
        let mut sites = Vec::with_capacity(program.metas.len());
        let swaps = Swap::all(program);
        let polled = polled(program);
        let mut order_matters = false;
        let (mut steps, mut noticed) = (Vec::new(), Vec::with_capacity(program.metas.len()));
        for pc in 0..program.metas.len() {
            let text = program.instruction(pc);
            let words = Words::of(text);
            let mut site = words.site();
            // `volatile` makes the compiler keep the access; only a load that polls counts as strong. A kernel that
            // reads data this way and relies on the lanes of a warp running in lockstep has a race. Another load of a
            // polled variable counts as polling.
            let polls = || address(text).is_some_and(|address| polled.contains(&address));
            if words.opcode == "ld" && words.has("volatile") && !polls() {
                site.ordering = Ordering::WEAK;
            }
            if words.opcode == "ld" && site.kind == Kind::Other && site.ordering == Ordering::WEAK {
                site.ordering.strong = guesses(program, pc, &swaps);
            }
            let block_barrier =
                words.zero && !words.has("arrive") && !words.has("cluster") && !threads_count(&words);
            let named = matches!(words.opcode, "bar" | "barrier")
                && if words.has("warp") { !words.everyone } else { !block_barrier };
            let takes =
                words.opcode == "atom" && program.metas[pc].writes.iter().any(|row| read(program, *row));
            let flag = words.opcode == "ld" && site.ordering.strong.is_some() && self::polls(program, pc);
            let atomic = matches!(words.opcode, "atom" | "red");
            let strong = matches!(words.opcode, "ld" | "st") && site.ordering.strong.is_some();
            if (atomic || strong) && !words.has("shared") {
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
        self.list.get(at(pc)).copied().unwrap_or(Site { kind: Kind::Other, ordering: Ordering::WEAK })
    }
}

/// By instruction: the kind of an addition or similar atomic whose result is unused. Two of the same kind commute.
pub(crate) fn combines(program: &Program) -> Vec<Option<u32>> {
    const FREE: [&str; 6] = ["add", "min", "max", "and", "or", "xor"];
    let mut kinds: Vec<String> = Vec::new();
    let kind = |pc: usize| {
        let words = Words::of(program.instruction(pc));
        let free = matches!(words.opcode, "atom" | "red")
            && FREE.iter().any(|name| words.has(name))
            && !program.metas[pc].writes.iter().any(|row| read(program, *row));
        let name = free.then(|| words.modifiers.join("."))?;
        let known = kinds.iter().position(|kind| *kind == name).unwrap_or_else(|| {
            kinds.push(name);
            kinds.len() - 1
        });
        u32::try_from(known).ok()
    };
    (0..program.metas.len()).map(kind).collect()
}

/// Whether any instruction reads a row.
fn read(program: &Program, row: (Width, u32)) -> bool {
    program.metas.iter().any(|meta| meta.reads.contains(&row))
}

/// The address operands, as text, of volatile loads that poll.
fn polled(program: &Program) -> Vec<&str> {
    let address = |pc: usize| {
        let text = program.instruction(pc);
        let words = Words::of(text);
        (words.opcode == "ld" && words.has("volatile") && polls(program, pc)).then(|| address(text))?
    };
    (0..program.metas.len()).filter_map(address).collect()
}

/// Whether a load polls: its value decides a branch that continues or leaves a loop around the load.
fn polls(program: &Program, load: usize) -> bool {
    let Some(end) = (load..program.code.len()).find(|&pc| {
        let inst = &program.code[pc];
        branches(program, pc) && at(inst.args.target) <= load
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
        if branches(program, pc) {
            let target = at(program.code[pc].args.target);
            decides |= target <= load || target > end;
        }
        reached.extend_from_slice(&meta.writes);
    }
    decides
}

fn branches(program: &Program, pc: usize) -> bool {
    Words::of(program.instruction(pc)).opcode == "bra"
}

/// The text between the brackets of an operand.
pub(crate) fn address(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0.trim())
}

/// A compare-and-swap.
struct Swap<'p> {
    pc: usize,
    address: &'p str,
    scope: Scope,
}

impl<'p> Swap<'p> {
    fn all(program: &'p Program) -> Vec<Swap<'p>> {
        let swap = |pc| {
            let text = program.instruction(pc);
            let words = Words::of(text);
            (words.opcode == "atom" && words.has("cas")).then_some(())?;
            Some(Swap { pc, address: address(text)?, scope: words.scope().unwrap_or(Scope::Device) })
        };
        (0..program.metas.len()).filter_map(swap).collect()
    }
}

/// Whether the value of a load is the first guess of a compare-and-swap of the same address, and in which scope: the
/// CUDA programming guide's pattern for custom atomics. If other threads have changed the bytes, the compare-and-swap
/// fails.
fn guesses(program: &Program, load: usize, swaps: &[Swap<'_>]) -> Option<Scope> {
    let from = address(program.instruction(load))?;
    let swap = swaps.iter().find(|swap| swap.pc > load && swap.address == from)?;
    // The value may be moved to the register that the loop around the compare-and-swap starts with.
    let mut reached: Vec<(Width, u32)> = program.metas[load].writes.to_vec();
    for pc in load + 1..swap.pc {
        let meta = &program.metas[pc];
        if Words::of(program.instruction(pc)).opcode == "mov"
            && meta.reads.iter().any(|row| reached.contains(row))
        {
            reached.extend_from_slice(&meta.writes);
        }
    }
    program.metas[swap.pc].reads.iter().any(|row| reached.contains(row)).then_some(swap.scope)
}

/// An instruction's opcode and modifiers.
pub(crate) struct Words<'t> {
    pub opcode: &'t str,
    pub modifiers: Vec<&'t str>,
    /// Number of operands.
    operands: usize,
    /// Whether the first operand is 0.
    zero: bool,
    /// Whether the first operand is the mask of all lanes.
    everyone: bool,
    /// The first operand, if it is a number.
    number: Option<u32>,
}

impl<'t> Words<'t> {
    pub(crate) fn of(text: &'t str) -> Words<'t> {
        let mut rest = text.trim();
        if rest.starts_with('@') {
            rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
        }
        let (head, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let mut parts = head.trim_end_matches(';').split('.');
        let operands = operands.trim().trim_end_matches(';').trim();
        let first = operands.split(',').next().unwrap_or("").trim();
        Words {
            opcode: parts.next().unwrap_or(""),
            modifiers: parts.collect(),
            operands: if operands.is_empty() { 0 } else { operands.split(',').count() },
            zero: first == "0",
            number: first.parse().ok(),
            everyone: matches!(first, "-1" | "0xffffffff" | "0xFFFFFFFF" | "4294967295"),
        }
    }

    pub(crate) fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    fn scope(&self) -> Option<Scope> {
        if self.has("cta") {
            Some(Scope::Block)
        } else if self.modifiers.iter().any(|m| matches!(*m, "gpu" | "gl" | "sys" | "cluster")) {
            Some(Scope::Device)
        } else {
            None
        }
    }

    fn site(&self) -> Site {
        let kind = match self.opcode {
            // `membar` is `fence.sc` since sm_70.
            "membar" | "fence" if !self.has("proxy") => {
                let sequential = self.opcode == "membar" || self.has("sc");
                Kind::Fence(self.scope().unwrap_or(Scope::Device), sequential)
            }
            "mbarrier" => Kind::Mbarrier,
            "cp" if self.has("mbarrier") => Kind::Mbarrier,
            "cp" if self.has("commit_group") || self.has("wait_all") => Kind::Commit,
            "cp" if self.has("wait_group") => self.number.map_or(Kind::Other, Kind::Wait),
            "cp" if self.has("async") && !self.has("wait_group") && !self.has("wait_all") => Kind::Copy,
            "ld" if self.has("nc") => Kind::ReadOnly,
            _ => Kind::Other,
        };
        Site { kind, ordering: self.ordering() }
    }

    fn ordering(&self) -> Ordering {
        let (release, acquire) =
            (self.has("release") || self.has("acq_rel"), self.has("acquire") || self.has("acq_rel"));
        match self.opcode {
            // Atomics are relaxed and of device scope by default.
            "atom" | "red" => {
                Ordering { strong: Some(self.scope().unwrap_or(Scope::Device)), release, acquire }
            }
            "ld" | "st" if self.has("volatile") || self.has("mmio") => {
                Ordering { strong: Some(Scope::Device), release: false, acquire: false }
            }
            "ld" | "st" if self.has("relaxed") || release || acquire => {
                Ordering { strong: Some(self.scope().unwrap_or(Scope::Device)), release, acquire }
            }
            _ => Ordering::WEAK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(text: &str) -> Site {
        Words::of(text).site()
    }

    #[test]
    fn instructions_say_what_they_order() {
        let device = Some(Scope::Device);
        assert_eq!(site("ld.global.f32 %f1, [%rd1];").ordering, Ordering::WEAK);
        assert_eq!(site("atom.global.add.u32 %r1, [%rd1], 1;").ordering.strong, device);
        assert_eq!(site("@!%p1 atom.cta.global.add.u32 %r1, [%rd1], 1;").ordering.strong, Some(Scope::Block));
        let acquire = site("ld.acquire.gpu.u32 %r1, [%rd1];").ordering;
        assert_eq!(acquire, Ordering { strong: device, release: false, acquire: true });
        assert_eq!(site("st.volatile.shared.u32 [%r1], %r2;").ordering.strong, device);
        assert_eq!(site("membar.gl;").kind, Kind::Fence(Scope::Device, true));
        assert_eq!(site("fence.acq_rel.cta;").kind, Kind::Fence(Scope::Block, false));
        assert_eq!(site("fence.sc.gpu;").kind, Kind::Fence(Scope::Device, true));
        assert_eq!(site("fence.proxy.async;").kind, Kind::Other);
        assert_eq!(site("ld.global.nc.f32 %f1, [%rd1];").kind, Kind::ReadOnly);
    }
}
