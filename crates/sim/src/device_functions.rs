//! Functions that the device itself provides to kernels: `vprintf`, `__assertfail`, `malloc`, `free`.

use crate::machine::{Flow, Warp, lanes_of};
use crate::memory::{Global, HeapError, Space};
use crate::observe::Holder;
use crate::stop::{Blame, StopKind};
use warpproof_num::printf;

/// A provided function.
#[derive(Clone, Copy)]
pub(crate) struct Provided {
    /// Runs it for the lanes in `exec`.
    pub run: Function,
    /// Whether blocks can communicate through it.
    pub communicates: bool,
}

/// The warp, and the offsets of arguments and results in the caller's frame.
pub(crate) type Function = fn(&mut Warp<'_, '_>, &[u32], &[u32]) -> Flow;

/// The function with a name.
pub(crate) fn find(name: &str) -> Option<Provided> {
    let (run, communicates): (Function, bool) = match name {
        "vprintf" => (vprintf, false),
        "__assertfail" => (assertfail, false),
        "malloc" => (malloc, true),
        "free" => (free, true),
        _ => return None,
    };
    Some(Provided { run, communicates })
}

/// The name of allocations that kernels made.
const KERNEL_MALLOC: &str = "malloc in a kernel";

/// The maximum length of a string argument.
const MAX_STRING: usize = 64 * 1024;

fn argument(w: &Warp<'_, '_>, lane: usize, offset: u32) -> u64 {
    u64::from_le_bytes(w.state.local.read(lane, w.state.subwarp.sp + offset))
}

fn result(w: &mut Warp<'_, '_>, lane: usize, offset: Option<&u32>, bytes: &[u8]) {
    if let Some(offset) = offset {
        let start = w.state.subwarp.sp + offset;
        for (at, byte) in (start..).zip(bytes) {
            w.state.local.write(lane, at, [*byte]);
        }
        w.handed(Holder::Device, Holder::Local(start), u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    }
}

/// A zero-terminated string at a generic address.
fn string(w: &mut Warp<'_, '_>, lane: usize, address: u64, most: usize) -> Result<Vec<u8>, Flow> {
    let mut out = Vec::new();
    while out.len() < most.min(MAX_STRING) {
        let (space, at) = Space::resolve(address.wrapping_add(u64::try_from(out.len()).unwrap_or(0)));
        let byte = w
            .probe(space, at, 1, false)
            .and_then(|()| w.read_lane(space, lane, at, 1))
            .map_err(|fault| w.fault(lane, fault, crate::machine::AccessKind::Read, 1))?;
        if byte == 0 {
            break;
        }
        out.push(u8::try_from(byte & 0xff).unwrap_or(0));
    }
    Ok(out)
}

fn vprintf(w: &mut Warp<'_, '_>, arguments: &[u32], results: &[u32]) -> Flow {
    let &[format, list] = arguments else {
        return w.halt(Blame::Input, StopKind::Malformed, "vprintf takes two arguments".into());
    };
    let mut bytes = 0;
    for lane in lanes_of(w.exec) {
        let (format, list) = (argument(w, lane, format), argument(w, lane, list));
        let text = match string(w, lane, format, MAX_STRING) {
            Ok(text) => text,
            Err(flow) => return flow,
        };
        let mut offset = 0u64;
        let mut flow = None;
        let room = usize::try_from(w.grid.limits.output).unwrap_or(usize::MAX).saturating_add(1);
        let printed = printf::format(&text, room, &mut |want| match want {
            printf::Want::Bytes(size) => {
                let size = u64::from(size);
                offset = offset.next_multiple_of(size);
                let (space, at) = Space::resolve(list.wrapping_add(offset));
                offset += size;
                let bytes = u32::try_from(size).unwrap_or(8);
                let value =
                    w.probe(space, at, bytes, false).and_then(|()| w.read_lane(space, lane, at, bytes));
                match value {
                    Ok(value) => printf::Got::Bits(u64::try_from(value).unwrap_or(0)),
                    Err(fault) => {
                        flow = Some(w.fault(lane, fault, crate::machine::AccessKind::Read, bytes));
                        printf::Got::Bits(0)
                    }
                }
            }
            printf::Want::String(address, most) => match string(w, lane, address, most.min(room)) {
                Ok(text) => printf::Got::Text(text),
                Err(stop) => {
                    flow = Some(stop);
                    printf::Got::Text(Vec::new())
                }
            },
        });
        if let Some(flow) = flow {
            return flow;
        }
        let count = i32::try_from(printed.arguments).unwrap_or(i32::MAX);
        bytes += text.len() + printed.text.len();
        w.cta.output.extend(printed.text);
        if u64::try_from(w.cta.output.len()).unwrap_or(u64::MAX) > w.grid.limits.output {
            let sentence = format!("printf printed more than {} bytes", w.grid.limits.output);
            return w.halt(Blame::Limit, StopKind::Limit, sentence);
        }
        result(w, lane, results.first(), &count.to_le_bytes());
    }
    w.worked(bytes)
}

fn assertfail(w: &mut Warp<'_, '_>, arguments: &[u32], _: &[u32]) -> Flow {
    let lane = usize::try_from(w.first_lane()).unwrap_or(0);
    let mut parts = Vec::new();
    for index in [0, 1, 3] {
        let Some(offset) = arguments.get(index) else { break };
        let address = argument(w, lane, *offset);
        match string(w, lane, address, MAX_STRING) {
            Ok(text) => parts.push(String::from_utf8_lossy(&text).into_owned()),
            Err(flow) => return flow,
        }
    }
    let line = arguments
        .get(2)
        .map_or(0, |offset| u32::from_le_bytes(w.state.local.read(lane, w.state.subwarp.sp + offset)));
    let sentence = match parts.as_slice() {
        [what, file, function] => format!("assertion `{what}` failed in {function} at {file}:{line}"),
        _ => "an assertion failed".to_owned(),
    };
    w.halt(Blame::Kernel, StopKind::Trap, sentence)
}

fn malloc(w: &mut Warp<'_, '_>, arguments: &[u32], results: &[u32]) -> Flow {
    let Some(&size) = arguments.first() else { return Flow::Next };
    for lane in lanes_of(w.exec) {
        let bytes = argument(w, lane, size);
        let address = match w.global {
            Global::Direct(heap) => heap.allocate(KERNEL_MALLOC, bytes),
            Global::Overlay(..) => Ok(0),
        };
        let address = match address {
            Ok(address) => address,
            // As on a device, `malloc` returns null when the heap is full.
            Err(HeapError::OutOfMemory { .. }) => 0,
            Err(error) => return w.halt(Blame::Limit, StopKind::Limit, format!("malloc: {error}")),
        };
        if let (Some(watch), true) = (w.watch.as_deref_mut(), address != 0) {
            watch.allocated(address, bytes);
        }
        result(w, lane, results.first(), &address.to_le_bytes());
    }
    Flow::Next
}

fn free(w: &mut Warp<'_, '_>, arguments: &[u32], _: &[u32]) -> Flow {
    let Some(&pointer) = arguments.first() else { return Flow::Next };
    for lane in lanes_of(w.exec) {
        let address = argument(w, lane, pointer);
        let freed = match w.global {
            Global::Direct(heap) if address != 0 => {
                let found = heap.locate(address, 0).map(|index| heap.allocation(index).name.clone());
                if found.is_ok_and(|name| name != KERNEL_MALLOC) {
                    Err(format!("{address:#x} was not allocated by malloc in a kernel"))
                } else {
                    heap.free(address).map_err(|error| error.to_string())
                }
            }
            _ => Ok(()),
        };
        if let Err(error) = freed {
            return w.halt(Blame::Kernel, StopKind::Bounds, format!("free: {error}"));
        }
    }
    Flow::Next
}
