//! Races of the host's own loads and stores with kernels, copies and memsets, in pinned and managed memory.
//!
//! When a call returns, pages whose bytes an operation accessed are protected (`guard`) until a synchronization lets the host know that
//! the operation is complete. A page is protected only if *all* of its bytes are accessed: written, then the host may not access it; or
//! read, then it may not write it. So every fault is a race, and a program without races has none: its system calls and signal
//! handlers work as without the checks.
//!
//! Can miss: accesses to pages that an operation uses in part, to registered memory, while the operation itself runs, after another
//! access to the same pages, and with `WARPPROOF_LATE`. Never reports: memory of a kernel that uses atomics or volatile accesses on
//! memory of the host, nor what happens before such a kernel: the host may wait for a flag there.

use std::ops::Range;

use warpproof_check::Touched;
use warpproof_diagnostic::host::HostClass;

use crate::driver::Driver;
use crate::guard::{self, Forbidden, HostAccess, Pages};
use crate::host;
use crate::memory::{Kind, wide};
use crate::misuse::named;
use crate::order::{Started, overlapping};
use crate::report::HostFinding;

/// Ranges of pages of one operation.
const MOST: usize = 64;

/// The whole pages of an allocation whose bytes are all in a sorted list. The rest of its last page belongs to the allocation.
fn whole(list: &[Range<u64>], allocation: &Range<u64>) -> Vec<Range<u64>> {
    let page = wide(host::PAGE);
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut run: Option<Range<u64>> = None;
    let mut keep = |run: Range<u64>| {
        let end =
            if run.end == allocation.end { run.end.next_multiple_of(page) } else { run.end / page * page };
        let start = run.start.next_multiple_of(page);
        if start < end && found.len() < MOST {
            found.push(start..end);
        }
    };
    for range in overlapping(list, allocation) {
        let range = range.start.max(allocation.start)..range.end.min(allocation.end);
        match &mut run {
            Some(run) if run.end >= range.start => run.end = run.end.max(range.end),
            _ => {
                if let Some(run) = run.replace(range) {
                    keep(run);
                }
            }
        }
    }
    if let Some(run) = run {
        keep(run);
    }
    found
}

/// The union of two sorted lists, sorted.
fn union(a: &[Range<u64>], b: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = a.iter().chain(b).cloned().collect();
    all.sort_by_key(|range| range.start);
    all
}

/// Ranges without overlap: where two of them overlap, the stricter one counts.
pub fn strictest<'a>(all: impl Iterator<Item = &'a Pages>) -> Vec<Pages> {
    let mut edges: Vec<u64> = Vec::new();
    let all: Vec<&Pages> = all.collect();
    for pages in &all {
        edges.extend([pages.range.start, pages.range.end]);
    }
    edges.sort_unstable();
    edges.dedup();
    let mut strict: Vec<Pages> = Vec::new();
    for (start, end) in edges.iter().zip(edges.iter().skip(1)) {
        let here = all.iter().filter(|pages| pages.range.contains(start)).map(|pages| pages.forbidden).max();
        let Some(forbidden) = here else { continue };
        match strict.last_mut() {
            Some(last) if last.range.end == *start && last.forbidden == forbidden => last.range.end = *end,
            _ => strict.push(Pages { range: *start..*end, forbidden }),
        }
    }
    strict
}

impl Driver {
    /// Whether accesses of the host are compared with the work of streams.
    pub fn compares_host(&self) -> bool {
        self.settings.host_races && !self.settings.late && self.compares_copies()
    }

    /// Whether a launch must record the bytes that it accesses for this: only if there is memory that the host can access.
    pub fn has_host_memory(&self) -> bool {
        self.compares_host() && self.memory.values().any(|allocation| allocation.kind != Kind::Device)
    }

    /// The pages that an operation with these accesses protects.
    pub fn pages_of(&mut self, started: &Started, touched: &Touched) -> Vec<Pages> {
        if !self.compares_host() {
            return Vec::new();
        }
        let of_host =
            |range: &Range<u64>| self.allocation(range.start).is_some_and(|(_, a)| a.kind != Kind::Device);
        if touched.strong.iter().any(of_host) {
            self.order.may_be_known(started);
            return Vec::new();
        }
        let lists = [
            (&touched.written, Forbidden::Accesses),
            (&union(&touched.read, &touched.written), Forbidden::Writes),
        ];
        let mut pages = Vec::new();
        for (base, allocation) in &self.memory {
            let guarded =
                matches!(allocation.kind, Kind::Host | Kind::Managed) && host::is_mapped_twice(*base);
            if !guarded {
                continue;
            }
            let bytes = *base..base.saturating_add(allocation.size);
            for (list, forbidden) in lists {
                pages.extend(whole(list, &bytes).into_iter().map(|range| Pages { range, forbidden }));
            }
        }
        let mut pages = strictest(pages.iter());
        pages.truncate(MOST);
        pages
    }

    /// Protects the pages of operations that the host does not know to be complete.
    pub fn guard(&mut self) {
        let wanted = self.order.guarded();
        self.guards.set(&wanted);
    }

    /// Ends the protection of an allocation, before it is freed.
    pub fn unguard(&mut self, base: u64, size: u64) {
        self.order.forget_pages(&(base..base.saturating_add(size)));
        if guard::stale() {
            self.guard();
        }
    }

    /// Reports the accesses of the host to protected pages.
    pub fn report_accesses(&mut self) {
        for access in guard::take() {
            let Some(opened) = self.guards.opened(access.address) else { continue };
            if let Some(finding) = self.host_race(&access) {
                self.report_host(&finding);
            }
            self.order.forget_pages(&opened);
        }
    }

    fn host_race(&self, access: &HostAccess) -> Option<HostFinding> {
        let found = self.order.pending_at(access.address)?;
        let (base, allocation) = self.allocation(access.address)?;
        let how = match access.writes {
            Some(true) => "writes",
            Some(false) => "reads",
            None => "accesses",
        };
        let theirs = match found.forbidden {
            Forbidden::Accesses => "writes",
            Forbidden::Writes => "reads",
        };
        Some(
            HostFinding::new(
                HostClass::StreamRace,
                format!("the host {how} memory that {} {theirs}, and no synchronization orders them", found.name),
            )
            .at(format!("the host {how} it"), access.site)
            .at(format!("{}, which {theirs} it", found.name), found.site)
            .at("the allocation", allocation.site)
            .note(format!(
                "byte {} of an allocation of {} bytes of {}",
                access.address - base,
                allocation.size,
                named(allocation.kind)
            ))
            .help("synchronize with the stream, or wait for an event after the work, before the host uses the memory"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_are_protected() {
        let allocation = 0x1_0000..0x1_2800;
        let list = |pairs: &[(u64, u64)]| pairs.iter().map(|(start, end)| *start..*end).collect::<Vec<_>>();
        let protected = |pairs: &[(u64, u64)]| whole(&list(pairs), &allocation);
        assert_eq!(protected(&[(0, 0x1_0fff)]), list(&[]));
        assert_eq!(protected(&[(0x1_0000, 0x1_1001)]), list(&[(0x1_0000, 0x1_1000)]));
        // The rest of the last page belongs to the allocation.
        assert_eq!(protected(&[(0x1_1000, 0x1_2800)]), list(&[(0x1_1000, 0x1_3000)]));
        let half = (0x1_0000, 0x1_0800);
        assert_eq!(protected(&[half, (0x1_0800, 0x1_1000)]), list(&[(0x1_0000, 0x1_1000)]));
        assert_eq!(protected(&[half, (0x1_0801, 0x1_1000)]), list(&[]));
    }

    #[test]
    fn the_stricter_protection_counts() {
        let pages = |range, forbidden| Pages { range, forbidden };
        let (reads, all) = (Forbidden::Writes, Forbidden::Accesses);
        let list = [pages(0..30, reads), pages(10..20, all), pages(20..30, all), pages(50..60, reads)];
        let strict = strictest(list.iter());
        assert_eq!(strict, [pages(0..10, reads), pages(10..30, all), pages(50..60, reads)]);
    }
}
