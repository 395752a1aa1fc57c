//! The sources: values that differ from run to run or from machine to machine, and the instructions that read them.

use super::super::facts::{Facts, NO_ROW};
use super::super::settings::Source;
use super::super::site::Words;
use super::lane::Lane;
use crate::machine::{LANES, Width, at};
use crate::memory::Heap;
use crate::program::Program;
use crate::{Device, Launch};

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

/// The source that a special register belongs to. `%tid`, `%ctaid`, `%laneid` and similar registers identify the
/// thread, and `%dynamic_smem_size` is an argument of the launch: those are the same on every machine. `%warpid` need
/// not be the thread's number divided by 32 and may change while the thread runs (PTX manual, special registers).
fn special(name: &str) -> Sources {
    let name = name.split('.').next().unwrap_or(name);
    match name {
        "%clock" | "%clock_hi" | "%clock64" => Sources::of(Source::Clock),
        "%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi" => Sources::of(Source::Timer),
        "%smid" | "%nsmid" | "%warpid" | "%nwarpid" | "%gridid" | "%total_smem_size" | "%aggr_smem_size" => {
            Sources::of(Source::Machine)
        }
        _ if name.starts_with("%pm") && name.as_bytes().get(3).is_some_and(u8::is_ascii_digit) => {
            Sources::of(Source::Machine)
        }
        _ => Sources::NONE,
    }
}

/// The special registers in an instruction.
fn named(text: &str) -> Sources {
    let word = |c: char| c == '%' || c == '_' || c == '.' || c.is_ascii_alphanumeric();
    text.split(|c: char| !word(c)).map(special).fold(Sources::NONE, Sources::with)
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
            entrances.find_addresses(device.heap(), launch, &program, facts);
        }
        for pc in 0..program.metas.len() {
            let own = named(program.instruction(pc)).without(allowed);
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
        let opcode = |pc: usize| Words::of(program.instruction(pc)).opcode;
        if opcode(pc) == "trap" {
            return true;
        }
        if opcode(pc) != "bra" {
            return false;
        }
        let target = at(program.code[pc].args.target);
        let traps = |from: usize| {
            let way = (from..program.metas.len())
                .take_while(|pc| !matches!(opcode(*pc), "bra" | "brx" | "ret" | "exit" | "bar"));
            way.map(opcode).find(|one| matches!(*one, "trap" | "st" | "atom" | "red")) == Some("trap")
        };
        if traps(target) || traps(pc + 1) {
            return true;
        }
        let body = target..pc;
        let plain = |pc: usize| {
            !matches!(
                opcode(pc),
                "ld" | "ldu"
                    | "st"
                    | "atom"
                    | "red"
                    | "call"
                    | "bar"
                    | "barrier"
                    | "cp"
                    | "mbarrier"
                    | "bra"
                    | "brx"
                    | "ret"
                    | "exit"
                    | "ldmatrix"
                    | "stmatrix"
                    | "wmma"
                    | "mma"
                    | "shfl"
                    | "vote"
                    | "membar"
                    | "fence"
            )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_special_registers() {
        assert_eq!(named("mov.u64 %rd1, %clock64;"), Sources::of(Source::Clock));
        assert_eq!(named("mov.u32 %r1, %smid;"), Sources::of(Source::Machine));
        assert_eq!(named("mov.u64 %rd1, %globaltimer;"), Sources::of(Source::Timer));
        assert_eq!(named("mov.u32 %r1, %pm0;"), Sources::of(Source::Machine));
        for same in
            ["%tid.x", "%ctaid.y", "%laneid", "%lanemask_lt", "%dynamic_smem_size", "%nctaid.x", "%pm"]
        {
            assert_eq!(named(&format!("mov.u32 %r1, {same};")), Sources::NONE, "{same}");
        }
    }
}
