//! Which bytes of a warp's registers are poisoned, and how instructions propagate poison.

use super::super::facts::{BitMove, Cold, Facts, NO_ROW, Rule};
use std::collections::BTreeMap;
use warpproof_num::bits::{self, Beyond, Permute};
use warpproof_sim::machine::{LANES, Registers, Row, Width, at, lanes_of};

/// The origin of a poisoned value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A register that was never written.
    Register,
    Shared(u32),
    Local(u32),
    Global(u64),
}

/// The origin of a poisoned value, and the instruction that read it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) pc: u32,
    pub(super) source: Source,
}

impl Origin {
    /// Whether one instruction reads both from the same kind of memory: they share one report.
    pub(super) fn alike(self, other: Origin) -> bool {
        let kind = std::mem::discriminant::<Source>;
        self.pc == other.pc && kind(&self.source) == kind(&other.source)
    }
}

/// The bytes of each lane, one bit each.
pub(super) type Bytes = [u16; LANES];

/// `Origin::pc` of a register that was never written: the current instruction is the one that reads it.
const NOW: u32 = u32::MAX;
/// Bytes that share one origin.
const PIECE: u32 = 4;

/// The poisoned bytes of a row. Only lanes in the row's mask are valid.
#[derive(Clone, Debug)]
struct Stain {
    bytes: Bytes,
    /// Where each lane's pieces come from, lane by lane.
    origins: Vec<Origin>,
}

impl Stain {
    /// The stain of a row that was never written.
    fn new(full: u16) -> Stain {
        let pieces = at(full.count_ones().div_ceil(PIECE).max(1));
        let never = Origin { pc: NOW, source: Source::Register };
        Stain { bytes: [full; LANES], origins: vec![never; LANES * pieces] }
    }

    fn pieces(&self) -> usize {
        self.origins.len() / LANES
    }

    /// The origin of the first poisoned byte among some bytes of a lane; if none of them is poisoned, of the lane's
    /// first.
    fn origin(&self, lane: usize, among: u16) -> Option<Origin> {
        let own = self.bytes[lane];
        let asked = if own & among == 0 { own } else { own & among };
        let piece = at(asked.trailing_zeros() / PIECE).min(self.pieces() - 1);
        self.origins.get(lane * self.pieces() + piece).copied()
    }
}

/// The bytes of a piece.
fn piece_bytes(piece: u32) -> u16 {
    0xfu16.checked_shl(PIECE * piece).unwrap_or(0)
}

/// The registers of one warp.
#[derive(Clone, Debug)]
pub(super) struct Poison {
    /// Poisoned lanes of each row.
    masks: Vec<u32>,
    /// The number of rows with such lanes.
    rows: usize,
    /// Rows that are partly poisoned, or poisoned by something other than never being written.
    stains: BTreeMap<u32, Stain>,
}

/// A byte mask as bits, up to 64 of them.
fn expand(bytes: u16) -> u64 {
    (0..8).filter(|i| bytes >> i & 1 != 0).fold(0, |bits, i| bits | 0xff << (8 * i))
}

/// The bytes that have any of the bits.
fn collapse(bits: u64) -> u16 {
    (0..8).filter(|i| bits >> (8 * i) & 0xff != 0).fold(0, |bytes, i| bytes | 1 << i)
}

fn low(bits: u64) -> u32 {
    u32::try_from(bits & 0xffff_ffff).unwrap_or(0)
}

fn short(bits: u64) -> u16 {
    u16::try_from(bits & 0xffff).unwrap_or(0)
}

/// Truncates a value to a number of bytes and extends it again.
fn extend(value: u64, (bytes, signed): (u32, bool)) -> u64 {
    let unused = 64u32.saturating_sub(8 * bytes).min(63);
    if signed {
        ((value << unused).cast_signed() >> unused).cast_unsigned()
    } else {
        value << unused >> unused
    }
}

impl Poison {
    pub(super) fn new(facts: &Facts) -> Poison {
        let rows = facts.unset.iter().filter(|lanes| **lanes != 0).count();
        Poison { masks: facts.unset.clone(), rows, stains: BTreeMap::new() }
    }

    /// Whether no register is poisoned.
    #[inline]
    pub(super) fn is_clean(&self) -> bool {
        self.rows == 0
    }

    /// Poisoned lanes of a row.
    #[inline]
    pub(super) fn lanes(&self, row: u32) -> u32 {
        self.masks.get(at(row)).copied().unwrap_or(0)
    }

    /// Poisoned lanes of any of the rows.
    #[inline]
    pub(super) fn any(&self, rows: &[u32]) -> u32 {
        rows.iter().fold(0, |lanes, row| lanes | self.lanes(*row))
    }

    /// Lanes of a row have been written, or count as written.
    #[inline]
    pub(super) fn clear(&mut self, row: u32, lanes: u32) {
        if let Some(mask) = self.masks.get_mut(at(row)) {
            let before = *mask;
            *mask &= !lanes;
            self.rows -= usize::from(before != 0 && *mask == 0);
        }
    }

    pub(super) fn bytes(&self, facts: &Facts, row: u32, lane: usize) -> u16 {
        if self.lanes(row) >> lane & 1 == 0 {
            return 0;
        }
        self.stains.get(&row).map_or_else(|| facts.numbering.full(row), |stain| stain.bytes[lane])
    }

    /// The origin of the first poisoned byte among some bytes of a lane; `pc` is the instruction that reads it now.
    pub(super) fn origin_of(&self, row: u32, lane: usize, among: u16, pc: u32) -> Origin {
        let known = self.stains.get(&row).and_then(|stain| stain.origin(lane, among));
        known.filter(|origin| origin.pc != NOW).unwrap_or(Origin { pc, source: Source::Register })
    }

    /// The origin of a lane's value in the first row in which the lane is poisoned.
    pub(super) fn lane_origin(&self, rows: &[u32], lane: usize, pc: u32) -> Origin {
        let poisoned = rows.iter().find(|row| self.lanes(**row) >> lane & 1 != 0);
        self.origin_of(poisoned.copied().unwrap_or(NO_ROW), lane, u16::MAX, pc)
    }

    /// The origin for the first lane that is poisoned in any of the rows.
    pub(super) fn first_origin(&self, rows: &[u32], lanes: u32, pc: u32) -> Origin {
        let lane = at((self.any(rows) & lanes).trailing_zeros()) % LANES;
        self.lane_origin(rows, lane, pc)
    }

    /// Groups the poisoned lanes of a row by origin: calls `each` with every group and the origin of its first lane.
    pub(super) fn by_origin(&self, row: u32, lanes: u32, pc: u32, mut each: impl FnMut(u32, Origin)) {
        let mut rest = lanes;
        while rest != 0 {
            let origin = |lane: usize| self.origin_of(row, lane, u16::MAX, pc);
            let first = origin(at(rest.trailing_zeros()) % LANES);
            let group = lanes_of(rest).filter(|lane| origin(*lane).alike(first));
            let group = group.fold(0u32, |group, lane| group | 1 << lane);
            each(group, first);
            rest &= !group;
        }
    }

    /// Writes the lanes of a row; `bytes` marks the poisoned bytes, and `origin` is called for each piece of four bytes
    /// of each lane.
    pub(super) fn set_from(
        &mut self,
        facts: &Facts,
        row: u32,
        lanes: u32,
        bytes: &Bytes,
        origin: impl Fn(usize, u32) -> Origin,
    ) {
        let full = facts.numbering.full(row);
        let poisoned =
            lanes_of(lanes).filter(|lane| bytes[*lane] & full != 0).fold(0, |m, lane| m | 1 << lane);
        let register = facts.start.get(at(row)).is_some_and(|start| *start != 0);
        let Some(mask) = self.masks.get_mut(at(row)).filter(|_| register) else { return };
        let before = *mask;
        *mask = *mask & !lanes | poisoned;
        self.rows = self.rows - usize::from(before != 0) + usize::from(*mask != 0);
        if poisoned == 0 {
            return;
        }
        let stain = self.stains.entry(row).or_insert_with(|| Stain::new(full));
        let pieces = stain.pieces();
        for lane in lanes_of(poisoned) {
            stain.bytes[lane] = bytes[lane] & full;
            for (piece, known) in (0u32..).zip(&mut stain.origins[lane * pieces..(lane + 1) * pieces]) {
                *known = origin(lane, piece);
            }
        }
    }

    /// Writes lanes of a row: `poisoned` lanes become fully poisoned, the others clean.
    fn set_lanes(&mut self, facts: &Facts, row: u32, lanes: u32, poisoned: u32, origins: &[Origin; LANES]) {
        let mut bytes = [0; LANES];
        lanes_of(poisoned).for_each(|lane| bytes[lane] = u16::MAX);
        self.set_from(facts, row, lanes, &bytes, |lane, _| origins[lane]);
    }

    /// An instruction that reads poison writes its results.
    pub(super) fn spread(&mut self, facts: &Facts, pc: u32, exec: u32, registers: &Registers, cold: &Cold) {
        let (reads, writes, _) = facts.rows(pc);
        let hit = self.any(reads) & exec;
        let mut origins = [Origin { pc, source: Source::Register }; LANES];
        lanes_of(hit).for_each(|lane| origins[lane] = self.lane_origin(reads, lane, pc));
        match cold.rule {
            Rule::Fresh => writes.iter().for_each(|row| self.clear(*row, exec)),
            Rule::Any | Rule::Arithmetic(_) | Rule::Multiply(_) => {
                self.whole(facts, writes, exec, hit, &origins);
            }
            Rule::VoteHere => {
                let first = [self.first_origin(reads, exec, pc); LANES];
                self.whole(facts, writes, exec, if hit == 0 { 0 } else { exec }, &first);
            }
            // Handled when the exchange is observed.
            Rule::Vote | Rule::Lanes => {}
            Rule::Bytes => {
                let mut bytes = [0; LANES];
                for lane in lanes_of(exec) {
                    bytes[lane] = reads.iter().fold(0, |any, row| any | self.bytes(facts, *row, lane));
                }
                for row in writes {
                    self.set_from(facts, *row, exec, &bytes, |lane, _| origins[lane]);
                }
            }
            Rule::Halves(size) => {
                let mut bytes = [0; LANES];
                for lane in lanes_of(exec) {
                    let any = reads.iter().fold(0, |any, row| any | self.bytes(facts, *row, lane));
                    let half = |mask: u16| if any & mask != 0 { mask } else { 0 };
                    let low = (1 << size.min(8)) - 1;
                    bytes[lane] = half(low) | half(low << size.min(8));
                }
                for row in writes {
                    self.set_from(facts, *row, exec, &bytes, |lane, _| origins[lane]);
                }
            }
            Rule::Unpack(part) => {
                let Some((source, parts)) = cold.operands.split_last() else { return };
                let whole: Bytes = std::array::from_fn(|lane| self.bytes(facts, *source, lane));
                for (i, row) in (0u32..).zip(parts) {
                    let own = ((1 << part.min(15)) - 1) << (i * part).min(15);
                    let bytes = whole.map(|bytes| (bytes & own) >> (i * part).min(15));
                    let from: [Origin; LANES] =
                        std::array::from_fn(|lane| self.origin_of(*source, lane, own, pc));
                    self.set_from(facts, *row, exec, &bytes, |lane, _| from[lane]);
                }
            }
            Rule::Pack(part) => {
                let Some((target, parts)) = cold.operands.split_first() else { return };
                let mut whole = [0u16; LANES];
                // One origin for each piece of the packed result.
                let mut from = [origins; 4];
                for (i, row) in (0u32..).zip(parts) {
                    for lane in lanes_of(exec) {
                        let bytes = self.bytes(facts, *row, lane) & ((1 << part.min(15)) - 1);
                        let moved = bytes << (i * part).min(15);
                        for (piece, from) in (0u32..).zip(&mut from) {
                            let own = piece_bytes(piece);
                            if moved & own != 0 && whole[lane] & own == 0 {
                                from[lane] = self.origin_of(*row, lane, bytes, pc);
                            }
                        }
                        whole[lane] |= moved;
                    }
                }
                self.set_from(facts, *target, exec, &whole, |lane, piece| from[at(piece) & 3][lane]);
            }
            Rule::Transpose => {
                let [target, source] = cold.operands[..] else { return };
                let whole: Bytes = std::array::from_fn(|lane| self.bytes(facts, source, lane));
                let half = |row: usize, column: usize| whole[4 * row + column / 2] >> (2 * (column % 2)) & 3;
                let bytes = std::array::from_fn(|lane| {
                    let (g, t) = (lane / 4, lane % 4);
                    half(2 * t, g) | half(2 * t + 1, g) << 2
                });
                let from: [Origin; LANES] = std::array::from_fn(|lane| {
                    let (g, t) = (lane / 4, lane % 4);
                    let row = if half(2 * t, g) != 0 { 2 * t } else { 2 * t + 1 };
                    self.origin_of(source, 4 * row + g / 2, u16::MAX, pc)
                });
                self.set_from(facts, target, exec, &bytes, |lane, _| from[lane]);
            }
            Rule::Compare(decides) => {
                let Some((&[first, second], &[.., deciding])) = cold.operands.split_first_chunk::<2>() else {
                    return;
                };
                let value = registers.preds.get(at(facts.numbering.row(deciding).1)).copied().unwrap_or(0);
                let value = if cold.not >> 4 & 1 != 0 { !value } else { value };
                let decided = if decides { value } else { !value } & !self.lanes(deciding);
                for row in [first, second] {
                    self.set_lanes(facts, row, exec, hit & !decided, &origins);
                }
            }
            Rule::Bitwise(_) | Rule::Shuffle(_) | Rule::Select => {
                let Some((target, sources)) = cold.operands.split_first() else { return };
                let mut bytes = [0; LANES];
                let mut from = [origins; 4];
                for lane in lanes_of(hit) {
                    let (poisoned, operand) = self.lane_rule(facts, cold, sources, registers, lane);
                    bytes[lane] = poisoned;
                    let row = sources.get(operand).copied().unwrap_or(NO_ROW);
                    for (piece, from) in (0u32..).zip(&mut from) {
                        from[lane] = self.origin_of(row, lane, piece_bytes(piece), pc);
                    }
                }
                self.set_from(facts, *target, exec, &bytes, |lane, piece| from[at(piece) & 3][lane]);
            }
        }
    }

    fn whole(&mut self, facts: &Facts, writes: &[u32], exec: u32, poisoned: u32, origins: &[Origin; LANES]) {
        for row in writes {
            self.set_lanes(facts, *row, exec, poisoned, origins);
        }
    }

    /// The poisoned bytes of one lane's result, and the operand they come from.
    fn lane_rule(
        &self,
        facts: &Facts,
        cold: &Cold,
        rows: &[u32],
        registers: &Registers,
        lane: usize,
    ) -> (u16, usize) {
        let mut values = [0u64; 4];
        let mut poison = [0u16; 4];
        for (i, row) in rows.iter().take(4).enumerate() {
            values[i] = facts.value(registers, *row, lane);
            poison[i] = self.bytes(facts, *row, lane);
        }
        let first = poison.iter().position(|bytes| *bytes != 0).unwrap_or(0);
        let alone = |i: usize| std::array::from_fn(|k| if k == i { poison[k] } else { 0 });
        let predicate = rows.first().is_some_and(|row| facts.numbering.row(*row).0 == Width::Pred);
        match cold.rule {
            // A copy of 128 bits.
            Rule::Bitwise(0xf0) => (poison[0], 0),
            Rule::Bitwise(table) => {
                if predicate {
                    for (i, value) in values.iter_mut().enumerate() {
                        *value ^= u64::from(cold.not >> (i + 1) & 1);
                    }
                }
                let varied = |poison: [u16; 4]| {
                    let varied = bitwise(table, values, poison.map(expand));
                    collapse(if predicate { varied & 1 } else { varied })
                };
                let operand = (0..4).find(|i| varied(alone(*i)) != 0).unwrap_or(first);
                (varied(poison), operand)
            }
            Rule::Shuffle(how) => {
                let moved = how.moved();
                if let Some(i) = poison[moved..].iter().position(|bytes| *bytes != 0) {
                    return (u16::MAX, moved + i);
                }
                let apply = |poison: [u16; 4]| {
                    let mut values = values;
                    for (value, poison) in values[..moved].iter_mut().zip(poison) {
                        *value = expand(poison);
                    }
                    collapse(how.apply(values))
                };
                let operand = (0..moved).find(|i| apply(alone(*i)) != 0).unwrap_or(first);
                (apply(poison), operand)
            }
            Rule::Select if poison[2] != 0 => (u16::MAX, 2),
            Rule::Select => {
                let chosen = (values[2] ^ u64::from(cold.not >> 3 & 1)) & 1 != 0;
                if chosen { (poison[0], 0) } else { (poison[1], 1) }
            }
            _ => (u16::MAX, first),
        }
    }

    /// Lanes got their value from other lanes. Reading from a lane that does not take part is undefined, whatever that
    /// lane had written; the lane check reports it.
    pub(super) fn shuffled(&mut self, facts: &Facts, pc: u32, lanes: u32, from: &Row<u32>, cold: &Cold) {
        let [target, in_range, source, ..] = cold.operands[..] else { return };
        self.clear(in_range, lanes);
        if self.lanes(source) == 0 {
            return self.clear(target, lanes);
        }
        let origins: [Origin; LANES] =
            std::array::from_fn(|lane| self.origin_of(source, at(from.0[lane] & 31), u16::MAX, pc));
        let bytes: Bytes = std::array::from_fn(|lane| {
            let from = at(from.0[lane] & 31);
            if lanes >> from & 1 == 0 { 0 } else { self.bytes(facts, source, from) }
        });
        self.set_from(facts, target, lanes, &bytes, |lane, _| origins[lane]);
    }

    /// Lanes have executed a vote, match or reduction.
    pub(super) fn voted(&mut self, facts: &Facts, pc: u32, lanes: u32) {
        let (reads, writes, _) = facts.rows(pc);
        let hit = self.any(reads) & lanes != 0;
        let origin = self.first_origin(reads, lanes, pc);
        self.whole(facts, writes, lanes, if hit { lanes } else { 0 }, &[origin; LANES]);
    }
}

/// The bits of a bitwise function that change with poisoned bits of its sources.
fn bitwise(table: u8, values: [u64; 4], poison: [u64; 4]) -> u64 {
    let result = |flipped: u32| {
        let source = |i: usize| values[i] ^ if flipped >> i & 1 != 0 { poison[i] } else { 0 };
        let half = |shift: u32| {
            bits::lop3(low(source(0) >> shift), low(source(1) >> shift), low(source(2) >> shift), table)
        };
        u64::from(half(0)) | u64::from(half(32)) << 32
    };
    let plain = result(0);
    (1..8).fold(0, |changed, flipped| changed | plain ^ result(flipped))
}

impl BitMove {
    /// Applies the move to the bits of the sources.
    fn apply(self, [a, b, c, d]: [u64; 4]) -> u64 {
        match self {
            BitMove::Shl(2) => u64::from(bits::shl_b16(short(a), low(b))),
            BitMove::Shl(4) => u64::from(bits::shl_b32(low(a), low(b))),
            BitMove::Shl(_) => bits::shl_b64(a, low(b)),
            BitMove::Shr(2, false) => u64::from(bits::shr_u16(short(a), low(b))),
            BitMove::Shr(2, true) => u64::from(bits::shr_s16(short(a), low(b))),
            BitMove::Shr(4, false) => u64::from(bits::shr_u32(low(a), low(b))),
            BitMove::Shr(4, true) => u64::from(bits::shr_s32(low(a), low(b))),
            BitMove::Shr(_, false) => bits::shr_u64(a, low(b)),
            BitMove::Shr(_, true) => bits::shr_s64(a, low(b)),
            BitMove::Funnel { left, wrap } => {
                let beyond = if wrap { Beyond::Wrap } else { Beyond::Clamp };
                let funnel = if left { bits::shf_l } else { bits::shf_r };
                u64::from(funnel(low(a), low(b), low(c), beyond))
            }
            BitMove::Extract(4, false) => u64::from(bits::bfe_u32(low(a), low(b), low(c))),
            BitMove::Extract(4, true) => u64::from(bits::bfe_s32(low(a), low(b), low(c))),
            BitMove::Extract(_, false) => bits::bfe_u64(a, low(b), low(c)),
            BitMove::Extract(_, true) => bits::bfe_s64(a, low(b), low(c)),
            BitMove::Insert(4) => u64::from(bits::bfi_b32(low(a), low(b), low(c), low(d))),
            BitMove::Insert(_) => bits::bfi_b64(a, b, low(c), low(d)),
            BitMove::Permute => u64::from(bits::prmt(low(a), low(b), low(c), Permute::Generic)),
            BitMove::Convert(from, to) => extend(extend(a, from), to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_decides_alone_hides_a_poisoned_one() {
        let poison = [expand(0b0011), 0, 0, 0];
        assert_eq!(collapse(bitwise(0xc0, [0x1234_5678, 0xff00_00ff, 0, 0], poison)), 0b0001, "and");
        assert_eq!(collapse(bitwise(0xfc, [0x1234_5678, 0xff00_00ff, 0, 0], poison)), 0b0010, "or");
        assert_eq!(collapse(bitwise(0x3c, [0x1234_5678, 0xff00_00ff, 0, 0], poison)), 0b0011, "xor");
    }

    #[test]
    fn bits_take_their_poison_along() {
        let apply = |how: BitMove, bytes: u16, b: u64, c: u64| collapse(how.apply([expand(bytes), b, c, 0]));
        assert_eq!(apply(BitMove::Shl(4), 0b0001, 16, 0), 0b0100);
        assert_eq!(apply(BitMove::Shl(4), 0b0001, 4, 0), 0b0011);
        assert_eq!(apply(BitMove::Shr(4, true), 0b1000, 16, 0), 0b1110);
        assert_eq!(apply(BitMove::Shr(4, false), 0b1000, 16, 0), 0b0010);
        assert_eq!(apply(BitMove::Extract(4, false), 0b0010, 8, 8), 0b0001);
        assert_eq!(
            apply(BitMove::Convert((1, true), (4, true)), 0b0001, 0, 0),
            0xff,
            "truncated to the register"
        );
        assert_eq!(apply(BitMove::Convert((1, false), (4, false)), 0b1111, 0, 0), 0b0001);
        assert_eq!(apply(BitMove::Convert((4, false), (2, false)), 0b1100, 0, 0), 0);
        assert_eq!(apply(BitMove::Permute, 0b0001, 0, 0x3120), 0b0001);
    }
}
