//! The name of one case of a task, as stored in records and accepted by `--case`:
//!
//! `softmax/shape=main:m=33/dtype=f32/dist=wide/seed=7`
//!
//! The name determines the inputs completely. Extents of hidden shapes and secret seeds are drawn for each run, so
//! the name includes them: `shape=surprise(m=17,n=3)`. It also includes values that a further case plants into its
//! inputs: `plant=2,2.002`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use warpproof_toolchain::Toolchain;

use super::reach::Planted;
use super::{Bench, Case, Part};
use crate::limits::Allowance;
use crate::reference::python::Workers;
use warpproof_evidence::tested::Tested;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Axes, Candidate, Reference, Task};

/// The name of a case. For missing parts, the task's first value is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseName {
    /// The task.
    pub task: Option<String>,
    /// The shape, with its tail.
    pub shape: Option<String>,
    /// Extents that were drawn.
    pub axes: Axes,
    /// The type.
    pub dtype: Option<Dtype>,
    /// The distribution.
    pub distribution: Option<String>,
    /// The seed.
    pub seed: Option<u64>,
    /// Values that are planted into the inputs.
    pub planted: Vec<f64>,
}

impl fmt::Display for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces: Vec<String> = self.task.iter().cloned().collect();
        if let Some(shape) = &self.shape {
            pieces.push(format!("shape={}", sized(shape, &self.axes)));
        }
        pieces.extend(self.dtype.map(|dtype| format!("dtype={dtype}")));
        pieces.extend(self.distribution.as_ref().map(|name| format!("dist={name}")));
        pieces.extend(self.seed.map(|seed| format!("seed={seed}")));
        if !self.planted.is_empty() {
            let values: Vec<String> = self.planted.iter().map(|value| format!("{value:?}")).collect();
            pieces.push(format!("plant={}", values.join(",")));
        }
        f.write_str(&pieces.join("/"))
    }
}

/// `surprise(m=17,n=3)`, or the name alone.
fn sized(shape: &str, axes: &Axes) -> String {
    if axes.is_empty() {
        return shape.to_owned();
    }
    let axes: Vec<String> = axes.iter().map(|(axis, extent)| format!("{axis}={extent}")).collect();
    format!("{shape}({})", axes.join(","))
}

/// The name of a part's shape in the task. Sizes that were added to a hidden shape are identified by their extents.
fn shape_of(part: &Part) -> &str {
    let name = part.name.as_str();
    if part.size.hidden { name.split([':', '(']).next().unwrap_or(name).trim_end() } else { name }
}

impl FromStr for CaseName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut name = Self::default();
        for (place, piece) in text.split('/').enumerate() {
            let wrong = |what: &str| format!("`{piece}` of the case: expected {what}");
            let known = ["shape", "dtype", "dist", "seed", "plant"];
            match piece.split_once('=').filter(|(key, _)| known.contains(key)) {
                Some(("shape", shape)) => {
                    let (shape, drawn) = match shape.strip_suffix(')').and_then(|shape| shape.split_once('('))
                    {
                        Some((shape, drawn)) => (shape, drawn),
                        None => (shape, ""),
                    };
                    name.shape = Some(shape.to_owned());
                    for pair in drawn.split(',').filter(|pair| !pair.is_empty()) {
                        let axis = pair
                            .split_once('=')
                            .and_then(|(axis, extent)| Some((axis.to_owned(), extent.parse().ok()?)));
                        let (axis, extent) = axis.ok_or_else(|| wrong("shape=NAME(AXIS=EXTENT,…)"))?;
                        name.axes.insert(axis, extent);
                    }
                }
                Some(("dtype", dtype)) => {
                    let known = || wrong(&format!("one of {}", Dtype::names().join(", ")));
                    name.dtype = Some(Dtype::named(dtype).ok_or_else(known)?);
                }
                Some(("dist", dist)) => name.distribution = Some(dist.to_owned()),
                Some(("seed", seed)) => name.seed = Some(seed.parse().map_err(|_| wrong("seed=NUMBER"))?),
                Some((_, values)) => {
                    let values = values.split(',').map(str::parse).collect::<Result<_, _>>();
                    name.planted = values.map_err(|_| wrong("plant=NUMBER,…"))?;
                }
                None if place == 0 => name.task = Some(piece.to_owned()),
                None => return Err(wrong("shape=, dtype=, dist=, seed= or plant=")),
            }
        }
        Ok(name)
    }
}

impl<'a> Bench<'a> {
    /// A bench for single cases, outside any run: nothing is drawn and nothing is timed.
    pub fn of_cases(
        task: &'a Task,
        directory: &'a Path,
        toolchain: &'a Toolchain,
        allowance: Allowance,
        python: &'a Workers,
        stop: &'a AtomicBool,
    ) -> Self {
        let (secret, chosen, threads, clocks) = (0, None, 1, None);
        Self { task, directory, toolchain, secret, allowance, chosen, threads, clocks, stop, python }
    }

    /// The name of a case on a size.
    pub(super) fn case_name(&self, part: &Part, case: &Case<'_>) -> CaseName {
        let made = !matches!(self.task.reference, Reference::Files { .. });
        CaseName {
            task: Some(self.task.name.value.clone()),
            shape: Some(shape_of(part).to_owned()),
            axes: if part.size.hidden { part.size.axes.clone() } else { Axes::new() },
            dtype: Some(case.dtype).filter(|_| !self.task.data.dtypes.is_empty()),
            distribution: made.then(|| case.distribution.name.value.clone()),
            seed: made.then_some(case.seed),
            planted: case.planted.as_ref().map(|planted| planted.values.clone()).unwrap_or_default(),
        }
    }

    /// The case with this name, for a candidate.
    pub(super) fn find_case(
        &self,
        candidate: &Candidate,
        name: &CaseName,
    ) -> Result<(Part, Case<'a>), String> {
        if let Some(task) = name.task.as_ref().filter(|task| **task != self.task.name.value) {
            return Err(format!(
                "expected a case of task `{}`, found one of task `{task}`",
                self.task.name.value
            ));
        }
        let sizes = self.sizes(candidate, None);
        let list = |names: Vec<String>| names.join(", ");
        let mut size = match &name.shape {
            None => sizes.into_iter().next().ok_or("the candidate supports none of the task's shapes")?,
            Some(shape) => {
                let names = || list(sizes.iter().map(|size| size.name.clone()).collect());
                let found = sizes.iter().find(|size| size.name == *shape).cloned();
                found.ok_or_else(|| format!("no shape `{shape}`; the candidate supports {}", names()))?
            }
        };
        for (axis, extent) in &name.axes {
            match size.axes.get_mut(axis).filter(|_| size.hidden) {
                Some(own) => *own = *extent,
                None => return Err(format!("shape `{}` has no drawn extent for axis `{axis}`", size.name)),
            }
        }
        let cases = self.cases(candidate);
        let dtypes: Vec<Dtype> = cases.iter().map(|case| case.dtype).collect();
        let dtype = match name.dtype {
            None => dtypes.first().copied(),
            Some(dtype) => dtypes.into_iter().find(|one| *one == dtype),
        };
        let dtype = dtype.ok_or("the candidate does not support this type")?;
        let distributions = &self.task.data.distributions;
        let distribution = match &name.distribution {
            None => distributions.first().ok_or("the task has no distribution")?,
            Some(wanted) => distributions.iter().find(|one| one.name.value == *wanted).ok_or_else(|| {
                let names = list(distributions.iter().map(|one| one.name.value.clone()).collect());
                format!("no distribution `{wanted}`; the task has {names}")
            })?,
        };
        let seed = name.seed.or_else(|| self.task.data.seeds.first().copied()).unwrap_or_default();
        let part = Part { name: size.name.clone(), size };
        let values = name.planted.clone();
        let planted = Some(Planted { values }).filter(|planted| !planted.values.is_empty());
        let mut case = Case { dtype, distribution, seed, name: String::new(), planted };
        case.name = self.case_name(&part, &case).to_string();
        Ok((part, case))
    }

    /// What a part of a stage was tested on.
    pub(super) fn tested(&self, part: &Part, cases: &[Case<'_>], schedules: u32) -> Tested {
        let axes = if part.size.hidden { &part.size.axes } else { &Axes::new() };
        let secret = |case: &Case<'_>| !self.task.data.seeds.contains(&case.seed);
        let made = !matches!(self.task.reference, Reference::Files { .. });
        let inputs = || cases.iter().filter(|_| made);
        let seeds = inputs()
            .map(|case| if secret(case) { format!("secret {}", case.seed) } else { case.seed.to_string() });
        Tested {
            shapes: [sized(shape_of(part), axes)].into(),
            dtypes: cases.iter().map(|case| case.dtype.to_string()).collect(),
            distributions: inputs().map(|case| case.distribution.name.value.clone()).collect(),
            seeds: seeds.collect(),
            schedules,
            cases: u64::try_from(cases.len()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in [
            "softmax/shape=main:m=33/dtype=f32/dist=wide/seed=7",
            "softmax/shape=surprise(m=17,n=3)/dtype=f16/dist=normal/seed=18446744073709551615",
            "rows/shape=main",
            "shape=a/seed=1",
            "rows/shape=main/seed=1/plant=2.0,2.002,-inf,1e-40",
        ] {
            assert_eq!(text.parse::<CaseName>().map(|name| name.to_string()).as_deref(), Ok(text));
        }
        for text in ["t/dtype=f33", "t/seed=x", "t/shape=a(m)", "t/plant=x", "t/what=1", "t/x"] {
            assert!(text.parse::<CaseName>().is_err(), "{text}");
        }
    }
}
