//! What a checked launch is told: which checks listen, and what the kernel's buffers are for.

/// A group of checks that is switched on or off together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// Data races in shared and global memory, scopes, and copies under way.
    Race,
    /// Values that nobody has written, in memory and registers.
    Init,
    /// Accesses that leave one array for its neighbor.
    Array,
    /// Lanes of warp-wide instructions.
    Lanes,
    /// How barriers and mbarriers are used.
    Barrier,
    /// Outputs not written, inputs changed.
    Output,
    /// Elements of matrix fragments.
    Provenance,
    /// Results that depend on clocks, timers, the multiprocessor or addresses.
    Machine,
}

impl Check {
    /// Every group.
    pub const ALL: [Check; 8] = [
        Check::Race,
        Check::Init,
        Check::Array,
        Check::Lanes,
        Check::Barrier,
        Check::Output,
        Check::Provenance,
        Check::Machine,
    ];

    /// The groups that are on by default: all except [`Check::Machine`], since a kernel may measure time on purpose.
    pub const DEFAULT: [Check; 7] = [
        Check::Race,
        Check::Init,
        Check::Array,
        Check::Lanes,
        Check::Barrier,
        Check::Output,
        Check::Provenance,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Check::Race => "race",
            Check::Init => "init",
            Check::Array => "array",
            Check::Lanes => "lanes",
            Check::Barrier => "barrier",
            Check::Output => "output",
            Check::Provenance => "provenance",
            Check::Machine => "machine",
        }
    }

    /// The group of that name.
    pub fn parse(name: &str) -> Option<Check> {
        Check::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// Something a kernel can read that differs from run to run or from machine to machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// `%clock`, `%clock_hi`, `%clock64`.
    Clock,
    /// `%globaltimer` and its halves.
    Timer,
    /// `%smid`, `%nsmid`, `%warpid`, `%nwarpid`, `%gridid`, `%total_smem_size`, `%aggr_smem_size`, `%pm`.
    Machine,
    /// Where an array lies.
    Address,
}

impl Source {
    /// Every source.
    pub const ALL: [Source; 4] = [Source::Clock, Source::Timer, Source::Machine, Source::Address];

    /// Its name on the command line and in tasks.
    pub fn name(self) -> &'static str {
        match self {
            Source::Clock => "clock",
            Source::Timer => "timer",
            Source::Machine => "machine",
            Source::Address => "address",
        }
    }

    /// The source of that name.
    pub fn parse(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == name)
    }
}

/// What a kernel may do with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Read only.
    In,
    /// Every byte is to be written.
    Out,
    /// Anything.
    InOut,
    /// Anything, and what it holds after the launch is no result: it may depend on the order of blocks.
    Scratch,
}

/// A buffer that a kernel gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferRole {
    /// What the user calls it.
    pub name: String,
    /// Where it begins in device memory.
    pub address: u64,
    /// Bytes of an element.
    pub element: u32,
    /// Elements in each direction, the slowest first.
    pub extents: Vec<u64>,
    /// What for.
    pub role: Role,
    /// Whether it holds anything before the launch; if not, reading it before it is written is a mistake.
    pub initialized: bool,
}

impl BufferRole {
    /// An element's name with its index in each direction.
    pub fn element_name(&self, mut element: u64) -> String {
        let mut indices = Vec::new();
        for extent in self.extents.iter().rev() {
            indices.push(element % (*extent).max(1));
            element /= (*extent).max(1);
        }
        indices.iter().rev().fold(self.name.clone(), |name, index| format!("{name}[{index}]"))
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().fold(u64::from(self.element), |bytes, extent| bytes.saturating_mul(*extent))
    }
}

/// How a launch is checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The checks that listen.
    pub checks: Vec<Check>,
    /// Sources that results may depend on, for [`Check::Machine`].
    pub allowed: Vec<Source>,
    /// What is known of the buffers.
    pub buffers: Vec<BufferRole>,
    /// Findings that are kept; more are only counted.
    pub max_findings: usize,
    /// Bytes that checks may use for what they remember of memory.
    pub memory: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            checks: Check::DEFAULT.to_vec(),
            allowed: Vec::new(),
            buffers: Vec::new(),
            max_findings: 100,
            memory: 4 << 30,
        }
    }
}

impl Settings {
    /// Whether a check listens.
    pub fn has(&self, check: Check) -> bool {
        self.checks.contains(&check)
    }
}
