//! Loads that read more bytes than they use.
//!
//! A compiler may merge several narrow loads and the gaps between them into one wide load, if alignment guarantees that it
//! does not cross a page; `.pragma "used_bytes_mask …"` before it names the bytes that the program requested. Hardware
//! reads all of them. The program does not depend on whether the other bytes are allocated, initialized, or written by
//! another thread.

use super::access::{Told, aligned};
use super::{Access, AccessKind, Flow, LANES, Row, Warp, at, lanes_of};
use crate::isa::AddressArg;
use crate::memory::{Fault, FaultKind, Space};

/// The used bytes of an access of up to 32: offset and size of pieces that are aligned and lie in one word each.
fn used_pieces(used: u32, bytes: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..bytes.min(32)).step_by(4).flat_map(move |offset| {
        let mask = used >> offset & 0xF;
        let pieces: &[(u32, u32)] = match mask {
            0xF => &[(0, 4)],
            0x3 => &[(0, 2)],
            0xC => &[(2, 2)],
            _ => &[(0, 1), (1, 1), (2, 1), (3, 1)],
        };
        let wanted = pieces.iter().filter(move |(start, _)| mask >> start & 1 != 0);
        wanted.map(move |&(start, size)| (offset + start, size))
    })
}

impl Access<'_> {
    /// Calls `each` with the access, or with each used piece of an access that reads more than it uses.
    #[inline]
    pub fn by_use(&self, mut each: impl FnMut(&Access<'_>)) {
        if self.used == u32::MAX {
            return each(self);
        }
        for (offset, bytes) in used_pieces(self.used, self.bytes) {
            let addresses = Row(self.addresses.0.map(|address| address.saturating_add(u64::from(offset))));
            each(&Access { addresses: &addresses, bytes, used: u32::MAX, ..*self });
        }
    }
}

impl Warp<'_, '_> {
    /// As [`load`](Self::load), if only some of the bytes are used; `used` has a bit for each. The others may be
    /// unallocated, so they are not read and are zero.
    pub fn load_used<const WORDS: usize>(
        &mut self,
        space: Space,
        arg: AddressArg,
        bytes: u32,
        used: u32,
    ) -> Result<[Row<u32>; WORDS], Flow> {
        let addresses = self.addresses(arg);
        let groups = match space {
            Space::Generic => self.by_space(&addresses),
            _ => vec![(space, addresses, self.exec)],
        };
        let mut out = [Row([0; LANES]); WORDS];
        for (space, addresses, lanes) in groups {
            if let Some(lane) = lanes_of(lanes).find(|lane| !aligned(addresses.0[*lane], bytes)) {
                let fault = Fault { space, address: addresses.0[lane], kind: FaultKind::Misaligned(bytes) };
                return Err(self.fault(lane, fault, AccessKind::Read, bytes));
            }
            for (offset, size) in used_pieces(used, bytes) {
                let piece = Row(addresses.0.map(|address| address.wrapping_add(u64::from(offset))));
                let mut read = [Row([0; LANES])];
                self.read_rows(space, &piece, lanes, size, &mut read)?;
                let Some(row) = out.get_mut(at(offset / 4)) else { continue };
                for lane in lanes_of(lanes) {
                    row.0[lane] |= read[0].0[lane] << (8 * (offset % 4));
                }
            }
            self.tell(space, AccessKind::Read, &addresses, bytes, lanes, Told { used, ..Told::NOTHING });
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::used_pieces;

    #[test]
    fn pieces_are_the_used_bytes_and_lie_in_one_word_each() {
        for (used, bytes, expected) in [
            (0xF0F, 16, vec![(0, 4), (8, 4)]),
            (0x3, 4, vec![(0, 2)]),
            (0xCE, 8, vec![(1, 1), (2, 1), (3, 1), (6, 2)]),
            (0xFFFF_FFFF, 8, vec![(0, 4), (4, 4)]),
            (0, 16, vec![]),
        ] {
            assert_eq!(used_pieces(used, bytes).collect::<Vec<_>>(), expected, "{used:#x}");
        }
    }
}
