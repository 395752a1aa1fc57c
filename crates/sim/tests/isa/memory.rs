//! Loads and stores: every space, every type, vectors, and accesses past the end.

#![expect(clippy::unwrap_used, reason = "a setup failure fails the test")]

use crate::harness::{Column, kernel, launch, levels};
use warpproof_num::random::SplitMix;
use warpproof_sim::{Blame, Buffer, Device, Level, Stop, StopKind};

const THREADS: usize = 64;
/// Global memory of a thread, in 8-byte words.
const WORDS: usize = 4;

/// The initial contents of global memory: the bytes of thread `t` begin at `32 t`.
fn bytes() -> Vec<u8> {
    let mut random = SplitMix(11);
    (0..THREADS * WORDS).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// `size` bytes of a thread starting at `start`, as a number.
fn number(bytes: &[u8], thread: usize, start: usize, size: usize) -> u64 {
    let at = thread * WORDS * 8 + start;
    bytes[at..at + size].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Runs a body at one level. `%a` is the address of the thread's own 32 bytes of global memory, `%c` a cache policy,
/// `table` four words of constant memory; shared and local memory have 32 bytes per thread, at `%sh` and `frame`.
fn run_at(level: Level, body: &str, results: &[&str]) -> Result<Vec<Column>, Box<Stop>> {
    let body = format!(
        ".reg .b64 %a, %c; .reg .b32 %sh; .shared .align 32 .b8 tile[2048]; .local .align 32 .b8 frame[32];
        ld.param.u64 %a, [in0]; shl.b64 %p, %o, 2; add.u64 %a, %a, %p;
        mov.u32 %x, tile; mad.lo.u32 %sh, %t, 32, %x; createpolicy.fractional.L2::evict_last.b64 %c, 1.0;
        {body}"
    );
    let constants = ".const .align 16 .u32 table[4] = {11, 22, 33, 44};\n.visible .entry";
    let text = kernel(&body, results, &["b64"]).replace(".visible .entry", constants);
    // The harness's own prologue also reads `in0`, eight bytes per thread.
    let mut device = Device::new().with_level(level).with_threads(1);
    let prepared = device.load(&text)?.kernel("k")?;
    let outputs: Vec<Buffer<u64>> = results.iter().map(|_| device.alloc(THREADS).unwrap()).collect();
    let memory = device.upload(&bytes()).unwrap();
    let mut prepared = prepared.launch().block(u32::try_from(THREADS).unwrap());
    for buffer in &outputs {
        prepared = prepared.arg(buffer);
    }
    match launch(&mut device, &prepared.arg(memory)).stop {
        Some(stop) => Err(stop),
        None => Ok(outputs.iter().map(|buffer| device.read(buffer).unwrap()).collect()),
    }
}

/// Runs a body at every level and compares its results, thread by thread.
fn check(body: &str, results: &[&str], expected: impl Fn(usize) -> Vec<u64>) {
    for level in levels() {
        let columns = run_at(level, body, results).unwrap_or_else(|stop| panic!("{body}: {stop}"));
        for thread in 0..THREADS {
            let found: Vec<u64> = columns.iter().map(|column| column[thread]).collect();
            assert_eq!(found, expected(thread), "{body}, thread {thread} at {level:?}");
        }
    }
}

fn stop(body: &str) -> (Blame, StopKind) {
    let stop = run_at(Level::Portable, body, &["b32"]).unwrap_err();
    (stop.blame, stop.kind)
}

#[test]
fn loads_extend_to_the_register() {
    let memory = bytes();
    for (size, types) in [(1, ["b8", "u8", "s8"]), (2, ["b16", "u16", "s16"]), (4, ["b32", "u32", "s32"])] {
        for ty in types {
            check(&format!("ld.global.{ty} %d0, [%a+8];"), &["b64"], |thread| {
                let value = number(&memory, thread, 8, size);
                let unused = 64 - 8 * u32::try_from(size).unwrap();
                let extended = (value << unused).cast_signed() >> unused;
                vec![if ty.starts_with('s') { extended.cast_unsigned() } else { value }]
            });
        }
    }
    for ty in ["b64", "u64", "s64", "f64"] {
        check(&format!("ld.global.{ty} %d0, [%a+16];"), &["b64"], |t| vec![number(&memory, t, 16, 8)]);
    }
    check("ld.global.f32 %d0, [%a+-4+8];", &["b32"], |t| vec![number(&memory, t, 4, 4)]);
    check("ld.global.s8 %d0, [%a+1];", &["b16"], |t| {
        let value = number(&memory, t, 1, 1);
        vec![if value > 127 { value | 0xff00 } else { value }]
    });
    let body = ".reg .b128 %w; ld.global.b128 %w, [%a+16]; mov.b128 {%d0, %d1}, %w;";
    check(body, &["b64", "b64"], |t| vec![number(&memory, t, 16, 8), number(&memory, t, 24, 8)]);
}

#[test]
fn stores_take_the_low_bytes() {
    let memory = bytes();
    for (size, ty) in [(1, "u8"), (2, "s16"), (4, "b32"), (8, "u64")] {
        let body = format!("ld.global.b64 %p, [%a]; st.global.{ty} [%a+8], %p; ld.global.b64 %d0, [%a+8];");
        check(&body, &["b64"], |t| {
            let mask = u64::MAX >> (64 - 8 * size);
            vec![number(&memory, t, 8, 8) & !mask | number(&memory, t, 0, 8) & mask]
        });
    }
    let body = ".reg .b128 %w; mov.b128 %w, {%o, %c}; st.global.b128 [%a], %w; ld.global.b64 %d0, [%a];";
    check(body, &["b64"], |t| vec![8 * u64::try_from(t).unwrap()]);
    let body = "mov.b32 %d0, 0x3fc00000; st.global.f32 [%a], %d0; st.global.f32 [%a+4], 0f3FC00000;
        ld.global.b64 %d1, [%a]; st.global.f64 [%a], 0d3FF8000000000000; ld.global.b64 %d2, [%a];";
    check(body, &["b32", "b64", "b64"], |_| vec![0x3fc0_0000, 0x3fc0_0000_3fc0_0000, 0x3ff8_0000_0000_0000]);
}

#[test]
fn every_way_to_load_a_word() {
    let memory = bytes();
    for head in [
        "ld",
        "ld.global",
        "ld.weak.global",
        "ld.global.ca",
        "ld.global.cg",
        "ld.global.cs",
        "ld.global.lu",
        "ld.global.cv",
        "ld.global.L2::64B",
        "ld.L2::256B",
        "ld.global.L1::evict_last",
        "ld.global.L1::no_allocate.L2::128B",
        "ld.volatile",
        "ld.volatile.global",
        "ld.relaxed.gpu",
        "ld.relaxed.cta.global",
        "ld.acquire.sys.global",
        "ld.global.acquire.gpu",
        "ld.acquire.gpu.global.L1::evict_first",
        "ld.mmio.relaxed.sys",
        "ld.mmio.relaxed.sys.global",
        "ld.global.nc",
        "ld.global.ca.nc",
        "ld.global.nc.L2::128B",
        "ld.global.nc.L1::no_allocate.L2::256B",
        "ldu",
        "ldu.global",
    ] {
        check(&format!("{head}.u32 %d0, [%a+4];"), &["b32"], |t| vec![number(&memory, t, 4, 4)]);
    }
    for head in ["ld.global", "ld.global.L1::evict_last", "ld.relaxed.gpu.global", "ld.global.nc"] {
        let body = format!("{head}.L2::cache_hint.u32 %d0, [%a+4], %c;");
        check(&body, &["b32"], |t| vec![number(&memory, t, 4, 4)]);
    }
}

#[test]
fn every_way_to_store_a_word() {
    for head in [
        "st",
        "st.weak.global",
        "st.global.wb",
        "st.global.cg",
        "st.global.cs",
        "st.global.wt",
        "st.global.L1::evict_first",
        "st.volatile",
        "st.volatile.global",
        "st.relaxed.gpu",
        "st.release.sys.global",
        "st.relaxed.cta.global.L1::no_allocate",
        "st.mmio.relaxed.sys",
        "st.mmio.relaxed.sys.global",
        "st.async.release.gpu",
        "st.async.release.sys.global",
        "st.async.mmio.release.sys.global",
    ] {
        let body = format!("{head}.u32 [%a+4], %t; ld.global.u32 %d0, [%a+4];");
        check(&body, &["b32"], |t| vec![u64::try_from(t).unwrap()]);
    }
    for head in ["st.global", "st.global.L1::evict_last", "st.release.gpu.global"] {
        let body = format!("{head}.L2::cache_hint.u32 [%a+4], %t, %c; ld.global.u32 %d0, [%a+4];");
        check(&body, &["b32"], |t| vec![u64::try_from(t).unwrap()]);
    }
}

#[test]
fn vectors_in_global_and_shared_memory() {
    let memory = bytes();
    let words =
        |t: usize, range: std::ops::Range<usize>| range.map(|i| number(&memory, t, 4 * i, 4)).collect();
    check("ld.global.v2.b32 {%d0, %d1}, [%a+8];", &["b32"; 2], |t| words(t, 2..4));
    check("ld.global.nc.v4.f32 {%d0, %d1, %d2, %d3}, [%a+16];", &["b32"; 4], |t| words(t, 4..8));
    check("ld.global.v4.b32 {%d0, _, _, %d1}, [%a];", &["b32"; 2], |t| {
        vec![number(&memory, t, 0, 4), number(&memory, t, 12, 4)]
    });
    check("ld.global.v4.u8 {%d0, %d1, %d2, %d3}, [%a+4];", &["b16"; 4], |t| {
        (4..8).map(|i| number(&memory, t, i, 1)).collect()
    });
    let eight = "{%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}";
    for head in ["ld.global", "ld.global.L1::evict_last.L2::evict_last", "ld.global.nc"] {
        check(&format!("{head}.v8.b32 {eight}, [%a];"), &["b32"; 8], |t| words(t, 0..8));
    }
    let body = "ld.global.L2::evict_first.v4.u64 {%d0, %d1, %d2, %d3}, [%a];";
    check(body, &["b64"; 4], |t| (0..4).map(|i| number(&memory, t, 8 * i, 8)).collect());
    let body = format!(
        "ld.global.v8.b32 {eight}, [%a]; add.u32 %d0, %d0, 1; st.global.v8.b32 [%a], {eight};
        ld.global.b32 %d1, [%a]; ld.global.b32 %d2, [%a+28];"
    );
    check(&body, &["b32"; 8], |t| {
        let first = (number(&memory, t, 0, 4) + 1) & 0xffff_ffff;
        let mut all: Vec<u64> = words(t, 0..8);
        (all[0], all[1], all[2]) = (first, first, number(&memory, t, 28, 4));
        all
    });
    for head in [
        "ld.volatile",
        "ld.volatile.global.L2::128B",
        "ld.relaxed.gpu.global.L1::evict_last.L2::evict_last",
        "ld.acquire.sys",
        "ld.acquire.cluster.global.L2::evict_first",
        "ld.global.cg",
        "ld.global.cs.nc",
    ] {
        check(&format!("{head}.v8.b32 {eight}, [%a];"), &["b32"; 8], |t| words(t, 0..8));
    }
    for head in [
        "ld.volatile.global",
        "ld.relaxed.cta",
        "ld.acquire.gpu.global.L2::evict_last",
        "ld.relaxed.sys.L1::no_allocate.L2::evict_normal",
        "ld.global.nc.L2::evict_first",
    ] {
        let body = format!("{head}.v4.b64 {{%d0, %d1, %d2, %d3}}, [%a];");
        check(&body, &["b64"; 4], |t| (0..4).map(|i| number(&memory, t, 8 * i, 8)).collect());
    }
    for head in ["st.volatile", "st.relaxed.gpu.global.L2::evict_last", "st.release.sys", "st.global.wt"] {
        let body = format!(
            "ld.global.v8.b32 {eight}, [%a]; add.u32 %d7, %d7, 1; {head}.v8.b32 [%a], {eight}; ld.global.b32 %d0, [%a+28];"
        );
        check(&body, &["b32"; 8], |t| {
            let mut all: Vec<u64> = words(t, 0..8);
            all[7] = (all[7] + 1) & 0xffff_ffff;
            all[0] = all[7];
            all
        });
    }
    for head in [
        "st.volatile.global",
        "st.relaxed.gpu.global.L2::evict_last",
        "st.release.cluster.L1::evict_first.L2::evict_first",
    ] {
        let body = format!(
            "ld.global.v2.u64 {{%d0, %d1}}, [%a]; ld.global.v2.u64 {{%d2, %d3}}, [%a+16];
            {head}.v4.u64 [%a], {{%d3, %d2, %d1, %d0}}; ld.global.b64 %d0, [%a];"
        );
        check(&body, &["b64"; 4], |t| [24, 8, 16, 24].map(|at| number(&memory, t, at, 8)).to_vec());
    }
    let body = "ld.global.v2.u64 {%d0, %d1}, [%a]; ld.global.v2.u64 {%d2, %d3}, [%a+16];
        st.global.L2::evict_last.v4.b64 [%a], {%d3, %d2, %d1, %d0}; ld.global.b64 %d0, [%a];";
    check(body, &["b64"; 4], |t| [24, 8, 16, 24].map(|at| number(&memory, t, at, 8)).to_vec());
    let body = ".reg .b16 %h, %l; ld.global.v4.b32 {%d0, %d1, %d2, %d3}, [%a];
        st.shared.v4.b32 [%sh], {%d3, %d2, %d1, %d0}; ld.shared.v2.b32 {%d0, %d1}, [%sh]; ld.shared.b32 %d2, [%sh+8];
        ld.shared.v4.b32 {_, _, _, %d3}, [%sh]; cvt.u16.u32 %l, %d0; cvt.u16.u32 %h, %d1;
        st.shared.v2.u16 [%sh+16], {%l, %h}; ld.shared.u32 %d4, [%sh+16];";
    check(body, &["b32"; 5], |t| {
        let mut all: Vec<u64> = [12, 8, 4, 0].map(|at| number(&memory, t, at, 4)).to_vec();
        all.push(number(&memory, t, 12, 2) | number(&memory, t, 8, 2) << 16);
        all
    });
}

#[test]
fn the_other_spaces() {
    let thread = |t: usize| u64::try_from(t).unwrap();
    for ss in ["shared", "shared::cta", "shared::cluster", "volatile.shared", "relaxed.cta.shared"] {
        let body = format!("st.{ss}.u32 [%sh+4], %t; ld.{ss}.u32 %d0, [%sh+4];");
        check(&body, &["b32"], |t| vec![thread(t)]);
    }
    for ss in ["local", "volatile.local"] {
        let body = format!("st.{ss}.u32 [frame+8], %t; ld.{ss}.v2.u32 {{%d0, %d1}}, [frame+8];");
        check(&body, &["b32", "b32"], |t| vec![thread(t), 0]);
    }
    check("ld.const.u32 %d0, [table+8]; ld.const.v4.u32 {_, %d1, _, _}, [table];", &["b32", "b32"], |_| {
        vec![33, 22]
    });
    // A different constant in every lane, and the same through a generic address.
    let body =
        ".reg .b64 %k; and.b32 %x, %t, 3; mul.wide.u32 %k, %x, 4; mov.u64 %p, table; add.u64 %k, %k, %p;
        ld.const.u32 %d0, [%k]; cvta.const.u64 %k, %k; ld.u32 %d1, [%k];";
    check(body, &["b32", "b32"], |t| vec![11 * (thread(t) % 4 + 1); 2]);
    let body = "ld.param.u64 %d0, [in0]; ld.param::entry.u64 %d1, [in0]; sub.u64 %d0, %d0, %d1;
        ld.param.v2.u32 {%x, %y}, [in0]; mov.b64 %p, {%x, %y}; sub.u64 %d1, %d1, %p;";
    check(body, &["b64", "b64"], |_| vec![0, 0]);
    let body = ".reg .b64 %g; cvt.u64.u32 %g, %sh; cvta.shared.u64 %g, %g; st.u32 [%g], %t; ld.shared.u32 %d0, [%sh];
        mov.u64 %g, frame; cvta.local.u64 %g, %g; st.u32 [%g], %lane; ld.local.u32 %d1, [frame];";
    check(body, &["b32", "b32"], |t| vec![thread(t), thread(t % 32)]);
}

#[test]
fn memory_that_is_not_there_stops_the_launch() {
    let kernel = |kind| (Blame::Kernel, kind);
    assert_eq!(stop("ld.global.u32 %d0, [%a+2048];"), kernel(StopKind::Bounds));
    assert_eq!(stop("st.global.u32 [%a+-2048], %t;"), kernel(StopKind::Bounds));
    assert_eq!(stop("ld.global.u32 %d0, [0];"), kernel(StopKind::Bounds));
    assert_eq!(stop("ld.shared.u32 %d0, [%sh+4096];"), kernel(StopKind::Bounds));
    assert_eq!(stop("ld.const.u32 %d0, [table+16];"), kernel(StopKind::Bounds));
    assert_eq!(stop("ld.global.u32 %d0, [%a+2];"), kernel(StopKind::Alignment));
    assert_eq!(stop("ld.shared.v4.u32 {%d0, %d0, %d0, %d0}, [%sh+8];"), kernel(StopKind::Alignment));
    let input = (Blame::Input, StopKind::Malformed);
    assert_eq!(stop("ld.global.v2.u32 %d0, [%a];"), input);
    assert_eq!(stop("ld.global.u64 %d0, [%a];"), input);
    assert_eq!(stop("ld.global.L2::cache_hint.u32 %d0, [%a];"), input);
    assert_eq!(stop("ld.global.wt.u32 %d0, [%a];"), (Blame::Gap, StopKind::Unsupported));
}

/// Runs a load of 16 bytes from the middle of seven words, after a pragma, and returns its first and third word.
fn load_at_the_end(level: Level, pragma: &str) -> Result<Vec<u32>, Box<Stop>> {
    let text = format!(
        ".version 8.8\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{
        .reg .b64 %a, %o; .reg .b32 %v<4>; ld.param.u64 %a, [in]; ld.param.u64 %o, [out];
        {pragma}
        ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%a+16];
        st.global.v2.b32 [%o], {{%v0, %v2}}; ret; }}"
    );
    let mut device = Device::new().with_level(level).with_threads(1);
    let prepared = device.load(&text)?.kernel("k")?;
    let memory = device.upload(&[10_u32, 11, 12, 13, 14, 15, 16]).unwrap();
    let out: Buffer<u32> = device.alloc(2).unwrap();
    let prepared = prepared.launch().block(32).arg(memory).arg(out);
    match launch(&mut device, &prepared).stop {
        Some(stop) => Err(stop),
        None => Ok(device.read(&out).unwrap()),
    }
}

#[test]
fn bytes_that_a_load_does_not_use_may_be_nobodys() {
    for level in levels() {
        for mask in ["3855", "0xF0F"] {
            let pragma = format!(".pragma \"used_bytes_mask {mask}\";");
            assert_eq!(load_at_the_end(level, &pragma).unwrap(), [14, 16]);
        }
        // The last word is used here but unallocated; without a pragma all bytes count as used.
        for pragma in ["", ".pragma \"used_bytes_mask 0xF00F\";", ".pragma \"nounroll\";"] {
            let stop = load_at_the_end(level, pragma).unwrap_err();
            assert_eq!(stop.kind, StopKind::Bounds, "{pragma}: {stop}");
        }
    }
}
