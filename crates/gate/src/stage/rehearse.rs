//! Runs a task's first candidate on each of its sizes before a reference exists: checks that it launches, completes,
//! writes every element of its outputs, and agrees with a built-in reference.

use warpproof_toolchain::symbol::Instances;

use super::build::Module;
use super::launch::{OTHER_POISON, POISON, Stand};
use super::{Bench, Part, Trouble, correct};
use crate::limits::Purpose;
use warpproof_task::{Program, Reference, Size};

/// The result of a rehearsal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rehearsal {
    /// Sizes on which the kernel completed and wrote every element.
    pub complete: Vec<String>,
    /// Errors on other sizes: the size, and the error.
    pub troubles: Vec<(String, String)>,
    /// For a built-in reference: how the first size differs from it.
    pub differs: Option<String>,
    /// Sizes that agree with a built-in reference.
    pub agree: Vec<String>,
}

impl Rehearsal {
    /// Runs the first candidate with this PTX.
    pub fn of(bench: &Bench<'_>, ptx: &str, instances: &Instances) -> Rehearsal {
        let mut rehearsal = Rehearsal::default();
        let Some(candidate) = bench.task.candidates.first() else { return rehearsal };
        for (index, size) in bench.sizes(candidate, None).into_iter().enumerate() {
            let name = size.name.clone();
            match rehearsal.size(bench, (ptx, instances), size, index == 0) {
                Ok(()) => {}
                Err(Trouble::Ends(ending)) => rehearsal.troubles.push((name, ending.reason)),
                Err(Trouble::Stopped) => break,
            }
        }
        rehearsal
    }

    fn size(
        &mut self,
        bench: &Bench<'_>,
        (ptx, instances): (&str, &Instances),
        size: Size,
        first: bool,
    ) -> Result<(), Trouble> {
        let Some(candidate) = bench.task.candidates.first() else { return Ok(()) };
        let (Program::Source { launch, .. } | Program::Ptx { launch, .. }) = &candidate.program else {
            return Ok(());
        };
        let arch = bench.task.target.architectures.first().map_or("", |arch| arch.value.as_str());
        let module = Module { arch, ptx, launch, instances };
        let part = Part { name: size.name.clone(), size };
        for case in bench.first_cases(candidate) {
            bench.check_stop()?;
            let inputs = correct::inputs_of(bench, &part, &case)?;
            let mut stand = Stand::new(bench, candidate, module, &part.size, case.dtype, Purpose::Run)?;
            // An element that is never written keeps both fill values, which differ.
            stand.fill(&inputs, OTHER_POISON)?;
            stand.run(&part.name, None)?;
            let other: Vec<Vec<u8>> = stand.outputs()?.into_iter().map(|(_, bytes)| bytes).collect();
            stand.fill(&inputs, POISON)?;
            stand.run(&part.name, None)?;
            let outputs: Vec<(String, Vec<u8>)> =
                stand.outputs()?.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
            for ((name, bytes), other) in outputs.iter().zip(&other) {
                let element = correct::element(bench, name, case.dtype);
                let kept = bytes.chunks(element).zip(other.chunks(element));
                let kept = kept.filter(|(one, other)| {
                    one.iter().all(|byte| *byte == POISON) && other.iter().all(|byte| *byte == OTHER_POISON)
                });
                let (kept, all) = (kept.count(), bytes.len() / element.max(1));
                if kept > 0 {
                    let reason = format!("{kept} of {all} elements of `{name}` were never written");
                    self.troubles.push((part.name.clone(), reason));
                    return Ok(());
                }
            }
            if let Reference::BuiltIn { .. } = bench.task.reference {
                let expected = correct::expectations(bench, &part, &case, &inputs)?;
                let differs = outputs.iter().find_map(|(name, bytes)| {
                    let (errors, judgement) =
                        expected.get(name)?.judge(bytes, bench.task.tolerance.non_finite);
                    (!judgement.passed)
                        .then(|| format!("in a run, `{name}` differs from it by up to {:.3e}", errors.max))
                });
                match differs {
                    Some(why) if first => self.differs = Some(why),
                    Some(why) => self.troubles.push((part.name.clone(), why)),
                    None => self.agree.push(part.name.clone()),
                }
            }
        }
        self.complete.push(part.name);
        Ok(())
    }
}
