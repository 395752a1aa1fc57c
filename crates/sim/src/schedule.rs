//! The order in which the warps of a block, and blocks that communicate, take turns. Deterministic: the same seed gives the
//! same order on every machine, for any number of host threads.

use warpproof_num::random::SplitMix;

/// How warps and blocks take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The order of a block's warps.
    pub order: Order,
    /// Instructions in one turn of a warp.
    pub quantum: u64,
    /// When `cp.async` copies become visible.
    pub copies: CopyTiming,
    /// How blocks take turns.
    pub blocks: Blocks,
}

/// How blocks that can communicate take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocks {
    /// They start in order; the next one starts when the earlier ones wait or have used a long turn.
    InOrder,
    /// They start in a random order, several at once, and take turns of random lengths.
    Interleaved {
        /// The seed for order and lengths.
        seed: u64,
        /// Blocks active from the start, at least one; more are started when these wait.
        together: u32,
        /// Instructions in one turn of a block, on average. A turn is at least a turn of each of its warps.
        turn: u64,
    },
    /// One block starts first, stops before an instruction, and continues when all others have ended or wait. The others
    /// run as for [`Blocks::InOrder`]. Without an observer, no block stops.
    Overtaken {
        /// The block's linear index.
        block: u32,
        /// The instruction.
        pc: u32,
        /// How often warps of the block execute it before the stop.
        times: u32,
    },
}

/// The order of a block's warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// By number.
    Forward,
    /// By number, in reverse.
    Reverse,
    /// A random permutation from the seed and the block's index.
    Random(u64),
}

/// When the bytes of an asynchronous copy become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyTiming {
    /// As late as the program allows: when it waits for them.
    Late,
    /// Immediately.
    Early,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { order: Order::Forward, quantum: 4096, copies: CopyTiming::Late, blocks: Blocks::InOrder }
    }
}

impl Schedule {
    /// The turns of a block's warps.
    pub fn order(&self, block: u32, warps: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..warps).collect();
        match self.order {
            Order::Forward => {}
            Order::Reverse => order.reverse(),
            Order::Random(seed) => {
                let mut random = SplitMix(seed ^ u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                random.shuffle(&mut order);
            }
        }
        order
    }
}
