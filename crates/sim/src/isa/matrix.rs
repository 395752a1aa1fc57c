//! Transfers of matrices between shared memory and registers: `ldmatrix`, `stmatrix`, `movmatrix`.

mod bytes;

use super::map::merge;
use super::memory::space_of;
use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Flow, LANES, Row, Type, Width, at};

pub(super) use bytes::DEFINITIONS as BYTES;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "ldmatrix.sync{.aligned}.m8n8.num{.trans}{.ss}.b16 r, [p]; .num = .x1 .x2 .x4; .ss = .shared .shared::cta",
        manual: "warp-level-matrix-instructions-ldmatrix",
        unit: Unit::Lsu,
        since: (6, 5, 75),
        bind: bind_plain!(ldmatrix),
    },
    Definition {
        form: "stmatrix.sync{.aligned}.m8n8.num{.trans}{.ss}.b16 [p], r; .num = .x1 .x2 .x4; .ss = .shared .shared::cta",
        manual: "warp-level-matrix-instructions-stmatrix",
        unit: Unit::Lsu,
        since: (7, 8, 90),
        bind: bind_plain!(stmatrix),
    },
    Definition {
        form: "movmatrix.sync{.aligned}.m8n8.trans.b16 d, a",
        manual: "warp-level-matrix-instructions-movmatrix",
        unit: Unit::Lsu,
        since: (7, 8, 75),
        bind: bind_plain!(movmatrix),
    },
];

fn count(spec: &Spec<'_>) -> usize {
    match spec.get("num") {
        Some("x1") => 1,
        Some("x2") => 2,
        _ => 4,
    }
}

/// Rows of 16 bytes: lane `8 i + r` gives the address of row `r` of matrix `i`.
fn ldmatrix(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (matrices, trans) = (count(spec), spec.has("trans"));
    let space = space_of(spec.get("ss"));
    Ok(Bound::fallible([Slot::DstVec(vec![Width::W32; matrices]), Slot::Address], move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let all = w.exec;
        let addresses = w.addresses(args.at[0]);
        // Only the lanes that give a row address read memory.
        w.exec = all & if matrices == 4 { u32::MAX } else { (1 << (8 * matrices)) - 1 };
        let words: Result<[Row<u32>; 4], Flow> = w.load_at(space, &addresses, 16);
        w.exec = all;
        let words = words?;
        for (i, row) in args.all.iter().enumerate().take(matrices) {
            let half = |r: usize, c: usize| words[c / 2].0[8 * i + r] >> (16 * (c % 2)) & 0xffff;
            let mut value = Row([0u32; LANES]);
            for lane in 0..LANES {
                let (g, t) = (lane / 4, lane % 4);
                value.0[lane] =
                    if trans { half(2 * t, g) | half(2 * t + 1, g) << 16 } else { words[t].0[8 * i + g] };
            }
            merge(&mut w.state.regs.w32[at(*row)], &value, w.exec);
        }
        Ok(Flow::Next)
    }))
}

fn stmatrix(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (matrices, trans) = (count(spec), spec.has("trans"));
    let space = space_of(spec.get("ss"));
    Ok(Bound::fallible([Slot::Address, Slot::SrcVec(vec![Type::B32; matrices])], move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let all = w.exec;
        let addresses = w.addresses(args.at[0]);
        let mut words = [Row([0u32; LANES]); 4];
        for (i, row) in args.all.iter().enumerate().take(matrices) {
            let value = &w.state.regs.w32[at(*row)];
            for lane in 0..LANES {
                let (g, t) = (lane / 4, lane % 4);
                let word = value.0[lane];
                if trans {
                    for (r, half) in [(2 * t, word & 0xffff), (2 * t + 1, word >> 16)] {
                        words[g / 2].0[8 * i + r] |= half << (16 * (g % 2));
                    }
                } else {
                    words[t].0[8 * i + g] = word;
                }
            }
        }
        w.exec = all & if matrices == 4 { u32::MAX } else { (1 << (8 * matrices)) - 1 };
        let stored = w.store_at(space, &addresses, 16, &words);
        w.exec = all;
        stored?;
        Ok(Flow::Next)
    }))
}

fn movmatrix(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Dst(Width::W32), Slot::Src(Type::B32)], |w, args| {
        if !w.gather_warp() {
            return Flow::Wait;
        }
        let source = w.state.regs.w32[at(args.o[1])];
        let half = |row: usize, column: usize| source.0[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
        let mut value = Row([0u32; LANES]);
        for lane in 0..LANES {
            let (g, t) = (lane / 4, lane % 4);
            value.0[lane] = half(2 * t, g) | half(2 * t + 1, g) << 16;
        }
        merge(&mut w.state.regs.w32[at(args.o[0])], &value, w.exec);
        Flow::Next
    }))
}
