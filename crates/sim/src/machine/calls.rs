//! Calls: how arguments are passed, and which registers a recursive function saves.

use super::subwarp::Saved;
use super::{Flow, Frame, Row, Warp, Width, at};
use crate::isa::map::merge;
use crate::memory::FUNCTION_WINDOW;
use crate::observe::Holder;
use crate::stop::{Blame, StopKind};
use std::sync::Arc;

/// Stack bytes per call for the return address.
const RETURN_BYTES: u64 = 16;

/// A device function that can be called.
#[derive(Clone, Debug, Default)]
pub struct Callee {
    /// Its name.
    pub name: String,
    /// Its first instruction; `None` if the module only declares it.
    pub entry: Option<u32>,
    /// Bytes of its frame.
    pub frame: u32,
    /// The largest alignment of a variable in its frame.
    pub align: u32,
    /// Whether it may be active already when it is called (recursion), so that its registers must be saved.
    pub recursive: bool,
    /// The rows of each file that are its registers: w32, w64, w128, predicates.
    pub rows: [(u32, u32); 4],
}

impl Callee {
    /// Bytes of one thread's registers.
    fn kept(&self) -> u64 {
        let bytes = |i: usize, each: u64| u64::from(self.rows[i].1.saturating_sub(self.rows[i].0)) * each;
        bytes(0, 4) + bytes(1, 8) + bytes(2, 16) + bytes(3, 1)
    }
}

/// A value that a call or a return passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Bytes copied from one frame to the other.
    Memory {
        /// Offset in the source frame.
        from: u32,
        /// Offset in the destination frame.
        to: u32,
        /// Bytes.
        size: u32,
    },
    /// A register row of the caller into the callee's frame, or back.
    Register {
        /// The file.
        width: Width,
        /// The row.
        row: u32,
        /// Offset in the other frame.
        offset: u32,
        /// Bytes.
        size: u32,
    },
}

impl Transfer {
    fn bytes(&self) -> u64 {
        match self {
            Transfer::Memory { size, .. } | Transfer::Register { size, .. } => u64::from(*size),
        }
    }
}

/// One `call` instruction.
#[derive(Clone, Debug, Default)]
pub struct CallSite {
    /// The instruction after the call.
    pub resume: u32,
    /// Bytes of the caller's frame.
    pub frame: u32,
    /// From the caller to the callee.
    pub arguments: Vec<Transfer>,
    /// From the callee to the caller.
    pub results: Vec<Transfer>,
}

impl Warp<'_, '_> {
    /// Calls a function for the lanes in `exec`.
    pub fn call(&mut self, site: u32, callee: u32) -> Flow {
        let program = self.grid.program;
        let (Some(call), Some(function)) =
            (program.call_sites.get(at(site)), program.callees.get(at(callee)))
        else {
            return self.halt(Blame::Bug, StopKind::Internal, "the call site does not exist".into());
        };
        let Some(entry) = function.entry else {
            let name = &function.name;
            // CUDA's device runtime (dynamic parallelism): kernels that launch kernels.
            if name.starts_with("cuda") || name.starts_with("__cuda") {
                return self.unsupported(format!("the device function `{name}` is not supported"));
            }
            let sentence = format!("the function `{name}` is declared but not defined in this module");
            return self.halt(Blame::Input, StopKind::Malformed, sentence);
        };
        if self.exec != self.state.subwarp.mask {
            // The lanes that do not call continue on their own.
            let mut rest = self.state.subwarp.clone();
            rest.mask &= !self.exec;
            rest.pc = self.pc + 1;
            self.state.parked.push(rest);
            self.state.subwarp.mask = self.exec;
        }
        let old = self.state.subwarp.sp;
        let dynamic = self.state.subwarp.dynamic;
        let frame = old.saturating_add(call.frame).saturating_add(dynamic);
        let sp = frame.checked_next_multiple_of(function.align.max(16)).unwrap_or(u32::MAX);
        let top = sp.saturating_add(function.frame);
        // Data that a call saves outside its frame is on the thread's stack too.
        let kept = self.state.subwarp.frames.last().map_or(0, |frame| frame.kept)
            + RETURN_BYTES
            + if function.recursive { function.kept() } else { 0 };
        if u64::from(top).saturating_add(kept) > self.grid.limits.stack {
            let sentence = format!(
                "the stack of a thread exceeded {} bytes in `{}`",
                self.grid.limits.stack, function.name
            );
            return self.halt(Blame::Limit, StopKind::Limit, sentence);
        }
        let fits = |transfer: &Transfer| match *transfer {
            Transfer::Memory { to, size, .. } => to.saturating_add(size) <= function.frame,
            Transfer::Register { offset, size, .. } => offset.saturating_add(size) <= function.frame,
        };
        let returned = |transfer: &Transfer| match *transfer {
            Transfer::Memory { from, size, .. } => from.saturating_add(size) <= function.frame,
            Transfer::Register { .. } => fits(transfer),
        };
        if !call.arguments.iter().all(fits) || !call.results.iter().all(returned) {
            let sentence =
                format!("the function `{}` is called with a prototype that does not match it", function.name);
            return self.halt(Blame::Kernel, StopKind::Malformed, sentence);
        }
        self.state.local.grow(top);
        self.framed(sp..top);
        let saved = function.recursive.then(|| Arc::new(self.save(&function.rows)));
        let moved = call
            .arguments
            .iter()
            .chain(&call.results)
            .fold(u64::from(saved.is_some()) * function.kept(), |n, t| n + t.bytes());
        self.state.extra = self.state.extra.saturating_add(moved / super::warp::WORK_UNIT);
        for transfer in &call.arguments {
            self.transfer(*transfer, old, sp, true);
        }
        let subwarp = &mut self.state.subwarp;
        subwarp.frames.push(Frame { site, callee, sp: old, dynamic, kept, saved });
        subwarp.dynamic = 0;
        subwarp.sp = sp;
        subwarp.pc = entry;
        Flow::Split
    }

    /// Calls the function at each lane's address.
    pub fn call_indirect(&mut self, site: u32, addresses: &Row<u64>) -> Flow {
        let first = addresses.0[at(self.first_lane())];
        let same = super::access::lanes_of(self.exec)
            .filter(|&lane| addresses.0[lane] == first)
            .fold(0u32, |mask, lane| mask | 1 << lane);
        let number = first.wrapping_sub(FUNCTION_WINDOW) / 16;
        let valid = first >= FUNCTION_WINDOW && first.is_multiple_of(16);
        let callee = u32::try_from(number).ok().filter(|n| valid && at(*n) < self.grid.program.callees.len());
        let Some(callee) = callee else {
            let sentence = format!("call through {first:#x}, which is not the address of a function");
            return self.halt(Blame::Kernel, StopKind::Bounds, sentence);
        };
        if same != self.exec {
            // Lanes that call another function execute this instruction again.
            let mut others = self.state.subwarp.clone();
            others.mask = self.exec & !same;
            others.pc = self.pc;
            self.state.parked.push(others);
            let idle = self.state.subwarp.mask & !self.exec;
            if idle != 0 {
                let mut rest = self.state.subwarp.clone();
                rest.mask = idle;
                rest.pc = self.pc + 1;
                self.state.parked.push(rest);
            }
            self.state.subwarp.mask = same;
            self.exec = same;
        }
        self.call(site, callee)
    }

    /// Returns from a function for the lanes in `exec`; returning from the kernel itself is an exit.
    pub fn ret(&mut self) -> Flow {
        if self.state.subwarp.frames.is_empty() {
            return self.exit();
        }
        if self.exec != self.state.subwarp.mask {
            let mut rest = self.state.subwarp.clone();
            rest.mask &= !self.exec;
            rest.pc = self.pc + 1;
            self.state.parked.push(rest);
            self.state.subwarp.mask = self.exec;
        }
        let Some(frame) = self.state.subwarp.frames.pop() else { return Flow::Split };
        let program = self.grid.program;
        let Some(site) = program.call_sites.get(at(frame.site)) else { return Flow::Split };
        let inner = self.state.subwarp.sp;
        self.state.subwarp.sp = frame.sp;
        self.state.subwarp.dynamic = frame.dynamic;
        self.state.subwarp.pc = site.resume;
        // Restores the callee's registers before the results arrive: a recursive function may store a result into its own
        // registers.
        if let (Some(saved), Some(function)) = (frame.saved, program.callees.get(at(frame.callee))) {
            self.restore(&saved, &function.rows);
        }
        for transfer in &site.results {
            self.transfer(*transfer, inner, frame.sp, false);
        }
        Flow::Split
    }

    fn passes_stack(&self, top: u32) -> bool {
        u64::from(top) > self.grid.limits.stack
    }

    /// The end of the static frame of the current function.
    fn frame_end(&self) -> u32 {
        let program = self.grid.program;
        let current =
            self.state.subwarp.frames.last().and_then(|frame| program.callees.get(at(frame.callee)));
        self.state.subwarp.sp + current.map_or(program.frame, |function| function.frame)
    }

    /// The end of the stack of the lanes in `exec`.
    pub fn stack_top(&self) -> u32 {
        self.frame_end() + self.state.subwarp.dynamic
    }

    /// Allocates this number of bytes in the current frame for every lane in `exec`, and returns the address.
    pub fn allocate(&mut self, bytes: u64, align: u32) -> Result<u32, Flow> {
        let start = self.stack_top().checked_next_multiple_of(align).unwrap_or(u32::MAX);
        let top = u32::try_from(u64::from(start).saturating_add(bytes)).unwrap_or(u32::MAX);
        if self.passes_stack(top) {
            let sentence =
                format!("the stack of a thread exceeded {} bytes in `alloca`", self.grid.limits.stack);
            return Err(self.halt(Blame::Limit, StopKind::Limit, sentence));
        }
        self.state.local.grow(top);
        self.framed(start..top);
        self.state.subwarp.dynamic = top - self.frame_end();
        Ok(start)
    }

    /// Frees everything allocated since the stack ended at `top`.
    pub fn release(&mut self, top: u64) {
        let kept = top.saturating_sub(u64::from(self.frame_end()));
        let dynamic = self.state.subwarp.dynamic;
        self.state.subwarp.dynamic = u32::try_from(kept).map_or(dynamic, |kept| kept.min(dynamic));
    }

    fn transfer(&mut self, transfer: Transfer, from_sp: u32, to_sp: u32, into_callee: bool) {
        let lanes = self.exec;
        match transfer {
            Transfer::Memory { from, to, size } => {
                self.handed(Holder::Local(from_sp + from), Holder::Local(to_sp + to), size);
                for offset in (0..size).step_by(4) {
                    let piece = (size - offset).min(4);
                    let (source, target) = (from_sp + from + offset, to_sp + to + offset);
                    if piece == 4 && source % 4 == 0 && target % 4 == 0 {
                        if let (Some(row), true) = (self.state.local.row(source / 4).copied(), true)
                            && let Some(slot) = self.state.local.row_mut(target / 4)
                        {
                            merge(slot, &row, lanes);
                        }
                    } else {
                        for lane in super::access::lanes_of(lanes) {
                            for i in 0..piece {
                                let byte: [u8; 1] = self.state.local.read(lane, source + i);
                                self.state.local.write(lane, target + i, byte);
                            }
                        }
                    }
                }
            }
            Transfer::Register { width, row, offset, size } => {
                let base = if into_callee { to_sp } else { from_sp };
                let (register, local) = (Holder::Register(width, row), Holder::Local(base + offset));
                if into_callee {
                    self.handed(register, local, size.min(16));
                } else {
                    self.handed(local, register, size.min(16));
                }
                let mut values = self.get_row(width, row);
                for lane in super::access::lanes_of(lanes) {
                    for i in 0..size.min(16) {
                        if into_callee {
                            let byte = values.0[lane].to_le_bytes()[at(i)];
                            self.state.local.write(lane, base + offset + i, [byte]);
                        } else {
                            let byte: [u8; 1] = self.state.local.read(lane, base + offset + i);
                            let keep = values.0[lane] & !(0xff << (8 * i));
                            values.0[lane] = keep | u128::from(byte[0]) << (8 * i);
                        }
                    }
                }
                if !into_callee {
                    self.put_row(width, row, &values);
                }
            }
        }
    }

    /// Loads a row from the current frame.
    pub fn frame_to_row(&mut self, width: Width, row: u32, offset: u32, size: u32) {
        let sp = self.state.subwarp.sp;
        self.transfer(Transfer::Register { width, row, offset, size }, sp, sp, false);
    }

    /// Stores a row into the current frame.
    pub fn row_to_frame(&mut self, width: Width, row: u32, offset: u32, size: u32) {
        let sp = self.state.subwarp.sp;
        self.transfer(Transfer::Register { width, row, offset, size }, sp, sp, true);
    }

    /// A row of any file, widened.
    pub fn get_row(&self, width: Width, row: u32) -> Row<u128> {
        let mut out = Row([0u128; 32]);
        let regs = &self.state.regs;
        for (lane, value) in out.0.iter_mut().enumerate() {
            *value = match width {
                Width::Pred => u128::from(regs.preds[at(row)] >> lane & 1),
                Width::W32 => u128::from(regs.w32[at(row)].0[lane]),
                Width::W64 => u128::from(regs.w64[at(row)].0[lane]),
                Width::W128 => regs.w128[at(row)].0[lane],
            };
        }
        out
    }

    /// Writes a row of any file for the lanes in `exec`.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "narrowed to the width of the file"
    )]
    pub fn put_row(&mut self, width: Width, row: u32, value: &Row<u128>) {
        let lanes = self.exec;
        for lane in super::access::lanes_of(lanes) {
            let regs = &mut self.state.regs;
            match width {
                Width::Pred => {
                    let p = &mut regs.preds[at(row)];
                    *p = *p & !(1 << lane) | u32::from(value.0[lane] & 1 != 0) << lane;
                }
                Width::W32 => regs.w32[at(row)].0[lane] = value.0[lane] as u32,
                Width::W64 => regs.w64[at(row)].0[lane] = value.0[lane] as u64,
                Width::W128 => regs.w128[at(row)].0[lane] = value.0[lane],
            }
        }
    }

    fn save(&self, rows: &[(u32, u32); 4]) -> Saved {
        let regs = &self.state.regs;
        let range = |i: usize| at(rows[i].0)..at(rows[i].1);
        Saved {
            w32: regs.w32[range(0)].to_vec(),
            w64: regs.w64[range(1)].to_vec(),
            w128: regs.w128[range(2)].to_vec(),
            preds: regs.preds[range(3)].to_vec(),
        }
    }

    fn restore(&mut self, saved: &Saved, rows: &[(u32, u32); 4]) {
        let lanes = self.exec;
        let regs = &mut self.state.regs;
        for (row, old) in regs.w32[at(rows[0].0)..].iter_mut().zip(&saved.w32) {
            merge(row, old, lanes);
        }
        for (row, old) in regs.w64[at(rows[1].0)..].iter_mut().zip(&saved.w64) {
            merge(row, old, lanes);
        }
        for (row, old) in regs.w128[at(rows[2].0)..].iter_mut().zip(&saved.w128) {
            merge(row, old, lanes);
        }
        for (p, old) in regs.preds[at(rows[3].0)..].iter_mut().zip(&saved.preds) {
            *p = *p & !lanes | *old & lanes;
        }
    }
}
