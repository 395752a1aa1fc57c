//! Runs rungs of the ladder through the schedule model: execution counts of their PTX match their machine
//! code.
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

use warpproof_kernels::attention::Attention;
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::ladder::LADDER;
use warpproof_kernels::plan::{Plan, Request, Scales};
use warpproof_kernels::problem::{Granularity, Shape};
use warpproof_launch::{Geometry, Gpu, Use};
use warpproof_model::Device as Named;
use warpproof_model::sass::{Flow, mapping, parse};
use warpproof_model::schedule::{Code, Limits, Ratios, Residency, simulate};
use warpproof_sim::observe::{Issue, Observer};
use warpproof_sim::{Buffer, Device, Module};
use warpproof_toolchain::{Options, Toolchain, WITHOUT_TOOLCHAIN};

/// How often warps of a block executed each instruction.
#[derive(Default)]
struct Visits(BTreeMap<u32, u64>);

impl Observer for Visits {
    fn issue(&mut self, issue: &Issue<'_>) {
        *self.0.entry(issue.pc).or_default() += 1;
    }

    fn pass(&mut self, issue: &Issue<'_>) {
        *self.0.entry(issue.pc).or_default() += 1;
    }
}

#[derive(Debug)]
struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

fn failed(error: impl fmt::Debug) -> Failed {
    Failed(format!("{error:?}"))
}

/// The software GPU, which records how often each PTX line of the last launch was executed.
#[derive(Default)]
struct Counting {
    gpu: Device,
    lines: BTreeMap<u32, u64>,
    kernel: String,
    warps: u64,
    block_warps: u32,
}

impl Gpu for Counting {
    type Memory = Buffer<u8>;
    type Module = Module;
    type Error = Failed;

    fn load(&mut self, ptx: &str) -> Result<Module, Failed> {
        self.gpu.load(ptx).map_err(failed)
    }

    fn allocate(&mut self, name: &str, bytes: usize, _: Use) -> Result<Buffer<u8>, Failed> {
        self.gpu.alloc_named(name, bytes).map_err(failed)
    }

    fn free(&mut self, memory: Buffer<u8>) -> Result<(), Failed> {
        self.gpu.free(memory).map_err(failed)
    }

    fn address(&self, memory: &Buffer<u8>) -> u64 {
        memory.address()
    }

    fn write(&mut self, memory: &Buffer<u8>, bytes: &[u8]) -> Result<(), Failed> {
        self.gpu.write(memory, bytes).map_err(failed)
    }

    fn read(&mut self, memory: &Buffer<u8>) -> Result<Vec<u8>, Failed> {
        self.gpu.read(memory).map_err(failed)
    }

    fn launch(&mut self, module: &Module, name: &str, at: Geometry, params: &[u8]) -> Result<(), Failed> {
        let kernel = module.kernel(name).map_err(failed)?;
        let launch = kernel.launch().grid(at.grid).block(at.block).shared(at.shared).arg(params.to_vec());
        let mut visits: BTreeMap<u32, u64> = BTreeMap::new();
        let outcome = self.gpu.run_observed(&launch, &|_| Some(Box::<Visits>::default()), &mut |listener| {
            let listener: Box<dyn Any> = listener;
            for (pc, count) in listener.downcast::<Visits>().unwrap().0 {
                *visits.entry(pc).or_default() += count;
            }
        });
        if let Some(stop) = outcome.stop {
            return Err(failed(stop));
        }
        self.lines.clear();
        let places = (0..).map_while(|pc| kernel.program().place(pc).map(|place| (pc, place.ptx_line)));
        for (pc, line) in places {
            self.lines.insert(line, visits.get(&pc).copied().unwrap_or(0));
        }
        self.block_warps = at.block / 32;
        self.warps = at.grid.iter().map(|n| u64::from(*n)).product::<u64>() * u64::from(self.block_warps);
        name.clone_into(&mut self.kernel);
        Ok(())
    }
}

/// Predicted cycles of one block of a rung on an L4, with all data in the L1 cache.
fn cycles(toolchain: &Toolchain, rung: &str, format: Format) -> Result<u64, String> {
    let l4 = Named::named("L4").unwrap();
    let scales = if format == Format::Linear8 { Granularity::Tensor } else { Granularity::Head };
    let request = Request {
        rung: Some(rung.to_owned()),
        format,
        scales: Scales::all(scales),
        ..Request::new(Shape::equal(1, 2, 256, 64))
    };
    let plan = Plan::new(&request, l4).map_err(|error| format!("{error:?}"))?;
    let ptx = plan.compile(toolchain).unwrap();
    let mut gpu = Counting::default();
    let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).unwrap();

    let assembled = toolchain.ptxas(&ptx, "sm_89", &["-lineinfo"]).unwrap();
    let functions = parse(&toolchain.encoded_sass(&assembled.cubin).unwrap()).unwrap();
    let function = functions.iter().find(|function| function.name == gpu.kernel).unwrap();
    let flow = Flow::new(function);
    let mapped = mapping::map(function, &flow, &gpu.lines, gpu.warps).map_err(|error| error.to_string())?;

    // Every matrix product executed in the PTX is one of the machine code.
    let products = |base: &str| -> u64 {
        let here = |block: &warpproof_model::sass::Block| {
            let code = &function.instructions[block.first..block.end];
            u64::try_from(code.iter().filter(|i| i.base() == base).count()).unwrap()
        };
        flow.blocks.iter().zip(&mapped.frequencies.blocks).map(|(block, count)| here(block) * count).sum()
    };
    let counted: u64 = gpu
        .lines
        .iter()
        .filter(|(line, _)| {
            ptx.lines().nth(usize::try_from(**line).unwrap() - 1).unwrap().contains("mma.sync.aligned.m16n8k")
        })
        .map(|(_, count)| *count)
        .sum();
    if counted > 0 {
        assert_eq!(products("HMMA") + products("QMMA"), counted, "{rung}");
    }

    let code = Code { function, flow: &flow, accesses: &[] };
    let residency = Residency { blocks: 1, warps: gpu.block_warps, multiprocessors: 58 };
    let mut path = Ratios::new(&flow, &mapped.frequencies, gpu.block_warps);
    let schedule =
        simulate(l4, &code, residency, &mut path, Limits::default()).map_err(|error| error.to_string())?;
    let length = |block: &warpproof_model::sass::Block| u64::try_from(block.end - block.first).unwrap();
    let issued: u64 =
        flow.blocks.iter().zip(&mapped.frequencies.blocks).map(|(block, count)| length(block) * count).sum();
    assert_eq!(schedule.issued, issued * u64::from(gpu.block_warps) / gpu.warps, "{rung}");
    Ok(schedule.cycles)
}

#[test]
fn toolchain_every_rung_is_mapped_and_predicted() {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12));
    let toolchain = toolchain.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
    let mut predicted = BTreeMap::new();
    for rung in LADDER {
        let format = if rung.id.starts_with('h') { Format::Linear8 } else { Format::E4m3 };
        let cycles = cycles(&toolchain, rung.id, format);
        assert!(cycles.is_ok(), "{}: {cycles:?}", rung.id);
        predicted.insert(rung.id, cycles.unwrap_or(0));
    }
    // Blocks of the same 64 rows; each rung has one change that is meant to be faster.
    assert!(predicted["n2"] > predicted["n3"] && predicted["n3"] > predicted["n4"], "{predicted:?}");
    // Storing P over the scores saves memory, but no time inside a block.
    let (before, after) = (predicted["h2"], predicted["h3a"]);
    assert!(before.abs_diff(after) * 50 < before, "{predicted:?}");
}
