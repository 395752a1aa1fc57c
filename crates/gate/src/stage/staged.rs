//! A side of a comparison as a device gets it: modules, contents of memory, launches, and what shall come out.

use std::collections::BTreeMap;

use super::build::Module;
use super::launch::POISON;
use super::layout::{Layout, Passed, What};
use super::{Bench, Part, Programs, Side, Trouble, correct, stopped, unfit};
use crate::reference::Expected;
use crate::speed::ClockError;
use crate::task::{NonFinite, Size};

/// An argument of a launch.
#[derive(Clone, Debug)]
pub enum StagedArgument {
    /// The address of memory, by its place.
    Memory(usize),
    /// Bytes.
    Value(Vec<u8>),
}

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
    /// The arguments.
    pub arguments: Vec<StagedArgument>,
}

/// A candidate with launches of its own on one size, with the inputs of its first case.
#[derive(Debug)]
pub struct Staged {
    /// Who it is, and on what.
    pub name: String,
    /// The module for the device.
    pub ptx: String,
    /// What memory holds before the first launch.
    pub memory: Vec<Vec<u8>>,
    /// The launches.
    pub launches: Vec<StagedLaunch>,
    /// Names and places of outputs.
    pub outputs: Vec<(String, usize)>,
    expected: BTreeMap<String, Expected>,
    non_finite: NonFinite,
}

impl Staged {
    /// Holds an output against the reference, with the limits of the stage correct.
    pub fn judge(&self, output: &str, bytes: &[u8]) -> Result<(), ClockError> {
        let Some(expected) = self.expected.get(output) else {
            return Err(ClockError::Device(format!(
                "the reference says nothing about the output `{output}`"
            )));
        };
        // Memory has one byte at least, a tensor may have none.
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

/// Whether a device of a compute capability, as 89, runs a module for an architecture, and how near the two are.
fn suits(arch: &str, capability: u32) -> Option<u32> {
    let number = arch.strip_prefix("sm_").or_else(|| arch.strip_prefix("compute_"))?;
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let own: u32 = digits.parse().ok()?;
    // What is made for the features of one architecture, or of one family, runs there alone.
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
            return Err(ClockError::Device(format!("`{}` has no launches of its own", candidate.name.value)));
        };
        let nearest = modules.iter().filter_map(|(arch, _)| Some((suits(arch, capability)?, arch)));
        let Some(module) = nearest.max().and_then(|(_, arch)| built.module(arch)) else {
            let built: Vec<&str> = modules.iter().map(|(arch, _)| arch.as_str()).collect();
            let why =
                format!("a device of compute capability {capability} runs none of {}", built.join(", "));
            return Err(ClockError::Device(why));
        };
        self.stage_module(candidate, module, size).map_err(|trouble| match trouble {
            Trouble::Ends(ending) => ClockError::Device(ending.reason),
            Trouble::Stopped => ClockError::Device("a stop was asked for".to_owned()),
        })
    }

    fn stage_module(
        &self,
        candidate: &crate::task::Candidate,
        Module { ptx, launch, .. }: Module<'_>,
        size: &Size,
    ) -> Result<Staged, Trouble> {
        let case = self.cases(candidate).into_iter().next();
        let case = case.ok_or_else(|| unfit("the candidate takes none of the task's types"))?;
        let loaded = self.device().load(ptx).map_err(|stop| Trouble::from(stopped(&stop, &size.name)))?;
        let layout = Layout::new(self, candidate, launch, loaded.kernels(), size, case.dtype)?;
        let part = Part { name: size.name.clone(), size: size.clone() };
        let inputs = correct::inputs_of(self, &part, &case)?;
        let expected = correct::expectations(self, &part, &case, &inputs)?;
        let outputs = layout.rooms.iter().enumerate().filter(|(_, room)| room.what == What::Output);
        let outputs = outputs.map(|(place, room)| (room.name.clone(), place)).collect();
        let launches = layout.launches.into_iter().map(|one| StagedLaunch {
            kernel: one.symbol,
            grid: one.grid,
            block: one.block,
            shared: one.shared,
            arguments: one
                .arguments
                .into_iter()
                .map(|argument| match argument {
                    Passed::Room(place) => StagedArgument::Memory(place),
                    Passed::Value(bytes) => StagedArgument::Value(bytes),
                })
                .collect(),
        });
        Ok(Staged {
            name: format!("{} on {}, {}", candidate.name.value, size.name, case.name),
            ptx: ptx.to_owned(),
            launches: launches.collect(),
            memory: layout.rooms.iter().map(|room| room.filled(&inputs, POISON)).collect(),
            outputs,
            expected,
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
