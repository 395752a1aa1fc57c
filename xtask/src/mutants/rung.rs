//! Rungs of the attention ladder, run and checked by the library of kernels.

use std::error::Error;

use warpproof_check::Severity;
use warpproof_kernels::attention::{Attention, RunError};
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{Distribution, Inputs, generate};
use warpproof_kernels::ladder::{Cut, Feature, Rung, rung};
use warpproof_kernels::plan::{Plan, Request, Splits};
use warpproof_kernels::problem::{Lengths, Mask, Shape};
use warpproof_kernels::source;
use warpproof_launch::{Checking, Gpu, SimError};
use warpproof_model::Device as Model;
use warpproof_sim::{Device, Stop};
use warpproof_toolchain::{Options, Toolchain};

use super::subject::{Checked, Ran, Runner};

/// Warp instructions after which a mutant counts as hanging: several times what these launches need.
const LIMIT: u64 = 1_000_000;

/// The header with wrappers of single instructions: a mutant's place is the call.
const INSTRUCTIONS: &str = "ptx.cuh";

/// A rung with some small inputs that together execute all of its code.
pub(crate) struct RungLaunch {
    launches: Vec<(Plan, Inputs)>,
    source: &'static str,
}

/// Queries and keys of the launches of a rung, and the multiprocessors of the device that it is planned for. Some rungs are
/// specialized for the device; these values give one program for all launches, with several warps per block.
fn launches(rung: &Rung) -> (u32, Vec<(usize, usize)>) {
    // Full and partly filled tiles of queries and keys, with enough tiles to use every stage again.
    let many = (rung.rows * 5 / 4, rung.keys * 7 / 2);
    // Less than a tile, a warp without a row, and a row that sees no key because of the causal mask.
    let few = (3, 2);
    // Full tiles only: bounds are reached exactly.
    let full = (rung.rows, rung.keys);
    match rung.cut {
        Cut::Fixed => (58, vec![many, few, full]),
        // The second tile is copied before the loop, so it also runs with one key.
        Cut::Streamed => (58, vec![many, few, full, (17, rung.keys + 1)]),
        // The same, in two blocks of two units.
        Cut::Fitted => (2, vec![(40, many.1), (40, 2), (64, rung.keys), (40, rung.keys + 1)]),
        // Blocks of two pairs. First, each warp of a pair has an odd number of tiles, so that the last one lies in the memory of the
        // sums. Then rows that see no key, a block that sees one key of its second tile, and partly filled second tiles.
        Cut::Paired => (2, vec![(65, 352), (80, 67), (96, 129), (65, 193)]),
        // Four blocks of 128 rows; the last has few or all of its rows. If it has one row, the tile after its full tiles has the last
        // keys.
        Cut::Dense => (2, vec![(400, 280), (390, 2), (512, 64), (385, 40)]),
        // Two tiles of rows over three blocks; the second block has a part of both. The last tile first has two rows, then all.
        // Then one tile over two blocks, with one step for each, and with several.
        Cut::StreamK => (1, vec![(130, 160), (256, 96), (128, 64), (17, 192)]),
    }
}

impl RungLaunch {
    pub(crate) fn new(id: &str) -> Result<Self, String> {
        let rung = rung(id).ok_or_else(|| format!("there is no rung `{id}`"))?;
        let mut device = *Model::named("L4").ok_or("the L4 is not in the device table")?;
        let (multiprocessors, sizes) = launches(rung);
        device.multiprocessors.value = multiprocessors;
        // A stream-K rung falls back to the program of the previous rung if there is a mask, and at these sizes unless it is forced.
        let stream_k = rung.cut == Cut::StreamK;
        let plan = if stream_k { Plan::stream_k } else { Plan::new };
        let mut launches = Vec::new();
        for (queries, keys) in sizes {
            let request = Request {
                rung: Some(rung.id.to_owned()),
                format: rung.formats.first().copied().unwrap_or(Format::E4m3),
                mask: if rung.can(Feature::Causal) && !stream_k { Mask::Causal } else { Mask::Full },
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

/// Loads and runs the module; returns the answer, or the error that stopped it.
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

/// The exit code of `warpproof` for this error.
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
    /// As compiled by NVIDIA's compiler.
    fn ptx(&self) -> Result<String, String> {
        let toolchain =
            Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
        // All launches use the same PTX.
        let (plan, _) = self.launches.first().ok_or("the rung has no launch")?;
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
