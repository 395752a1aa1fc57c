//! A candidate with a launch of its own on the software GPU: its buffers, its arguments, and what is in them.

use std::any::Any;
use std::collections::BTreeSet;

use warpproof_sim::check::{BufferRole, Checked, Role, Settings};
use warpproof_sim::count::{CountSettings, Counters};
use warpproof_sim::observe::{Issue, Observer};
use warpproof_sim::{Buffer, Device, Kernel, Launch as SimLaunch, Module as Loaded};

use super::build::Module;
use super::layout::{Layout, Passed, Room, What, is};
use super::{Bench, Ending, Trouble, stopped, unfit};
use crate::dtype::Dtype;
use crate::inputs::Input;
use crate::record::Obstacle;
use crate::task::{Candidate, Size, Step};

/// What fills outputs and scratch memory before a launch: not a number in every floating-point type.
pub(super) const POISON: u8 = 0xff;
/// Something else: a small number in every type.
pub(super) const OTHER_POISON: u8 = 0x2b;

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

/// A buffer with its memory on the software GPU.
#[derive(Debug)]
struct Bound {
    room: Room,
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
        let Layout { rooms, launches: planned } =
            Layout::new(bench, candidate, launch, module.kernels(), size, dtype)?;
        let mut bound = Vec::with_capacity(rooms.len());
        for room in rooms {
            let buffer = device.alloc_named(&room.name, room.bytes).map_err(|error| {
                let reason = format!("`{}`: {error}", room.name);
                Trouble::from(Ending::inconclusive(reason, Some(Obstacle::Limit)))
            })?;
            bound.push(Bound { room, buffer, before: Vec::new() });
        }
        let mut launches = Vec::new();
        for one in planned {
            let kernel =
                module.kernel(&one.symbol).map_err(|stop| Trouble::from(stopped(&stop, &size.name)))?;
            let mut launch = kernel.launch().grid(one.grid).block(one.block).shared(one.shared);
            for argument in one.arguments {
                launch = match argument {
                    Passed::Room(at) => {
                        let bound: &Bound = bound.get(at).ok_or_else(|| unfit("a buffer was lost"))?;
                        launch.arg(bound.buffer)
                    }
                    Passed::Value(bytes) => launch.arg(bytes),
                };
            }
            launches.push((kernel, launch));
        }
        Ok(Stand { device, variables, buffers: bound, launches })
    }

    /// Lays inputs down at the addresses they always have, and poisons the rest.
    pub(super) fn fill(&mut self, inputs: &[Input], poison: u8) {
        for bound in &mut self.buffers {
            bound.before = bound.room.filled(inputs, poison);
            self.device.write(&bound.buffer, &bound.before);
        }
    }

    /// Lays outputs that begin as an input down anew; the rest stays as the last launch left it.
    pub(super) fn refill_in_place(&mut self, inputs: &[Input], poison: u8) {
        for bound in self.buffers.iter_mut().filter(|bound| bound.room.begins_as.is_some()) {
            bound.before = bound.room.filled(inputs, poison);
            self.device.write(&bound.buffer, &bound.before);
        }
    }

    /// Outputs and scratch memory as the last launch left them, by name.
    pub(super) fn left(&self) -> Vec<(String, Vec<u8>)> {
        let written = self.buffers.iter().filter(|bound| bound.room.what != What::Input);
        written.map(|bound| (bound.room.name.clone(), self.device.read(&bound.buffer))).collect()
    }

    /// Runs all kernels; `executed` is told of every instruction that a lane executes.
    pub(super) fn run(&mut self, case: &str, mut executed: Option<&mut Work>) -> Result<(), Ending> {
        for (kernel, launch) in &self.launches {
            let outcome = match &mut executed {
                None => self.device.run(launch),
                Some(work) => {
                    let mut seen: Vec<bool> = Vec::new();
                    let outcome = self.device.run_observed(
                        launch,
                        &|_| Some(Box::new(Executed::default())),
                        &mut |observer| {
                            let any: Box<dyn Any> = observer;
                            if let Ok(one) = any.downcast::<Executed>() {
                                seen.resize(seen.len().max(one.seen.len()), false);
                                seen.iter_mut().zip(&one.seen).for_each(|(all, this)| *all |= this);
                                work.issued += one.issued;
                            }
                        },
                    );
                    let pcs = seen.iter().enumerate().filter(|(_, seen)| **seen);
                    let pcs = pcs.filter_map(|(pc, _)| u32::try_from(pc).ok());
                    work.instructions.extend(
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
        let mut filled: Vec<bool> = self
            .buffers
            .iter()
            .map(|bound| bound.room.what == What::Input || bound.room.begins_as.is_some())
            .collect();
        for (index, (_, launch)) in self.launches.iter().enumerate() {
            let roles = self.buffers.iter().zip(&filled).map(|(bound, filled)| BufferRole {
                name: bound.room.name.clone(),
                address: bound.buffer.address(),
                element: u32::try_from(bound.room.dtype.size()).unwrap_or(1),
                extents: bound
                    .room
                    .dims
                    .iter()
                    .map(|extent| u64::try_from(*extent).unwrap_or(u64::MAX))
                    .collect(),
                role: match (bound.room.what, &bound.room.begins_as) {
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
        let outputs = self.buffers.iter().filter(|bound| bound.room.what == What::Output);
        outputs
            .map(|bound| {
                let mut bytes = self.device.read(&bound.buffer);
                // A buffer has one byte at least, a tensor may have none.
                bytes.truncate(bound.room.dims.iter().product::<usize>() * bound.room.dtype.size());
                (bound.room.name.as_str(), bytes)
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
        let inputs = self.buffers.iter().filter(|bound| bound.room.what == What::Input);
        let mut changed = inputs.filter(|bound| {
            let after: Vec<u8> = self.device.read(&bound.buffer);
            after.get(..bound.before.len()) != Some(&bound.before[..])
        });
        changed.next().map(|bound| bound.room.name.as_str())
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

/// What kernels did.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The instructions that some lane executed.
    pub(super) instructions: Vec<String>,
    /// How many instructions warps issued.
    pub(super) issued: u64,
}

/// The instructions of a program that some lane executed, and how many were issued.
#[derive(Debug, Default)]
struct Executed {
    seen: Vec<bool>,
    issued: u64,
}

impl Observer for Executed {
    fn issue(&mut self, issue: &Issue<'_>) {
        let pc = usize::try_from(issue.pc).unwrap_or(usize::MAX);
        if self.seen.is_empty() {
            self.seen.resize(issue.program.code.len(), false);
        }
        self.issued += 1;
        if let Some(seen) = self.seen.get_mut(pc) {
            *seen |= issue.exec != 0;
        }
    }
}
