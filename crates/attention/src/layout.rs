//! Where the parts of a workspace are.

/// Parts begin at multiples of this: a cache line.
const ALIGN: u64 = 128;

/// A workspace that grows by parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    bytes: u64,
}

impl Layout {
    /// Adds a part and returns its offset.
    pub(crate) fn add(&mut self, bytes: usize) -> u64 {
        let offset = self.bytes;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = offset.saturating_add(bytes).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
        offset
    }

    /// All parts together.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }
}
