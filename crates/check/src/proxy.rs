//! Shared memory that threads write and the async proxy reads: operands of `wgmma`, sources of bulk copies.
//!
//! Threads access memory through the generic proxy, `wgmma` and bulk copies through the async proxy. A barrier alone does not order the two; a
//! `fence.proxy.async` between the write and the read does. Reported: a read by the async proxy of a word whose last write is by
//! a thread, if neither that thread has executed the fence since, nor any thread after it synchronized with others. Source: the
//! memory consistency model of the PTX manual, "async proxy".
//!
//! Can miss: a fence of a thread that is not ordered after the write, if some synchronization of the block happened in
//! between; a write by a thread of another block of the cluster; global memory. Never reports a write whose own thread has executed the fence.

use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::{Class, Severity};
use warpproof_sim::isa::Op;
use warpproof_sim::machine::{Access, AccessKind, at, lanes_of};
use warpproof_sim::observe::AsyncCopy;

/// The last write of a word by a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    /// In the block's count of fences; 0 if there is none.
    time: u64,
    /// The block's count of synchronizations.
    syncs: u64,
    thread: u32,
    pc: u32,
}

/// The shared memory of a block as the async proxy sees it.
#[derive(Debug)]
pub(crate) struct Proxy {
    words: Vec<Write>,
    /// Fences so far, plus one.
    time: u64,
    /// When each thread executed its last fence.
    fenced: Vec<u64>,
    /// How often threads of the block synchronized.
    syncs: u64,
    /// The same when the last fence was executed.
    fenced_syncs: u64,
}

impl Proxy {
    pub(crate) fn new(shared: u32, threads: u32) -> Proxy {
        Proxy {
            words: vec![Write::default(); at(shared.div_ceil(4))],
            time: 1,
            fenced: vec![0; at(threads.next_multiple_of(32))],
            syncs: 0,
            fenced_syncs: 0,
        }
    }

    /// Threads of the block synchronized.
    pub(crate) fn synchronized(&mut self) {
        self.syncs += 1;
    }

    /// Lanes execute a fence between the proxies.
    pub(crate) fn fence(&mut self, warp: u32, lanes: u32) {
        self.time += 1;
        self.fenced_syncs = self.syncs;
        for lane in lanes_of(lanes) {
            if let Some(fenced) = self.fenced.get_mut(at(warp) * 32 + lane) {
                *fenced = self.time;
            }
        }
    }

    /// An access of threads to shared memory.
    pub(crate) fn access(&mut self, access: &Access<'_>) {
        if access.kind == AccessKind::Atomic {
            self.syncs += 1;
        }
        if access.kind == AccessKind::Read {
            return;
        }
        for lane in lanes_of(access.lanes) {
            let Ok(address) = u32::try_from(access.addresses.0[lane]) else { continue };
            let thread = access.warp * 32 + u32::try_from(lane).unwrap_or(0);
            self.write(address, access.bytes, thread, access.pc);
        }
    }

    /// A `cp.async` is complete: it writes through the generic proxy.
    pub(crate) fn copied(&mut self, copy: &AsyncCopy) {
        self.write(copy.to, copy.size, copy.warp * 32 + copy.lane, copy.pc);
    }

    fn write(&mut self, address: u32, bytes: u32, thread: u32, pc: u32) {
        let write = Write { time: self.time, syncs: self.syncs, thread, pc };
        for word in address / 4..address.saturating_add(bytes).div_ceil(4) {
            if let Some(known) = self.words.get_mut(at(word)) {
                *known = write;
            }
        }
    }

    /// The async proxy writes these bytes: what threads wrote there before is gone.
    pub(crate) fn overwritten(&mut self, address: u32, bytes: u32) {
        for word in address / 4..address.saturating_add(bytes).div_ceil(4) {
            if let Some(known) = self.words.get_mut(at(word)) {
                *known = Write::default();
            }
        }
    }

    /// The instruction at `pc` reads pieces of shared memory through the async proxy: their addresses, and the bytes of each.
    pub(crate) fn read(
        &self,
        context: &Context,
        block: u32,
        raw_findings: &mut RawFindings,
        pc: u32,
        (pieces, bytes): (&[u32], u32),
    ) {
        for piece in pieces {
            let first = at(piece / 4);
            let Some(words) = self.words.get(first..first + at(bytes.div_ceil(4))) else { continue };
            let fenced = |write: &Write| self.fenced.get(at(write.thread)).copied().unwrap_or(0);
            let exposed = |write: &&Write| {
                write.time != 0 && fenced(write) <= write.time && self.fenced_syncs <= write.syncs
            };
            let Some(write) = words.iter().find(exposed) else { continue };
            let key = (Class::Proxy, write.pc, pc, 0);
            raw_findings.add(key, Severity::Error, || {
                let name = context.shared_name(*piece).map_or(String::new(), |name| format!(" of `{name}`"));
                let reader = if matches!(context.program.op(pc), Op::Bulk(_)) { "a bulk copy" } else { "wgmma" };
                Raw {
                    class: Class::Proxy,
                    severity: Severity::Error,
                    sentence: format!(
                        "{reader} reads shared memory{name} that a thread has written, without fence.proxy.async in between"
                    ),
                    spots: vec![
                        Spot {
                            label: format!("{} through the generic proxy", context.verb(write.pc, true)),
                            pc: write.pc,
                            thread: Some((block, write.thread)),
                        },
                        Spot { label: "read through the async proxy".to_owned(), pc, thread: None },
                    ],
                    notes: vec!["a barrier orders threads, but not the generic proxy and the async proxy".to_owned()],
                    help: Some(
                        "execute fence.proxy.async in every thread that writes, after its writes and before the barrier"
                            .to_owned(),
                    ),
                    count: 1,
                }
            });
        }
    }
}
