//! What one compilation may use.

/// Processor time and memory of one compilation, whether NVRTC or ptxas does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Seconds of a processor. On the clock it may take `WALL` times as long.
    pub seconds: u64,
    /// Bytes of memory, in addition to those of the compiler's own code and data.
    pub bytes: u64,
}

/// A machine with more work than processors takes longer on the clock.
pub(crate) const WALL: u64 = 6;

impl Default for CompileLimits {
    fn default() -> Self {
        Self { seconds: 60, bytes: 1 << 30 }
    }
}

impl CompileLimits {
    /// What is told of a compilation that took too long.
    pub(crate) fn time_sentence(&self, compiler: &str) -> String {
        format!(
            "{compiler} took more than {} s of processor time; raise the limit with --compile-seconds",
            self.seconds
        )
    }

    /// What is told of a compilation that took too much memory.
    pub(crate) fn memory_sentence(&self, compiler: &str) -> String {
        format!(
            "{compiler} took more than {} MB of memory; raise the limit with --compile-memory",
            self.bytes >> 20
        )
    }
}
