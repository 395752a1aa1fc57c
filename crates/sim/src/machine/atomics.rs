//! Atomic accesses of a warp: lanes are served one after the other.

use super::access::{AccessKind, Told};
use super::{Flow, LANES, Row, Warp, at, lanes_of};
use crate::memory::{Operation, Postponed, Space};

impl Warp<'_, '_> {
    /// Replaces the value at each lane's address by `f(lane, old)`, lane by lane, and returns the old values.
    pub fn update(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        bytes: u32,
        f: impl FnMut(usize, u128) -> u128,
    ) -> Result<Row<u128>, Flow> {
        self.update_by(space, addresses, bytes, None, f)
    }

    /// As [`update`](Self::update), where `f` does an operation on cells of global memory that can be done later; with its
    /// operands.
    pub fn update_by(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        bytes: u32,
        later: Option<(Operation, &Row<u128>)>,
        mut f: impl FnMut(usize, u128) -> u128,
    ) -> Result<Row<u128>, Flow> {
        let mut old = Row([0; LANES]);
        let groups = match space {
            Space::Generic => self.by_space(addresses),
            _ => vec![(space, *addresses, self.exec)],
        };
        for (space, addresses, lanes) in groups {
            let mut unchanged = 0;
            for lane in lanes_of(lanes) {
                let address = addresses.0[lane];
                let result = self.check(space, address, bytes, true).and_then(|()| {
                    self.global.set_current(true);
                    let before = self.read_lane(space, lane, address, bytes)?;
                    self.global.set_current(false);
                    old.0[lane] = before;
                    let after = f(lane, before);
                    unchanged |= u32::from(after == before) << lane;
                    if let Some((operation, operands)) = later.filter(|_| space == Space::Global) {
                        let cells = Postponed { operation, operand: operands.0[lane], after };
                        if self.global.postpone(address, bytes, cells)? {
                            return Ok(());
                        }
                    }
                    self.write_lane(space, lane, address, bytes, after)
                });
                result.map_err(|fault| self.fault(lane, fault, AccessKind::Atomic, bytes))?;
            }
            self.cta.changed |= lanes & !unchanged != 0;
            let told = Told { unchanged, ..Told::NOTHING };
            self.tell(space, AccessKind::Atomic, &addresses, bytes, lanes, told);
        }
        if self.global.is_full() { Err(self.no_room_for_stores()) } else { Ok(old) }
    }

    /// Splits the active lanes by the space of their generic addresses. There is almost always only one group.
    pub(super) fn by_space(&self, addresses: &Row<u64>) -> Vec<(Space, Row<u64>, u32)> {
        let mut groups = Vec::with_capacity(1);
        let mut rest = self.exec;
        while rest != 0 {
            let (first, _) = Space::resolve(addresses.0[at(rest.trailing_zeros())]);
            let mut row = Row([0; LANES]);
            let mut lanes = 0;
            for lane in lanes_of(rest) {
                let (space, address) = Space::resolve(addresses.0[lane]);
                if space == first {
                    lanes |= 1 << lane;
                    row.0[lane] = address;
                }
            }
            rest &= !lanes;
            groups.push((first, row, lanes));
        }
        groups
    }
}
