//! The measured kernels: their launches, their inputs and what a run must leave in memory.

use std::fs;

use serde_json::Value;
use warpproof_check::{BufferRole, Role, Settings};
use warpproof_kernels::attention::Attention;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::ladder::LADDER;
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::Shape;
use warpproof_launch::{Geometry, Gpu, SimError, Use};
use warpproof_model::Device as Model;
use warpproof_sim::{Buffer, Device, Element, F16, Kernel, Launch, Module};
use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain};

/// The sizes of the problems.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Side of the matrices of all products.
    pub(super) side: u32,
    /// 16-byte vectors of the copy.
    pub(super) vectors: u32,
    /// Rows of softmax and cross entropy.
    rows: u32,
    /// Keys of the sort.
    keys: u32,
    /// Sequences of attention.
    sequences: u8,
}

impl Sizes {
    /// Those of the table.
    pub(super) const FULL: Sizes =
        Sizes { side: 256, vectors: 1 << 18, rows: 128, keys: 32 << 10, sequences: 2 };
    /// Those of profiles, which run fifty times slower.
    pub(super) const SMALL: Sizes =
        Sizes { side: 128, vectors: 1 << 15, rows: 16, keys: 8 << 10, sequences: 1 };
}

/// Columns of softmax and cross entropy.
const COLUMNS: u32 = 1000;
/// Keys of a tile of the sort.
const TILE: u32 = 1024;

/// What a kernel computes, for its rate.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// Multiply-adds.
    Fma(f64),
    /// Bytes read and written.
    Bytes(f64),
    /// Sorted keys.
    Keys(f64),
}

impl Work {
    /// The rate at this time, with its unit.
    pub(super) fn rate(self, seconds: f64) -> (f64, &'static str) {
        match self {
            Work::Fma(count) => (count / seconds / 1e6, "MFMA/s"),
            Work::Bytes(count) => (count / seconds / 1e9, "GB/s"),
            Work::Keys(count) => (count / seconds / 1e6, "Mkey/s"),
        }
    }
}

/// A kernel with its name in the table.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    prepare: fn(Sizes) -> Result<Prepared, String>,
}

/// A device with the launches of a run.
pub(super) struct Prepared {
    pub(super) device: Device,
    pub(super) launches: Vec<(Launch, Settings)>,
    /// Memory that a run changes, with its contents before the run.
    before: Vec<(Buffer<u8>, Vec<u8>)>,
    pub(super) work: Work,
    #[expect(clippy::type_complexity, reason = "the type is used once")]
    correct: Box<dyn Fn(&Device) -> Result<bool, String>>,
}

impl Prepared {
    /// Restores the memory that a run changes.
    pub(super) fn reset(&mut self) -> Result<(), String> {
        for (buffer, bytes) in &self.before {
            self.device.write(buffer, bytes).map_err(text)?;
        }
        Ok(())
    }

    /// Fails if the result of the last run is wrong.
    pub(super) fn verify(&self) -> Result<(), String> {
        if (self.correct)(&self.device)? { Ok(()) } else { Err("the result is wrong".to_owned()) }
    }
}

impl Subject {
    pub(super) fn prepare(&self, sizes: Sizes) -> Result<Prepared, String> {
        (self.prepare)(sizes).map_err(|error| format!("{}: {error}", self.name))
    }
}

pub(super) const SUBJECTS: &[Subject] = &[
    Subject { name: "sgemm", what: "CUDA C++, 16×16 tiles in shared memory, side 256", prepare: sgemm },
    Subject {
        name: "mma-gemm",
        what: "CUDA C++, f16, shared memory, ldmatrix and mma.sync, side 256",
        prepare: mma_gemm,
    },
    Subject {
        name: "cp-async-gemm",
        what: "the same with two stages of cp.async, side 256",
        prepare: cp_async_gemm,
    },
    Subject {
        name: "attention-n4",
        what: "FP8 attention kernel n4, 2 sequences of 256, 8 heads of 64",
        prepare: attention,
    },
    Subject { name: "triton-softmax", what: "Triton, f32, 128 rows of 1,000", prepare: softmax },
    Subject {
        name: "triton-cross-entropy",
        what: "Triton, f32, loss and gradient, 128 rows of 1,000",
        prepare: cross_entropy,
    },
    Subject {
        name: "radix-sort",
        what: "CUDA C++, one-sweep with atomics and look-back, 32,768 keys of 32 bits",
        prepare: radix_sort,
    },
    Subject { name: "copy", what: "CUDA C++, 16 bytes per thread, 4 MiB", prepare: copy },
];

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn compiled(file: &str) -> Result<(Device, Module), String> {
    let path = crate::root().join(file);
    let source = Source::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let toolchain = Toolchain::find(&Options::from_env()).map_err(text)?;
    let ptx = toolchain.compile(&source, &CompileOptions::new("sm_89")).map_err(text)?.ptx;
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).map_err(text)?;
    Ok((device, module))
}

/// A matrix with its role, or matrices one after the other: checks follow their elements through the tensor core.
fn matrix(name: &str, buffer: &Buffer<u8>, element: u32, role: Role, extents: &[u64]) -> BufferRole {
    BufferRole { extents: extents.to_vec(), ..self::role(name, buffer, element, role) }
}

/// A buffer with its role.
fn role(name: &str, buffer: &Buffer<u8>, element: u32, role: Role) -> BufferRole {
    let bytes = u64::try_from(buffer.len()).unwrap_or(0);
    BufferRole {
        name: name.to_owned(),
        address: buffer.address(),
        element,
        extents: vec![bytes / u64::from(element)],
        role,
        initialized: role != Role::Out,
    }
}

fn settings(buffers: Vec<BufferRole>) -> Settings {
    Settings { buffers, ..Settings::default() }
}

fn alloc(device: &mut Device, name: &str, bytes: &[u8]) -> Result<Buffer<u8>, String> {
    let buffer = device.alloc_named(name, bytes.len()).map_err(text)?;
    device.write(&buffer, bytes).map_err(text)?;
    Ok(buffer)
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn to_words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// Pseudorandom words.
fn words(count: u32, seed: u32) -> impl Iterator<Item = u32> {
    let mut state = seed;
    (0..count).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 15
    })
}

/// Small multiples of 1/8, so that every sum of products is exact in f32.
fn eighths(count: u32, seed: u32) -> Vec<f32> {
    words(count, seed).map(|word| (f32::from(u8::try_from(word >> 28).unwrap_or(0)) - 8.0) / 8.0).collect()
}

/// A product of square matrices; operands are f16 (`half`) or f32.
fn product(
    (file, name): (&str, &str),
    side: u32,
    (tile, block): (u32, (u32, u32)),
    scalars: u32,
    half: bool,
) -> Result<Prepared, String> {
    let (mut device, module) = compiled(file)?;
    let kernel = module.kernel(name).map_err(text)?;
    let (a, b) = (eighths(side * side, 1), eighths(side * side, 2));
    let bytes = |values: &[f32]| -> Vec<u8> {
        if half {
            let mut halves = Vec::new();
            for value in values {
                F16::from_f32(*value).store(&mut halves);
            }
            halves
        } else {
            floats(values.iter().copied())
        }
    };
    let element = if half { 2 } else { 4 };
    let on_a = alloc(&mut device, "a", &bytes(&a))?;
    let on_b = alloc(&mut device, "b", &bytes(&b))?;
    let c = alloc(&mut device, "c", &vec![0; size(side * side * 4)])?;
    let mut launch = kernel.launch().grid((side / tile, side / tile)).block(block).arg(on_a).arg(on_b).arg(c);
    for _ in 0..scalars {
        launch = launch.arg(side);
    }
    let extents = [u64::from(side); 2];
    let roles = vec![
        matrix("a", &on_a, element, Role::In, &extents),
        matrix("b", &on_b, element, Role::In, &extents),
        matrix("c", &c, 4, Role::Out, &extents),
    ];
    let row = size(side);
    let expected: Vec<f32> = (0..row * row)
        .map(|at| (0..row).map(|k| a[at / row * row + k] * b[k * row + at % row]).sum())
        .collect();
    Ok(Prepared {
        before: vec![(c, vec![0; size(side * side * 4)])],
        launches: vec![(launch, settings(roles))],
        work: Work::Fma(f64::from(side).powi(3)),
        correct: Box::new(move |device| Ok(to_floats(&device.read(&c).map_err(text)?) == expected)),
        device,
    })
}

fn sgemm(sizes: Sizes) -> Result<Prepared, String> {
    product(("corpus/cuda/sgemm_tiled.cu", "sgemm_tiled"), sizes.side, (16, (16, 16)), 1, false)
}

fn mma_gemm(sizes: Sizes) -> Result<Prepared, String> {
    product(("xtask/src/bench/kernels/mma_gemm.cu", "mma_gemm"), sizes.side, (64, (128, 1)), 1, true)
}

fn cp_async_gemm(sizes: Sizes) -> Result<Prepared, String> {
    product(("corpus/cuda/gemm_cp_async.cu", "gemm_cp_async"), sizes.side, (64, (128, 1)), 3, true)
}

/// Runs the launches of a plan and keeps them, with its memory.
struct Recording {
    device: Device,
    buffers: Vec<BufferRole>,
    launches: Vec<(Launch, Settings)>,
    written: Vec<(Buffer<u8>, Vec<u8>)>,
}

impl Gpu for Recording {
    type Memory = Buffer<u8>;
    type Module = Module;
    type Error = SimError;

    fn load(&mut self, ptx: &str) -> Result<Module, SimError> {
        Gpu::load(&mut self.device, ptx)
    }

    fn allocate(&mut self, name: &str, bytes: usize, what: Use) -> Result<Buffer<u8>, SimError> {
        let buffer = Gpu::allocate(&mut self.device, name, bytes, what)?;
        let used = match what {
            Use::Input => Role::In,
            Use::Output => Role::Out,
            Use::Scratch | Use::Shared => Role::Scratch,
        };
        let initialized = matches!(what, Use::Input | Use::Shared);
        self.buffers.push(BufferRole { initialized, ..role(name, &buffer, 1, used) });
        Ok(buffer)
    }

    fn free(&mut self, _: Buffer<u8>) -> Result<(), SimError> {
        // The launches are repeated later.
        Ok(())
    }

    fn address(&self, memory: &Buffer<u8>) -> u64 {
        memory.address()
    }

    fn write(&mut self, memory: &Buffer<u8>, bytes: &[u8]) -> Result<(), SimError> {
        self.written.push((*memory, bytes.to_vec()));
        Gpu::write(&mut self.device, memory, bytes)
    }

    fn read(&mut self, memory: &Buffer<u8>) -> Result<Vec<u8>, SimError> {
        Gpu::read(&mut self.device, memory)
    }

    fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), SimError> {
        Gpu::launch(&mut self.device, module, kernel, geometry, params)?;
        // It was found for the launch above.
        let Ok(kernel) = module.kernel(kernel) else { return Ok(()) };
        let launch = kernel.launch().grid(geometry.grid).block(geometry.block).shared(geometry.shared);
        self.launches.push((launch.arg(params.to_vec()), settings(self.buffers.clone())));
        Ok(())
    }
}

fn attention(sizes: Sizes) -> Result<Prepared, String> {
    let (batch, heads, length, width) = (usize::from(sizes.sequences), 8, 256, 64);
    let rung = LADDER.iter().find(|rung| rung.id == "n4").ok_or("the ladder has no kernel n4")?;
    let format = rung.formats.first().copied().ok_or("n4 has no format")?;
    let shape = Shape::equal(batch, heads, length, width);
    let request = Request { rung: Some("n4".to_owned()), format, ..Request::new(shape) };
    let model = Model::named("L4").ok_or("the L4 is not in the device table")?;
    let plan = Plan::new(&request, model).map_err(text)?;
    let toolchain = Toolchain::find(&Options::from_env()).map_err(text)?;
    let ptx = plan.compile(&toolchain).map_err(text)?;
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    let device = Device::new().with_threads(1);
    let mut gpu = Recording { device, buffers: Vec::new(), launches: Vec::new(), written: Vec::new() };
    let attention = Attention::load(plan, &ptx, &mut gpu).map_err(text)?;
    attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).map_err(text)?;
    let Recording { device, mut launches, written, .. } = gpu;
    let extents = [batch * heads, length, width].map(|extent| u64::try_from(extent).unwrap_or(0));
    let roles = launches.iter_mut().flat_map(|(_, settings)| &mut settings.buffers);
    for role in roles.filter(|role| ["q", "k", "v", "o"].contains(&role.name.as_str())) {
        // Codes of one byte, and an output of f16.
        role.element = if role.name == "o" { 2 } else { 1 };
        role.extents = extents.to_vec();
    }
    // The first run is compared with the oracles by `cargo xtask attention`; all later runs must give the same bits.
    let contents = |device: &Device, buffers: &[Buffer<u8>]| -> Result<Vec<Vec<u8>>, String> {
        buffers.iter().map(|buffer| device.read(buffer).map_err(text)).collect()
    };
    let buffers: Vec<Buffer<u8>> = written.iter().map(|(buffer, _)| *buffer).collect();
    let expected = contents(&device, &buffers)?;
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(0));
    Ok(Prepared {
        work: Work::Fma(2.0 * count(batch * heads * length) * count(length * width)),
        correct: Box::new(move |device| Ok(contents(device, &buffers)? == expected)),
        before: written,
        launches,
        device,
    })
}

/// A Triton kernel of the corpus with its block and its shared memory; the caller adds the grid and the arguments.
fn triton(name: &str, rows: u32) -> Result<(Device, Launch), String> {
    let folder = crate::root().join("corpus/triton");
    let manifest = fs::read_to_string(folder.join("manifest.json")).map_err(text)?;
    let manifest: Value = serde_json::from_str(&manifest).map_err(text)?;
    let is_it = |module: &&Value| module["name"] == name && module["arch"] == "sm_89";
    let module = manifest["modules"].as_array().and_then(|all| all.iter().find(is_it));
    let module = module.ok_or_else(|| format!("corpus/triton has no module {name}"))?;
    let string = |key: &str| module[key].as_str().unwrap_or_default();
    let number = |key: &str| module[key].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let ptx = fs::read_to_string(folder.join(string("file"))).map_err(text)?;
    let mut device = Device::new().with_threads(1);
    let kernel = device.load(&ptx).map_err(text)?.kernel(string("kernel")).map_err(text)?;
    let launch = kernel.launch().grid(rows).block(number("block")).shared(number("shared_bytes"));
    Ok((device, launch))
}

/// Rows are a multiple of 16 elements apart.
const STRIDE: u32 = COLUMNS.next_multiple_of(16);

fn logits(rows: u32) -> Vec<f32> {
    words(rows * STRIDE, 3)
        .map(|word| f32::from(u16::try_from(word >> 20).unwrap_or(0)) / 512.0 - 4.0)
        .collect()
}

/// Rows of a matrix, without the elements between them.
fn rows(values: &[f32]) -> impl Iterator<Item = &[f32]> {
    values.chunks(size(STRIDE)).map(|row| &row[..size(COLUMNS)])
}

fn exponentials(row: &[f32]) -> (Vec<f64>, f64) {
    let all: Vec<f64> = row.iter().map(|value| f64::from(*value).exp()).collect();
    let sum = all.iter().sum();
    (all, sum)
}

fn softmax(sizes: Sizes) -> Result<Prepared, String> {
    let (mut device, launch) = triton("softmax_f32", sizes.rows)?;
    let x = logits(sizes.rows);
    let input = alloc(&mut device, "x", &floats(x.iter().copied()))?;
    let blank = vec![0; x.len() * 4];
    let out = alloc(&mut device, "out", &blank)?;
    let launch = launch.arg(input).arg(out).arg(STRIDE).arg(STRIDE).arg(COLUMNS).arg(0u64).arg(0u64);
    let roles = vec![role("x", &input, 4, Role::In), role("out", &out, 4, Role::InOut)];
    Ok(Prepared {
        before: vec![(out, blank)],
        launches: vec![(launch, settings(roles))],
        work: Work::Bytes(2.0 * 4.0 * f64::from(sizes.rows * COLUMNS)),
        correct: Box::new(move |device| {
            let found = to_floats(&device.read(&out).map_err(text)?);
            Ok(rows(&x).zip(rows(&found)).all(|(x, found)| {
                let (all, sum) = exponentials(x);
                found.iter().zip(all).all(|(found, e)| (f64::from(*found) - e / sum).abs() < 1e-6)
            }))
        }),
        device,
    })
}

fn cross_entropy(sizes: Sizes) -> Result<Prepared, String> {
    let (mut device, launch) = triton("cross_entropy_f32", sizes.rows)?;
    let x = logits(sizes.rows);
    let labels: Vec<u32> = words(sizes.rows, 4).map(|word| word % COLUMNS).collect();
    let gradient = alloc(&mut device, "logits", &floats(x.iter().copied()))?;
    let bytes: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
    let on_labels = alloc(&mut device, "labels", &bytes)?;
    let losses = alloc(&mut device, "losses", &vec![0; size(sizes.rows * 4)])?;
    let launch = launch.arg(gradient).arg(on_labels).arg(losses).arg(STRIDE).arg(COLUMNS).arg(0u64).arg(0u64);
    let roles = vec![
        role("logits", &gradient, 4, Role::InOut),
        role("labels", &on_labels, 4, Role::In),
        role("losses", &losses, 4, Role::Out),
    ];
    Ok(Prepared {
        before: vec![(gradient, floats(x.iter().copied()))],
        launches: vec![(launch, settings(roles))],
        // Logits are read twice and written once.
        work: Work::Bytes(3.0 * 4.0 * f64::from(sizes.rows * COLUMNS)),
        correct: Box::new(move |device| {
            let found = to_floats(&device.read(&gradient).map_err(text)?);
            let losses = to_floats(&device.read(&losses).map_err(text)?);
            let near = |one: f32, other: f64| (f64::from(one) - other).abs() < 1e-5;
            Ok(rows(&x).zip(rows(&found)).zip(labels.iter().zip(losses)).all(
                |((x, found), (label, loss))| {
                    let (all, sum) = exponentials(x);
                    let exact = |i: usize| all[i] / sum - f64::from(u8::from(i == size(*label)));
                    near(loss, sum.ln() - f64::from(x[size(*label)]))
                        && found.iter().enumerate().all(|(i, value)| near(*value, exact(i)))
                },
            ))
        }),
        device,
    })
}

fn radix_sort(sizes: Sizes) -> Result<Prepared, String> {
    const PASSES: u32 = 4;
    const DIGITS: u32 = 256;
    let (mut device, module) = compiled("xtask/src/bench/kernels/radix_sort.cu")?;
    let (histogram, scatter) =
        (module.kernel("histogram").map_err(text)?, module.kernel("scatter").map_err(text)?);
    let mut keys: Vec<u32> = words(sizes.keys, 5).collect();
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let arrays = [alloc(&mut device, "keys", &bytes)?, alloc(&mut device, "sorted", &bytes)?];
    let (mut launches, mut before) = (Vec::new(), vec![(arrays[0], bytes)]);
    for pass in 0..PASSES {
        let mut zeros = |name: &str, count: u32| {
            let blank = vec![0; size(count * 4)];
            let buffer = alloc(&mut device, name, &blank)?;
            before.push((buffer, blank));
            Ok::<_, String>(buffer)
        };
        let starts = zeros("starts", DIGITS)?;
        let counts = zeros("counts", sizes.keys / TILE * DIGITS)?;
        let next_tile = zeros("next_tile", 1)?;
        let (from, to) = if pass % 2 == 0 { (arrays[0], arrays[1]) } else { (arrays[1], arrays[0]) };
        let launch = |kernel: &Kernel| kernel.launch().grid(sizes.keys / TILE).block(256u32);
        let given = role("keys", &from, 4, Role::In);
        launches.push((
            launch(&histogram).arg(from).arg(starts).arg(8 * pass),
            settings(vec![given.clone(), role("starts", &starts, 4, Role::InOut)]),
        ));
        launches.push((
            launch(&scatter).arg(from).arg(to).arg(starts).arg(counts).arg(next_tile).arg(8 * pass),
            settings(vec![
                given,
                role("sorted", &to, 4, Role::Out),
                role("starts", &starts, 4, Role::In),
                role("counts", &counts, 4, Role::InOut),
                role("next_tile", &next_tile, 4, Role::InOut),
            ]),
        ));
    }
    keys.sort_unstable();
    let sorted = arrays[0];
    Ok(Prepared {
        before,
        launches,
        work: Work::Keys(f64::from(sizes.keys)),
        correct: Box::new(move |device| Ok(to_words(&device.read(&sorted).map_err(text)?) == keys)),
        device,
    })
}

fn copy(sizes: Sizes) -> Result<Prepared, String> {
    let (mut device, module) = compiled("xtask/src/bench/kernels/copy.cu")?;
    let kernel = module.kernel("copy").map_err(text)?;
    let bytes: Vec<u8> = words(sizes.vectors * 4, 6).flat_map(u32::to_le_bytes).collect();
    let from = alloc(&mut device, "from", &bytes)?;
    let blank = vec![0; bytes.len()];
    let to = alloc(&mut device, "to", &blank)?;
    let launch =
        kernel.launch().grid(sizes.vectors / 4 / 256).block(256u32).arg(from).arg(to).arg(sizes.vectors);
    let roles = vec![role("from", &from, 16, Role::In), role("to", &to, 16, Role::Out)];
    Ok(Prepared {
        before: vec![(to, blank)],
        launches: vec![(launch, settings(roles))],
        work: Work::Bytes(2.0 * 16.0 * f64::from(sizes.vectors)),
        correct: Box::new(move |device| Ok(device.read(&to).map_err(text)? == bytes)),
        device,
    })
}
