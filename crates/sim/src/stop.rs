//! Why a launch stopped early: one report, including who is to blame.

/// Who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Blame {
    /// The kernel has a bug.
    Kernel,
    /// The module, the launch or its arguments are not valid.
    Input,
    /// A limit was reached; nothing is known to be wrong.
    Limit,
    /// Warpproof does not support something: a gap in warpproof, not a bug in the kernel.
    Gap,
    /// A bug in warpproof.
    Bug,
}

impl Blame {
    /// Every one.
    pub const ALL: [Blame; 5] = [Blame::Kernel, Blame::Input, Blame::Limit, Blame::Gap, Blame::Bug];

    /// A stable name for programs that read reports.
    pub fn name(self) -> &'static str {
        match self {
            Blame::Kernel => "kernel",
            Blame::Input => "input",
            Blame::Limit => "limit",
            Blame::Gap => "gap",
            Blame::Bug => "bug",
        }
    }

    /// The exit code of a command that ends with it.
    pub fn exit_code(self) -> u8 {
        match self {
            Blame::Kernel => 1,
            Blame::Input => 2,
            Blame::Gap => 3,
            Blame::Limit => 4,
            Blame::Bug => 101,
        }
    }
}

/// The kind of stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum StopKind {
    /// An access to unallocated memory.
    Bounds,
    /// An address that is not a multiple of the access size.
    Alignment,
    /// An invalid use of a barrier.
    Barrier,
    /// An mbarrier that is invalid, or an operation that exceeds its limits.
    Mbarrier,
    /// A tensor map that is invalid, or that does not describe the copy.
    TensorMap,
    /// No thread can make progress.
    Deadlock,
    /// Lanes in the mask of a warp-wide instruction do not take part.
    Lanes,
    /// `trap`, a failed `assert`, or a breakpoint.
    Trap,
    /// An exceeded limit on instructions, memory, stack or output.
    Limit,
    /// A malformed instruction or module.
    Malformed,
    /// The launch does not fit the kernel or the device.
    Launch,
    /// Unsupported.
    Unsupported,
    /// A bug in warpproof.
    Internal,
}

impl StopKind {
    /// A stable name for programs that read reports.
    pub fn name(self) -> &'static str {
        match self {
            StopKind::Bounds => "bounds",
            StopKind::Alignment => "alignment",
            StopKind::Barrier => "barrier",
            StopKind::Mbarrier => "mbarrier",
            StopKind::TensorMap => "tensor-map",
            StopKind::Deadlock => "deadlock",
            StopKind::Lanes => "lanes",
            StopKind::Trap => "trap",
            StopKind::Limit => "limit",
            StopKind::Malformed => "malformed",
            StopKind::Launch => "launch",
            StopKind::Unsupported => "unsupported",
            StopKind::Internal => "internal",
        }
    }
}

/// A location in the program: the PTX line, and the CUDA line it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    /// The kernel or device function.
    pub function: String,
    /// The instruction as written.
    pub instruction: String,
    /// The line in the PTX text, from 1.
    pub ptx_line: u32,
    /// The CUDA source, innermost inlined call first.
    pub source: Vec<SourceLine>,
}

/// A line of CUDA source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SourceLine {
    /// The file as the compiler named it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
}

impl SourceLine {
    /// The file without its directories, which differ between machines.
    pub fn name(&self) -> &str {
        self.file.rsplit(['/', '\\']).next().unwrap_or(&self.file)
    }
}

/// Why a launch stopped early. It serializes as an object with the names of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stop {
    /// Who is to blame.
    pub blame: Blame,
    /// The kind of stop.
    pub kind: StopKind,
    /// One lowercase sentence.
    pub sentence: String,
    /// The block.
    pub block: Option<[u32; 3]>,
    /// The thread in the block.
    pub thread: Option<[u32; 3]>,
    /// The instruction.
    pub place: Option<Place>,
    /// What happens at the location, if there is more to report than the location itself: a few lowercase words.
    pub label: Option<String>,
    /// Other locations involved, each with what happens there.
    pub others: Vec<(Place, String)>,
    /// Further lines of explanation.
    pub notes: Vec<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// The address in global memory whose access caused it.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub address: Option<u64>,
}

impl Stop {
    /// A stop that is not attributed to a thread.
    pub fn general(blame: Blame, kind: StopKind, sentence: impl Into<String>) -> Stop {
        Stop {
            blame,
            kind,
            sentence: sentence.into(),
            block: None,
            thread: None,
            place: None,
            label: None,
            others: Vec::new(),
            notes: Vec::new(),
            help: None,
            address: None,
        }
    }

    /// The exit code for the blame.
    pub fn exit_code(&self) -> u8 {
        self.blame.exit_code()
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self.blame {
            Blame::Kernel => "kernel bug: ",
            Blame::Input => "invalid input: ",
            Blame::Limit => "limit reached: ",
            Blame::Gap => "unsupported: ",
            Blame::Bug => "bug in warpproof: ",
        };
        write!(f, "{whose}{}", self.sentence)?;
        if let (Some([x, y, z]), Some([i, j, k])) = (self.thread, self.block) {
            write!(f, "; thread ({x},{y},{z}) of block ({i},{j},{k})")?;
        }
        if let Some(place) = &self.place {
            write_place(f, place, self.label.as_deref())?;
        }
        for (place, label) in &self.others {
            write_place(f, place, Some(label))?;
        }
        for note in &self.notes {
            write!(f, "\n  {note}")?;
        }
        if self.blame == Blame::Gap {
            write!(f, "\n  this is a gap in warpproof, not a bug in the kernel")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

fn write_place(f: &mut std::fmt::Formatter<'_>, place: &Place, label: Option<&str>) -> std::fmt::Result {
    for line in &place.source {
        write!(f, "\n  at {}:{}:{}", line.file, line.line, line.column)?;
    }
    write!(f, "\n  PTX line {} in {}: {}", place.ptx_line, place.function, place.instruction)?;
    label.map_or(Ok(()), |label| write!(f, "\n    {label}"))
}

impl std::error::Error for Stop {}
