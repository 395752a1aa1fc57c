//! Which block starts next, and how long its turns are.

use super::block::Stops;
use crate::schedule::Blocks;
use warpproof_num::random::SplitMix;

/// Instructions that a communicating block runs before the next one gets a turn.
const TURN: u64 = 65_536;
/// Likewise, if no barrier completed and no thread exited in its last turn: it may be waiting for a block that has not started.
const IDLE_TURN: u64 = 2048;
/// The maximum number of blocks that are shuffled together.
const WINDOW: usize = 1024;

/// The turns of the blocks of a grid.
///
/// Blocks of one window start in any order, and all of them before the next window begins. A window is never larger than
/// the number of resident blocks: a kernel whose blocks wait for blocks with lower numbers, which devices start first, also
/// ends here.
#[derive(Debug)]
pub(super) struct Turns {
    blocks: Blocks,
    random: SplitMix,
    count: u32,
    window: usize,
    /// Blocks of the current window that have not started, the next one last.
    waiting: Vec<u32>,
    /// The first block after it.
    behind: u32,
    /// The block that starts before all others, if any.
    first: Option<u32>,
}

/// All blocks have started.
impl Default for Turns {
    fn default() -> Turns {
        Turns::new(Blocks::InOrder, 0, 1)
    }
}

impl Turns {
    /// For a grid of `count` blocks, of which `resident` run at the same time.
    pub(super) fn new(blocks: Blocks, count: u32, resident: usize) -> Turns {
        let (seed, window) = match blocks {
            Blocks::InOrder | Blocks::Overtaken { .. } => (0, 1),
            Blocks::Interleaved { seed, .. } => (seed, resident.clamp(1, WINDOW)),
        };
        let first = match blocks {
            Blocks::Overtaken { block, .. } if block < count => Some(block),
            _ => None,
        };
        let waiting = first.into_iter().collect();
        Turns { blocks, random: SplitMix(seed), count, window, waiting, behind: 0, first }
    }

    /// The same turns, if all blocks before this one have ended.
    pub(super) fn starting_at(mut self, block: u32) -> Turns {
        self.behind = block.min(self.count);
        self
    }

    /// The breakpoint of a block.
    pub(super) fn stops(&self, block: u32) -> Stops {
        match self.blocks {
            Blocks::Overtaken { pc, times, .. } if self.first == Some(block) => Stops::Before { pc, times },
            _ => Stops::Nowhere,
        }
    }

    /// The block to start next.
    pub(super) fn start(&mut self) -> Option<u32> {
        while self.waiting.is_empty() && self.behind < self.count {
            let window = u32::try_from(self.window).unwrap_or(u32::MAX);
            let end = self.count.min(self.behind.saturating_add(window));
            self.waiting.extend((self.behind..end).rev().filter(|block| self.first != Some(*block)));
            self.random.shuffle(&mut self.waiting);
            self.behind = end;
        }
        self.waiting.pop()
    }

    /// Blocks that have not started.
    pub(super) fn left(&self) -> u32 {
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        // The block that starts first is in both lists until it has started, then only in the second.
        let early = u32::from(self.first.is_some_and(|first| first >= self.behind));
        (self.count - self.behind).saturating_add(waiting) - early
    }

    /// Whether all blocks with lower numbers have started.
    pub(super) fn lowest(&self) -> u32 {
        self.waiting.iter().copied().fold(self.behind, u32::min)
    }

    /// How many blocks the next round starts while `running` are active and none of them is known to wait.
    pub(super) fn starts(&self, running: usize) -> usize {
        match self.blocks {
            Blocks::InOrder | Blocks::Overtaken { .. } => 1,
            Blocks::Interleaved { together, .. } => super::at(together.max(1)).saturating_sub(running),
        }
    }

    /// Instructions of a block's next turn; 0 if another one goes first.
    pub(super) fn turn(&mut self, idle: bool) -> u64 {
        match self.blocks {
            Blocks::InOrder | Blocks::Overtaken { .. } => {
                if idle {
                    IDLE_TURN
                } else {
                    TURN
                }
            }
            Blocks::Interleaved { turn, .. } => self.random.below(2 * turn.clamp(1, TURN) + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_block_runs() {
        let turns = Turns::new(Blocks::Interleaved { seed: 1, together: 0, turn: 8 }, 4, 2);
        assert_eq!((turns.starts(0), turns.starts(1)), (1, 0));
    }

    #[test]
    fn every_block_starts_once_and_windows_follow_each_other() {
        for blocks in [Blocks::InOrder, Blocks::Interleaved { seed: 3, together: 4, turn: 8 }] {
            let mut turns = Turns::new(blocks, 10, 4);
            let mut started = Vec::new();
            while let Some(block) = turns.start() {
                started.push(block);
                let unstarted = (0..10).filter(|block| !started.contains(block));
                assert_eq!(turns.lowest(), unstarted.clone().min().unwrap_or(10));
                assert_eq!(turns.left(), u32::try_from(unstarted.count()).unwrap_or(0));
            }
            let windows: Vec<u32> = started.chunks(4).map(|window| window.iter().sum()).collect();
            assert_eq!(windows, [6, 22, 17]);
        }
    }
}
