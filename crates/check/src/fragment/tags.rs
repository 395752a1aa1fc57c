//! The tags of a warp's registers: a row of 32 lanes for each grain of a register.

use super::origin::Tag;
use warpproof_sim::machine::{at, lanes_of};

/// One grain of a register in all lanes.
pub(super) type Lanes = [Tag; 32];
pub(super) const NONE: Lanes = [0; 32];

/// The tags of one register.
#[derive(Debug, Default)]
struct Held {
    live: bool,
    stamp: u32,
    origin: u32,
    /// The sum (of `pairing.rs`) that an accumulator belongs to; 0 if unknown.
    chain: u32,
    grains: Box<[Lanes]>,
}

/// The tags of a warp's registers.
#[derive(Debug)]
pub(super) struct Rows {
    held: Vec<Held>,
    clock: u32,
    /// Grains per 32-bit register.
    grains: usize,
}

impl Rows {
    pub(super) fn new(wide: &[bool], grain: u32) -> Rows {
        let held = wide.iter().map(|_| Held::default()).collect();
        Rows { held, clock: 0, grains: at(4 / grain) }
    }

    fn held(&self, row: Option<u32>) -> Option<&Held> {
        self.held.get(at(row?)).filter(|held| held.live)
    }

    /// Whether any lane of a register has a tag.
    pub(super) fn live(&self, row: Option<u32>) -> bool {
        self.held(row).is_some()
    }

    /// One grain of a register.
    pub(super) fn grain(&self, row: Option<u32>, grain: usize) -> &Lanes {
        self.held(row).and_then(|held| held.grains.get(grain)).unwrap_or(&NONE)
    }

    /// The instruction that loaded a register's content.
    pub(super) fn origin(&self, row: Option<u32>) -> Option<u32> {
        self.held(row).map(|held| held.origin)
    }

    /// The sum that an accumulator belongs to.
    pub(super) fn chain(&self, row: Option<u32>) -> u32 {
        self.held(row).map_or(0, |held| held.chain)
    }

    /// Sets the sum that an accumulator belongs to.
    pub(super) fn set_chain(&mut self, row: Option<u32>, chain: u32) {
        if let Some(held) = row.and_then(|row| self.held.get_mut(at(row))).filter(|held| held.live) {
            held.chain = chain;
        }
    }

    /// A number that changes when the content of one of the registers changes.
    pub(super) fn fingerprint(&self, rows: &[Option<u32>]) -> u64 {
        rows.iter().flatten().fold(0, |sum: u64, row| {
            let stamp = self.held.get(at(*row)).map_or(0, |held| held.stamp);
            (sum ^ u64::from(*row) << 32 ^ u64::from(stamp)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// Writes the grains of a register in the lanes of `exec`.
    pub(super) fn put(&mut self, row: Option<u32>, values: &[Lanes], exec: u32, origin: Option<u32>) {
        let Some(held) = row.and_then(|row| self.held.get_mut(at(row))) else { return };
        let empty = values.iter().flatten().all(|tag| *tag == 0);
        if empty && !held.live {
            return;
        }
        self.clock = self.clock.wrapping_add(1);
        held.stamp = self.clock;
        if empty && exec == u32::MAX {
            held.live = false;
            return;
        }
        let count = values.len().max(self.grains);
        if held.grains.len() < count {
            held.grains = vec![NONE; count].into();
        } else if !held.live {
            held.grains.fill(NONE);
        }
        held.live = true;
        held.chain = 0;
        held.origin = origin.unwrap_or(held.origin);
        let padded = values.iter().chain(std::iter::repeat(&NONE));
        for (out, value) in held.grains.iter_mut().zip(padded) {
            if exec == u32::MAX {
                *out = *value;
            } else {
                lanes_of(exec).for_each(|lane| out[lane] = value[lane]);
            }
        }
    }
}
