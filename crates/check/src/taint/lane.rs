//! The taint of one value: which sources affect it, and how often it contains the address of an allocation.
//!
//! A value is `times × base + rest`, where `base` is the address of an allocation and `rest` does not depend on the
//! machine; or it depends on `sources` in a way that is not tracked further. Allocations begin at multiples of 256
//! bytes, so the lowest 8 bits of an address are the same on every machine.

use super::sources::Sources;

/// Bits of an address that are zero in the address of every allocation.
const ALIGNED_BITS: u8 = 8;
/// Low bits of a value that depends on no source.
const ALL_BITS: u8 = 64;

/// The taint of a register in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    /// The sources that it depends on.
    pub(super) sources: Sources,
    /// Number of low bits that depend on no source.
    low: u8,
    /// Whether it is the upper half of the value that the other fields describe.
    upper: bool,
    /// The allocation, by number.
    pub(super) base: u16,
    /// How often it contains the allocation's address.
    pub(super) times: i32,
    /// The instruction that read the source.
    pub(super) origin: u32,
}

impl Lane {
    /// A value that depends only on the inputs.
    pub(super) const CLEAN: Lane =
        Lane { sources: Sources::NONE, low: ALL_BITS, upper: false, base: 0, times: 0, origin: 0 };

    /// A value that an instruction reads from a source.
    pub(super) fn read(sources: Sources, origin: u32) -> Lane {
        Lane { sources, low: 0, origin, ..Lane::CLEAN }
    }

    /// The address of something in an allocation.
    pub(super) fn pointer(base: u16, origin: u32) -> Lane {
        Lane { low: ALIGNED_BITS, base, times: 1, origin, ..Lane::CLEAN }
    }

    pub(super) fn is_clean(self) -> bool {
        self.sources.is_empty() && self.times == 0
    }

    /// The sources, including `Address` if it contains an address.
    pub(super) fn all_sources(self) -> Sources {
        if self.times == 0 { self.sources } else { self.sources.with(Sources::ADDRESS) }
    }

    fn or_clean(self) -> Lane {
        if self.is_clean() { Lane::CLEAN } else { self }
    }

    /// The same value, with only its sources tracked.
    fn opaque(self) -> Lane {
        let low = if self.upper { 0 } else { self.low };
        Lane { sources: self.all_sources(), low, upper: false, base: 0, times: 0, origin: self.origin }
    }

    /// The same value, opaque if it is an upper half: the upper half of an address is not a sum of addresses.
    fn whole(self) -> Lane {
        if self.upper { self.opaque() } else { self }
    }

    /// The origin of the more relevant value: a source before an address, an address before a clean value.
    fn origin_with(self, other: Lane) -> u32 {
        let rank = |lane: Lane| (!lane.sources.is_empty(), lane.times != 0);
        if rank(self) >= rank(other) { self.origin } else { other.origin }
    }

    /// A value computed from both in a way that is not tracked; its `low` bits depend on no source.
    fn mixed(self, other: Lane, low: u8) -> Lane {
        let origin = self.origin_with(other);
        let (a, b) = (self.opaque(), other.opaque());
        Lane { sources: a.sources.with(b.sources), low, origin, ..Lane::CLEAN }.or_clean()
    }

    /// A value that may depend on every bit of both.
    pub(super) fn joined(self, other: Lane) -> Lane {
        self.mixed(other, 0)
    }

    /// A bitwise combination of both: low bits that depend on no source in either stay clean.
    pub(super) fn bitwise(self, other: Lane) -> Lane {
        self.mixed(other, self.low.min(other.low))
    }

    pub(super) fn plus(self, other: Lane) -> Lane {
        let (a, b) = (self.whole(), other.whole());
        if a.times != 0 && b.times != 0 && a.base != b.base {
            return a.bitwise(b);
        }
        let Some(times) = a.times.checked_add(b.times) else { return a.bitwise(b) };
        let base = if a.times == 0 { b.base } else { a.base };
        let sources = a.sources.with(b.sources);
        Lane { sources, low: a.low.min(b.low), upper: false, base, times, origin: a.origin_with(b) }
            .or_clean()
    }

    /// The value times `factor`.
    pub(super) fn scaled(self, factor: i64) -> Lane {
        let a = self.whole();
        if factor == 0 {
            return Lane::CLEAN;
        }
        let zeros = u8::try_from(factor.trailing_zeros()).unwrap_or(ALL_BITS);
        let low = a.low.saturating_add(zeros).min(ALL_BITS);
        match i32::try_from(factor).ok().and_then(|factor| a.times.checked_mul(factor)) {
            Some(times) => Lane { low, times, ..a }.or_clean(),
            None => Lane { low, ..a.opaque() },
        }
    }

    pub(super) fn minus(self, other: Lane) -> Lane {
        self.plus(other.scaled(-1))
    }

    /// `self & mask` in a register of `bits`, where the mask depends on no source.
    pub(super) fn masked(self, mask: u64, bits: u32) -> Lane {
        let a = self.whole();
        let known = low_bits(u32::from(a.low));
        if mask & !known == 0 {
            Lane::CLEAN
        } else if !mask & low_bits(bits) & !known == 0 {
            a
        } else {
            a.opaque()
        }
    }

    /// `self | bits` or `self ^ bits`, where the bits depend on no source.
    pub(super) fn with_bits(self, bits: u64) -> Lane {
        let a = self.whole();
        if bits & !low_bits(u32::from(a.low)) == 0 { a } else { a.opaque() }
    }

    /// Shifted to the right.
    pub(super) fn shifted_down(self, by: u64) -> Lane {
        let by = u8::try_from(by).unwrap_or(ALL_BITS);
        let a = self.opaque();
        Lane { low: a.low.saturating_sub(by), ..a }
    }

    /// Truncated to `from` bits, and extended to `to` bits.
    pub(super) fn converted(self, from: u32, to: u32) -> Lane {
        let a = self.whole();
        let bits = from.min(to);
        if u32::from(a.low) >= bits {
            Lane::CLEAN
        } else if to > from {
            a.opaque()
        } else {
            a
        }
    }

    /// The upper half of a register of 64 bits.
    pub(super) fn upper_half(self) -> Lane {
        let a = self.whole();
        if a.sources.is_empty() && a.times != 0 {
            Lane { upper: true, ..a }
        } else {
            Lane { low: a.low.saturating_sub(32), ..a.opaque() }.or_clean()
        }
    }

    /// Two halves of 32 bits put together.
    pub(super) fn packed(self, upper: Lane) -> Lane {
        if self.is_clean() && upper.is_clean() {
            return Lane::CLEAN;
        }
        let same = (self.times, self.base) == (upper.times, upper.base);
        if same && upper.upper && !self.upper && self.sources.with(upper.sources).is_empty() {
            return self;
        }
        if self.is_clean() {
            return Lane { low: 32u8.saturating_add(upper.opaque().low).min(ALL_BITS), ..upper.opaque() };
        }
        self.mixed(upper, self.low)
    }

    /// What a comparison of two values depends on. `equality`: it tests only equality; `zero`: one of them is zero.
    pub(super) fn compared(self, other: Lane, equality: bool, zero: bool) -> Lane {
        let (a, b) = (self.whole(), other.whole());
        if a.sources.with(b.sources).is_empty() {
            // Addresses in one allocation keep their order wherever it lies, addresses in two allocations are never
            // equal, and no address is zero.
            let one = a.times == b.times && (a.times == 0 || a.base == b.base);
            let two = equality && a.times == 1 && b.times == 1;
            let null = equality && zero && (a.times | b.times).abs() == 1;
            if one || two || null {
                return Lane::CLEAN;
            }
        }
        a.joined(b)
    }

    /// What the choice of this address depends on. A pointer that was modified in an untracked way still names the same
    /// element on every machine; an index that is computed from an address does not.
    pub(super) fn as_address(self) -> Lane {
        let a = self.whole();
        let sources = if a.times == 0 { a.sources.without(Sources::ADDRESS) } else { a.sources };
        if sources.is_empty() { Lane::CLEAN } else { Lane::read(sources, a.origin) }
    }
}

fn low_bits(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Lane = Lane { low: 8, base: 3, times: 1, origin: 7, ..Lane::CLEAN };

    #[test]
    fn differences_and_comparisons_of_pointers_depend_on_nothing() {
        assert_eq!(P.minus(P), Lane::CLEAN);
        assert_eq!(P.compared(P, false, false), Lane::CLEAN);
        assert_eq!(P.compared(Lane::CLEAN, true, true), Lane::CLEAN, "a null pointer");
        assert!(!P.compared(Lane::CLEAN, true, false).is_clean());
        let other = Lane::pointer(4, 9);
        assert_eq!(P.minus(other).all_sources(), Sources::ADDRESS);
        assert!(!P.compared(other, false, false).is_clean());
        assert_eq!(P.compared(other, true, false), Lane::CLEAN, "two arrays never have the same address");
        assert_eq!(P.scaled(-2).plus(P).plus(P), Lane::CLEAN);
    }

    #[test]
    fn alignment_of_a_pointer_depends_on_nothing() {
        assert_eq!(P.masked(15, 64), Lane::CLEAN);
        assert_eq!(P.masked(255, 64), Lane::CLEAN);
        assert!(!P.masked(256, 64).is_clean());
        assert_eq!(P.masked(!15, 64), P, "rounded down");
        assert_eq!(P.bitwise(Lane::pointer(4, 9)).masked(15, 64), Lane::CLEAN, "two pointers at once");
        assert!(!P.shifted_down(8).masked(1, 64).is_clean());
        assert_eq!(P.shifted_down(4).masked(15, 64), Lane::CLEAN);
    }

    #[test]
    fn halves_make_the_pointer_again() {
        assert_eq!(P.converted(64, 32).packed(P.upper_half()), P);
        assert!(!P.upper_half().is_clean());
        assert_eq!(P.upper_half().plus(Lane::CLEAN).all_sources(), Sources::ADDRESS);
    }

    #[test]
    fn only_an_index_made_of_an_address_decides_where_an_access_goes() {
        assert_eq!(P.as_address(), Lane::CLEAN);
        assert_eq!(P.shifted_down(8).as_address(), Lane::CLEAN);
        assert_eq!(P.plus(P.shifted_down(8)).as_address().sources, Sources::ADDRESS);
        assert_eq!(P.plus(Lane::read(Sources::CLOCK, 1)).as_address().sources, Sources::CLOCK);
    }
}
