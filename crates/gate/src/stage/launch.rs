//! A candidate with its own launch on the software GPU: its buffers, their contents, and its arguments.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use warpproof_check::{BufferRole, Check, CheckLaunch, Checked, Settings, Source, schedules_needed};
use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_sim::cover::{Coverage, Points};
use warpproof_sim::program::{ConstantBank, Parameter};
use warpproof_sim::{Buffer, Device, Kernel, Launch as SimLaunch, Module as Loaded};

use super::build::Module;
use super::draw::Places;
use super::layout::{Content, Layout, Room, What};
use super::trace::{Trace, mix};
use super::{Bench, Ending, Trouble, stopped, unfit};
use crate::inputs::Input;
use crate::limits::{Allowance, MEMORY_FLAG, Purpose};
use crate::parameter::Packed;
use crate::variable::Variable as SetVariable;
use warpproof_evidence::record::Obstacle;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Candidate, Size};

/// Fills outputs and scratch memory before a launch: NaN in every floating-point type.
pub(super) const POISON: u8 = 0xff;
/// A second fill value: a small number in every type.
pub(super) const OTHER_POISON: u8 = 0x2b;

/// A buffer with its memory on the software GPU.
#[derive(Debug)]
struct Bound {
    room: Room,
    buffer: Buffer<u8>,
    /// Offset of the array in the buffer: 0, except for an array that is placed at another alignment.
    offset: usize,
    /// Its contents before the launch.
    before: Vec<u8>,
}

impl Bound {
    fn address(&self) -> u64 {
        self.buffer.address() + u64::try_from(self.offset).unwrap_or(0)
    }

    fn write(&self, device: &mut Device) -> Result<(), Ending> {
        // A buffer is as large as its array plus its offset.
        device.memory().write(self.address(), &self.before).map_err(|_| self.lost("cannot be written"))
    }

    fn read(&self, device: &Device) -> Result<Vec<u8>, Ending> {
        let mut bytes = device.read(&self.buffer).map_err(|error| self.lost(&error.to_string()))?;
        Ok(bytes.split_off(self.offset.min(bytes.len())))
    }

    /// The ending if its memory is not accessible.
    fn lost(&self, why: &str) -> Ending {
        let reason = format!("internal error: memory of `{}`: {why}", self.room.name);
        Ending::inconclusive(reason, Some(Obstacle::Input))
    }
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
    /// The module's variables in device memory, as loading leaves them. The module stays loaded from case to case, so
    /// a kernel's changes to them would be visible to the next case.
    variables: Vec<Variable>,
    /// Variables that the task sets.
    set: Vec<(SetVariable, Content)>,
    constants: ConstantBank,
    buffers: Vec<Bound>,
    launches: Vec<(Kernel, SimLaunch)>,
    /// The architecture of the module.
    arch: String,
}

impl Stand {
    /// Loads a module and lays out memory for a size.
    pub(super) fn new(
        bench: &Bench<'_>,
        candidate: &Candidate,
        from: Module<'_>,
        size: &Size,
        dtype: Dtype,
        purpose: Purpose,
    ) -> Result<Stand, Trouble> {
        Stand::on(bench, (Places::Drawn, purpose), candidate, from, size, dtype)
    }

    /// The same with arrays at other addresses, each a multiple of 256 bytes but not of a page: the CUDA runtime
    /// guarantees no more. An access before an array may hit the padding here, so this is only for outputs, not for
    /// checks.
    pub(super) fn elsewhere(
        bench: &Bench<'_>,
        candidate: &Candidate,
        from: Module<'_>,
        size: &Size,
        dtype: Dtype,
    ) -> Result<Stand, Trouble> {
        Stand::on(bench, (Places::Elsewhere, Purpose::Run), candidate, from, size, dtype)
    }

    fn on(
        bench: &Bench<'_>,
        (places, purpose): (Places, Purpose),
        candidate: &Candidate,
        from: Module<'_>,
        size: &Size,
        dtype: Dtype,
    ) -> Result<Stand, Trouble> {
        let mut device = bench.device_at(places, purpose);
        let mut offsets = bench.offsets(places);
        let module = device.load(from.ptx).map_err(|stop| Trouble::from(stopped(&stop, &size.name)))?;
        let variables = variables(&mut device, &module);
        let layout = Layout::new(bench, candidate, from, module.kernels(), size, dtype)?;
        let set = layout.variables(&module)?;
        let Layout { rooms, launches: planned, .. } = layout;
        let mut bound = Vec::with_capacity(rooms.len());
        for room in rooms {
            let offset = offsets();
            let buffer =
                device.alloc_named(&room.name, room.bytes.saturating_add(offset)).map_err(|error| {
                    let reason = format!("`{}`: {error}; raise the limit with {MEMORY_FLAG}", room.name);
                    Trouble::from(Ending::inconclusive(reason, Some(Obstacle::Limit)))
                })?;
            bound.push(Bound { room, buffer, offset, before: Vec::new() });
        }
        let mut launches = Vec::new();
        let address_of = |place: usize| bound.get(place).map_or(0, |bound: &Bound| bound.address());
        for one in planned {
            let kernel =
                module.kernel(&one.symbol).map_err(|stop| Trouble::from(stopped(&stop, &size.name)))?;
            let mut launch = kernel.launch().grid(one.grid).block(one.block).shared(one.shared);
            launch = launch.cooperative(one.cooperative);
            for (index, argument) in one.arguments.into_iter().enumerate() {
                // The launch check refuses arguments beyond the parameters.
                let argument = match kernel.program().params.get(index) {
                    Some(parameter) => fitted(argument, parameter)?,
                    None => argument,
                };
                launch = launch.arg(argument.bytes(address_of));
            }
            launches.push((kernel, launch));
        }
        let constants = module.linked().constants.clone();
        let arch = from.arch.to_owned();
        Ok(Stand { device, variables, set, constants, buffers: bound, launches, arch })
    }

    /// Writes inputs at their fixed addresses, poisons the rest, and sets the variables that the task names.
    pub(super) fn fill(&mut self, inputs: &[Input], poison: u8) -> Result<(), Trouble> {
        for bound in &mut self.buffers {
            bound.before = bound.room.filled(inputs, poison);
            bound.write(&mut self.device)?;
        }
        for (variable, content) in &self.set {
            let bytes = content.bytes(inputs)?;
            variable.set(&bytes, &mut self.device, &mut self.constants).map_err(unfit)?;
            if let Some(known) = self.variables.iter_mut().find(|known| known.name == variable.symbol) {
                known.loaded = bytes;
            }
        }
        if !self.set.is_empty() {
            for (_, launch) in &mut self.launches {
                *launch = launch.clone().constants(self.constants.clone());
            }
        }
        Ok(())
    }

    /// Refills outputs that begin as an input; the rest stays as the last launch left it.
    pub(super) fn refill_in_place(&mut self, inputs: &[Input], poison: u8) -> Result<(), Ending> {
        for bound in self.buffers.iter_mut().filter(|bound| bound.room.begins_as.is_some()) {
            bound.before = bound.room.filled(inputs, poison);
            bound.write(&mut self.device)?;
        }
        Ok(())
    }

    /// Outputs and scratch memory as the last launch left them, by name.
    pub(super) fn left(&self) -> Result<Vec<(String, Vec<u8>)>, Ending> {
        let written = self.buffers.iter().filter(|bound| bound.room.what != What::Input);
        written.map(|bound| Ok((bound.room.name.clone(), bound.read(&self.device)?))).collect()
    }

    /// Runs all kernels; `executed` receives every instruction that a lane executes.
    pub(super) fn run(&mut self, case: &str, mut executed: Option<&mut Work>) -> Result<(), Ending> {
        for (kernel, launch) in &self.launches {
            let outcome = match &mut executed {
                None => self.device.run(launch),
                Some(work) => {
                    let points = Arc::new(Points::of(kernel.program()));
                    let (outcome, reached) = self.device.cover(launch, &points);
                    work.issued += reached.issued;
                    let name = format!("{} {}", self.arch, kernel.program().name);
                    work.coverage.add(&name, &points, &reached);
                    let pcs = reached.executed.iter().enumerate().filter(|(_, seen)| **seen);
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

    /// Runs all kernels and returns a hash that distinguishes the execution from others; `None` if a kernel does not
    /// complete, or if its behavior may depend on more than the trace covers.
    pub(super) fn trace(&mut self) -> Option<u64> {
        let mut trace = Some(0u64);
        for (place, (_, launch)) in self.launches.iter().enumerate() {
            let outcome =
                self.device.run_observed(launch, &|_| Some(Box::new(Trace::default())), &mut |observer| {
                    let any: Box<dyn Any> = observer;
                    let of_block = any.downcast::<Trace>().ok().and_then(|one| one.block());
                    // Blocks run in any order.
                    trace = trace.zip(of_block).map(|(all, block)| all.wrapping_add(block));
                });
            if outcome.stop.is_some() {
                return None;
            }
            trace = trace.map(|all| mix(all, u64::try_from(place).unwrap_or(0)));
        }
        trace
    }

    /// Runs all kernels with checks.
    pub(super) fn check(&mut self, allowance: Allowance, schedules: u32, allowed: &[Source]) -> Vec<Checked> {
        let mut all = Vec::new();
        let arrays = self.buffers.iter().map(|bound| u64::try_from(bound.room.bytes).unwrap_or(u64::MAX));
        let memory =
            allowance.beside(Purpose::Check { several: schedules > 1 }, arrays.fold(0, u64::saturating_add));
        let mut filled: Vec<bool> = self.buffers.iter().map(|bound| bound.room.is_initialized()).collect();
        for (_, launch) in &self.launches {
            let roles = self.buffers.iter().zip(&filled).map(|(bound, filled)| BufferRole {
                name: bound.room.name.clone(),
                address: bound.address(),
                element: u32::try_from(bound.room.dtype.size()).unwrap_or(1),
                extents: bound
                    .room
                    .dims
                    .iter()
                    .map(|extent| u64::try_from(*extent).unwrap_or(u64::MAX))
                    .collect(),
                role: bound.room.role(self.launches.len()),
                initialized: *filled,
            });
            let settings = Settings {
                checks: Check::GATE.to_vec(),
                allowed: allowed.to_vec(),
                buffers: roles.collect(),
                memory,
                ..Settings::default()
            };
            let schedules = schedules.max(schedules_needed(launch));
            let checked = self.device.check_schedules(launch, &settings, Some(schedules), 0).checked;
            let ends = checked.outcome.stop.is_some();
            all.push(checked);
            if ends {
                break;
            }
            // Later launches may read what earlier launches wrote.
            filled.fill(true);
        }
        all
    }

    /// The bytes of each output, by name.
    pub(super) fn outputs(&self) -> Result<Vec<(&str, Vec<u8>)>, Ending> {
        let outputs = self.buffers.iter().filter(|bound| bound.room.what == What::Output);
        outputs
            .map(|bound| {
                let mut bytes = bound.read(&self.device)?;
                // A buffer has at least one byte, a tensor may have none.
                bytes.truncate(bound.room.dims.iter().product::<usize>() * bound.room.dtype.size());
                Ok((bound.room.name.as_str(), bytes))
            })
            .collect()
    }

    /// A module variable that differs from its state after loading: the kernel keeps something for its next launch.
    pub(super) fn kept_variable(&mut self) -> Option<&str> {
        let memory = self.device.memory();
        let mut kept = self.variables.iter().filter(|variable| {
            let now = memory.read(variable.address, variable.loaded.len());
            !now.is_ok_and(|now| now == variable.loaded)
        });
        kept.next().map(|variable| variable.name.as_str())
    }

    /// An input that a kernel changed.
    pub(super) fn changed_input(&self) -> Result<Option<&str>, Ending> {
        for bound in self.buffers.iter().filter(|bound| bound.room.what == What::Input) {
            let after = bound.read(&self.device)?;
            if after.get(..bound.before.len()) != Some(&bound.before[..]) {
                return Ok(Some(bound.room.name.as_str()));
            }
        }
        Ok(None)
    }
}

/// A struct with the padding of its parameter; a struct of another size is an error of the task.
fn fitted(argument: Packed, parameter: &Parameter) -> Result<Packed, Trouble> {
    let wide = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let argument = argument.padded(wide(parameter.size), wide(parameter.align));
    if argument.is_structure() && argument.size() != wide(parameter.size) {
        return Err(unfit(format!(
            "a struct of {} bytes for parameter `{}` of {}: {argument}",
            argument.size(),
            parameter.name,
            parameter.size
        )));
    }
    Ok(argument)
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

/// What the kernels executed.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The instructions that some lane executed.
    pub(super) instructions: Vec<String>,
    /// The number of instructions that warps issued.
    pub(super) issued: u64,
    /// Lines and outcomes of conditions.
    pub(super) coverage: Coverage,
}
