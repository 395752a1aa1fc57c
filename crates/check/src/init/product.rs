//! Propagation of poison through a matrix multiplication: which elements of D it reaches.
//!
//! Element (i, j) of D is poisoned if any element in row i of A, in column j of B, or element (i, j) of C is poisoned,
//! even if the other factor is zero: a poisoned value may be NaN, and zero times NaN is NaN. A poisoned row of A or
//! column of B does not affect the rest of D. The multiplication itself is an error if every row of A (or column of B)
//! contains poison but is not fully poisoned: then part of the inner dimension was not written, and every element of D
//! is poisoned.

use super::super::facts::{Cold, Facts};
use super::super::fragment::{Operand, Shape, place, registers_of};
use super::registers::{Bytes, Origin, Poison};
use warpproof_sim::isa::tile::place_c;
use warpproof_sim::machine::{LANES, Registers, at};

/// The poison of an operand, one bit for each row of A or column of B.
struct Lines {
    some: u32,
    /// Whether no element of it is written.
    whole: bool,
}

impl Lines {
    /// Whether each of `count` rows or columns contains poison, but is not fully poisoned.
    fn inner(&self, count: usize) -> bool {
        !self.whole && self.some.count_ones() == u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn has(&self, line: usize) -> bool {
        self.some >> (line & 31) & 1 != 0
    }
}

impl Poison {
    /// Writes D. If poison reaches all of D, returns its origin and the lanes that hold it.
    pub(super) fn multiply(
        &mut self,
        facts: &Facts,
        pc: u32,
        cold: &Cold,
        shape: Shape,
        registers: &Registers,
    ) -> Option<(Origin, u32)> {
        let d = shape.accumulators(shape.packed.1);
        let (to, from) = cold.operands.split_at(d.min(cold.operands.len()));
        let (a, rest) = from.split_at(shape.a.min(from.len()));
        let (b, c) = rest.split_at(shape.b.min(rest.len()));
        let (c, scales) = c.split_at(shape.accumulators(shape.packed.0).min(c.len()));
        let mut rows = self.operand(facts, shape, Operand::A, a);
        let mut columns = self.operand(facts, shape, Operand::B, b);
        let origin = self.first_origin(from, u32::MAX, pc);
        let useless = match (rows.inner(shape.m), columns.inner(shape.n)) {
            (true, _) => Some(a),
            (_, true) => Some(b),
            _ => None,
        };
        let useless = useless.map(|operand| (self.first_origin(operand, u32::MAX, pc), self.any(operand)));
        let factors = if shape.scales == 0 { &[] } else { scales };
        if let [a, a_byte, a_lane, b, b_byte, b_lane] = *factors {
            let value = |row: u32| at(u32::try_from(facts.value(registers, row, 0) & 3).unwrap_or(0));
            let used = |first: usize| ((1u16 << shape.scales) - 1) << first;
            // As in `isa/mma/scaled.rs`: two lanes of a group have the rows g and g + 8, one has the column g.
            for row in 0..shape.m {
                let lane = 4 * (row % 8) + 2 * (value(a_lane) & 1) + row / 8;
                rows.some |= u32::from(self.bytes(facts, a, lane) & used(value(a_byte)) != 0) << row;
            }
            for column in 0..shape.n {
                let lane = 4 * column + value(b_lane);
                columns.some |= u32::from(self.bytes(facts, b, lane) & used(value(b_byte)) != 0) << column;
            }
        }
        // Elements per register, and the bytes of one.
        let layout = |packed: bool| if packed { (2usize, 0b11u16) } else { (1, 0b1111) };
        let ((in_c, bytes_c), (in_d, bytes_d)) = (layout(shape.packed.0), layout(shape.packed.1));
        let results: Vec<Bytes> = (0..to.len())
            .map(|register| {
                std::array::from_fn(|lane| {
                    (0..in_d).fold(0, |bytes, e| {
                        let element = register * in_d + e;
                        let (row, column) = place_c(shape.m, shape.n, element, lane);
                        let before = c.get(element / in_c).map_or(0, |row| self.bytes(facts, *row, lane))
                            >> (2 * (element % in_c))
                            & bytes_c;
                        let poisoned = before != 0 || rows.has(row) || columns.has(column);
                        if poisoned { bytes | bytes_d << (2 * e) } else { bytes }
                    })
                })
            })
            .collect();
        for (row, bytes) in to.iter().zip(&results) {
            self.set_from(facts, *row, u32::MAX, bytes, |_, _| origin);
        }
        useless
    }

    fn operand(&self, facts: &Facts, shape: Shape, operand: Operand, registers: &[u32]) -> Lines {
        let (mut some, mut whole) = (0u32, true);
        for (register, row) in registers.iter().enumerate().take(registers_of(shape, operand)) {
            for lane in 0..LANES {
                let bytes = self.bytes(facts, *row, lane);
                whole &= bytes == 0b1111;
                if bytes != 0 {
                    some |= 1 << (place(shape, operand, register, lane).0 & 31);
                }
            }
        }
        Lines { some, whole }
    }
}
