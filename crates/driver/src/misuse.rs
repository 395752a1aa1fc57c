//! Wrong use of memory by the host: frees, copies and memsets of addresses that are not what the call expects.

use std::collections::{BTreeMap, VecDeque};

use warpproof_diagnostic::host::HostClass;

use crate::abi::{Answer, Error};
use crate::driver::{DEVICE_ADDRESSES, Driver};
use crate::memory::{Allocation, End, Kind, Memcpy, Memset, Side, wide};
use crate::report::HostFinding;
use crate::site::Site;

/// Number of freed allocations that are remembered.
const REMEMBERED: usize = 4096;

/// A freed allocation.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    size: u64,
    kind: Kind,
    allocated: Site,
    freed: Site,
}

/// Allocations that were freed, by base address.
#[derive(Debug, Default)]
pub struct Freed {
    list: BTreeMap<u64, Ended>,
    order: VecDeque<u64>,
}

impl Freed {
    /// Remembers a freed allocation.
    pub fn add(&mut self, base: u64, allocation: &Allocation, freed: Site) {
        let Allocation { size, kind, site, .. } = *allocation;
        if self.list.insert(base, Ended { size, kind, allocated: site, freed }).is_none() {
            self.order.push_back(base);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.list.remove(&oldest);
        }
    }

    /// Forgets what overlaps a new allocation: pinned memory can get the address of earlier memory.
    pub fn reused(&mut self, base: u64, size: u64) {
        let end = base.saturating_add(size);
        let overlaps = |(at, ended): (&u64, &Ended)| (at.saturating_add(ended.size) > base).then_some(*at);
        // Allocations do not overlap each other, so at most one starts before.
        let before = self.list.range(..base).next_back().and_then(overlaps);
        let inside: Vec<u64> = self.list.range(base..end).map(|(at, _)| *at).chain(before).collect();
        for at in inside {
            self.list.remove(&at);
            self.order.retain(|other| *other != at);
        }
    }

    /// The freed allocation that contained an address.
    pub fn at(&self, address: u64) -> Option<(u64, Ended)> {
        let (base, ended) = self.list.range(..=address).next_back()?;
        (address - base < ended.size.max(1)).then_some((*base, *ended))
    }
}

/// Bytes for a sentence.
fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}

/// Kind of memory for a sentence.
pub fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Device => "device memory",
        Kind::Managed => "managed memory",
        Kind::Host => "pinned memory",
        Kind::Registered => "registered memory",
    }
}

/// The function that frees memory of a kind.
fn frees(kind: Kind) -> &'static str {
    match kind {
        Kind::Device | Kind::Managed => "`cudaFree` or `cuMemFree`",
        Kind::Host => "`cudaFreeHost` or `cuMemFreeHost`",
        Kind::Registered => "`cudaHostUnregister` or `cuMemHostUnregister`",
    }
}

/// One side of a copy, for a sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Source,
    Destination,
    Target,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Use::Source => "the source of the copy",
            Use::Destination => "the destination of the copy",
            Use::Target => "the target of the memset",
        }
    }
}

impl Driver {
    /// Whether the host's code is checked.
    pub fn checks_host(&self) -> bool {
        !self.settings.checks.is_empty()
    }

    /// Reports a finding in the host's code, if it is checked.
    pub fn report_host(&mut self, finding: &HostFinding) {
        if self.checks_host() {
            self.report.host(finding);
        }
    }

    /// Reports a free that fails.
    pub fn report_free(&mut self, base: u64, kinds: &[Kind]) {
        let here = Site::here();
        let known = self.allocation(base).map(|(start, a)| (start, a.size, a.kind, a.site));
        let finding = match (known, self.freed.at(base)) {
            (Some((start, _, kind, site)), _) if start == base && !kinds.contains(&kind) => HostFinding::new(
                HostClass::InvalidFree,
                format!(
                    "{} is freed by the function for {}",
                    named(kind),
                    kinds.first().map_or("other memory", |kind| named(*kind))
                ),
            )
            .at("the free", here)
            .at("the allocation", site)
            .help(format!("free it with {}", frees(kind))),
            (Some((start, size, kind, site)), _) if start != base => HostFinding::new(
                HostClass::InvalidFree,
                format!("the freed address is {} into an allocation of {}", bytes(base - start), bytes(size)),
            )
            .at("the free", here)
            .at("the allocation", site)
            .note(format!("address {base:#x} in {} at {start:#x}", named(kind)))
            .help("free the address that the allocation returned"),
            (_, Some((start, ended))) if start == base => HostFinding::new(
                HostClass::DoubleFree,
                format!("{} of {} are freed twice", bytes(ended.size), named(ended.kind)),
            )
            .at("the second free", here)
            .at("the first free", ended.freed)
            .at("the allocation", ended.allocated),
            _ => HostFinding::new(
                HostClass::InvalidFree,
                format!("the freed address {base:#x} was not returned by an allocation"),
            )
            .at("the free", here),
        };
        self.report_host(&finding);
    }

    /// Whether an address can only be device memory.
    pub fn is_device_address(address: u64) -> bool {
        DEVICE_ADDRESSES.contains(&address)
    }

    /// Reports a copy whose pointers or sizes are wrong, before it accesses memory.
    pub fn check_copy(&mut self, copy: &Memcpy) -> Answer {
        let (width, height, depth) = (wide(copy.width), wide(copy.height), wide(copy.depth));
        if width == 0 || height == 0 || depth == 0 {
            return Ok(());
        }
        let span = |end: End| {
            let rows = end.pitch.checked_mul(height - 1)?;
            end.slice.checked_mul(depth - 1)?.checked_add(rows)?.checked_add(width)
        };
        for (end, part) in [(copy.from, Use::Source), (copy.to, Use::Destination)] {
            let span = span(end).ok_or(Error::INVALID_VALUE)?;
            self.check_end(end.side, end.address, span, part)?;
        }
        Ok(())
    }

    /// Reports a memset whose pointer or size is wrong, before it accesses memory.
    pub fn check_memset(&mut self, set: &Memset) -> Answer {
        let width = wide(set.width).checked_mul(u64::from(set.element)).ok_or(Error::INVALID_VALUE)?;
        if width == 0 || set.height == 0 {
            return Ok(());
        }
        let rows = set.pitch.checked_mul(wide(set.height) - 1);
        let span = rows.and_then(|rows| rows.checked_add(width)).ok_or(Error::INVALID_VALUE)?;
        self.check_end(Side::Device, set.target, span, Use::Target)
    }

    fn check_end(&mut self, side: Side, address: u64, span: u64, part: Use) -> Answer {
        let known = self.allocation(address).map(|(base, a)| (base, a.size, a.kind, a.site));
        let device = Driver::is_device_address(address);
        match side {
            Side::Host if device && known.is_none_or(|(.., kind, _)| kind == Kind::Device) => {
                self.report_direction(address, part, known.map(|(.., site)| site), "host");
                return Err(Error::INVALID_VALUE);
            }
            Side::Host | Side::Either if !device => {
                // Memory of the program that the driver did not allocate may be longer than what was registered.
                let inside = known.filter(|(.., kind, _)| matches!(kind, Kind::Host | Kind::Managed));
                let Some((base, size, ..)) = inside else { return Ok(()) };
                if address - base + span <= size {
                    return Ok(());
                }
            }
            _ => {
                if self.gpu.heap().locate_across(address, span).is_ok() {
                    return Ok(());
                }
            }
        }
        let here = Site::here();
        let finding = match (known, self.freed.at(address)) {
            (Some((base, size, kind, site)), _) => HostFinding::new(
                HostClass::CopyBounds,
                format!(
                    "{} is {} long, but its {} ends after {}",
                    part.name(),
                    bytes(span),
                    named(kind),
                    bytes(size - (address - base))
                ),
            )
            .at(if part == Use::Target { "the memset" } else { "the copy" }, here)
            .at("the allocation", site)
            .help("sizes are in bytes: compare with the size of the allocation"),
            (None, Some((_, ended))) => HostFinding::new(
                HostClass::UseAfterFree,
                format!("{} is {} that was freed", part.name(), named(ended.kind)),
            )
            .at("the use", here)
            .at("the free", ended.freed)
            .at("the allocation", ended.allocated),
            (None, None) if device || address < 4096 => HostFinding::new(
                HostClass::CopyBounds,
                format!("{} is {address:#x}, where no memory is allocated", part.name()),
            )
            .at("the call", here),
            (None, None) => {
                self.report_direction(address, part, None, "device");
                return Err(Error::INVALID_VALUE);
            }
        };
        self.report_host(&finding);
        Err(Error::INVALID_VALUE)
    }

    /// Reports a pointer of the wrong side; `expected` is `host` or `device`.
    fn report_direction(&mut self, address: u64, part: Use, allocated: Option<Site>, expected: &str) {
        let found = if expected == "host" { "device" } else { "host" };
        let mut finding = HostFinding::new(
            HostClass::InvalidCopyDirection,
            format!("{} must be a {expected} pointer, but {address:#x} is a {found} pointer", part.name()),
        )
        .at("the call", Site::here())
        .help("swap the pointers, or copy in the other direction: another function, or another `cudaMemcpyKind`");
        if let Some(site) = allocated {
            finding = finding.at("the allocation", site);
        }
        self.report_host(&finding);
    }

    /// Reports a copy that ends after a variable.
    pub fn report_variable_bounds(&mut self, offset: u64, count: u64, size: u64) {
        let finding = HostFinding::new(
            HostClass::CopyBounds,
            format!(
                "{} from byte {offset} on are copied, but the variable has {}",
                bytes(count),
                bytes(size)
            ),
        )
        .at("the copy", Site::here())
        .help("sizes and offsets are in bytes: compare with the size of the variable");
        self.report_host(&finding);
    }

    /// Reports a copy that ends after an array. Each size has bytes of a row, rows and slices.
    pub fn report_array_bounds(&mut self, address: u64, skip: [u64; 3], size: [u64; 3], limits: [u64; 3]) {
        let shape = |[row, rows, slices]: [u64; 3]| format!("{slices} × {rows} rows of {}", bytes(row));
        let mut finding = HostFinding::new(
            HostClass::CopyBounds,
            format!("the copy has {}, but the array has {}", shape(size), shape(limits)),
        )
        .at("the copy", Site::here());
        if let Some((_, allocation)) = self.allocation(address) {
            finding = finding.at("the allocation", allocation.site);
        }
        if skip != [0; 3] {
            let [x, y, z] = skip;
            finding = finding.note(format!("it starts at byte {x} of row {y} of slice {z}"));
        }
        self.report_host(&finding.help("widths are in bytes: compare with the size of the array"));
    }

    /// Lines about freed memory that a kernel used.
    pub fn freed_notes(&mut self, address: u64) -> Option<Vec<String>> {
        let (_, ended) = self.freed.at(address).filter(|_| self.allocation(address).is_none())?;
        let mut notes = Vec::new();
        for (text, site) in [("allocated", ended.allocated), ("freed", ended.freed)] {
            notes.extend(self.report.place_of(site).map(|place| format!("the memory was {text} at {place}")));
        }
        Some(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(size: u64) -> Ended {
        Ended { size, kind: Kind::Device, allocated: Site::default(), freed: Site::default() }
    }

    #[test]
    fn a_new_allocation_at_the_same_place_is_not_freed_memory() {
        let mut freed = Freed::default();
        freed.list.insert(100, ended(50));
        freed.list.insert(200, ended(50));
        assert_eq!(freed.at(149).map(|(base, _)| base), Some(100));
        assert!(freed.at(150).is_none() && freed.at(99).is_none());
        freed.reused(140, 20);
        assert!(freed.at(100).is_none() && freed.at(200).is_some());
    }
}
