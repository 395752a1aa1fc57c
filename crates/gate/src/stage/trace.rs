//! A hash that distinguishes executions as the checks see them: which lanes executed which instruction, and which
//! addresses they used, in order. Without atomics, the checks depend on nothing else, so an execution whose trace was
//! checked need not be checked again on other inputs.

use warpproof_sim::machine::{Access, AccessKind, lanes_of};
use warpproof_sim::observe::{Exchange, Issue, Observer, SharedAccess};

/// The trace of a block.
#[derive(Debug, Default)]
pub(super) struct Trace {
    block: u32,
    hash: u64,
    /// Whether it had atomics: the order of their effects may be visible only in values.
    atomics: bool,
}

impl Trace {
    /// The trace; `None` if it does not determine the execution.
    pub(super) fn block(&self) -> Option<u64> {
        (!self.atomics).then(|| mix(self.hash, u64::from(self.block) ^ 0x5bd1_e995))
    }

    fn take(&mut self, value: u64) {
        self.hash = mix(self.hash, value);
    }
}

/// Adds a number to a 64-bit hash.
pub(super) fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash.rotate_left(29) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Observer for Trace {
    fn issue(&mut self, issue: &Issue<'_>) {
        self.block = issue.block;
        self.take(pair(issue.warp, issue.pc));
        self.take(pair(issue.exec, issue.here));
    }

    fn pass(&mut self, issue: &Issue<'_>) {
        self.block = issue.block;
        self.take(pair(issue.warp, issue.pc));
        self.take(pair(0, issue.here));
    }

    fn access(&mut self, access: &Access<'_>) {
        self.atomics |= access.kind == AccessKind::Atomic;
        self.take(pair(access.lanes, access.bytes));
        for lane in lanes_of(access.lanes) {
            self.take(access.addresses.0[lane]);
        }
    }

    fn shared(&mut self, shared: &SharedAccess<'_>) {
        self.atomics |= shared.kind == AccessKind::Atomic;
        self.take(pair(shared.lanes, shared.bytes));
        for lane in lanes_of(shared.lanes) {
            self.take(u64::from(shared.offsets.0[lane]));
        }
    }

    fn exchange(&mut self, exchange: &Exchange<'_>) {
        self.take(pair(exchange.lanes, exchange.pc));
        for row in [exchange.masks, exchange.sources].into_iter().flatten() {
            for lane in lanes_of(exchange.lanes) {
                self.take(u64::from(row.0[lane]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mix;

    #[test]
    fn the_order_of_what_happened_matters() {
        assert_ne!(mix(mix(0, 1), 2), mix(mix(0, 2), 1));
        assert_ne!(mix(0, 1), mix(1, 0));
    }
}
