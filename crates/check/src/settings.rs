//! Settings of a checked launch: which checks are enabled, and the roles of the kernel's buffers.

/// A group of checks that is enabled or disabled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Check {
    /// Data races in shared and global memory, scopes, and asynchronous copies.
    Race,
    /// Uninitialized values in memory and registers.
    Init,
    /// Out-of-bounds accesses from one array into its neighbor.
    Array,
    /// Lane masks and source lanes of warp-wide instructions.
    Lanes,
    /// Misuse of barriers and mbarriers.
    Barrier,
    /// Outputs not written, inputs changed.
    Output,
    /// Misplaced elements of matrix fragments.
    Provenance,
    /// Results that depend on clocks, timers, the multiprocessor or addresses.
    Machine,
    /// Fences that the PTX manual demands and that CUTLASS and Triton leave out. Reported only together with [`Check::Race`].
    Fences,
}

impl Check {
    /// Every group.
    pub const ALL: [Check; 9] = [
        Check::Race,
        Check::Init,
        Check::Array,
        Check::Lanes,
        Check::Barrier,
        Check::Output,
        Check::Provenance,
        Check::Machine,
        Check::Fences,
    ];

    /// The groups that are on by default: all except [`Check::Machine`], since a kernel may measure time on purpose, and
    /// [`Check::Fences`], since most kernels do without these fences.
    pub const DEFAULT: [Check; 7] = [
        Check::Race,
        Check::Init,
        Check::Array,
        Check::Lanes,
        Check::Barrier,
        Check::Output,
        Check::Provenance,
    ];

    /// The groups that the gate enables: all except [`Check::Fences`].
    pub const GATE: [Check; 8] = [
        Check::Race,
        Check::Init,
        Check::Array,
        Check::Lanes,
        Check::Barrier,
        Check::Output,
        Check::Provenance,
        Check::Machine,
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
            Check::Fences => "fences",
        }
    }

    /// The group of that name.
    pub fn parse(name: &str) -> Option<Check> {
        Check::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// A value that a kernel can read and that differs from run to run or from machine to machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// `%clock`, `%clock_hi`, `%clock64`.
    Clock,
    /// `%globaltimer` and its halves.
    Timer,
    /// `%smid`, `%nsmid`, `%warpid`, `%nwarpid`, `%gridid`, `%total_smem_size`, `%aggr_smem_size`, `%pm`.
    Machine,
    /// The address of an array.
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
#[non_exhaustive]
pub enum Role {
    /// Read only.
    In,
    /// Every byte must be written.
    Out,
    /// Read and write.
    InOut,
    /// Read and write; the contents after the launch are not a result and may depend on the order of blocks.
    Scratch,
}

/// A buffer that is passed to a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferRole {
    /// The user's name for it.
    pub name: String,
    /// Start address in device memory.
    pub address: u64,
    /// Bytes per element.
    pub element: u32,
    /// Extent of each dimension, the slowest-varying first.
    pub extents: Vec<u64>,
    /// How the kernel may use it.
    pub role: Role,
    /// Whether it is initialized before the launch; if not, reading it before it is written is a bug.
    pub initialized: bool,
}

impl BufferRole {
    /// An element in source notation, with its index in each dimension.
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

/// Whether a launch may start before the one before it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependent {
    /// It starts when the one before it has ended.
    No,
    /// With programmatic dependent launch.
    Yes,
}

/// How a launch is checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The enabled checks.
    pub checks: Vec<Check>,
    /// Sources that results are allowed to depend on, for [`Check::Machine`].
    pub allowed: Vec<Source>,
    /// The roles of the buffers.
    pub buffers: Vec<BufferRole>,
    /// Maximum number of findings kept; more are only counted.
    pub max_findings: usize,
    /// Maximum number of bytes that checks may use to record memory accesses.
    pub memory: u64,
    /// Whether to record which bytes of global memory the launch accesses.
    pub touched: bool,
    /// Whether to record too which instructions access them, and what may overlap other launches.
    pub overlap: Option<Dependent>,
    /// Whether to follow the elements of fragments in each block, even if it does what another block did. The findings are
    /// the same; it only takes longer.
    pub each_block: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            checks: Check::DEFAULT.to_vec(),
            allowed: Vec::new(),
            buffers: Vec::new(),
            max_findings: 100,
            memory: 4 << 30,
            touched: false,
            overlap: None,
            each_block: false,
        }
    }
}

impl Settings {
    /// Whether a check is enabled.
    pub fn has(&self, check: Check) -> bool {
        self.checks.contains(&check)
    }
}
