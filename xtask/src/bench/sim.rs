//! The speed of the software GPU.
//!
//! Counts come from the software GPU (warp instructions executed), times from the host: figures are *measured*, and
//! are comparable only with others of the same run.

use std::time::Instant;

use serde_json::{Map, json};
use warpproof_sim::{Buffer, Device, Launch, Level};
use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain};

/// Repetitions of each measurement; the best counts, because other work on the machine can only slow it down.
const TIMES: u32 = 5;

/// A mix of arithmetic without divergence, like the body of an unrolled loop.
pub(super) const ALU: &str = "
    fma.rn.f32 %f0, %f1, %f2, %f0;   fma.rn.f32 %f3, %f1, %f2, %f3;   add.s32 %r4, %r5, %r4;
    mad.lo.s32 %r6, %r7, %r8, %r6;   xor.b32 %r9, %r10, %r9;          mul.rn.f32 %f11, %f12, %f13;
    max.f32 %f14, %f15, %f14;        shl.b32 %r16, %r17, 3;           setp.lt.u32 %p1, %r4, %r5;
    selp.b32 %r18, %r6, %r9, %p1;    fma.rn.f32 %f18, %f19, %f20, %f18; and.b32 %r11, %r16, 255;";

/// Loads and stores of shared memory with arithmetic between, as in a tiled matrix product.
pub(super) const SHARED: &str = "
    ld.shared.f32 %f0, [%r20];       fma.rn.f32 %f3, %f0, %f2, %f3;   st.shared.f32 [%r20+128], %f3;
    fma.rn.f32 %f18, %f19, %f20, %f18;";

/// Two chains of the FP8 matrix product.
pub(super) const MMA: &str = "
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f4, %f5, %f6, %f7}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7};";

/// A kernel with a loop of `copies` copies of `body`.
pub(super) fn looped(body: &str, copies: usize) -> String {
    format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u64 out) {{
        .reg .f32 %f<24>; .reg .b32 %r<24>, %i, %n; .reg .pred %p<3>; .reg .b64 %o, %t;
        .shared .align 16 .b8 buffer[49152];
        ld.param.u32 %n, [n]; ld.param.u64 %o, [out]; mov.u32 %i, 0; mov.u32 %r20, %tid.x;
        mul.wide.u32 %t, %r20, 4; add.u64 %o, %o, %t; shl.b32 %r20, %r20, 2; mov.u32 %r0, 0x38393a3b; mov.u32 %r4, 0x3c3d3e30;
        mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f3f7f0000;
        LOOP: {} add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, %n; @%p2 bra LOOP;
        add.f32 %f0, %f0, %f3; add.f32 %f0, %f0, %f18; add.f32 %f0, %f0, %f4; st.global.f32 [%o], %f0; ret; }}",
        body.repeat(copies)
    )
}

/// The best rate of a launch that does `count` operations, in operations per second.
fn rate(device: &mut Device, launch: &Launch, count: impl Fn(u64) -> f64) -> Result<f64, String> {
    let mut best = 0.0f64;
    for _ in 0..TIMES {
        let start = Instant::now();
        let outcome = launch.run(device).map_err(|stop| stop.to_string())?;
        best = best.max(count(outcome.instructions) / start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn micro(
    level: Level,
    body: &str,
    copies: usize,
    rounds: u32,
    count: impl Fn(u64) -> f64,
) -> Result<f64, String> {
    let mut device = Device::new().with_threads(1).with_level(level);
    let module = device.load(&looped(body, copies)).map_err(|stop| stop.to_string())?;
    let kernel = module.kernel("k").map_err(|stop| stop.to_string())?;
    let out: Buffer<f32> = device.alloc(128).map_err(|error| error.to_string())?;
    rate(&mut device, &kernel.launch().block(128).arg(rounds).arg(out), count)
}

/// The 16 × 16-tiled matrix product of the corpus, compiled by NVRTC.
fn sgemm(threads: usize) -> Result<f64, String> {
    const N: u32 = 256;
    let path = crate::root().join("corpus/cuda/sgemm_tiled.cu");
    let source = Source::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let toolchain = Toolchain::find(&Options::from_env()).map_err(|error| error.to_string())?;
    let compiled =
        toolchain.compile(&source, &CompileOptions::new("sm_89")).map_err(|error| error.to_string())?;
    let mut device = Device::new().with_threads(threads);
    let module = device.load(&compiled.ptx).map_err(|stop| stop.to_string())?;
    let name = module.kernels().first().cloned().ok_or("the module has no kernel")?;
    let kernel = module.kernel(&name).map_err(|stop| stop.to_string())?;
    let length = usize::try_from(N * N).unwrap_or(0);
    let error = |error: warpproof_sim::memory::HeapError| error.to_string();
    let a = device.upload(&vec![0.5f32; length]).map_err(error)?;
    let b = device.upload(&vec![0.25f32; length]).map_err(error)?;
    let c: Buffer<f32> = device.alloc(length).map_err(error)?;
    let n = i32::try_from(N).unwrap_or(0);
    let mut launch = kernel.launch().grid((N / 16, N / 16)).block((16, 16)).arg(a).arg(b).arg(c);
    for _ in 3..kernel.program().params.len() {
        launch = launch.arg(n);
    }
    let fma = f64::from(N) * f64::from(N) * f64::from(N);
    let best = rate(&mut device, &launch, |_| fma)?;
    let first = device.read(&c).map_err(error)?[0];
    if (first - 0.125 * 256.0).abs() > 1e-3 {
        return Err(format!("the product is wrong: {first}"));
    }
    Ok(best)
}

/// The first launch of each of 64 kernels of one module: parsing, decoding, and one thread.
fn first_launches() -> Result<f64, String> {
    const KERNELS: u32 = 64;
    let one = looped(ALU, 8);
    let (head, body) = one.split_once(".visible").ok_or("the kernel has no linkage")?;
    let mut text = head.to_owned();
    for kernel in 0..KERNELS {
        text.extend([".visible", &body.replacen(" k(", &format!(" k{kernel}("), 1), "\n"]);
    }
    let mut best = 0.0f64;
    for _ in 0..TIMES {
        let start = Instant::now();
        let mut device = Device::new().with_threads(1);
        let module = device.load(&text).map_err(|stop| stop.to_string())?;
        let out: Buffer<f32> = device.alloc(1).map_err(|error| error.to_string())?;
        for kernel in 0..KERNELS {
            let kernel = module.kernel(&format!("k{kernel}")).map_err(|stop| stop.to_string())?;
            kernel.launch().arg(1u32).arg(out).run(&mut device).map_err(|stop| stop.to_string())?;
        }
        best = best.max(f64::from(KERNELS) / start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// A histogram of 256 bins in global memory: blocks communicate only by additions.
const HISTOGRAM: &str = ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u64 bins) {
        .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<4>;
        ld.param.u32 %r1, [n]; ld.param.u64 %rd1, [bins]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
        mad.lo.s32 %r4, %r3, 977, %r2; mov.u32 %r5, 0;
        L: mad.lo.s32 %r4, %r4, 1664525, 1013904223; shr.u32 %r6, %r4, 24; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd3, %rd1, %rd2;
        red.global.add.u32 [%rd3], 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, %r1; @%p bra L; ret; }";

fn histogram(threads: usize) -> Result<f64, String> {
    const ROUNDS: u32 = 200;
    let mut device = Device::new().with_threads(threads);
    let module = device.load(HISTOGRAM).map_err(|stop| stop.to_string())?;
    let bins: Buffer<u32> = device.alloc(256).map_err(|error| error.to_string())?;
    let kernel = module.kernel("k").map_err(|stop| stop.to_string())?;
    let launch = kernel.launch().grid(64).block(128).arg(ROUNDS).arg(bins);
    rate(&mut device, &launch, number)
}

/// Multiply-adds of a warpgroup: 64 rows, 256 columns, and K of the instruction.
const COLUMNS: u32 = 256;

/// A kernel whose warpgroup multiplies 64 rows by 256 columns `rounds` times: by one `wgmma`, or by the same multiply-adds in
/// `mma` instructions. Elements are normal numbers; `word` is two or four of them.
fn warpgroup(target: &str, word: &str, body: &str) -> String {
    format!(
        ".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u64 out) {{
        .reg .f32 %f<128>; .reg .b32 %r<8>, %i, %n, %a, %v; .reg .pred %p, %q; .reg .b64 %o, %t, %da, %db;
        .shared .align 128 .b8 buffer[10240];
        ld.param.u32 %n, [n]; ld.param.u64 %o, [out]; mov.u32 %i, %tid.x; mul.wide.u32 %t, %i, 4; add.u64 %o, %o, %t;
        FILL: shl.b32 %a, %i, 2; and.b32 %v, %i, 3; mad.lo.u32 %v, %v, 0x01010101, {word}; mov.u32 %r0, buffer;
        add.u32 %a, %a, %r0; st.shared.b32 [%a], %v; add.u32 %i, %i, 128; setp.lt.u32 %p, %i, 2560; @%p bra FILL;
        bar.sync 0; setp.eq.u32 %q, %n, %n; mov.u32 %r1, {word}; mov.u32 %r2, {word}; mov.u32 %r3, {word}; mov.u32 %r4, {word};
        mov.u32 %r5, {word}; mov.u32 %a, buffer; shr.u32 %a, %a, 4; cvt.u64.u32 %da, %a; or.b64 %da, %da, 0x1000080000;
        add.s64 %db, %da, 128; mov.u32 %i, 0;
        LOOP: {body} add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra LOOP;
        add.f32 %f0, %f0, %f127; st.global.f32 [%o], %f0; ret; }}"
    )
}

fn accumulators(from: usize, count: usize) -> String {
    let names: Vec<String> = (from..from + count).map(|i| format!("%f{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Multiply-adds per second of a warpgroup's product, by `wgmma` or by `mma`, on one core.
fn product(fp8: bool, asynchronous: bool) -> Result<f64, String> {
    const ROUNDS: u32 = 400;
    let (k, ty, word) = if fp8 { (32, "e4m3", "0x38393a38") } else { (16, "f16", "0x3c013c02") };
    let (target, body) = if asynchronous {
        let more = if fp8 { "" } else { ", 0, 0" };
        let body = format!(
            "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n{COLUMNS}k{k}.f32.{ty}.{ty} {}, %da, %db, %q, 1, 1{more};
            wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
            accumulators(0, 128)
        );
        ("sm_90a", body)
    } else {
        let one = |i: usize| {
            let c = accumulators(4 * i, 4);
            format!(
                "mma.sync.aligned.m16n8k{k}.row.col.f32.{ty}.{ty}.f32 {c}, {{%r1, %r2, %r3, %r4}}, {{%r4, %r5}}, {c};\n"
            )
        };
        // Hopper's `mma` of 8-bit elements is composed of f16; Ada has a unit for it.
        (if fp8 { "sm_89" } else { "sm_90a" }, (0..32).map(one).collect())
    };
    let mut device = Device::new().with_threads(1);
    let module = device.load(&warpgroup(target, word, &body)).map_err(|stop| stop.to_string())?;
    let kernel = module.kernel("k").map_err(|stop| stop.to_string())?;
    let out: Buffer<f32> = device.alloc(128).map_err(|error| error.to_string())?;
    let done = f64::from(ROUNDS) * f64::from(64 * COLUMNS * k);
    rate(&mut device, &kernel.launch().block(128).arg(ROUNDS).arg(out), |_| done)
}

/// A count as a number to divide.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

/// Measures every figure.
pub(crate) fn run(json: bool) -> Result<(), String> {
    let best = Level::detect();
    let instructions = number;
    // Of the 67 instructions of an iteration, 64 are products.
    let products = |n: u64| number(n) * 64.0 / 67.0;
    let mut figures = Map::new();
    let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), json!(value.round()));
    put("alu_warp_instructions_per_s", micro(best, ALU, 8, 40_000, instructions)?);
    put("shared_warp_instructions_per_s", micro(best, SHARED, 16, 40_000, instructions)?);
    put("mma_m16n8k32_e4m3_per_s", micro(best, MMA, 32, 2_000, products)?);
    for (name, fp8) in [("f16", false), ("e4m3", true)] {
        let (wgmma, mma) = (product(fp8, true)?, product(fp8, false)?);
        put(&format!("wgmma_m64n256_{name}_fma_per_s"), wgmma);
        put(&format!("mma_m16n8_{name}_fma_per_s"), mma);
        put(&format!("wgmma_of_mma_{name}_percent"), 100.0 * wgmma / mma);
    }
    put("sgemm_n256_fma_per_s_one_core", sgemm(1)?);
    put("sgemm_n256_fma_per_s_two_cores", sgemm(2)?);
    put("portable_alu_warp_instructions_per_s", micro(Level::Portable, ALU, 8, 4_000, instructions)?);
    put("first_launches_of_64_kernels_per_s", first_launches()?);
    put("histogram_warp_instructions_per_s_one_core", histogram(1)?);
    put("histogram_warp_instructions_per_s_two_cores", histogram(2)?);
    if json {
        println!("{}", serde_json::Value::Object(figures));
    } else {
        println!("level {best:?}, best of {TIMES} runs each, measured on this machine:");
        for (name, value) in &figures {
            println!("  {name:44} {:>13.0}", value.as_f64().unwrap_or(0.0));
        }
    }
    Ok(())
}
