//! The scheduling bits of an encoding.

use serde::Serialize;

/// How an instruction is scheduled: bits 105 to 125 of its 128, since Volta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Control {
    /// Cycles the warp waits after issue before its next instruction.
    pub stall: u8,
    /// Whether the scheduler prefers another warp next.
    pub yields: bool,
    /// The dependence counter that is held until the result is written.
    pub write_barrier: Option<u8>,
    /// The dependence counter that is held until the operands are read.
    pub read_barrier: Option<u8>,
    /// The dependence counters, one bit each, that must be free before issue.
    pub wait: u8,
    /// The operands, one bit each, kept in the register-file cache.
    pub reuse: u8,
}

impl Control {
    /// Reads the control bits of an encoding.
    pub fn decode(encoding: u128) -> Self {
        let bits = |at: u32, count: u32| {
            let value = (encoding >> at) & ((1_u128 << count) - 1);
            u8::try_from(value).unwrap_or(u8::MAX)
        };
        let barrier = |index: u8| (index < 6).then_some(index);
        Self {
            stall: bits(105, 4),
            yields: bits(109, 1) == 0,
            write_barrier: barrier(bits(110, 3)),
            read_barrier: barrier(bits(113, 3)),
            wait: bits(116, 6),
            reuse: bits(122, 4),
        }
    }

    /// The dependence counters that must be free before issue.
    pub fn waits_for(&self) -> impl Iterator<Item = u8> + use<> {
        let wait = self.wait;
        (0..6).filter(move |index| wait >> index & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_where_it_belongs() {
        let encoding = 0b1010_u128 << 122 | 0b100001 << 116 | 2 << 113 | 5 << 110 | 11 << 105;
        let control = Control::decode(encoding);
        assert_eq!(control.stall, 11);
        assert!(control.yields);
        assert_eq!(control.write_barrier, Some(5));
        assert_eq!(control.read_barrier, Some(2));
        assert_eq!(control.waits_for().collect::<Vec<u8>>(), [0, 5]);
        assert_eq!(control.reuse, 0b1010);
        let none = Control::decode(7 << 113 | 7 << 110 | 1 << 109);
        assert_eq!((none.write_barrier, none.read_barrier, none.yields), (None, None, false));
    }
}
