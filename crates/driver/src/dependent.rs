//! Programmatic dependent launch: which earlier operations a launch knows to be complete, before and after `griddepcontrol.wait`.
//!
//! A launch with the attribute for programmatic stream serialization may start when every block of the kernel before it in the stream has
//! executed `griddepcontrol.launch_dependents` or has ended; the stores of that kernel are visible after `griddepcontrol.wait` only, even
//! if it has ended (CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"). A wait is for that kernel alone: what
//! the kernel itself did not wait for may still run. Without the attribute, or with other work between the two, a launch follows all
//! earlier work of its stream. A programmatic event does the same between streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use warpproof_check::{Overlap, TouchKind, Touched};
use warpproof_diagnostic::host::HostClass;
use warpproof_sim::program::Program;
use warpproof_sim::{Earlier, GridDependency};

use crate::order::{Access, Clock, Started, join};
use crate::report::HostFinding;
use crate::site::Site;

/// Launches whose relation to later ones is remembered.
const MOST_KNOWN: usize = 64;
/// Operations that a launch knows to be complete, although not all earlier ones of their stream are.
const MOST_SINGLE: usize = 64;

/// What the attributes of a launch ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Programmatic {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`: it may overlap the kernel before it.
    pub serialization: bool,
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT`: the event that is recorded when its blocks let others start.
    pub event: Option<ProgrammaticEvent>,
}

/// An event that is recorded when all blocks of a launch have let others start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgrammaticEvent {
    /// The event.
    pub event: u64,
    /// Whether each block lets others start when it begins.
    pub at_block_start: bool,
}

/// An operation: its stream and its number there.
pub type Id = (u64, u64);

/// Operations that are known to be complete.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    clock: Clock,
    /// Those that a clock cannot express, because an earlier one of the stream is not known to be complete.
    single: BTreeSet<Id>,
}

impl Seen {
    /// Everything up to a clock.
    pub fn of(clock: &Clock) -> Seen {
        Seen { clock: clock.clone(), single: BTreeSet::new() }
    }

    /// Whether an operation is complete.
    pub fn has(&self, id: Id) -> bool {
        self.clock.get(&id.0).is_some_and(|time| *time >= id.1) || self.single.contains(&id)
    }

    fn add(&mut self, id: Id) {
        if !self.has(id) {
            self.single.insert(id);
        }
        while let Some(next) = self.single.iter().copied().find(|id| self.follows_directly(*id)) {
            self.single.remove(&next);
            self.clock.insert(next.0, next.1);
        }
        // Rather miss a race than report one that does not exist.
        if self.single.len() > MOST_SINGLE {
            for (stream, time) in std::mem::take(&mut self.single) {
                let known = self.clock.entry(stream).or_default();
                *known = time.max(*known);
            }
        }
    }

    fn follows_directly(&self, (stream, time): Id) -> bool {
        self.clock.get(&stream).copied().unwrap_or_default() + 1 == time
    }

    fn join(&mut self, other: &Seen) {
        join(&mut self.clock, &other.clock);
        other.single.iter().for_each(|id| self.add(*id));
    }
}

/// What a launch knows to be complete.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// When it starts.
    pub start: Seen,
    /// When it has waited.
    pub waited: Seen,
}

/// A launch that has ended, for launches that depend on it.
#[derive(Debug)]
struct Known {
    id: Id,
    /// What launches that depend on it know when they start.
    released: Seen,
    /// What is complete when it is complete.
    complete: Seen,
    /// What launches that depend on it do not see before they wait, and after.
    hidden: Hidden,
}

/// What a launch does not see before it waits, and after.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    /// Before.
    pub before_wait: Option<Arc<Earlier>>,
    /// After.
    pub after_wait: Option<Arc<Earlier>>,
}

/// The launches on which a launch depends programmatically.
#[derive(Clone, Debug, Default)]
pub struct Primaries {
    list: Vec<Id>,
    /// What is known to be complete without them.
    base: Clock,
}

/// Waits of a stream for programmatic events, since its last operation.
#[derive(Debug)]
struct Loose {
    list: Vec<Id>,
    base: Clock,
}

/// Dependences between launches.
#[derive(Debug, Default)]
pub struct Dependents {
    /// By stream, the number of its last operation, if that is a launch.
    last: BTreeMap<u64, u64>,
    /// By event, the launch that records it and what happens before that.
    events: BTreeMap<u64, (Id, Clock)>,
    loose: BTreeMap<u64, Loose>,
    known: VecDeque<Known>,
}

impl Dependents {
    /// An operation of a stream that is not a launch.
    pub fn other(&mut self, stream: u64) {
        self.last.remove(&stream);
        self.loose.remove(&stream);
    }

    /// A launch is submitted. `base` is what it follows even if it overlaps the one before it.
    pub fn launch(&mut self, started: &mut Started, call: Programmatic, base: &Clock) {
        let (stream, time) = started.id();
        if let Some(Loose { list, base }) = self.loose.remove(&stream) {
            started.primaries = Some(Primaries { list, base });
        } else if let Some(before) = self.last.get(&stream).filter(|_| call.serialization) {
            started.primaries = Some(Primaries { list: vec![(stream, *before)], base: base.clone() });
        }
        self.last.insert(stream, time);
        if let Some(event) = call.event {
            self.events.insert(event.event, ((stream, time), started.before().clone()));
        }
    }

    /// An event is recorded by other means, or destroyed.
    pub fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// A stream waits for an event; `clock` is what the stream follows so far.
    pub fn wait(&mut self, event: u64, recorded: &Clock, stream: u64, clock: &Clock) {
        self.last.remove(&stream);
        let programmatic = self.events.get(&event);
        if programmatic.is_none() && !self.loose.contains_key(&stream) {
            return;
        }
        let loose =
            self.loose.entry(stream).or_insert_with(|| Loose { list: Vec::new(), base: clock.clone() });
        match programmatic {
            Some((id, before)) => {
                loose.list.push(*id);
                join(&mut loose.base, before);
            }
            None => join(&mut loose.base, recorded),
        }
    }

    fn known(&self, id: Id) -> Option<&Known> {
        self.known.iter().find(|known| known.id == id)
    }

    /// The launches that a launch depends on, unless all are complete when it starts.
    fn overlapped<'a>(&'a self, started: &'a Started) -> Option<(&'a Primaries, Vec<&'a Known>)> {
        let primaries = started.primaries.as_ref()?;
        let base = Seen::of(&primaries.base);
        let open: Vec<Id> = primaries.list.iter().copied().filter(|id| !base.has(*id)).collect();
        // A launch that is not remembered is taken to be complete.
        let known: Option<Vec<&Known>> = open.iter().map(|id| self.known(*id)).collect();
        known.filter(|known| !known.is_empty()).map(|known| (primaries, known))
    }

    /// What a launch knows; `None` if it follows all that was submitted before.
    pub fn knowledge(&self, started: &Started) -> Option<Knowledge> {
        let (primaries, known) = self.overlapped(started)?;
        let mut start = Seen::of(&primaries.base);
        for known in &known {
            start.join(&known.released);
        }
        let mut waited = start.clone();
        for known in &known {
            waited.join(&known.complete);
        }
        Some(Knowledge { start, waited })
    }

    /// What a launch does not see. Only launches of one stream hide stores from each other.
    pub fn hidden(&self, started: &Started) -> Option<Hidden> {
        let (_, known) = self.overlapped(started)?;
        let same = known.iter().find(|known| known.id.0 == started.id().0);
        same.map(|known| known.hidden.clone())
    }

    /// A launch has ended.
    pub fn ended(&mut self, started: &Started, used: GridDependency, earlier: Option<Earlier>) {
        let id = started.id();
        let all = || Seen::of(started.before());
        let Knowledge { start, waited } =
            self.knowledge(started).unwrap_or_else(|| Knowledge { start: all(), waited: all() });
        let mut released = start.clone();
        if used.waited_first {
            released.join(&waited);
        }
        let mut complete = start;
        if used.waited {
            complete.join(&waited);
        }
        complete.add(id);
        let before = self.hidden(started).unwrap_or_default();
        let mut hidden = Hidden::default();
        if let Some(own) = earlier {
            let behind = if used.waited { &before.after_wait } else { &before.before_wait };
            hidden.after_wait = behind.as_deref().map(|behind| Arc::new(behind.except(&own)));
            let behind = if used.waited_first { &before.after_wait } else { &before.before_wait };
            let all = match behind.as_deref() {
                Some(behind) => own.since(behind),
                None => own,
            };
            hidden.before_wait = Some(Arc::new(all));
        }
        // Only the last launch of a stream can be overlapped by the next one.
        for known in self.known.iter_mut().filter(|known| known.id.0 == id.0) {
            known.hidden = Hidden::default();
        }
        self.known.push_back(Known { id, released, complete, hidden });
        if self.known.len() > MOST_KNOWN {
            self.known.pop_front();
        }
    }

    /// Forgets streams that do not exist.
    pub fn forget_streams(&mut self, exists: impl Fn(&u64) -> bool) {
        self.last.retain(|stream, _| exists(stream));
        self.loose.retain(|stream, _| exists(stream));
        for known in self.known.iter_mut().filter(|known| !exists(&known.id.0)) {
            known.hidden = Hidden::default();
        }
    }
}

/// What an operation does while a launch that depends on it runs: all of its stores, because they become visible at its end, and the reads
/// that come after it has let the launch start.
pub fn exposed(touched: &Touched, overlap: Option<&Overlap>, at_block_start: bool) -> Touched {
    let late = overlap.map(|overlap| overlap.late.clone()).unwrap_or_default();
    let mut exposed = touched.clone();
    if !at_block_start {
        exposed.read = late.read;
    }
    exposed
}

/// Why a launch races with one before it in its stream.
#[derive(Debug, Default)]
pub(crate) struct Dependence {
    /// Whether it has waited before it uses the bytes: for another launch.
    pub waited: bool,
    /// Whether the first lets others start before it ends.
    pub triggered: bool,
    /// The lines of both kernels.
    pub lines: [Option<String>; 2],
}

/// One side of a race: what it is, how it accesses the bytes, and where it was submitted.
type Party = (String, Access, Site);

/// The finding for a launch that may overlap one before it in its stream.
pub(crate) fn race(first: &Party, second: &Party, dependence: &Dependence) -> HostFinding {
    let Dependence { waited, triggered, lines } = dependence;
    let (one, two) = (&first.0, &second.0);
    let reason = if *waited {
        format!(
            "its griddepcontrol.wait does not wait for {one}: the launch between them has not waited for it"
        )
    } else {
        format!("it has not executed griddepcontrol.wait, so {one} may still run")
    };
    let mut finding = HostFinding::new(
        HostClass::StreamRace,
        format!("{two} {} bytes that {one} {}, but {reason}", second.1.name(), first.1.name()),
    )
    .at(format!("{two}, a dependent launch"), second.2)
    .at(format!("{one}, an earlier launch of the stream"), first.2);
    for ((name, access, _), line) in [second, first].into_iter().zip(lines.iter().rev()) {
        if let Some(line) = line {
            finding = finding.note(format!("{name} {} them at {line}", access.name()));
        }
    }
    let start = if *triggered {
        "when all its blocks have executed griddepcontrol.launch_dependents or have ended"
    } else {
        "when all its blocks have ended, but before its stores are visible"
    };
    finding.note(format!("{one} lets the next launch start {start}")).help(if *waited {
        "execute griddepcontrol.wait (cudaGridDependencySynchronize) in every kernel between them, or launch one without programmatic \
         stream serialization"
    } else {
        "execute griddepcontrol.wait (cudaGridDependencySynchronize) before the access, or launch without programmatic stream \
         serialization"
    })
}

/// The line of a kernel that accesses bytes.
pub(crate) fn line(
    touched: &Touched,
    program: &Program,
    access: Access,
    bytes: &Range<u64>,
) -> Option<String> {
    let kind = match access {
        Access::Reads => TouchKind::Read,
        Access::Writes => TouchKind::Written,
        Access::Updates => TouchKind::Strong,
    };
    let pc = touched.place(kind, bytes)?;
    let place = program.place(pc)?;
    Some(match place.source.first() {
        Some(source) => format!("{}:{}", source.file, source.line),
        None => format!("line {} of the PTX: `{}`", place.ptx_line, place.instruction),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_operations_become_a_clock_when_the_gap_is_closed() {
        let mut seen = Seen::of(&Clock::from([(1, 4)]));
        seen.add((1, 6));
        assert!(seen.has((1, 4)) && !seen.has((1, 5)) && seen.has((1, 6)));
        seen.add((1, 5));
        assert!(seen.single.is_empty() && seen.has((1, 6)) && !seen.has((1, 7)));
        for time in 0..200 {
            seen.add((2, 2 * time + 2));
        }
        assert!(seen.single.len() <= MOST_SINGLE);
    }
}
