//! Matrix descriptors: where the operands of `wgmma` and `tcgen05` are in shared memory.
//!
//! ```text
//!  wgmma                                        tcgen05
//!  bits 13-0   start address / 16               the same
//!  bits 29-16  leading dimension offset / 16    the same
//!  bits 45-32  stride dimension offset / 16     the same
//!                                               bits 48-46  the constant 1
//!  bits 51-49  base offset: (address of the swizzle pattern / 128) mod 8
//!                                               bit 52      the leading dimension is an address
//!  bits 63-62  swizzle: 0 none, 1 128 bytes,    bits 63-61  swizzle: 0 none, 2 128 bytes, 4 64 bytes, 6 32 bytes,
//!              2 64 bytes, 3 32 bytes                       1 128 bytes in units of 32 bytes
//! ```
//!
//! In pieces of 16 bytes, with S the bytes of the swizzle: a *K-major* operand has in each row of A (column of B) two
//! consecutive pieces along k, an *MN-major* one has in each k a piece for as many rows of A (columns of B) as fit in it:
//!
//! ```text
//!  K-major, row r, piece p         no swizzle   start + 16 (r mod 8) + stride (r / 8) + leading p
//!                                  swizzle      start +  S (r mod 8) + stride (r / 8) + 16 p
//!  MN-major, column k, piece p     no swizzle   start + 16 (k mod 8) + leading (k / 8) + stride p
//!                                  swizzle      start +  S (k mod 8) + stride (k / 8) + 16 (p mod S/16) + leading (p / (S/16))
//! ```
//!
//! The swizzle then exchanges pieces: bits 4 and up of the address are combined by xor with bits 7 and up, as many as S / 16
//! has; the base offset moves the start of the pattern. In units of 32 bytes, for MN-major operands only, the pattern has 4 k instead
//! of 8, and bits 5 and 6 are combined with bits 7 and 8.

/// A matrix in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    /// The start of the swizzle pattern, in units of 128 bytes.
    base: u32,
    /// How many bits of the address the swizzle changes.
    pub(super) bits: u32,
    /// It exchanges units of 32 bytes, and the pattern has 4 rows of 128 bytes.
    coarse: bool,
}

impl Descriptor {
    pub(super) fn of(code: u64) -> Descriptor {
        let field = |low: u32, bits: u32| u32::try_from(code >> low & ((1 << bits) - 1)).unwrap_or(0);
        let bits = match field(62, 2) {
            0 => 0,
            mode => 4 - mode,
        };
        Descriptor {
            start: field(0, 14) << 4,
            leading: field(16, 14) << 4,
            stride: field(32, 14) << 4,
            base: field(49, 3),
            bits,
            coarse: false,
        }
    }

    fn swizzled(&self, address: u32) -> u32 {
        if self.coarse {
            return address ^ ((address >> 7).wrapping_sub(self.base) & 3) << 5;
        }
        let mask = (1 << self.bits) - 1;
        address ^ ((address >> 7).wrapping_sub(self.base) & mask) << 4
    }

    /// Whether it describes MN-major operands only.
    pub(super) fn is_coarse(&self) -> bool {
        self.coarse
    }

    /// Piece `piece` of row `r` of a K-major operand.
    pub(super) fn by_row(&self, r: u32, piece: u32) -> u32 {
        let (near, along) = if self.bits == 0 { (16, self.leading) } else { (16 << self.bits, 16) };
        self.swizzled(self.start + near * (r % 8) + self.stride * (r / 8) + along * piece)
    }

    /// The eight elements from `8 piece` of column `k` of an MN-major operand.
    pub(super) fn by_column(&self, k: u32, piece: u32) -> u32 {
        if self.bits == 0 {
            return self.start + 16 * (k % 8) + self.leading * (k / 8) + self.stride * piece;
        }
        let (across, deep) = (1 << self.bits, if self.coarse { 4 } else { 8 });
        let column = (16 << self.bits) * (k % deep) + self.stride * (k / deep);
        self.swizzled(self.start + column + 16 * (piece % across) + self.leading * (piece / across))
    }

    /// The addresses of all pieces of rows `from` to `to`, of 32 bytes or of 64.
    pub(super) fn pieces(
        &self,
        transposed: bool,
        long: bool,
        from: u32,
        to: u32,
    ) -> impl Iterator<Item = u32> + '_ {
        let times = if long { 2 } else { 1 };
        let (outer, inner) =
            if transposed { (0..16 * times, from / 8..to / 8) } else { (from..to, 0..2 * times) };
        outer.flat_map(move |x| {
            inner.clone().map(move |y| if transposed { self.by_column(x, y) } else { self.by_row(x, y) })
        })
    }

    /// The descriptor of a `tcgen05` instruction; an error has the reason, and whether it is a gap.
    pub(super) fn of_tensor(code: u64) -> Result<Descriptor, (bool, String)> {
        if code >> 46 & 7 != 1 {
            let found = code >> 46 & 7;
            return Err((false, format!("bits 46 to 48 of a matrix descriptor are {found}; expected 1")));
        }
        let reserved = code & (3 << 14 | 3 << 30 | 0xff << 53);
        if reserved != 0 {
            return Err((
                false,
                format!("a matrix descriptor {code:#018x} has bits {reserved:#x} that must be zero"),
            ));
        }
        if code >> 52 & 1 != 0 {
            return Err((true, "a matrix descriptor whose leading dimension is an address".to_owned()));
        }
        let bits = match code >> 61 {
            0 => 0,
            1 | 2 => 3,
            4 => 2,
            6 => 1,
            mode => return Err((false, format!("a matrix descriptor has the swizzle mode {mode}"))),
        };
        Ok(Descriptor { bits, coarse: code >> 61 == 1, ..Descriptor::of(code & !(7 << 61)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(start: u64, leading: u64, stride: u64, base: u64, swizzle: u64) -> Descriptor {
        Descriptor::of(start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | swizzle << 62)
    }

    #[test]
    fn fields_are_decoded() {
        let bits = |swizzle| descriptor(0x400, 0x800, 0x80, 5, swizzle).bits;
        assert_eq!((bits(0), bits(1), bits(2), bits(3)), (0, 3, 2, 1));
        let found = descriptor(0x400, 0x800, 0x80, 5, 1);
        assert_eq!(
            found,
            Descriptor { start: 0x400, leading: 0x800, stride: 0x80, base: 5, bits: 3, coarse: false }
        );
    }

    /// Every layout places every piece at an address of its own.
    #[test]
    fn pieces_do_not_overlap() {
        for (swizzle, by_row, by_column) in [
            (0, (128, 256), (128, 1024)),
            (1, (16, 1024), (2048, 1024)),
            (2, (16, 512), (1024, 512)),
            (3, (16, 256), (512, 256)),
        ] {
            let mut seen = std::collections::BTreeSet::new();
            let (leading, stride) = by_row;
            seen.extend(descriptor(0, leading, stride, 0, swizzle).pieces(false, false, 0, 64));
            assert_eq!(seen.len(), 128, "swizzle {swizzle} by row");
            let mut seen = std::collections::BTreeSet::new();
            let (leading, stride) = if swizzle == 0 { (by_column.1, by_column.0) } else { by_column };
            seen.extend(descriptor(0, leading, stride, 0, swizzle).pieces(true, false, 0, 64));
            assert_eq!(seen.len(), 128, "swizzle {swizzle} by column");
        }
    }

    /// In a row of 128 bytes, piece p of row r is at p xor r; the base offset shifts the rows.
    #[test]
    fn swizzle_exchanges_pieces() {
        let d = descriptor(0, 16, 1024, 0, 1);
        assert_eq!((d.by_row(0, 1), d.by_row(1, 0), d.by_row(5, 1)), (16, 128 + 16, 5 * 128 + 4 * 16));
        let shifted = descriptor(0x180, 16, 1024, 3, 1);
        assert_eq!((shifted.by_row(0, 1), shifted.by_row(1, 0)), (0x190, 0x200 + 16));
        let d = descriptor(0, 16, 256, 0, 3);
        assert_eq!((d.by_row(3, 0), d.by_row(4, 0), d.by_row(4, 1)), (96, 128 + 16, 128));
    }
}
