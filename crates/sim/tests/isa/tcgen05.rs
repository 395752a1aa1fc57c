//! Tensor memory: allocation, and loads and stores of every shape.
#![expect(clippy::unwrap_used, clippy::format_push_string, reason = "a panic fails the test")]

use crate::harness::launch;
use warpproof_sim::{Blame, Buffer, Device, Stop, StopKind};

/// Columns that the kernels allocate.
pub(crate) const COLUMNS: usize = 512;

pub(crate) fn list(prefix: &str, from: usize, count: usize) -> String {
    let names: Vec<String> = (from..from + count).map(|i| format!("%{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A block of 128 threads. `%mem` is the address of the allocated columns, `%own` the same at the first lane of the warp, `%row`
/// and `%result` are the global addresses of the thread's row of words; `%t` is the thread.
pub(crate) fn kernel(words: usize, registers: usize, body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{
        .shared .align 16 .b8 slot[16]; .shared .align 1024 .b8 tile[40960];
        .reg .b32 %t, %mem, %own, %x, %y; .reg .b64 %row, %result, %p, %q, %da, %db; .reg .pred %first, %go, %in;
        .reg .b32 %r<{registers}>;
        mov.u32 %t, %tid.x; mul.wide.u32 %q, %t, {};
        ld.param.u64 %row, [in]; add.u64 %row, %row, %q; ld.param.u64 %result, [out]; add.u64 %result, %result, %q;
        setp.lt.u32 %first, %t, 32; mov.u32 %x, slot;
        @%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], {COLUMNS};
        tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        ld.shared.u32 %mem, [slot]; and.b32 %own, %t, 96; shl.b32 %own, %own, 16; add.u32 %own, %own, %mem;
        {body}
        tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        @%first tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
        @%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %mem, {COLUMNS};
        ret;\n}}\n",
        4 * words
    )
}

/// Loads words of the thread's row from global memory to tensor memory, eight columns at a time.
pub(crate) fn fill(words: usize) -> String {
    let mut text = String::new();
    for column in (0..words).step_by(8) {
        for i in 0..8 {
            text += &format!("ld.global.u32 %r{i}, [%row+{}];\n", 4 * (column + i));
        }
        text += &format!("tcgen05.st.sync.aligned.32x32b.x8.b32 [%own+{column}], {};\n", list("r", 0, 8));
    }
    text + "tcgen05.wait::st.sync.aligned;\n"
}

/// The other way.
pub(crate) fn drain(words: usize) -> String {
    let mut text = String::new();
    for column in (0..words).step_by(8) {
        text += &format!("tcgen05.ld.sync.aligned.32x32b.x8.b32 {}, [%own+{column}];\n", list("r", 0, 8));
        text += "tcgen05.wait::ld.sync.aligned;\n";
        for i in 0..8 {
            text += &format!("st.global.u32 [%result+{}], %r{i};\n", 4 * (column + i));
        }
    }
    text
}

/// What every thread writes, from what every thread reads: rows of `words`.
pub(crate) fn run(source: &str, threads: u32, input: &[u32]) -> Result<Vec<u32>, Box<Stop>> {
    let mut device = Device::new().with_threads(1);
    let module = device.load(source)?;
    let buffer: Buffer<u32> = device.upload(input).unwrap();
    let out: Buffer<u32> = device.alloc(input.len()).unwrap();
    let prepared = module.kernel("k")?.launch().grid(1).block(threads).arg(buffer).arg(out);
    if let Some(stop) = launch(&mut device, &prepared).stop {
        return Err(stop);
    }
    Ok(device.read(&out).unwrap())
}

/// A cell has its lane in the upper half and its column in the lower one.
fn cells(words: usize) -> Vec<u32> {
    (0..128)
        .flat_map(|lane| (0..words).map(move |column| u32::try_from(lane << 16 | column).unwrap()))
        .collect()
}

/// The cell of register `r` of thread `t` by the manual's figures: lane and column.
fn place(shape: &str, t: usize, r: usize) -> (usize, usize) {
    match shape {
        "32x32b" => (t, r),
        // Even threads have the upper eight lanes, odd ones the lower; each four threads have two columns of two lanes.
        "16x64b" => (t / 4 + [0, 8][t % 2], 2 * r + [0, 0, 1, 1][t % 4]),
        "16x128b" => (t / 4 + [0, 8][r % 2], 4 * (r / 2) + t % 4),
        "16x256b" => (t / 4 + [0, 0, 8, 8][r % 4], 8 * (r / 4) + 2 * (t % 4) + [0, 1][r % 2]),
        _ => (t % 16, r + if t < 16 { 0 } else { 40 }),
    }
}

const SHAPES: [(&str, usize, usize); 5] =
    [("32x32b", 1, 128), ("16x64b", 1, 128), ("16x128b", 2, 64), ("16x256b", 4, 32), ("16x32bx2", 1, 128)];

/// Every shape, number of repetitions and first lane, without and with packing.
fn each(mut f: impl FnMut(&str, usize, usize, usize, bool)) {
    for (shape, each, most) in SHAPES {
        for number in [1, 2, 4, 8, 16, 32, 64, 128].into_iter().filter(|number| *number <= most) {
            for packed in [false, true] {
                let halves = if shape == "32x32b" { &[0][..] } else { &[0, 16] };
                // All of them would take long: the lower half only for some.
                for half in halves.iter().filter(|half| **half == 0 || number == 2) {
                    f(shape, number, number * each, *half, packed);
                }
            }
        }
    }
}

/// Columns of an access.
fn words(shape: &str, registers: usize, packed: bool) -> usize {
    let columns = match shape {
        "32x32b" => registers,
        "16x32bx2" => registers + 40,
        _ => 2 * registers,
    };
    (columns * if packed { 2 } else { 1 }).next_multiple_of(8).min(COLUMNS)
}

#[test]
fn loads_of_every_shape() {
    each(|shape, number, registers, half, packed| {
        let (pack, offset) =
            (if packed { ".pack::16b" } else { "" }, if shape == "16x32bx2" { ", 40" } else { "" });
        let words = words(shape, registers, packed);
        let mut body = fill(words);
        body += &format!(
            "add.u32 %x, %own, {:#x};
            tcgen05.ld.sync.aligned.{shape}.x{number}{pack}.b32 {}, [%x]{offset};
            tcgen05.wait::ld.sync.aligned;\n",
            half << 16,
            list("r", 0, registers)
        );
        for r in 0..registers {
            body += &format!("st.global.u32 [%result+{}], %r{r};\n", 4 * r);
        }
        let got = run(&kernel(words, registers.max(8), &body), 128, &cells(words)).unwrap();
        for (t, r) in (0..128).flat_map(|t| (0..registers).map(move |r| (t, r))) {
            let (lane, column) = place(shape, t % 32, r);
            let (lane, right) =
                (lane + half + t / 32 * 32, if shape == "16x32bx2" && t % 32 >= 16 { 40 } else { 0 });
            let want = if packed {
                let column = 2 * (column - right) + right;
                u32::try_from(column | (column + 1) << 16).unwrap()
            } else {
                u32::try_from(lane << 16 | column).unwrap()
            };
            assert_eq!(got[t * words + r], want, "{shape}.x{number} packed {packed} thread {t} register {r}");
        }
    });
}

#[test]
fn stores_of_every_shape() {
    each(|shape, number, registers, half, packed| {
        let (pack, offset) =
            (if packed { ".unpack::16b" } else { "" }, if shape == "16x32bx2" { "40, " } else { "" });
        let words = words(shape, registers, packed);
        let mut body = fill(words);
        for r in 0..registers {
            // A value of its own for each half of each register of each thread.
            body += &format!("mad.lo.u32 %r{r}, %t, 0x800080, {};\n", r << 16 | r | 0x8000_8000);
        }
        body += &format!(
            "add.u32 %x, %own, {:#x};
            tcgen05.st.sync.aligned.{shape}.x{number}{pack}.b32 [%x], {offset}{};
            tcgen05.wait::st.sync.aligned;\n{}",
            half << 16,
            list("r", 0, registers),
            drain(words)
        );
        let got = run(&kernel(words, registers.max(8), &body), 128, &cells(words)).unwrap();
        let mut want = cells(words);
        for (t, r) in (0..128).flat_map(|t| (0..registers).map(move |r| (t, r))) {
            let value = u32::try_from(t)
                .unwrap()
                .wrapping_mul(0x80_0080)
                .wrapping_add(u32::try_from(r << 16 | r).unwrap() | 0x8000_8000);
            let (lane, column) = place(shape, t % 32, r);
            let (lane, right) =
                (lane + half + t / 32 * 32, if shape == "16x32bx2" && t % 32 >= 16 { 40 } else { 0 });
            if packed {
                let column = 2 * (column - right) + right;
                want[lane * words + column] = value & 0xffff;
                want[lane * words + column + 1] = value >> 16;
            } else {
                want[lane * words + column] = value;
            }
        }
        // The halves of 16x32bx2 overlap from 40 columns on.
        if shape != "16x32bx2" || number < if packed { 32 } else { 64 } {
            assert!(got == want, "{shape}.x{number} packed {packed}");
        }
    });
}

#[track_caller]
fn stops(body: &str, kind: StopKind, sentence: &str) {
    let stop = run(&kernel(8, 8, body), 128, &[0; 1024]).unwrap_err();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, kind), "{stop}");
    assert!(stop.sentence.contains(sentence), "{stop}");
}

#[test]
fn misuse_of_tensor_memory_stops() {
    let load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, ";
    stops(&format!("{load} [%mem];"), StopKind::Bounds, "accesses lane 0 of tensor memory");
    stops(
        &format!("{load} [%own+512];"),
        StopKind::Bounds,
        "column 512 of tensor memory, which is not allocated",
    );
    stops(&format!("add.u32 %x, %own, 0x100000; {load} [%x];"), StopKind::Malformed, "a multiple of 32");
    stops(&format!("add.u32 %x, %own, %t; {load} [%x];"), StopKind::Lanes, "different addresses");
    let free = "@%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %mem,";
    stops(&format!("{free} 512;"), StopKind::Bounds, "no such allocation exists");
    stops(&format!("{free} 256;"), StopKind::Bounds, "256 columns");
    stops(&format!("{free} 100;"), StopKind::Malformed, "100 columns of tensor memory");
    let allocate = "@%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 32;";
    stops(allocate, StopKind::Deadlock, "");
    let relinquish = "@%first tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";
    stops(&format!("{relinquish} {free} 512; {allocate}"), StopKind::Malformed, "given up the right");
    stops(
        "setp.eq.u32 %go, %t, 5; @%go exit; tcgen05.wait::ld.sync.aligned;",
        StopKind::Lanes,
        "31 of 32 lanes",
    );
}

/// An allocation waits until another warp frees columns.
#[test]
fn an_allocation_waits_for_columns() {
    let body = "setp.ge.u32 %go, %t, 96; mov.u32 %x, slot; add.u32 %x, %x, 4;
        @%go tcgen05.alloc.cta_group::1.sync.aligned.b32 [%p], 64;
        @%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %mem, 512;
        bar.sync 1; ld.shared.u32 %y, [%x]; st.global.u32 [%result], %y;
        @%go tcgen05.dealloc.cta_group::1.sync.aligned.b32 %y, 64;
        bar.sync 1; mov.u32 %x, slot;
        @%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 512;
        bar.sync 1; ld.shared.u32 %mem, [slot];";
    let body =
        format!("mov.u32 %x, slot; add.u32 %x, %x, 4; cvt.u64.u32 %p, %x; cvta.shared.u64 %p, %p; {body}");
    let got = run(&kernel(8, 8, &body), 128, &[7; 1024]).unwrap();
    assert_eq!((got[0], got[8 * 127]), (0, 0), "the columns that were freed");
}
