//! Measures the overhead of a launch through the library over a direct call of the software GPU, for the same kernel, checks and
//! sizes.
//!
//! `cargo xtask bench driver` runs it with and without checks (`WARPPROOF_CHECKS=none`). Times are *measured* on this machine; the
//! fastest launch counts, because other load can only slow a launch down. Prints one JSON object of times in microseconds.
#![allow(unsafe_code, reason = "it calls a C API")]
#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::ffi::{CString, c_void};
use std::process::ExitCode;
use std::time::Instant;
use warpproof_check::CheckLaunch;

use warpproof_check::Settings as CheckSettings;
use warpproof_driver::abi::Handle;
use warpproof_driver::api::{self, In, Out};
use warpproof_driver::settings::Settings;
use warpproof_sim::{Buffer, Device, Launch};

/// An empty kernel, a kernel that adds to each of 256 numbers, and one that computes for a while.
const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry empty()
{
    ret;
}
.visible .entry add(.param .u64 data, .param .f32 by)
{
    .reg .b64 %rd<4>; .reg .b32 %r<5>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [data];
    ld.param.f32 %f1, [by];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f2, [%rd3];
    add.f32 %f3, %f2, %f1;
    st.global.f32 [%rd3], %f3;
    ret;
}
.visible .entry long(.param .u64 data, .param .u32 rounds)
{
    .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, 0;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
LOOP:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p, %r2, %r1;
    @%p bra LOOP;
    st.global.u32 [%rd3], %r2;
    ret;
}
";

/// Iterations of the kernel that computes, launches of a thread, and measurements.
const ROUNDS: u32 = 200_000;
const OF_A_THREAD: u32 = 20;
const MEASUREMENTS: u32 = 5;

/// Launches per batch, and number of batches.
const LAUNCHES: u32 = 200;
const BATCHES: u32 = 30;
/// Blocks and threads of the second kernel. One block only: several blocks run on several cores, and the wake-up time of those
/// cores is not part of the launch overhead.
const BLOCKS: u32 = 1;
const THREADS: u32 = 256;

/// An output pointer to a variable.
fn out<T>(place: &mut T) -> Out<T> {
    // SAFETY: the variable lives until the call returns.
    unsafe { Out::new(place) }
}

/// An input pointer to values.
fn from<T>(values: &[T]) -> In<T> {
    // SAFETY: the values live until the call returns.
    unsafe { In::new(values.as_ptr()) }
}

/// Converts a return code of the API into a `Result`.
fn ok(code: u32, what: &str) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{what} returned {code}")) }
}

/// Looks up a kernel of a module.
fn function(module: Handle, name: &str) -> Result<Handle, String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    let mut function = std::ptr::null_mut();
    // SAFETY: the name is NUL-terminated, and the output is a live variable.
    let code = unsafe { api::cuModuleGetFunction(out(&mut function), module, In::new(name.as_ptr())) };
    ok(code, "cuModuleGetFunction")?;
    Ok(function)
}

/// Time of the fastest launch of a batch, in microseconds.
fn batch(mut launch: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let mut best = f64::INFINITY;
    for _ in 0..LAUNCHES {
        let start = Instant::now();
        launch()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(best)
}

/// Launches directly on the software GPU, with the same steps as the library.
fn direct(device: &mut Device, launch: &Launch, settings: &Settings) -> Result<(), String> {
    let stop = if settings.checks.is_empty() {
        device.run(launch).stop
    } else {
        let checks = CheckSettings { checks: settings.checks.clone(), ..CheckSettings::default() };
        device.check_schedules(launch, &checks, settings.schedules, 0).checked.outcome.stop
    };
    stop.map_or(Ok(()), |stop| Err(stop.to_string()))
}

/// The time that some threads take for the same number of launches each, in seconds. Every thread has its own stream and memory.
fn threads(count: u32, context: usize, kernel: usize) -> Result<f64, String> {
    let one = move || -> Result<(), String> {
        let (mut stream, mut data, rounds) = (std::ptr::null_mut(), 0u64, ROUNDS);
        let context = std::ptr::with_exposed_provenance_mut(context);
        let kernel = std::ptr::with_exposed_provenance_mut(kernel);
        // SAFETY: the handles are valid, and the outputs are live variables.
        unsafe {
            ok(api::cuCtxSetCurrent(context), "cuCtxSetCurrent")?;
            ok(api::cuStreamCreate(out(&mut stream), 1), "cuStreamCreate")?;
            ok(api::cuMemAlloc_v2(out(&mut data), 128), "cuMemAlloc")?;
        }
        let arguments: [*const c_void; 2] = [(&raw const data).cast(), (&raw const rounds).cast()];
        for _ in 0..OF_A_THREAD {
            let each = from(&arguments).cast();
            // SAFETY: the arguments match the kernel's parameters.
            let code = unsafe { api::cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, each, In::none()) };
            ok(code, "cuLaunchKernel")?;
        }
        Ok(())
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        all.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(start.elapsed().as_secs_f64())
}

fn measure() -> Result<serde_json::Value, String> {
    let settings = Settings::from_env();
    let text = CString::new(PTX).map_err(|error| error.to_string())?;
    let (mut context, mut module, mut data) = (std::ptr::null_mut(), std::ptr::null_mut(), 0u64);
    let bytes = usize::try_from(BLOCKS * THREADS * 4).map_err(|error| error.to_string())?;
    // SAFETY: the outputs are live variables; the text is NUL-terminated.
    unsafe {
        ok(api::cuInit(0), "cuInit")?;
        ok(api::cuCtxCreate_v2(out(&mut context), 0, 0), "cuCtxCreate")?;
        ok(api::cuModuleLoadData(out(&mut module), from(text.as_bytes_with_nul())), "cuModuleLoadData")?;
        ok(api::cuMemAlloc_v2(out(&mut data), bytes), "cuMemAlloc")?;
        ok(api::cuMemsetD8_v2(data, 0, bytes), "cuMemsetD8")?;
    }
    let mut device = Device::new();
    let loaded = device.load(PTX).map_err(|stop| stop.to_string())?;
    let buffer: Buffer<f32> = device.alloc(bytes / 4).map_err(|error| error.to_string())?;
    let kernel = |name: &str| loaded.kernel(name).map_err(|stop| stop.to_string());
    let by = 1f32;
    let arguments: [*const c_void; 2] = [(&raw const data).cast(), (&raw const by).cast()];
    let mut figures = serde_json::Map::new();
    for (name, blocks, threads) in [("empty", 1, 32), ("add", BLOCKS, THREADS)] {
        let through = function(module, name)?;
        let kernel = kernel(name)?;
        let mut best = [f64::INFINITY; 2];
        for _ in 0..BATCHES {
            let own = batch(|| {
                // A new launch description each time, as in a real program.
                let launch = kernel.launch().grid(blocks).block(threads);
                let launch = if name == "add" { launch.arg(buffer).arg(by) } else { launch };
                direct(&mut device, &launch, &settings)
            })?;
            let library = batch(|| {
                let each = from(&arguments).cast();
                let none = std::ptr::null_mut();
                // SAFETY: the arguments match the kernel's parameters.
                let code = unsafe {
                    api::cuLaunchKernel(through, blocks, 1, 1, threads, 1, 1, 0, none, each, In::none())
                };
                ok(code, "cuLaunchKernel")
            })?;
            best = [best[0].min(own), best[1].min(library)];
        }
        let rounded = |number: f64| serde_json::json!((number * 100.0).round() / 100.0);
        figures.insert(format!("{name}_direct_us"), rounded(best[0]));
        figures.insert(format!("{name}_library_us"), rounded(best[1]));
        figures.insert(format!("{name}_above_us"), rounded(best[1] - best[0]));
    }
    let long = function(module, "long")?.expose_provenance();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..MEASUREMENTS {
        for (best, count) in best.iter_mut().zip([1, 2]) {
            *best = best.min(threads(count, context.expose_provenance(), long)?);
        }
    }
    let ratio = (best[1] / best[0] * 1000.0).round() / 1000.0;
    figures.insert("two_threads_to_one".to_owned(), serde_json::json!(ratio));
    // SAFETY: the call has no pointer arguments.
    ok(unsafe { api::cuCtxSynchronize() }, "cuCtxSynchronize")?;
    Ok(serde_json::Value::Object(figures))
}

fn main() -> ExitCode {
    match measure() {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}
