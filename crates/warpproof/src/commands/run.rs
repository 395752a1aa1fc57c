//! `warpproof run`: runs a kernel on the software GPU or on a CUDA device.
//! Arguments come from the command line or from the file's launch lines.

mod on_device;
mod render;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use warpproof_gate::gpu::Identity;
use warpproof_gate::limits::Purpose;
use warpproof_gate::stage::Compared;
use warpproof_gate::tensor_file::{self, FileTensor};
use warpproof_sim::schedule::{Order, Schedule};
use warpproof_sim::{Device, Stop, StopKind};
use warpproof_toolchain::Source;

use super::device::{self, Where};
use super::flags::JsonFlag;
use super::launch::{
    ArgumentValue, Array, LaunchFlags, Memory, Prepared, Sequence, Spec, Trial, stop_report,
};
use crate::report::{Kind, Outcome, Report, first_error};
use crate::source::{self, Ptx};
use crate::terminal::Terminal;
use render::Print;

/// Run a kernel on the software GPU
///
/// NVRTC compiles CUDA C++ to PTX; a .ptx file is run unchanged. No GPU is needed; with --device
/// cuda:0 the same launch runs on a CUDA device. Write an argument as name:type=value for a scalar
/// and as name:type[count]=fill for an array:
///
///   --arg n:u32=1024                      a scalar
///   --arg in:f32[1024]=randn(seed=0)      an array of random numbers
///   --arg out:f32[32x32]                  an array that starts as zeros
///   --arg w:f16=@weights.npy              an array from a file, with the file's extents
///   --arg 'p:{x:f32[64]=ones, n:i32=64}'  a struct by value; its members are laid out as in C
///   --arg y:=x                            the same array again; y:=x+128 points to its element 128
///   --arg 'm:map(x, box=8x64)'            a tensor map of x for boxes of 8 × 64 elements
///
/// Types: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 e4m3 e5m2.
/// Fills: zeros, ones, a number, iota(start,step), randn(seed=,mean=,std=), uniform(lo,hi,seed=),
/// randint(lo,hi,seed=), [1,2,3], @file.npy, @file.safetensors#tensor.
/// The same seed gives the same numbers on every machine.
///
/// Settings missing on the command line come from a line in the file:
///
///   //@launch: kernel=NAME grid=X,Y,Z block=X,Y,Z shared=BYTES cooperative=true symbol=… arg=… arg=…
///
/// A launch line that names an array of the line before it without a type (arg=sums) runs after it,
/// on the same memory.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Run {
    #[command(flatten)]
    launch: LaunchFlags,
    /// Write an array to a .npy or .safetensors file after the launch
    #[arg(long, value_name = "NAME=FILE")]
    out: Vec<String>,
    /// Print an array's first values after the launch
    #[arg(long, value_name = "NAME[:COUNT]", value_parser = Print::parse)]
    print: Vec<Print>,
    /// Run on this GPU: software, or cuda:N for a CUDA device (not tested on hardware)
    #[arg(long, value_name = "GPU", default_value_t = Where::Software, value_parser = device::parse)]
    device: Where,
    /// Set the order in which a block's warps run: forward, reverse or random:SEED
    #[arg(long, value_name = "ORDER", default_value = "forward", value_parser = order)]
    schedule: Order,
    /// Same as --schedule random:SEED
    #[arg(long, value_name = "SEED", conflicts_with = "schedule")]
    seed: Option<u64>,
    #[command(flatten)]
    json: JsonFlag,
}

fn order(text: &str) -> Result<Order, String> {
    match (text, text.strip_prefix("random:")) {
        ("forward", _) => Ok(Order::Forward),
        ("reverse", _) => Ok(Order::Reverse),
        (_, Some(seed)) => {
            seed.parse().map(Order::Random).map_err(|_| format!("expected a seed, found `{seed}`"))
        }
        _ => Err("expected forward, reverse or random:SEED".to_owned()),
    }
}

/// An output of a case compared with the reference of its task.
#[derive(Debug)]
struct CheckedOutput {
    output: String,
    compared: Compared,
}

/// The result of a sequence of launches.
#[derive(Debug, Default)]
struct Finished {
    launches: Vec<Launched>,
    /// The CUDA device, if it ran on one.
    device: Option<Identity>,
    printed: Vec<u8>,
    arrays: Vec<Array>,
    stop: Option<Box<Stop>>,
    /// For a case of a task: its outputs compared with the reference.
    outputs: Vec<CheckedOutput>,
}

/// The result of one launch.
#[derive(Debug)]
struct Launched {
    kernel: String,
    symbol: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// Counted on the software GPU; `None` on a CUDA device.
    instructions: Option<u64>,
    host_seconds: f64,
}

impl Launched {
    fn new(prepared: Prepared, instructions: Option<u64>, host_seconds: f64) -> Self {
        let Prepared { kernel, symbol, grid, block, shared, .. } = prepared;
        Self { kernel, symbol, grid, block, shared, instructions, host_seconds }
    }
}

impl Run {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let mut device = self.launch.device(Purpose::Run);
        let order = self.seed.map_or(self.schedule, Order::Random);
        device.schedule = Schedule { order, ..Schedule::default() };

        let mut reports = Vec::new();
        let mut finished = None;
        // A CUDA driver writes the output of kernels to standard output; JSON must not mix with it.
        if self.json.wanted
            && self.device != Where::Software
            && let Err(error) = terminal.print_alone()
        {
            let sentence = format!("cannot separate --json from the output of kernels: {error}");
            reports.push(Report::warning(sentence));
        }
        let executed = match self.device {
            Where::Software => self.execute(&mut device, &mut finished, &mut reports),
            Where::Cuda(number) => self.on_device(number, &mut device, &mut finished, &mut reports),
        };
        if let Err(errors) = executed {
            reports.extend(errors);
        }
        // A stopped kernel has no results; its partial memory would mislead. Wrong outputs are still results.
        let compared = finished.as_ref().is_some_and(|finished| !finished.outputs.is_empty());
        let results = finished.as_ref().filter(|_| compared || first_error(&reports).is_none());
        let has_results = results.is_some();
        if let Some(results) = results
            && let Err(report) = self.write(results, &mut device)
        {
            reports.push(*report);
        }
        let failed = first_error(&reports);
        if self.json.wanted {
            terminal.json(&render::json(self, finished.as_ref(), &mut device, &reports, failed));
            return failed.map_or(Outcome::Green, Outcome::Stopped);
        }
        if let Some(finished) = &finished {
            terminal.print(String::from_utf8_lossy(&finished.printed));
        }
        for report in &reports {
            terminal.report(report);
        }
        if let Some(finished) = &finished {
            // A file that cannot be written does not invalidate the results.
            for print in self.print.iter().filter(|_| has_results) {
                if let Some(array) = finished.arrays.iter().rev().find(|array| array.name == print.name) {
                    terminal.print(render::values(print, array, &mut device));
                }
            }
            // The outputs of a case are always shown.
            for one in
                finished.outputs.iter().filter(|one| !self.print.iter().any(|print| print.name == one.output))
            {
                let print = Print { name: one.output.clone(), count: None };
                if let Some(array) = finished.arrays.iter().find(|array| array.name == one.output) {
                    terminal.print(render::values(&print, array, &mut device));
                }
            }
            for one in &finished.outputs {
                terminal.print(render::comparison(&one.output, &one.compared));
            }
            for launch in &finished.launches {
                terminal.say(render::summary(launch, finished.device.as_ref()));
            }
        }
        failed.map_or(Outcome::Green, Outcome::Stopped)
    }

    fn execute(
        &self,
        device: &mut Device,
        finished: &mut Option<Finished>,
        reports: &mut Vec<Report>,
    ) -> Result<(), Vec<Report>> {
        if let Some(trial) = self.launch.trial(true)? {
            return self.execute_case(&trial, device, finished);
        }
        let source = source::read(self.launch.file())?;
        let sequence = self.sequence(&source)?;
        let ptx = self.launch.module(&source, &sequence)?;
        reports.extend(ptx.warnings.iter().cloned());
        let mut memory = Memory::default();
        for plan in &sequence {
            let prepared = self.launch.prepare(plan, &ptx, &source, device, &mut memory)?;
            execute_prepared(prepared, device, &memory, (&ptx, &source), finished)?;
        }
        Ok(())
    }

    /// The first launch of the file, or of the requested kernel, with the launches that share its arrays.
    fn sequence(&self, source: &Source) -> Result<Sequence, Vec<Report>> {
        let sequences = self.launch.sequences(source).map_err(|report| vec![*report])?;
        let sequence = sequences.into_iter().next().unwrap_or_default();
        let arrays: Vec<&str> = sequence
            .iter()
            .flat_map(|plan| plan.specs.iter().flat_map(Spec::leaves))
            .filter(|spec| matches!(spec.value, ArgumentValue::Array { .. }))
            .map(|spec| spec.name.as_str())
            .collect();
        self.check_names(&arrays).map_err(|report| vec![*report])?;
        Ok(sequence)
    }

    /// Runs the launches of a case of a task in their order, and compares its outputs with the reference.
    fn execute_case(
        &self,
        trial: &Trial,
        device: &mut Device,
        finished: &mut Option<Finished>,
    ) -> Result<(), Vec<Report>> {
        let names: Vec<&str> = trial.staged.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
        self.check_names(&names).map_err(|report| vec![*report])?;
        let mut memory = Memory::default();
        for prepared in trial.prepare(device, &mut memory)? {
            execute_prepared(prepared, device, &memory, (&trial.ptx, &trial.source), finished)?;
        }
        let Some(finished) = finished else { return Ok(()) };
        for (output, place) in &trial.staged.outputs {
            let Some(array) = finished.arrays.get(*place) else { continue };
            if let Some(compared) = trial.staged.compare(output, array.content(device)) {
                finished.outputs.push(CheckedOutput { output: output.clone(), compared });
            }
        }
        let wrong = finished.outputs.iter().filter(|one| !one.compared.passed).map(|one| {
            let sentence = format!("output `{}` is wrong: {}", one.output, one.compared.reasons.join("; "));
            Report::error(Kind::Kernel, sentence)
        });
        let wrong: Vec<Report> = wrong.collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// Whether the flags set the order of warps.
    fn orders_warps(&self) -> bool {
        self.seed.is_some() || self.schedule != Order::Forward
    }

    /// Checks that `--out` and `--print` name existing arrays, before a long run.
    fn check_names(&self, arrays: &[&str]) -> Result<(), Box<Report>> {
        let known = |flag: &str, name: &str| {
            if arrays.contains(&name) {
                return Ok(());
            }
            let list = if arrays.is_empty() { "none".to_owned() } else { arrays.join(", ") };
            let report = Report::error(Kind::Usage, format!("{flag}: unknown array `{name}`"));
            Err(Box::new(report.help(format!("arrays: {list}"))))
        };
        for print in &self.print {
            known("--print", &print.name)?;
        }
        for (name, path) in self.outputs()? {
            known("--out", name)?;
            tensor_file::check_name(&path)
                .map_err(|cause| Box::new(Report::error(Kind::Usage, format!("--out {name}: {cause}"))))?;
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<(&str, PathBuf)>, Box<Report>> {
        let mut outputs = Vec::new();
        for text in &self.out {
            let Some((name, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
                let report = Report::error(Kind::Usage, format!("expected --out NAME=FILE, found `{text}`"));
                return Err(Box::new(
                    report.help("write --out NAME=FILE.npy or --out NAME=FILE.safetensors"),
                ));
            };
            outputs.push((name, PathBuf::from(path)));
        }
        Ok(outputs)
    }

    fn write(&self, finished: &Finished, device: &mut Device) -> Result<(), Box<Report>> {
        let mut tensors = Vec::new();
        for (name, path) in self.outputs()? {
            if let Some(array) = finished.arrays.iter().rev().find(|array| array.name == name) {
                let bytes = array.content(device).to_vec();
                let tensor = FileTensor { dtype: array.element, dims: array.shape.clone(), bytes };
                tensors.push((path, name.to_owned(), tensor));
            }
        }
        tensor_file::write(&tensors).map_err(|cause| Box::new(Report::error(Kind::Missing, cause)))
    }
}

/// Runs one launch of a sequence and records its result.
fn execute_prepared(
    prepared: Prepared,
    device: &mut Device,
    memory: &Memory,
    (ptx, source): (&Ptx, &Source),
    finished: &mut Option<Finished>,
) -> Result<(), Vec<Report>> {
    let start = Instant::now();
    let outcome = device.run(&prepared.launch);
    let host_seconds = start.elapsed().as_secs_f64();
    let failed = outcome.stop.as_ref().map(|stop| vec![stop_report(stop, ptx, source)]);
    if outcome.stop.as_ref().is_none_or(|stop| stop.kind != StopKind::Launch) {
        let finished = finished.get_or_insert_default();
        finished.launches.push(Launched::new(prepared, Some(outcome.instructions), host_seconds));
        finished.printed.extend(outcome.output);
        finished.arrays.clone_from(&memory.arrays);
        finished.stop = outcome.stop;
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read() {
        assert_eq!(order("reverse"), Ok(Order::Reverse));
        assert_eq!(order("random:7"), Ok(Order::Random(7)));
        assert!(order("random:x").is_err() && order("back").is_err());
    }
}
