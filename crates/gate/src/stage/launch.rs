//! A candidate with a launch of its own on the software GPU: its buffers, its arguments, and what is in them.

use std::any::Any;
use std::collections::BTreeSet;

use warpproof_sim::check::{BufferRole, Checked, Role, Settings};
use warpproof_sim::count::{CountSettings, Counters};
use warpproof_sim::observe::{Issue, Observer};
use warpproof_sim::{Buffer, Device, Kernel, Launch as SimLaunch, Module as Loaded};

use super::build::Module;
use super::{Bench, Ending, Trouble, stopped, unfit};
use crate::dtype::Dtype;
use crate::inputs::Input;
use crate::task::{Argument, Candidate, Size, Step, dims};

/// What fills outputs and scratch memory before a launch: not a number in every floating-point type.
pub(super) const POISON: u8 = 0xff;
/// Something else: a small number in every type.
pub(super) const OTHER_POISON: u8 = 0x2b;

/// Whether a symbol of a module is the kernel that the source calls so: `extern "C"`, or mangled.
pub(super) fn is(name: &str, symbol: &str) -> bool {
    let base = name.rsplit("::").next().unwrap_or(name);
    symbol == name
        || symbol.strip_prefix("_Z").is_some_and(|mangled| {
            let spelled = format!("{}{base}", base.len());
            mangled.starts_with(&spelled) || (mangled.starts_with('N') && mangled.contains(&spelled))
        })
}

/// Whether a step launches a symbol for any dtype.
pub(super) fn names(step: &Step, symbol: &str) -> bool {
    match &step.kernel {
        crate::task::Kernel::One(name) => is(name, symbol),
        crate::task::Kernel::ByDtype(names) => names.values().any(|name| is(name, symbol)),
    }
}

/// What the source calls a symbol that a step launches.
pub(super) fn name_of<'s>(step: &'s Step, symbol: &'s str) -> &'s str {
    match &step.kernel {
        crate::task::Kernel::One(name) => name,
        crate::task::Kernel::ByDtype(names) => {
            names.values().find(|name| is(name, symbol)).map_or(symbol, |name| name.as_str())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Input,
    Output,
    Scratch,
}

#[derive(Debug)]
struct Bound {
    name: String,
    what: What,
    /// Of an output: the input whose contents it begins with.
    begins_as: Option<String>,
    dtype: Dtype,
    dims: Vec<usize>,
    buffer: Buffer<u8>,
    /// What was written before the launch.
    before: Vec<u8>,
}

/// A variable of a module, and what it holds before the first launch.
#[derive(Debug)]
struct Variable {
    name: String,
    address: u64,
    loaded: Vec<u8>,
}

/// A loaded candidate on one size, with its memory.
#[derive(Debug)]
pub(super) struct Stand {
    device: Device,
    /// The module's variables in device memory, as loading leaves them. The module stays loaded from case to case: what a
    /// kernel leaves in them meets the next inputs.
    variables: Vec<Variable>,
    buffers: Vec<Bound>,
    launches: Vec<(Kernel, SimLaunch)>,
}

impl Stand {
    /// Loads a module and lays out memory for a size.
    pub(super) fn new(
        bench: &Bench<'_>,
        candidate: &Candidate,
        Module { ptx, launch, .. }: Module<'_>,
        size: &Size,
        dtype: Dtype,
    ) -> Result<Stand, Trouble> {
        let mut device = bench.device();
        let module = device.load(ptx).map_err(|stop| Trouble::from(stopped(&stop, &size.name)))?;
        let variables = variables(&mut device, &module);
        let mut buffers = Vec::new();
        for input in &bench.task.data.inputs {
            let dims = dims(&input.dims, &size.axes)?;
            buffers.push((input.name.value.clone(), What::Input, None, input.dtype.with(dtype), dims));
        }
        for output in &bench.task.data.outputs {
            let dims = dims(&output.dims, &size.axes)?;
            let begins_as = output.in_place.as_ref().map(|input| input.value.clone());
            buffers.push((
                output.name.value.clone(),
                What::Output,
                begins_as,
                output.dtype.with(dtype),
                dims,
            ));
        }
        for scratch in &launch.scratch {
            let count = bench.task.size_of(candidate, &size.axes, &scratch.count)?;
            let count = usize::try_from(count)
                .map_err(|_| unfit(format!("scratch `{}` has {count} elements", scratch.name.value)))?;
            buffers.push((
                scratch.name.value.clone(),
                What::Scratch,
                None,
                scratch.dtype.with(dtype),
                vec![count],
            ));
        }
        let mut bound = Vec::with_capacity(buffers.len());
        for (name, what, begins_as, dtype, dims) in buffers {
            let bytes = dims.iter().try_fold(dtype.size(), |all, extent| all.checked_mul(*extent));
            let buffer =
                bytes.ok_or_else(|| unfit(format!("`{name}` is larger than memory"))).and_then(|bytes| {
                    // Nothing may be empty: a device has no address for it.
                    device.alloc_named(&name, bytes.max(1)).map_err(|error| {
                        Ending::inconclusive(
                            format!("`{name}`: {error}"),
                            Some(crate::record::Obstacle::Limit),
                        )
                        .into()
                    })
                })?;
            bound.push(Bound { name, what, begins_as, dtype, dims, buffer, before: Vec::new() });
        }
        let mut launches = Vec::new();
        for step in &launch.steps {
            let name =
                step.kernel.named(dtype).ok_or_else(|| unfit(format!("no kernel is named for {dtype}")))?;
            let mut symbols = module.kernels().iter().filter(|symbol| is(name, symbol));
            let symbol = match (symbols.next(), symbols.next()) {
                (Some(symbol), None) => symbol,
                (None, _) => {
                    return Err(unfit(format!(
                        "there is no kernel `{name}`; the module has {}",
                        module.kernels().join(", ")
                    )));
                }
                (Some(_), Some(_)) => {
                    return Err(unfit(format!(
                        "several kernels are called `{name}`; name one by its symbol"
                    )));
                }
            };
            let kernel = module.kernel(symbol).map_err(|stop| Trouble::from(stopped(&stop, &size.name)))?;
            let geometry = bench.task.geometry(candidate, step, &size.axes)?;
            let mut one =
                kernel.launch().grid(geometry.grid).block(geometry.block).shared(geometry.shared_bytes);
            for argument in &step.arguments {
                one = match argument {
                    Argument::Address(name) => {
                        let bound = bound.iter().find(|bound| bound.name == name.value);
                        let bound =
                            bound.ok_or_else(|| unfit(format!("there is no tensor `{}`", name.value)))?;
                        one.arg(bound.buffer)
                    }
                    Argument::Value { dtype, values } => {
                        one.arg(value_bytes(bench, candidate, size, dtype.value, values)?)
                    }
                };
            }
            launches.push((kernel, one));
        }
        Ok(Stand { device, variables, buffers: bound, launches })
    }

    /// Lays inputs down at the addresses they always have, and poisons the rest.
    pub(super) fn fill(&mut self, inputs: &[Input], poison: u8) {
        let bytes_of = |name: &str| inputs.iter().find(|input| input.name == name).map(Input::bytes);
        for bound in &mut self.buffers {
            let given = match bound.what {
                What::Input => bytes_of(&bound.name),
                What::Output => bound.begins_as.as_deref().and_then(bytes_of),
                What::Scratch => None,
            };
            bound.before = given.unwrap_or_else(|| vec![poison; bound.buffer.len()]);
            self.device.write(&bound.buffer, &bound.before);
        }
    }

    /// Runs all kernels; `executed` is told of every instruction that a lane executes.
    pub(super) fn run(&mut self, case: &str, mut executed: Option<&mut Vec<String>>) -> Result<(), Ending> {
        for (kernel, launch) in &self.launches {
            let outcome = match &mut executed {
                None => self.device.run(launch),
                Some(texts) => {
                    let mut seen: Vec<bool> = Vec::new();
                    let outcome = self.device.run_observed(
                        launch,
                        &|_| Some(Box::new(Executed::default())),
                        &mut |observer| {
                            let any: Box<dyn Any> = observer;
                            if let Ok(one) = any.downcast::<Executed>() {
                                seen.resize(seen.len().max(one.0.len()), false);
                                seen.iter_mut().zip(&one.0).for_each(|(all, this)| *all |= this);
                            }
                        },
                    );
                    let pcs = seen.iter().enumerate().filter(|(_, seen)| **seen);
                    let pcs = pcs.filter_map(|(pc, _)| u32::try_from(pc).ok());
                    texts.extend(
                        pcs.filter_map(|pc| kernel.program().place(pc)).map(|place| place.instruction),
                    );
                    outcome
                }
            };
            if let Some(stop) = outcome.stop {
                return Err(stopped(&stop, case));
            }
        }
        Ok(())
    }

    /// Runs all kernels and counts what each does.
    pub(super) fn count(&mut self, case: &str) -> Result<Vec<Counters>, Ending> {
        let mut all = Vec::new();
        for (_, launch) in &self.launches {
            let counted = self.device.count(launch, &CountSettings::default());
            if let Some(stop) = counted.outcome.stop {
                return Err(stopped(&stop, case));
            }
            all.push(counted.counters);
        }
        Ok(all)
    }

    /// Runs all kernels with checks.
    pub(super) fn check(&mut self, schedules: u32) -> Vec<Checked> {
        let mut all = Vec::new();
        let last = self.launches.len().saturating_sub(1);
        let mut filled: Vec<bool> =
            self.buffers.iter().map(|bound| bound.what == What::Input || bound.begins_as.is_some()).collect();
        for (index, (_, launch)) in self.launches.iter().enumerate() {
            let roles = self.buffers.iter().zip(&filled).map(|(bound, filled)| BufferRole {
                name: bound.name.clone(),
                address: bound.buffer.address(),
                element: u32::try_from(bound.dtype.size()).unwrap_or(1),
                extents: bound.dims.iter().map(|extent| u64::try_from(*extent).unwrap_or(u64::MAX)).collect(),
                role: match (bound.what, &bound.begins_as) {
                    (What::Input, _) => Role::In,
                    // What several kernels write together is complete after the last; it is looked at there.
                    (What::Output, None) if index == last && last == 0 => Role::Out,
                    _ => Role::InOut,
                },
                initialised: *filled,
            });
            let settings = Settings { buffers: roles.collect(), ..Settings::default() };
            let checked = self.device.check_schedules(launch, &settings, schedules, 0).checked;
            let ends = checked.outcome.stop.is_some();
            all.push(checked);
            if ends {
                break;
            }
            // What one launch leaves is for the next to read.
            filled.fill(true);
        }
        all
    }

    /// The bytes of each output, by name.
    pub(super) fn outputs(&self) -> Vec<(&str, Vec<u8>)> {
        let outputs = self.buffers.iter().filter(|bound| bound.what == What::Output);
        outputs
            .map(|bound| {
                let mut bytes = self.device.read(&bound.buffer);
                // A buffer has one byte at least, a tensor may have none.
                bytes.truncate(bound.dims.iter().product::<usize>() * bound.dtype.size());
                (bound.name.as_str(), bytes)
            })
            .collect()
    }

    /// A variable of the module that is not as loading left it: the kernel keeps something for its next launch.
    pub(super) fn kept_variable(&mut self) -> Option<&str> {
        let memory = self.device.memory();
        let mut kept = self.variables.iter().filter(|variable| {
            let now = memory.read(variable.address, variable.loaded.len());
            !now.is_ok_and(|now| now == variable.loaded)
        });
        kept.next().map(|variable| variable.name.as_str())
    }

    /// An input that a kernel changed.
    pub(super) fn changed_input(&self) -> Option<&str> {
        let inputs = self.buffers.iter().filter(|bound| bound.what == What::Input);
        let mut changed = inputs.filter(|bound| {
            let after: Vec<u8> = self.device.read(&bound.buffer);
            after.get(..bound.before.len()) != Some(&bound.before[..])
        });
        changed.next().map(|bound| bound.name.as_str())
    }
}

/// The variables of a module in device memory, by name.
fn variables(device: &mut Device, module: &Loaded) -> Vec<Variable> {
    let names = module.linked().symbols.keys().cloned().collect::<BTreeSet<String>>();
    let placed = names.into_iter().filter_map(|name| Some((module.global(&name)?, name)));
    let held = placed.filter_map(|((address, size), name)| {
        let loaded = device.memory().read(address, usize::try_from(size).ok()?).ok()?.to_vec();
        Some(Variable { name, address, loaded })
    });
    held.collect()
}

/// The instructions that some lane executed.
#[derive(Debug, Default)]
struct Executed(Vec<bool>);

impl Observer for Executed {
    fn issue(&mut self, issue: &Issue<'_>) {
        let pc = usize::try_from(issue.pc).unwrap_or(usize::MAX);
        if self.0.is_empty() {
            self.0.resize(issue.program.code.len(), false);
        }
        if let Some(seen) = self.0.get_mut(pc) {
            *seen |= issue.exec != 0;
        }
    }
}

fn value_bytes(
    bench: &Bench<'_>,
    candidate: &Candidate,
    size: &Size,
    dtype: Dtype,
    values: &[crate::task::At<crate::expr::Expr>],
) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    for value in values {
        let value = if dtype.is_integer() {
            let expr = value;
            let value = bench.task.size_of(candidate, &size.axes, value)?;
            let bits = u32::try_from(8 * dtype.size()).unwrap_or(64);
            // Signed or not, whatever the type's bits can hold.
            let fits = bits >= 64 || (-(1i64 << (bits - 1))..1i64 << bits).contains(&value);
            if !fits {
                return Err(unfit(format!(
                    "`{}` is {value} for {}, which no {dtype} holds",
                    expr.value, size.name
                )));
            }
            bytes.extend(value.to_le_bytes().iter().take(dtype.size()));
            continue;
        } else {
            let names: Vec<&str> = size.axes.keys().map(String::as_str).collect();
            let extents: Vec<f64> = size.axes.values().map(|extent| real(*extent)).collect();
            let bound = value.bind(&names).map_err(|error| unfit(error.sentence))?;
            bound.value(&extents)
        };
        bytes.extend(dtype.bytes(&[value]));
    }
    Ok(bytes)
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "extents are far below 2^53")]
fn real(extent: u64) -> f64 {
    extent as f64
}

#[cfg(test)]
mod tests {
    use super::is;

    #[test]
    fn kernels_are_known_by_the_name_of_the_source() {
        assert!(is("softmax", "softmax"));
        assert!(is("softmax", "_Z7softmaxPKfPfi"));
        assert!(is("softmax", "_Z7softmaxILi128EEvPKfPfi"));
        assert!(is("ops::softmax", "_ZN3ops7softmaxEPKf"));
        assert!(!is("softmax", "_Z11softmax_rowPKf"));
        assert!(!is("max", "_Z7softmaxPKf"));
    }
}
