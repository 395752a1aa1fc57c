//! A side of a comparison in the form a device needs: modules, memory contents, launches, and expected outputs.

use std::collections::BTreeMap;

use warpproof_check::{Role, Source};

use super::build::Module;
use super::launch::POISON;
use super::layout::{Layout, What};
use super::{
    Bench, Case, CaseName, Ending, Part, Programs, Side, Trouble, checks, correct, room, stopped, unfit,
};
use crate::limits::Purpose;
use crate::parameter::Packed;
use crate::reference::Expected;
use warpproof_evidence::counterexample::Mismatch;
use warpproof_evidence::record::Obstacle;
use warpproof_speed::ClockError;
use warpproof_task::dtype::Dtype;
use warpproof_task::{NonFinite, Size};

/// A launch.
#[derive(Clone, Debug)]
pub struct StagedLaunch {
    /// The kernel's symbol.
    pub kernel: String,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Whether it is launched cooperatively.
    pub cooperative: bool,
    /// The arguments; memory is given by its index.
    pub arguments: Vec<Packed>,
}

/// What a piece of memory is for.
#[derive(Clone, Debug)]
pub struct StagedBuffer {
    /// The tensor's name.
    pub name: String,
    /// What kernels do with it.
    pub role: Role,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its extents.
    pub dims: Vec<usize>,
    /// Whether it holds data before the first launch that a kernel may read.
    pub initialized: bool,
}

/// An output compared with the reference.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Whether it is right.
    pub passed: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// The elements that are off the most, and where.
    pub mismatch: Mismatch,
}

/// A candidate with launches of its own on one size, with the inputs of one case.
#[derive(Debug)]
pub struct Staged {
    /// Its candidate and size.
    pub name: String,
    /// The module for the device.
    pub ptx: String,
    /// Memory contents before the first launch.
    pub memory: Vec<Vec<u8>>,
    /// What each piece of memory is for.
    pub buffers: Vec<StagedBuffer>,
    /// Variables of the module and what they are set to.
    pub variables: Vec<(String, Vec<u8>)>,
    /// The launches.
    pub launches: Vec<StagedLaunch>,
    /// Names and places of outputs.
    pub outputs: Vec<(String, usize)>,
    /// The orders of warps that the task's checks run under.
    pub schedules: u32,
    /// What the task lets results depend on, other than the inputs.
    pub allowed: Vec<Source>,
    expected: BTreeMap<String, Expected>,
    axes: BTreeMap<String, Vec<String>>,
    non_finite: NonFinite,
}

impl Staged {
    /// Compares an output with the reference; `None` if the reference does not have it or was not requested.
    pub fn compare(&self, output: &str, bytes: &[u8]) -> Option<Compared> {
        let expected = self.expected.get(output)?;
        let bytes = bytes.get(..expected.tensor.values.len() * expected.dtype.size()).unwrap_or(bytes);
        let (_, judgement) = expected.judge(bytes, self.non_finite);
        let axes = self.axes.get(output).map_or(&[][..], Vec::as_slice);
        Some(Compared {
            passed: judgement.passed,
            reasons: judgement.reasons.iter().map(ToString::to_string).collect(),
            mismatch: expected.mismatch(output, axes, bytes, self.non_finite),
        })
    }

    /// Compares an output with the reference, with the limits of the stage `correct`.
    pub fn judge(&self, output: &str, bytes: &[u8]) -> Result<(), ClockError> {
        let Some(expected) = self.expected.get(output) else {
            return Err(ClockError::Device(format!("the reference has no output `{output}`")));
        };
        // Memory has at least one byte, a tensor may have none.
        let length = expected.tensor.values.len() * expected.dtype.size();
        let bytes = bytes.get(..length).unwrap_or(bytes);
        let (_, judgement) = expected.judge(bytes, self.non_finite);
        if judgement.passed {
            return Ok(());
        }
        let why: Vec<String> = judgement.reasons.iter().map(ToString::to_string).collect();
        Err(ClockError::Output(format!("{}: {}", self.name, why.join("; "))))
    }
}

/// Whether a device of a compute capability, such as 89, can run a module for an architecture, and how close the two
/// are.
fn suits(arch: &str, capability: u32) -> Option<u32> {
    let number = arch.strip_prefix("sm_").or_else(|| arch.strip_prefix("compute_"))?;
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let own: u32 = digits.parse().ok()?;
    // A module for the features of one architecture, or of one family, runs only there.
    match number.strip_prefix(digits) {
        Some("") => (own <= capability).then_some(own),
        Some("f") => (own <= capability && own / 10 == capability / 10).then_some(own),
        _ => (own == capability).then_some(own),
    }
}

impl Bench<'_> {
    /// A launched candidate on a size, for a device of a compute capability.
    pub fn staged(
        &self,
        (candidate, built): Side<'_>,
        size: &Size,
        capability: u32,
    ) -> Result<Staged, ClockError> {
        let Programs::Launched { modules, .. } = &built.programs else {
            return Err(ClockError::Device(format!("`{}` defines no launches", candidate.name.value)));
        };
        let nearest = modules.iter().filter_map(|(arch, _)| Some((suits(arch, capability)?, arch)));
        let Some(module) = nearest.max().and_then(|(_, arch)| built.module(arch)) else {
            let built: Vec<&str> = modules.iter().map(|(arch, _)| arch.as_str()).collect();
            let why =
                format!("a device of compute capability {capability} can run none of {}", built.join(", "));
            return Err(ClockError::Device(why));
        };
        let part = Part { name: size.name.clone(), size: size.clone() };
        // Kernels are timed on inputs drawn for the run.
        let case = self.measured_cases(candidate).into_iter().next();
        let case = case.ok_or_else(|| unfit("the candidate supports none of the task's types"));
        case.and_then(|case| self.stage_module(candidate, module, &part, &case, true)).map_err(|trouble| {
            match trouble {
                Trouble::Ends(ending) => ClockError::Device(ending.reason),
                Trouble::Stopped => ClockError::Device("stopped by the user".to_owned()),
            }
        })
    }

    /// A launched candidate on one case, for the first architecture of the task. The reference is computed on
    /// request.
    pub fn staged_case(
        &self,
        (candidate, built): Side<'_>,
        name: &CaseName,
        compares: bool,
    ) -> Result<Staged, Ending> {
        let wrong = |reason: String| Ending::inconclusive(reason, Some(Obstacle::Input));
        let (part, case) = self.find_case(candidate, name).map_err(wrong)?;
        if let Some(refused) = room::refused(self, candidate, &part.size) {
            return Err(refused);
        }
        let module = built.distinct().into_iter().next().ok_or_else(|| {
            wrong(format!(
                "`{}` is a kernel of the attention ladder and cannot be launched alone",
                candidate.name.value
            ))
        })?;
        self.stage_module(candidate, module, &part, &case, compares).map_err(|trouble| match trouble {
            Trouble::Ends(ending) => *ending,
            Trouble::Stopped => wrong("stopped".to_owned()),
        })
    }

    fn stage_module(
        &self,
        candidate: &warpproof_task::Candidate,
        from: Module<'_>,
        part: &Part,
        case: &Case<'_>,
        compares: bool,
    ) -> Result<Staged, Trouble> {
        let size = &part.size;
        let loaded = self.device(Purpose::Run).load(from.ptx);
        let loaded = loaded.map_err(|stop| Trouble::from(stopped(&stop, &size.name)))?;
        let layout = Layout::new(self, candidate, from, loaded.kernels(), size, case.dtype)?;
        let inputs = correct::inputs_of(self, part, case)?;
        let expected =
            if compares { correct::expectations(self, part, case, &inputs)? } else { BTreeMap::new() };
        let count = layout.launches.len();
        let buffers = layout.rooms.iter().map(|room| StagedBuffer {
            name: room.name.clone(),
            role: room.role(count),
            dtype: room.dtype,
            dims: room.dims.clone(),
            initialized: room.is_initialized(),
        });
        let buffers = buffers.collect();
        let axes = self.task.data.outputs.iter().map(|output| {
            let names = output.dims.iter().map(|extent| extent.value.to_string()).collect();
            (output.name.value.clone(), names)
        });
        let outputs = layout.rooms.iter().enumerate().filter(|(_, room)| room.what == What::Output);
        let outputs = outputs.map(|(place, room)| (room.name.clone(), place)).collect();
        let launches = layout.launches.clone().into_iter().map(|one| StagedLaunch {
            kernel: one.symbol,
            grid: one.grid,
            block: one.block,
            shared: one.shared,
            cooperative: one.cooperative,
            arguments: one.arguments,
        });
        let mut variables = Vec::new();
        for (variable, content) in layout.variables(&loaded)? {
            variables.push((variable.symbol, content.bytes(&inputs)?));
        }
        Ok(Staged {
            name: format!("{} on {}, {}", candidate.name.value, size.name, case.name),
            ptx: from.ptx.to_owned(),
            variables,
            launches: launches.collect(),
            memory: layout.rooms.iter().map(|room| room.filled(&inputs, POISON)).collect(),
            buffers,
            outputs,
            schedules: checks::schedules(self),
            allowed: checks::allowed(self),
            expected,
            axes: axes.collect(),
            non_finite: self.task.tolerance.non_finite,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::suits;

    #[test]
    fn modules_run_on_their_architecture_and_later_ones() {
        assert_eq!((suits("sm_80", 89), suits("sm_89", 89), suits("sm_90", 89)), (Some(80), Some(89), None));
        assert_eq!((suits("sm_90a", 90), suits("sm_90a", 100)), (Some(90), None));
        assert_eq!((suits("sm_100f", 103), suits("sm_100f", 120)), (Some(100), None));
        assert_eq!(suits("gfx90", 89), None);
    }
}
