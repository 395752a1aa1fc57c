//! A device through the driver API, on Warpproof's own driver: the code is the one that drives NVIDIA's driver.
//!
//! Not tested, because it needs hardware: whether hardware agrees, real times and clocks, machine code instead of
//! PTX, NVIDIA's management library, and Nsight Compute.
//!
//! A program finds libraries where `LD_LIBRARY_PATH` named them when it started, so each test starts itself again.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::fmt::Debug;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use warpproof_gpu::{Batch, Cuda, CudaError, Launch, Memory, ModuleId};
use warpproof_launch::{Geometry, Gpu, Use};

/// Set in the process that finds the driver.
const INSIDE: &str = "WARPPROOF_TEST_DRIVER";

/// `scaled`: y = factor · x, through a variable and dynamic shared memory; `twice` has one parameter, a struct of
/// both pointers; `wrong` writes where there is no memory.
const MODULE: &str = "
.version 8.7
.target sm_89
.address_size 64
.visible .global .align 4 .f32 factor = 0f40000000;
.extern .shared .align 4 .b8 dynamic[];
.visible .entry scaled(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r3, %r1, %r3, %r2;
    mul.wide.u32 %rd3, %r3, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    mov.u32 %r4, dynamic;
    mad.lo.u32 %r4, %r2, 4, %r4;
    st.shared.f32 [%r4], %f1;
    bar.sync 0;
    ld.shared.f32 %f1, [%r4];
    ld.global.f32 %f2, [factor];
    mul.f32 %f1, %f1, %f2;
    st.global.f32 [%rd5], %f1;
    ret;
}
.visible .entry twice(.param .align 8 .b8 both[16])
{
    .reg .b64 %rd<8>; .reg .b32 %r<4>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [both];
    ld.param.u64 %rd2, [both+8];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f1, %f1, %f1;
    st.global.f32 [%rd5], %f1;
    ret;
}
.visible .entry wrong(.param .u64 y)
{
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [y];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1+1099511627776], %r1;
    ret;
}
";

/// The library in the directory of this test, or in one above it.
fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let mut places = test.ancestors().skip(1).map(|folder| folder.join("libwarpproof_cuda.so"));
    places.find(|place| place.is_file()).expect(
        "libwarpproof_cuda.so is not next to this test; build it: `cargo build -p warpproof-runtime`, or test the whole workspace",
    )
}

/// Runs the body of a test in a process that finds the driver, with these devices.
#[track_caller]
fn on_driver(test: &str, devices: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["libcuda.so.1", "libcuda.so"] {
        symlink(library(), folder.path().join(name)).unwrap();
    }
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    again.env("LD_LIBRARY_PATH", folder.path()).env("WARPPROOF_DEVICE", devices);
    again.env("WARPPROOF_CHECKS", "none").env("WARPPROOF_CLOCK", "model").env_remove("WARPPROOF_REPORT");
    let output = again.output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// 0, 1, 2, … times a factor.
fn ramp(count: u16, factor: f32) -> Vec<u8> {
    bytes(&(0..count).map(|value| f32::from(value) * factor).collect::<Vec<_>>())
}

fn launch(module: ModuleId, kernel: &str, grid: u32, block: u32, arrays: &[Memory]) -> Launch {
    Launch {
        module,
        kernel: kernel.to_owned(),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared: 4 * block,
        cooperative: false,
        arguments: arrays.iter().map(|memory| memory.address.to_le_bytes().to_vec()).collect(),
    }
}

/// Function and name of a failed call.
#[track_caller]
fn call<T: Debug>(result: Result<T, CudaError>) -> (&'static str, String) {
    match result {
        Err(CudaError::Call { function, name, .. }) => (function, name),
        other => panic!("{other:?}"),
    }
}

/// The sentence of a request that was not passed to the driver.
#[track_caller]
fn rejected<T: Debug>(result: Result<T, CudaError>) -> String {
    match result {
        Err(CudaError::Request(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn devices_are_found_and_described() {
    on_driver("devices_are_found_and_described", "l4,h100", || {
        let first = Cuda::open(0).unwrap();
        let l4 = first.identity().clone();
        assert_eq!((l4.name.as_str(), l4.capability, l4.predicted), ("NVIDIA L4", 89, true));
        assert_eq!(l4.l2_bytes, 48 << 20);
        assert!(l4.uuid.len() == 32 && l4.uuid.bytes().all(|digit| digit.is_ascii_hexdigit()), "{}", l4.uuid);
        assert!(l4.visible().starts_with("GPU-") && l4.visible().len() == 40, "{}", l4.visible());
        assert!(l4.driver.starts_with("CUDA "), "{}", l4.driver);
        assert!(l4.to_string().ends_with(", Warpproof's own: times are predicted"), "{l4}");
        // Two devices at the same time.
        let second = Cuda::open(1).unwrap();
        assert_eq!(second.identity().capability, 90);
        assert_ne!(second.identity().uuid, l4.uuid);
        assert_eq!(Cuda::open(2).unwrap_err(), CudaError::NoDevice { asked: 2, count: 2 });
        assert_eq!(Cuda::open(u32::MAX).unwrap_err(), CudaError::NoDevice { asked: u32::MAX, count: 2 });
    });
}

#[test]
fn a_module_is_loaded_set_launched_and_unloaded() {
    on_driver("a_module_is_loaded_set_launched_and_unloaded", "l4", || {
        let mut device = Cuda::open(0).unwrap();
        // Warpproof's driver gets PTX, whatever assembles for hardware.
        device.assemble_with(Box::new(|_, _| Err("an assembler is not needed".to_owned())));
        let module = device.load(MODULE).unwrap();
        let (x, y) = (device.allocate(256).unwrap(), device.allocate(256).unwrap());
        device.write(&x, &ramp(64, 1.0)).unwrap();
        let scaled = launch(module, "scaled", 2, 32, &[x, y]);
        device.run(std::slice::from_ref(&scaled)).unwrap();
        assert_eq!(device.read(&y).unwrap(), ramp(64, 2.0));
        // A variable, more shared memory than before, and a cooperative launch.
        device.set(module, "factor", &3.0f32.to_le_bytes()).unwrap();
        let whole = Launch { cooperative: true, ..launch(module, "scaled", 1, 64, &[x, y]) };
        device.run(&[whole]).unwrap();
        assert_eq!(device.read(&y).unwrap(), ramp(64, 3.0));
        // Several launches run in their order: y = 3 x, then x = 3 y.
        let back = launch(module, "scaled", 2, 32, &[y, x]);
        device.run(&[scaled.clone(), back]).unwrap();
        assert_eq!(device.read(&x).unwrap(), ramp(64, 9.0));
        // Another module with the same kernel is another kernel.
        let other = device.load(MODULE).unwrap();
        assert_ne!(other, module);
        device.unload(module).unwrap();
        device.run(&[launch(other, "scaled", 2, 32, &[x, y])]).unwrap();
        assert_eq!(device.read(&y).unwrap(), ramp(64, 18.0));
        assert!(rejected(device.run(&[scaled])).contains("module that is not loaded"));
        device.free(x).unwrap();
        device.free(y).unwrap();
    });
}

/// What every device of the launch trait does.
fn doubled<G: Gpu>(device: &mut G) -> Result<Vec<u8>, G::Error> {
    let module = device.load(MODULE)?;
    let x = device.allocate("x", 128, Use::Input)?;
    let y = device.allocate("y", 128, Use::Output)?;
    device.write(&x, &ramp(32, 1.0))?;
    let params = [device.address(&x).to_le_bytes(), device.address(&y).to_le_bytes()].concat();
    let geometry = Geometry { grid: [1, 1, 1], block: 32, shared: 128 };
    device.launch(&module, "twice", geometry, &params)?;
    let found = device.read(&y)?;
    device.free(x)?;
    device.free(y)?;
    Ok(found)
}

#[test]
fn it_is_a_device_of_the_launch_trait() {
    on_driver("it_is_a_device_of_the_launch_trait", "l4", || {
        assert_eq!(doubled(&mut Cuda::open(0).unwrap()).unwrap(), ramp(32, 2.0));
    });
}

#[test]
fn batches_are_timed_between_two_events() {
    on_driver("batches_are_timed_between_two_events", "l4", || {
        let mut device = Cuda::open(0).unwrap();
        let module = device.load(MODULE).unwrap();
        let (x, y) = (device.allocate(256).unwrap(), device.allocate(256).unwrap());
        device.write(&x, &ramp(64, 1.0)).unwrap();
        let batch = [launch(module, "scaled", 2, 32, &[x, y])];
        for kind in [Batch::Graph, Batch::Stream] {
            let mut time = |repeat, cold| device.time(&batch, repeat, kind, cold).unwrap().elapsed_ps;
            let (one, four, cold) = (time(1, false), time(4, false), time(4, true));
            // Predicted: the same launch takes about the same time, and no cache is warm.
            assert!(one > 0 && four.abs_diff(4 * one) <= one, "{kind:?}: {one} and {four}");
            assert!(cold.abs_diff(four) <= one, "{kind:?}: {cold} and {four}");
            let again = time(1, false);
            assert!(again.abs_diff(one) <= one, "{kind:?}: {again} and {one}");
            assert_eq!(device.read(&y).unwrap(), ramp(64, 2.0));
            device.write(&y, &[0; 256]).unwrap();
        }
        // More graphs than are cached: the first one is captured again.
        let repeats: Vec<u64> = (1..=20)
            .chain([1])
            .map(|repeat| device.time(&batch, repeat, Batch::Graph, false).unwrap().elapsed_ps)
            .collect();
        assert!(repeats[0].abs_diff(repeats[20]) <= repeats[0] && repeats[19] > repeats[0], "{repeats:?}");
        for (launches, repeat) in [(&batch[..0], 1), (&batch, 0), (&batch, (1 << 16) + 1)] {
            let why = rejected(device.time(launches, repeat, Batch::Graph, false));
            assert_eq!(why, "expected 1 to 65536 launches in a batch");
        }
        // A graph of an unloaded module is not launched.
        device.unload(module).unwrap();
        assert!(rejected(device.time(&batch, 1, Batch::Graph, false)).contains("not loaded"));
    });
}

#[test]
fn a_request_that_cannot_be_done_is_an_error_and_changes_nothing() {
    on_driver("a_request_that_cannot_be_done_is_an_error_and_changes_nothing", "l4", || {
        let mut device = Cuda::open(0).unwrap();
        for text in ["no PTX", MODULE.trim_end().trim_end_matches('}')] {
            let (function, name) = call(device.load(text));
            assert!(function == "cuModuleLoadDataEx" && name.starts_with("CUDA_ERROR_INVALID_"), "{name}");
        }
        assert!(rejected(device.load("no\0PTX")).contains("zero byte"));
        let module = device.load(MODULE).unwrap();
        let (x, y) = (device.allocate(256).unwrap(), device.allocate(256).unwrap());
        device.write(&x, &ramp(64, 1.0)).unwrap();

        let unknown = launch(module, "thrice", 2, 32, &[x, y]);
        assert_eq!(call(device.run(&[unknown])), ("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND".to_owned()));
        let large = launch(module, "scaled", 1, 2048, &[x, y]);
        assert_eq!(call(device.run(&[large])), ("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE".to_owned()));
        let greedy = Launch { shared: 200 << 10, ..launch(module, "scaled", 1, 32, &[x, y]) };
        assert_eq!(
            call(device.run(&[greedy])),
            ("cuFuncSetAttribute", "CUDA_ERROR_INVALID_VALUE".to_owned())
        );
        let resident = Launch { cooperative: true, ..launch(module, "scaled", 1 << 20, 32, &[x, y]) };
        let too_large = ("cuLaunchCooperativeKernel", "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE".to_owned());
        assert_eq!(call(device.run(&[resident])), too_large);
        // A launch that fails during a capture ends the capture.
        let large = launch(module, "scaled", 1, 2048, &[x, y]);
        assert!(call(device.time(&[large], 2, Batch::Graph, false)).1.starts_with("CUDA_ERROR_"));
        let none = ("cuModuleGetGlobal", "CUDA_ERROR_NOT_FOUND".to_owned());
        assert_eq!(call(device.set(module, "nothing", &[0; 4])), none);
        assert_eq!(call(device.allocate(1 << 50)), ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY".to_owned()));

        // Requests that the driver would not check.
        assert!(
            rejected(device.set(module, "factor", &[0; 8]))
                .contains("expected 4 bytes for `factor`, found 8")
        );
        assert_eq!(rejected(device.write(&y, &[0; 257])), "257 bytes do not fit into 256");
        let freed = device.allocate(16).unwrap();
        device.free(freed).unwrap();
        for result in [device.free(freed), device.write(&freed, &[0]), device.read(&freed).map(drop)] {
            assert!(rejected(result).contains("there is no allocation of 16 bytes"));
        }
        let longer = Memory { bytes: 257, ..y };
        assert!(rejected(device.read(&longer)).contains("there is no allocation of 257 bytes"));
        let gone = device.load(MODULE).unwrap();
        device.unload(gone).unwrap();
        assert!(rejected(device.unload(gone)).contains("no module with this number is loaded"));
        assert!(
            rejected(device.set(gone, "factor", &[0; 4])).contains("no module with this number is loaded")
        );

        // The device still works.
        device.run(&[launch(module, "scaled", 2, 32, &[x, y])]).unwrap();
        assert_eq!(device.read(&y).unwrap(), ramp(64, 2.0));
        // An allocation without bytes has an address.
        let nothing = device.allocate(0).unwrap();
        assert!(nothing.address != 0 && device.read(&nothing).unwrap().is_empty());
    });
}

#[test]
fn a_kernel_that_writes_where_no_memory_is_fails_the_launch() {
    on_driver("a_kernel_that_writes_where_no_memory_is_fails_the_launch", "l4", || {
        let mut device = Cuda::open(0).unwrap();
        let module = device.load(MODULE).unwrap();
        let y = device.allocate(256).unwrap();
        let wrong = launch(module, "wrong", 1, 1, &[y]);
        let (_, name) = call(device.run(std::slice::from_ref(&wrong)));
        assert_eq!(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
        // As on hardware, the context stays unusable.
        assert!(call(device.read(&y)).1.starts_with("CUDA_ERROR_"));
    });
}
