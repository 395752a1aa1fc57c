//! Rungs of the attention ladder, run and checked by the library that launches them.

use std::error::Error;

use warpproof_kernels::attention::{Attention, RunError};
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{Distribution, Inputs, generate};
use warpproof_kernels::ladder::{Cut, Feature, Rung, rung};
use warpproof_kernels::plan::{Plan, Request, Splits};
use warpproof_kernels::problem::{Lengths, Mask, Shape};
use warpproof_kernels::source;
use warpproof_launch::{Checking, Gpu, SimError};
use warpproof_model::Device as Model;
use warpproof_sim::{Device, Stop, check::Severity};
use warpproof_toolchain::{Options, Toolchain};

use super::subject::{Checked, Ran, Runner};

/// Warp instructions after which a mutant is taken to hang: several times what these launches need.
const LIMIT: u64 = 1_000_000;

/// The header whose functions are one instruction each: the place is where they are called.
const INSTRUCTIONS: &str = "ptx.cuh";

/// A rung with some inputs that are small, and together reach all of its code.
pub(crate) struct RungLaunch {
    launches: Vec<(Plan, Inputs)>,
    source: &'static str,
}

/// Queries and keys of the launches of a rung, and the multiprocessors of the device that it is planned for. A rung that is cut
/// to the device is another program on others; these give one program for all launches, of blocks with several warps.
fn launches(rung: &Rung) -> (u32, Vec<(usize, usize)>) {
    // Full tiles of queries and keys, others partly filled, and so many that every stage is used again.
    let many = (rung.rows * 5 / 4, rung.keys * 7 / 2);
    // Less than a tile, a warp without a row, and a row that sees no key where later ones are hidden.
    let few = (3, 2);
    // Full tiles only: bounds are met exactly.
    let full = (rung.rows, rung.keys);
    match rung.cut {
        Cut::Fixed => (58, vec![many, few, full]),
        // The second tile is copied ahead of the loop, so it is met with one key as well.
        Cut::Streamed => (58, vec![many, few, full, (17, rung.keys + 1)]),
        // Likewise, in two blocks of two units.
        Cut::Fitted => (2, vec![(40, many.1), (40, 2), (64, rung.keys), (40, rung.keys + 1)]),
        // Blocks of two pairs. Each warp of a pair has an odd number of tiles first, so that the last one lies where the sums
        // go. Then rows that see no key, a block that sees one key of its second tile, and second tiles partly filled.
        Cut::Paired => (2, vec![(65, 352), (80, 67), (96, 129), (65, 193)]),
        // Four blocks of 128 rows, of which the last has few or all. Where it has one row, the tile behind those that it sees in
        // whole has the last keys.
        Cut::Dense => (2, vec![(400, 280), (390, 2), (512, 64), (385, 40)]),
        // Two tiles of rows over three blocks, of which the second has a part of both; the last tile has two rows first, then all.
        // Then one tile over two blocks, with a step for each, and with some.
        Cut::Straddled => (1, vec![(130, 160), (256, 96), (128, 64), (17, 192)]),
    }
}

impl RungLaunch {
    pub(crate) fn new(id: &str) -> Result<Self, String> {
        let rung = rung(id).ok_or_else(|| format!("there is no rung `{id}`"))?;
        let mut device = *Model::named("L4").ok_or("the device table has no L4")?;
        let (multiprocessors, sizes) = launches(rung);
        device.multiprocessors.value = multiprocessors;
        // With a mask it would be the program of the rung before it, and at these sizes as well if it were left to choose.
        let straddled = rung.cut == Cut::Straddled;
        let plan = if straddled { Plan::straddled } else { Plan::new };
        let mut launches = Vec::new();
        for (queries, keys) in sizes {
            let request = Request {
                rung: Some(rung.id.to_owned()),
                format: rung.formats.first().copied().unwrap_or(Format::E4m3),
                mask: if rung.can(Feature::Causal) && !straddled { Mask::Causal } else { Mask::Full },
                lse: rung.can(Feature::Lse),
                splits: Splits::None,
                ..Request::new(Shape::equal(1, 1, 1, 64).with(vec![Lengths { queries, keys }]))
            };
            let plan = plan(&request, &device).map_err(|error| error.to_string())?;
            launches.push((plan, generate(&request.shape, Distribution::Normal, 0, request.spec())));
        }
        let source = launches.first().map_or(rung.source, |(plan, _)| plan.fit.source);
        Ok(Self { launches, source })
    }
}

/// Loads and runs it; the answer, or the stop.
fn run_on<G>(gpu: &mut G, ptx: &str, plan: &Plan, inputs: &Inputs) -> Result<Ran, String>
where
    G: Gpu<Error = SimError>,
{
    let Inputs { q, k, v, .. } = inputs;
    let outcome = match Attention::load(plan.clone(), ptx, gpu) {
        Ok(attention) => attention.run(gpu, q, k, v),
        Err(error) => Err(RunError::Gpu(error)),
    };
    match outcome {
        Ok(answer) => {
            let output = answer.output.iter().flat_map(|half| half.to_le_bytes()).collect();
            let lse = answer.lse.iter().flatten().flat_map(|float| float.to_le_bytes()).collect();
            Ok(Ran { code: Some(0), arrays: vec![output, lse] })
        }
        Err(RunError::Gpu(error)) => Ok(Ran { code: Some(exit_code(&error)?), arrays: Vec::new() }),
        Err(error) => Err(error.to_string()),
    }
}

/// What the program would say of the stop.
fn exit_code(error: &SimError) -> Result<i32, String> {
    let stop = error.source().and_then(|source| source.downcast_ref::<Box<Stop>>());
    stop.map(|stop| i32::from(stop.exit_code())).ok_or_else(|| error.to_string())
}

fn device() -> Device {
    let mut device = Device::new().with_threads(1);
    device.limits.instructions = LIMIT;
    device
}

impl Runner for RungLaunch {
    /// As NVIDIA's compiler makes it.
    fn ptx(&self) -> Result<String, String> {
        let toolchain =
            Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
        // Shapes of one kind do not change what is compiled.
        let (plan, _) = self.launches.first().ok_or("no launch")?;
        if self.launches.iter().any(|(other, _)| other.defines != plan.defines) {
            return Err(format!("{}: launches of different variants", plan.rung.name));
        }
        plan.compile(&toolchain).map_err(|error| error.to_string())
    }

    fn sources(&self) -> Vec<&str> {
        let headers = source::files().map(|(name, _)| name);
        let headers = headers.filter(|name| *name != self.source && *name != INSTRUCTIONS);
        [self.source].into_iter().chain(headers).collect()
    }

    fn run(&self, ptx: &str) -> Result<Ran, String> {
        let mut all = Ran { code: Some(0), arrays: Vec::new() };
        for (plan, inputs) in &self.launches {
            let ran = run_on(&mut device(), ptx, plan, inputs)?;
            all.arrays.extend(ran.arrays);
            if ran.code != Some(0) {
                all.code = ran.code;
                break;
            }
        }
        Ok(all)
    }

    fn check(&self, ptx: &str, schedules: u32) -> Result<Checked, String> {
        let mut checked = Checked::default();
        for (plan, inputs) in &self.launches {
            let mut gpu = Checking::new(device(), schedules);
            let ran = run_on(&mut gpu, ptx, plan, inputs)?;
            let is_wrong = gpu.findings.iter().any(|finding| finding.severity == Severity::Error);
            checked.code = if is_wrong { Some(1) } else { ran.code };
            for finding in &gpu.findings {
                checked.add(finding.class.name(), finding.severity == Severity::Note);
            }
            if checked.code != Some(0) || !checked.classes.is_empty() {
                break;
            }
        }
        Ok(checked)
    }
}
