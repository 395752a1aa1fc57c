//! Resource limits of one compilation.

/// Limits of processor time and memory for one compilation by NVRTC or ptxas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Processor time in seconds. The wall-clock limit is `WALL` times as long.
    pub seconds: u64,
    /// Bytes of memory, in addition to the compiler's own code and data.
    pub bytes: u64,
}

/// Ratio of wall-clock limit to processor time; compilations take longer on an overloaded machine.
pub(crate) const WALL: u64 = 6;

impl Default for CompileLimits {
    fn default() -> Self {
        Self { seconds: 60, bytes: 1 << 30 }
    }
}

impl CompileLimits {
    /// Error message of a compilation that exceeded its time limit.
    pub(crate) fn time_sentence(&self, compiler: &str) -> String {
        format!(
            "{compiler} took more than {} s of processor time; raise the limit with --compile-seconds",
            self.seconds
        )
    }

    /// Error message of a compilation that exceeded its memory limit.
    pub(crate) fn memory_sentence(&self, compiler: &str) -> String {
        format!(
            "{compiler} took more than {} MB of memory; raise the limit with --compile-memory",
            self.bytes >> 20
        )
    }
}
