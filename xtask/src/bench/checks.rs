//! Cost of the checks: the same launch with and without checks, alternating, in one run.
//!
//! Ratios of times on this machine are *measured*; bytes of shadow are *counted*.

use std::time::Instant;

use serde_json::{Map, json};
use warpproof_check::{BufferRole, Check, CheckLaunch, Role, Settings};
use warpproof_sim::{Buffer, Device, Launch};
use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain};

/// Repetitions of both; the best of each counts, because other work on the machine can only slow it down.
const TIMES: u32 = 5;

/// A kernel with its launch.
pub(super) struct Subject {
    pub(super) name: &'static str,
    file: &'static str,
    kernel: &'static str,
    grid: (u32, u32),
    block: (u32, u32),
    /// Arrays: bytes of an element, extents, and whether the kernel writes it.
    arrays: &'static [(u32, &'static [u64], bool)],
    scalars: &'static [u32],
}

pub(super) const SUBJECTS: &[Subject] = &[
    Subject {
        name: "sgemm",
        file: "corpus/cuda/sgemm_tiled.cu",
        kernel: "sgemm_tiled",
        grid: (16, 16),
        block: (16, 16),
        arrays: &[(4, &[256, 256], false), (4, &[256, 256], false), (4, &[256, 256], true)],
        scalars: &[256],
    },
    Subject {
        name: "gemm_cp_async",
        file: "corpus/cuda/gemm_cp_async.cu",
        kernel: "gemm_cp_async",
        grid: (4, 4),
        block: (128, 1),
        arrays: &[(2, &[256, 256], false), (2, &[256, 256], false), (4, &[256, 256], true)],
        scalars: &[256, 256, 256],
    },
    Subject {
        name: "attention",
        file: "tests/pass/case_file/drain_wait_of_all.cu",
        kernel: "attention",
        grid: (16, 4),
        block: (128, 1),
        arrays: &[
            (2, &[2, 8, 256, 64], false),
            (2, &[2, 8, 256, 64], false),
            (2, &[2, 8, 256, 64], false),
            (2, &[2, 8, 256, 64], true),
        ],
        scalars: &[],
    },
];

/// A device with a launch on it, and settings that describe its buffers to the checks.
pub(super) fn prepare(
    subject: &Subject,
    toolchain: &Toolchain,
) -> Result<(Device, Launch, Settings), String> {
    let path = crate::root().join(subject.file);
    let source = Source::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let compiled =
        toolchain.compile(&source, &CompileOptions::new("sm_89")).map_err(|error| error.to_string())?;
    let mut device = Device::new().with_threads(1);
    let module = device.load(&compiled.ptx).map_err(|stop| stop.to_string())?;
    let kernel = module.kernel(subject.kernel).map_err(|stop| stop.to_string())?;
    let mut launch = kernel.launch().grid(subject.grid).block(subject.block);
    let mut settings = Settings::default();
    for (i, (element, extents, output)) in subject.arrays.iter().enumerate() {
        let role = if *output { Role::Out } else { Role::In };
        let mut buffer = BufferRole {
            name: format!("array{i}"),
            address: 0,
            element: *element,
            extents: extents.to_vec(),
            role,
            initialized: !output,
        };
        let bytes = usize::try_from(buffer.bytes()).unwrap_or(0);
        let memory: Buffer<u8> =
            device.alloc_named(&buffer.name, bytes).map_err(|error| error.to_string())?;
        // Small numbers in every format: a byte of the exponent, then zeros.
        let fill: Vec<u8> =
            (0..bytes).map(|i| if i % 4 == 3 || *element == 2 && i % 2 == 1 { 0x2c } else { 0 }).collect();
        device.write(&memory, &fill).map_err(|error| error.to_string())?;
        buffer.address = memory.address();
        settings.buffers.push(buffer);
        launch = launch.arg(memory);
    }
    for scalar in subject.scalars {
        launch = launch.arg(*scalar);
    }
    Ok((device, launch, settings))
}

/// Measures every figure.
pub(crate) fn run(json: bool) -> Result<(), String> {
    let toolchain = Toolchain::find(&Options::from_env()).map_err(|error| error.to_string())?;
    let mut figures = Map::new();
    for subject in SUBJECTS {
        let (mut device, launch, settings) = prepare(subject, &toolchain)?;
        let mut sets: Vec<(String, Settings)> = vec![("all".to_owned(), settings.clone())];
        for check in Check::GATE {
            sets.push((check.name().to_owned(), Settings { checks: vec![check], ..settings.clone() }));
        }
        let mut best = vec![f64::INFINITY; sets.len() + 1];
        // Bytes with all checks, and without those that track the elements of fragments.
        let mut tags = 0;
        let plain: Vec<Check> = Check::GATE.into_iter().filter(|check| *check != Check::Provenance).collect();
        let plain = Settings { checks: plain, ..settings.clone() };
        for _ in 0..TIMES {
            let start = Instant::now();
            launch.run(&mut device).map_err(|stop| stop.to_string())?;
            best[0] = best[0].min(start.elapsed().as_secs_f64());
            for (i, (_, settings)) in sets.iter().enumerate() {
                let start = Instant::now();
                let checked = device.check(&launch, settings);
                best[i + 1] = best[i + 1].min(start.elapsed().as_secs_f64());
                if let Some(finding) = checked.findings.first() {
                    return Err(format!("{}: unexpected finding: {finding}", subject.file));
                }
                tags = tags.max(checked.shadow);
            }
        }
        let shadow = device.check(&launch, &plain).shadow;
        for (i, (name, _)) in sets.iter().enumerate() {
            let ratio = (best[i + 1] / best[0] * 100.0).round() / 100.0;
            figures.insert(format!("{}_{name}_ratio", subject.name), json!(ratio));
        }
        let shared = launch.shared_bytes().max(1);
        let per_word = |bytes: u64| {
            let ratio = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / f64::from(shared) * 4.0;
            json!((ratio * 100.0).round() / 100.0)
        };
        figures.insert(format!("{}_shadow_bytes_per_word", subject.name), per_word(shadow));
        figures.insert(format!("{}_shadow_bytes_per_word_with_provenance", subject.name), per_word(tags));
    }
    if json {
        println!("{}", serde_json::Value::Object(figures));
    } else {
        println!("best of {TIMES} runs each on one core, checked to unchecked, measured on this machine:");
        for (name, value) in &figures {
            println!("  {name:44} {value:>8}");
        }
    }
    Ok(())
}
