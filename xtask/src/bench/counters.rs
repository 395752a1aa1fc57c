//! Cost of the counters: the same launch with and without counters, alternating, in one run; and the gain of counting a sample
//! of the blocks.
//!
//! Ratios of times on this machine are *measured*.

use serde_json::{Map, json};
use warpproof_count::{CountLaunch, CountSettings, SampleSize};
use warpproof_sim::{Buffer, Device, Launch};
use warpproof_toolchain::{Options, Toolchain};

use super::{Clock, checks, sim};

/// Repetitions of both; the best of each counts, because other work on the machine can only slow it down.
const TIMES: u32 = 7;

/// Loads and stores of global memory, one line of a warp after another, with arithmetic between.
const GLOBAL: &str = "
    ld.global.f32 %f0, [%o];         fma.rn.f32 %f3, %f0, %f2, %f3;   st.global.f32 [%o], %f3;
    fma.rn.f32 %f18, %f19, %f20, %f18;";

/// Guards that are true in some lanes and false in others.
const GUARDS: &str = "
    and.b32 %r9, %i, 31;             setp.lt.u32 %p1, %r9, %r20;      @%p1 add.s32 %r4, %r5, %r4;
    @!%p1 fma.rn.f32 %f18, %f19, %f20, %f18;";

/// Shared memory accesses with eight lanes on each bank.
const CONFLICTS: &str = "
    shl.b32 %r10, %r20, 3;           and.b32 %r10, %r10, 16383;       ld.shared.f32 %f0, [%r10];
    fma.rn.f32 %f3, %f0, %f2, %f3;";

/// A loop over a mix of instructions, on a device of one thread.
fn mix(body: &str, copies: usize, rounds: u32) -> Result<(Device, Launch), String> {
    let mut device = Device::new().with_threads(1);
    let module = device.load(&sim::looped(body, copies)).map_err(|stop| stop.to_string())?;
    let kernel = module.kernel("k").map_err(|stop| stop.to_string())?;
    let out: Buffer<f32> = device.alloc(128).map_err(|error| error.to_string())?;
    let launch = kernel.launch().block(128).arg(rounds).arg(out);
    Ok((device, launch))
}

/// The ratio of the best counted time to the best uncounted time.
fn ratio(device: &mut Device, launch: &Launch) -> Result<f64, String> {
    let (mut plain, mut counted) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TIMES {
        let clock = Clock::start();
        launch.run(device).map_err(|stop| stop.to_string())?;
        plain = plain.min(clock.elapsed().as_secs_f64());
        let clock = Clock::start();
        let outcome = device.count(launch, &CountSettings::default()).outcome;
        counted = counted.min(clock.elapsed().as_secs_f64());
        if let Some(stop) = outcome.stop {
            return Err(stop.to_string());
        }
    }
    Ok(counted / plain)
}

/// Blocks of the grid for which samples are measured, and of the samples.
const GRID: u32 = 2048;
const SAMPLE: u64 = 64;

/// The ratio of the time to count all blocks of a large grid to that of a sample, the best of each.
fn sampled_ratio() -> Result<f64, String> {
    let (mut device, launch) = mix(GLOBAL, 16, 100)?;
    let launch = launch.grid(GRID);
    let (mut all, mut sampled) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TIMES {
        for (sample, best) in [(None, &mut all), (Some(SampleSize::Blocks(SAMPLE)), &mut sampled)] {
            let clock = Clock::start();
            let counted = device.count(&launch, &CountSettings { sample, ..CountSettings::default() });
            *best = best.min(clock.elapsed().as_secs_f64());
            if let Some(stop) = counted.outcome.stop {
                return Err(stop.to_string());
            }
        }
    }
    Ok(all / sampled)
}

/// Measures every figure.
pub(crate) fn run(json: bool) -> Result<(), String> {
    let mut figures = Map::new();
    let mut put = |name: &str, ratio: f64| {
        figures.insert(format!("{name}_counted_ratio"), json!((ratio * 100.0).round() / 100.0));
    };
    for (name, body, copies, rounds) in [
        ("alu", sim::ALU, 8, 40_000),
        ("shared", sim::SHARED, 16, 40_000),
        ("conflicts", CONFLICTS, 16, 40_000),
        ("global", GLOBAL, 16, 20_000),
        ("guards", GUARDS, 16, 40_000),
        ("mma", sim::MMA, 32, 2_000),
    ] {
        let (mut device, launch) = mix(body, copies, rounds)?;
        put(name, ratio(&mut device, &launch)?);
    }
    let toolchain = Toolchain::find(&Options::from_env()).map_err(|error| error.to_string())?;
    for subject in checks::SUBJECTS {
        let (mut device, launch, _) = checks::prepare(subject, &toolchain)?;
        put(subject.name, ratio(&mut device, &launch)?);
    }
    let sampled = (sampled_ratio()? * 10.0).round() / 10.0;
    figures.insert(format!("sample_{SAMPLE}_of_{GRID}_speedup"), json!(sampled));
    if json {
        println!("{}", serde_json::Value::Object(figures));
    } else {
        println!("best of {TIMES} runs each on one core, counted to uncounted, measured on this machine;");
        println!("speedup: all blocks counted to a sample counted:");
        for (name, value) in &figures {
            println!("  {name:44} {value:>8}");
        }
    }
    Ok(())
}
