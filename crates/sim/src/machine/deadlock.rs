//! The report for a deadlocked block: where its warps wait, for what, and what is missing.

use super::block::{BlockRun, CLUSTER_BARRIER};
use super::spin::Spin;
use super::{Grid, Subwarp, Wait, WarpState, at};
use crate::isa::op::Participants;
use crate::stop::{Blame, Place, Stop, StopKind};

/// The maximum number of lines and locations of a report.
const MAX_NOTES: usize = 32;
const MAX_PLACES: usize = 4;

/// Warps that wait at one instruction for the same reason.
struct Waiting<'a> {
    pc: u32,
    wait: Wait,
    who: Vec<(&'a WarpState, u32)>,
}

impl Waiting<'_> {
    /// The rank of their block in its cluster.
    fn rank(&self) -> u32 {
        self.who.first().map_or(0, |(warp, _)| warp.rank)
    }
}

impl BlockRun {
    /// " of block (1,0,0)" in a cluster of several blocks.
    fn of_block(&self, rank: u32) -> String {
        match self.ctas.get(at(rank)).filter(|_| self.ctas.len() > 1) {
            Some(cta) => format!(" of block ({},{},{})", cta.index[0], cta.index[1], cta.index[2]),
            None => String::new(),
        }
    }

    /// No warp can run: reports what every warp waits for.
    pub(super) fn deadlock(&self, grid: &Grid<'_>) -> Stop {
        let of = if self.ctas.len() > 1 { "cluster" } else { "block" };
        let sentence = format!("deadlock: no thread of the {of} can make progress");
        let mut stop = Stop::general(Blame::Kernel, StopKind::Deadlock, sentence);
        stop.block = Some(self.index());
        let waiting = self.waiting();
        let mut labels: Vec<(u32, String)> =
            waiting.iter().map(|waiting| (waiting.pc, self.label(waiting))).collect();
        // Lanes that are alone at a warp-wide instruction are the cause, not the effect.
        let aligned = waiting.iter().position(|w| matches!(w.wait, Wait::Lanes(_)) && is_aligned(grid, w.pc));
        if let Some((i, (_, lanes))) = aligned.and_then(|i| Some((i, *waiting[i].who.first()?))) {
            stop.kind = StopKind::Lanes;
            let opcode = grid.program.opcode(at(waiting[i].pc)).until_aligned();
            stop.sentence = format!(
                "{opcode} is executed by lanes {lanes:#010x} only; all lanes of the warp must execute it"
            );
            stop.help = Some("move it out of the branch, or make whole warps take the branch".to_owned());
            labels.swap(0, i);
        } else if let Some((i, warps)) = self.incomplete_warpgroup(&waiting) {
            stop.kind = StopKind::Lanes;
            stop.sentence =
                format!("wgmma is executed by {warps} only; all four warps of a warpgroup must execute it");
            stop.help =
                Some("move it out of the branch, or make whole warpgroups take the branch".to_owned());
            labels.swap(0, i);
        } else {
            stop.help = waiting.iter().find_map(|waiting| self.missing(grid, waiting));
            labels.extend(self.other_counts(grid, &waiting));
        }
        name_places(grid, &mut stop, labels);
        for (warp, _) in self.warps.iter().zip(&self.done).filter(|(_, done)| !**done) {
            for subwarp in subwarps(warp) {
                if stop.notes.len() == MAX_NOTES {
                    stop.notes.push("and more".to_owned());
                    return stop;
                }
                let what = reason(warp, subwarp);
                let line = grid.program.place(subwarp.pc).map_or_else(String::new, |place| line_of(&place));
                let of = self.of_block(warp.rank);
                stop.notes
                    .push(format!("warp {}{of} lanes {:#010x} wait {what}{line}", warp.id, subwarp.mask));
            }
        }
        stop
    }

    /// Some warps are in infinite loops, and the others wait for them.
    pub(super) fn endless(&self, grid: &Grid<'_>, spins: &[Spin]) -> Stop {
        let sentence = "deadlock: a loop can never end because nothing it reads will change";
        let mut stop = Stop::general(Blame::Kernel, StopKind::Deadlock, sentence);
        stop.block = Some(self.index());
        stop.address = spins.iter().find_map(|spin| spin.address);
        let mut labels: Vec<(u32, String)> = Vec::new();
        let mut named: Vec<u32> = Vec::new();
        for spin in spins {
            if named.contains(&spin.pc) {
                continue;
            }
            named.push(spin.pc);
            let mut warps: Vec<u32> = spins.iter().filter(|s| s.pc == spin.pc).map(|s| s.warp).collect();
            warps.dedup();
            let what = spin.reads.as_ref().map_or_else(String::new, |reads| format!("; {reads}"));
            labels.push((spin.pc, format!("{} here forever{what}", verb(&warps, "loops", "loop"))));
        }
        labels.extend(self.waiting().iter().map(|waiting| (waiting.pc, self.label(waiting))));
        for spin in spins.iter().take(MAX_NOTES) {
            let line = grid.program.place(spin.pc).map_or_else(String::new, |place| line_of(&place));
            let of = self.of_block(spin.rank);
            stop.notes.push(format!("warp {}{of} lanes {:#010x} loop forever{line}", spin.warp, spin.lanes));
        }
        name_places(grid, &mut stop, labels);
        stop.help = Some(
            "make sure that what the loop waits for happens before the loop, or in a thread outside it"
                .into(),
        );
        stop
    }

    /// The waiting lanes by location and reason, in warp order.
    fn waiting(&self) -> Vec<Waiting<'_>> {
        let mut all: Vec<Waiting<'_>> = Vec::new();
        for (warp, _) in self.warps.iter().zip(&self.done).filter(|(_, done)| !**done) {
            for subwarp in subwarps(warp).filter(|subwarp| subwarp.wait != Wait::None) {
                let same = |w: &&mut Waiting<'_>| w.pc == subwarp.pc && w.wait == subwarp.wait;
                let found = all.iter_mut().filter(|w| w.rank() == warp.rank).find(same);
                match found {
                    Some(waiting) => waiting.who.push((warp, subwarp.mask)),
                    None => all.push(Waiting {
                        pc: subwarp.pc,
                        wait: subwarp.wait,
                        who: vec![(warp, subwarp.mask)],
                    }),
                }
            }
        }
        all
    }

    /// The expected and the arrived threads of a barrier.
    fn count(&self, rank: u32, id: u32) -> (u32, u32) {
        if id == CLUSTER_BARRIER {
            return (self.live(), self.ctas.first().map_or(0, |cta| cta.barriers[at(id)].arrived));
        }
        let cta = &self.ctas[at(rank)];
        let barrier = &cta.barriers[at(id)];
        (barrier.expected.unwrap_or(cta.live), barrier.arrived)
    }

    fn label(&self, waiting: &Waiting<'_>) -> String {
        let warps: Vec<u32> = waiting.who.iter().map(|(warp, _)| warp.id).collect();
        let whole = waiting.who.iter().all(|(warp, mask)| *mask == !warp.exited);
        let who = match waiting.who.as_slice() {
            [(warp, mask)] if !whole => format!("lanes {mask:#010x} of warp {} wait here", warp.id),
            _ => format!("{} here", verb(&warps, "waits", "wait")),
        };
        let who = format!("{who}{}", self.of_block(waiting.rank()));
        match waiting.wait {
            Wait::Barrier { id, .. } => {
                let (expected, arrived) = self.count(waiting.rank(), id);
                let barrier = match id {
                    CLUSTER_BARRIER => "the cluster barrier".to_owned(),
                    _ => format!("barrier {id}"),
                };
                format!("{who} at {barrier} for {expected} threads; {arrived} arrived")
            }
            Wait::Lanes(need) => {
                let missing =
                    waiting.who.iter().fold(0, |all, (warp, mask)| all | need & !(mask | warp.exited));
                format!("{who} for lanes {missing:#010x} of the same warp")
            }
            Wait::Grids => format!("{who} for the grids that this one depends on"),
            Wait::Registers(count) => {
                let cta = &self.ctas[at(waiting.rank())];
                let (used, all) = (32 * cta.registers.iter().sum::<u32>(), 32 * cta.pool);
                format!(
                    "{who} for {count} registers per thread; the warps of the block have {used} of its {all}"
                )
            }
            Wait::Columns(count) => format!("{who} for {count} columns of tensor memory"),
            Wait::Pair => format!("{who} for the other block of its pair"),
            Wait::Warpgroup { .. } => format!("{who} for the other warps of the warpgroup"),
            Wait::None | Wait::Memory => who,
        }
    }

    /// Warps that wait for others of their warpgroup, by index in `waiting`, and their names.
    fn incomplete_warpgroup(&self, waiting: &[Waiting<'_>]) -> Option<(usize, String)> {
        waiting.iter().enumerate().find_map(|(i, waiting)| {
            let Wait::Warpgroup { count, executed: false } = waiting.wait else { return None };
            let group = waiting.who.first()?.0.id / 4;
            let cta = self.ctas.get(at(waiting.rank()))?;
            let absent: Vec<u32> = cta.warpgroup(4 * group).absent(count).collect();
            let here: Vec<String> = (0..4)
                .filter(|member| !absent.contains(member))
                .map(|member| (4 * group + member).to_string())
                .collect();
            let warps = if here.len() == 1 { "warp" } else { "warps" };
            Some((i, format!("{warps} {}", here.join(", "))))
        })
    }

    /// Locations where the barriers completed before with a different thread count.
    fn other_counts(&self, grid: &Grid<'_>, waiting: &[Waiting<'_>]) -> Vec<(u32, String)> {
        let threads = |count: Option<u32>| count.unwrap_or(grid.block_threads().next_multiple_of(32));
        let mut found: Vec<(u32, String)> = Vec::new();
        for waiting in waiting {
            let Wait::Barrier { id, .. } = waiting.wait else { continue };
            let barrier = &self.ctas[at(waiting.rank())].barriers[at(id)];
            let differs = |before: Option<u32>| threads(before) != threads(barrier.expected);
            let Some((pc, before)) = barrier.before.filter(|(_, before)| differs(*before)) else { continue };
            let count = before.map_or("all threads".to_owned(), |count| format!("{count} threads"));
            let label = format!("barrier {id} completed here before, for {count}");
            if !found.iter().any(|(known, _)| *known == pc) {
                found.push((pc, label));
            }
        }
        found
    }

    /// What a barrier is missing.
    fn missing(&self, grid: &Grid<'_>, waiting: &Waiting<'_>) -> Option<String> {
        if let Wait::Registers(_) = waiting.wait {
            let sentence = "make other warps release registers with setmaxnreg.dec before, or ask for fewer";
            return Some(sentence.to_owned());
        }
        let Wait::Barrier { id, .. } = waiting.wait else {
            return Some("make all lanes of the mask reach it, or name only the lanes that do".to_owned());
        };
        if id == CLUSTER_BARRIER {
            return None;
        }
        let (expected, arrived) = self.count(waiting.rank(), id);
        let live = self.ctas[at(waiting.rank())].live;
        let elsewhere = live.saturating_sub(arrived);
        let exited = grid.block_threads().saturating_sub(live);
        Some(format!(
            "barrier {id} waits for {expected} threads: {arrived} arrived, {elsewhere} wait elsewhere and {exited} exited; \
             make all threads reach it, or give it the number of threads that do"
        ))
    }
}

/// "warp 3 waits", "warps 0, 2 wait".
fn verb(warps: &[u32], one: &str, many: &str) -> String {
    if let [warp] = warps {
        return format!("warp {warp} {one}");
    }
    let shown: Vec<String> = warps.iter().take(8).map(u32::to_string).collect();
    let more = if warps.len() > 8 { " …" } else { "" };
    format!("warps {}{more} {many}", shown.join(", "))
}

fn subwarps(warp: &WarpState) -> impl Iterator<Item = &Subwarp> {
    warp.parked.iter().chain([&warp.subwarp]).filter(|subwarp| subwarp.mask != 0)
}

fn reason(warp: &WarpState, subwarp: &Subwarp) -> String {
    match subwarp.wait {
        Wait::Barrier { id: CLUSTER_BARRIER, .. } => "at the cluster barrier".to_owned(),
        Wait::Barrier { id, .. } => format!("at barrier {id}"),
        Wait::Lanes(need) => {
            let missing = need & !(subwarp.mask | warp.exited);
            format!("for lanes {missing:#010x} of the same warp to arrive")
        }
        Wait::Grids => "for the grids that this one depends on".to_owned(),
        Wait::Registers(count) => format!("for {count} registers per thread"),
        Wait::Columns(count) => format!("for {count} columns of tensor memory"),
        Wait::Pair => "for a warp of the other block of its pair to allocate or free columns too".to_owned(),
        Wait::Warpgroup { .. } => "for the other warps of the warpgroup".to_owned(),
        Wait::None => "for nothing".to_owned(),
        Wait::Memory => "for memory to change".to_owned(),
    }
}

fn line_of(place: &Place) -> String {
    match place.source.first() {
        Some(line) => format!(" in `{}` at {}:{}", place.instruction, line.name(), line.line),
        None => format!(" in `{}` at PTX line {}", place.instruction, place.ptx_line),
    }
}

/// Adds locations to the stop: the first, and a few others at distinct lines.
fn name_places(grid: &Grid<'_>, stop: &mut Stop, labels: Vec<(u32, String)>) {
    for (pc, label) in labels {
        let Some(place) = grid.program.place(pc) else { continue };
        if stop.place.is_none() {
            stop.place = Some(place);
            stop.label = Some(label);
        } else if stop.others.len() + 1 < MAX_PLACES {
            stop.others.push((place, label));
        }
    }
}

fn is_aligned(grid: &Grid<'_>, pc: u32) -> bool {
    grid.program.op(pc).effects().participants == Participants::Warp
}
