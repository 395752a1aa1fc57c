//! A finding of a check: its class, a message, and the source locations and threads that explain it.

use crate::stop::{Place, Stop, StopKind};

/// The kind of bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Unordered accesses of two threads to the same bytes of shared memory.
    SharedRace,
    /// The same in global memory, within a block or between blocks, or synchronized with too narrow a scope.
    GlobalRace,
    /// Bytes accessed while an asynchronous copy from or to them is in flight.
    AsyncCopy,
    /// An mbarrier used before its initialization, or with a wrong count or phase.
    Mbarrier,
    /// An out-of-bounds access: to unallocated memory, or to memory of another array.
    Bounds,
    /// An address that is not a multiple of the access size.
    Alignment,
    /// Use of an uninitialized value.
    Uninitialized,
    /// A warp-wide instruction whose member mask differs from the lanes that execute it.
    Lanes,
    /// A barrier used in a way it does not allow.
    Barrier,
    /// No thread can make progress.
    Deadlock,
    /// A lane of a matrix instruction holds another element than the fragment layout requires.
    Provenance,
    /// Elements of an output that the kernel never wrote.
    Unwritten,
    /// An input that the kernel wrote to.
    ModifiedInput,
    /// Results that depend on the order in which warps run.
    Order,
    /// Control flow or results that depend on a clock, a timer, the multiprocessor or an address.
    MachineDependent,
    /// `trap`, a failed `assert`.
    Trap,
}

impl Class {
    /// Every class, in the order of the book.
    pub const ALL: [Class; 16] = [
        Class::SharedRace,
        Class::GlobalRace,
        Class::AsyncCopy,
        Class::Mbarrier,
        Class::Bounds,
        Class::Alignment,
        Class::Uninitialized,
        Class::Lanes,
        Class::Barrier,
        Class::Deadlock,
        Class::Provenance,
        Class::Unwritten,
        Class::ModifiedInput,
        Class::Order,
        Class::MachineDependent,
        Class::Trap,
    ];

    /// The stable name, used in machine-readable output and for the pages of the book.
    pub fn name(self) -> &'static str {
        match self {
            Class::SharedRace => "shared-race",
            Class::GlobalRace => "global-race",
            Class::AsyncCopy => "async-copy",
            Class::Mbarrier => "mbarrier",
            Class::Bounds => "bounds",
            Class::Alignment => "alignment",
            Class::Uninitialized => "uninitialized",
            Class::Lanes => "lanes",
            Class::Barrier => "barrier",
            Class::Deadlock => "deadlock",
            Class::Provenance => "provenance",
            Class::Unwritten => "unwritten",
            Class::ModifiedInput => "modified-input",
            Class::Order => "order",
            Class::MachineDependent => "machine-dependent",
            Class::Trap => "trap",
        }
    }

    /// The class of a stop that the kernel caused.
    pub fn of_stop(kind: StopKind) -> Option<Class> {
        Some(match kind {
            StopKind::Bounds => Class::Bounds,
            StopKind::Alignment => Class::Alignment,
            StopKind::Barrier => Class::Barrier,
            StopKind::Mbarrier => Class::Mbarrier,
            StopKind::Deadlock => Class::Deadlock,
            StopKind::Lanes => Class::Lanes,
            StopKind::Trap => Class::Trap,
            _ => return None,
        })
    }
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The kernel is wrong.
    Error,
    /// The results are correct, but the user should know.
    Note,
}

/// A thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
}

/// A source location and what happened there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// What happened there: a few lowercase words such as "the write".
    pub text: String,
    /// The location.
    pub place: Place,
    /// The thread, if a single thread did it.
    pub thread: Option<Thread>,
}

/// One bug, however often it occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub class: Class,
    /// Its severity.
    pub severity: Severity,
    /// The message: one lowercase sentence that names the bug and the threads.
    pub sentence: String,
    /// Source locations: first the one to fix, then those that explain it.
    pub places: Vec<Label>,
    /// Notes that explain it.
    pub notes: Vec<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// How often it occurred.
    pub count: u64,
}

impl Finding {
    /// Converts a stop that the kernel caused into a finding.
    pub fn of_stop(stop: &Stop) -> Option<Finding> {
        let class = Class::of_stop(stop.kind)?;
        // What each warp waits for is shown as a label at its location, so those notes are dropped.
        let placed = !stop.others.is_empty() || stop.label.is_some();
        let notes =
            stop.notes.iter().filter(|note| !(placed && note.starts_with("warp "))).cloned().collect();
        let thread = stop.block.zip(stop.thread).map(|(block, thread)| Thread { block, thread });
        let text = stop.label.clone().unwrap_or_else(|| "here".to_owned());
        let first = stop.place.iter().map(|place| Label { text: text.clone(), place: place.clone(), thread });
        let others = stop.others.iter().map(|(place, text)| Label {
            text: text.clone(),
            place: place.clone(),
            thread: None,
        });
        Some(Finding {
            class,
            severity: Severity::Error,
            sentence: stop.sentence.clone(),
            places: first.chain(others).collect(),
            notes,
            help: stop.help.clone(),
            count: 1,
        })
    }
}

impl std::fmt::Display for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([x, y, z], [i, j, k]) = (self.thread, self.block);
        write!(f, "thread ({x},{y},{z}) of block ({i},{j},{k})")
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.sentence)?;
        for label in &self.places {
            let place = &label.place;
            match place.source.first() {
                Some(line) => {
                    write!(f, "\n  at {}:{}:{}: {}", line.file, line.line, line.column, label.text)?;
                }
                None => {
                    write!(f, "\n  at PTX line {} in {}: {}", place.ptx_line, place.function, label.text)?;
                }
            }
        }
        for note in &self.notes {
            write!(f, "\n  {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        if self.count > 1 {
            write!(f, "\n  {} times", self.count)?;
        }
        Ok(())
    }
}
