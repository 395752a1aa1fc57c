//! Tensor maps that a kernel changes.
//!
//! Threads change a map through the generic proxy (`tensormap.replace`, `tensormap.cp_fenceproxy`), copies read it through the
//! tensormap proxy. Between the two, the thread that changed it must execute a release (`fence.proxy.tensormap::generic.release`, or
//! `tensormap.cp_fenceproxy`, which contains one), and the thread that uses it an acquire that names its address. Reported: a copy
//! with a map in global memory that the block has changed, if the release or the acquire is missing. Source:
//! `fence.proxy.tensormap` and the section on proxies in the PTX manual.
//!
//! Can miss: a map that another block changed, or that stores wrote; a fence of another thread of the block that is not ordered
//! with the change or the use. Never reports a map that no instruction of the block has changed.

use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use std::collections::BTreeMap;
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{MapAction, MapUse};

/// The last change of a map.
#[derive(Clone, Copy, Debug)]
struct Change {
    thread: u32,
    pc: u32,
    released: bool,
    acquired: bool,
}

/// The maps in global memory that a block has changed, by address.
#[derive(Debug, Default)]
pub(crate) struct Maps(BTreeMap<u64, Change>);

impl Maps {
    pub(crate) fn used(&mut self, raw_findings: &mut RawFindings, block: u32, used: &MapUse) {
        let thread = used.warp * 32 + used.lane;
        let (space, address) = used.place;
        match used.action {
            MapAction::Changed if space == Space::Global => {
                let change = Change { thread, pc: used.pc, released: false, acquired: false };
                self.0.insert(address, change);
            }
            MapAction::Changed => {}
            MapAction::Released => self.0.values_mut().for_each(|change| change.released = true),
            MapAction::Acquired => {
                if let Some(change) = self.0.get_mut(&address).filter(|change| change.released) {
                    change.acquired = true;
                }
            }
            MapAction::Used => {
                if let Some(change) = self.0.get(&address).filter(|change| !change.acquired) {
                    report(raw_findings, block, (change, used.pc, thread));
                }
            }
        }
    }
}

fn report(raw_findings: &mut RawFindings, block: u32, (change, pc, thread): (&Change, u32, u32)) {
    let (missing, help) = if change.released {
        (
            "fence.proxy.tensormap::generic.acquire",
            "execute fence.proxy.tensormap::generic.acquire.gpu with the address of the map before the copy, in the thread that \
             issues it",
        )
    } else {
        (
            "fence.proxy.tensormap::generic.release",
            "execute fence.proxy.tensormap::generic.release.gpu after the change, in the thread that makes it, and \
             fence.proxy.tensormap::generic.acquire.gpu before the copy",
        )
    };
    raw_findings.add((Class::TensorMap, change.pc, pc, 0), Severity::Error, || Raw {
        class: Class::TensorMap,
        severity: Severity::Error,
        sentence: format!(
            "a copy uses a tensor map that the kernel has changed, without {missing} in between"
        ),
        spots: vec![
            Spot { label: "the copy".to_owned(), pc, thread: Some((block, thread)) },
            Spot {
                label: "changed through the generic proxy".to_owned(),
                pc: change.pc,
                thread: Some((block, change.thread)),
            },
        ],
        notes: vec!["the copy may use the map as it was before the change".to_owned()],
        help: Some(help.to_owned()),
        count: 1,
    });
}
