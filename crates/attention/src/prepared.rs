//! A request that is ready to run: its plan, its kernels on the device, and its arguments.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys;
use warpproof_kernels::params::{Params, Strides};
use warpproof_kernels::plan::Step;
use warpproof_kernels::{Plan, PlanError, Request};
use warpproof_model::Device;

use crate::cuda::{Current, Function};
use crate::{Error, catalog, image};

/// A tensor in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tensor {
    /// The address of its first element, a multiple of 16.
    pub address: u64,
    /// Elements from one sequence, head and row to the next: multiples of 16 for Q, K and V, and of 8 for O. The elements of a row
    /// are adjacent. The stride of sequences is not used if lengths are in device memory.
    pub strides: Strides,
}

/// Codes and scales of Q, K or V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// The codes.
    pub codes: Tensor,
    /// The address of the scales, f32, `[batch][heads][blocks of 64 rows]`, or `[batch][heads]` with one for each head.
    pub scales: u64,
}

/// What a run reads and writes: addresses in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the operands")]
pub struct Arguments {
    pub q: Operand,
    pub k: Operand,
    pub v: Operand,
    /// The output, f16.
    pub o: Tensor,
    /// The log-sum-exp, f32, `[batch][heads][queries]`, if requested.
    pub lse: u64,
    /// Rows before each sequence, and all rows, as u32: of the queries and of the keys, if lengths are in device memory.
    pub starts: (u64, u64),
    /// [`Prepared::workspace`] bytes, aligned to 16. Its contents do not matter. Runs that may overlap need one each.
    pub workspace: u64,
}

/// A request that is ready to run in the context that was current when it was made.
#[derive(Debug)]
pub struct Prepared {
    plan: Plan,
    functions: Vec<(Step, Function)>,
}

impl Prepared {
    /// Chooses the kernels for a request and loads them in the current context.
    pub fn new(request: &Request) -> Result<Prepared, Error> {
        let current = Current::get()?;
        let plans = catalog::plans(request, &device(current)?).map_err(refused)?;
        let found = plans.into_iter().find_map(|plan| Some((image::find(&catalog::name(&plan))?, plan)));
        let Some((entry, plan)) = found else {
            return Err(Error::Unsupported(format!(
                "the library has no kernel for this combination of features ({}, rows of {})",
                request.shape, request.shape.dim
            )));
        };
        let module = current.module(&entry)?;
        let functions: Result<Vec<_>, Error> =
            plan.steps.iter().map(|step| Ok((*step, Function::new(&module, step.kernel)?))).collect();
        Ok(Prepared { functions: functions?, plan })
    }

    /// Bytes of device memory that a run needs besides its arguments.
    pub fn workspace(&self) -> usize {
        self.plan.workspace
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Launches the kernels on a stream, and returns without waiting for them. Nothing is allocated in device memory, and nothing
    /// is synchronized, so that a run can be captured into a graph.
    ///
    /// # Safety
    ///
    /// The addresses must be those of tensors of the requested sizes with these strides, in memory of the context's device,
    /// until the stream has executed the run. `stream` is a stream of the current context, which is the one that was current in
    /// [`Prepared::new`]. Codes must be finite, and scales positive and finite.
    pub unsafe fn run(&self, arguments: &Arguments, stream: *mut c_void) -> Result<(), Error> {
        let parameter = self.params(arguments)?.bytes();
        let stream: sys::CUstream = stream.cast();
        for (step, function) in &self.functions {
            // SAFETY: by the caller; the parameter is the one of the plan's kernels.
            unsafe { function.launch(step, stream, &parameter)? };
        }
        Ok(())
    }

    fn params(&self, arguments: &Arguments) -> Result<Params, Error> {
        self.check(arguments)?;
        let mut params = self.plan.params;
        let varlen = self.plan.varlen();
        let placed = |strides: Strides| if varlen { Strides { batch: 0, ..strides } } else { strides };
        for (operand, from) in
            [(&mut params.q, arguments.q), (&mut params.k, arguments.k), (&mut params.v, arguments.v)]
        {
            operand.codes = from.codes.address;
            operand.scales = from.scales;
            operand.strides = placed(from.codes.strides);
        }
        params.o = arguments.o.address;
        params.o_strides = placed(arguments.o.strides);
        params.lse = arguments.lse;
        params.partial = arguments.workspace;
        (params.query_starts, params.key_starts) = arguments.starts;
        params.epoch = next_epoch();
        Ok(params)
    }

    fn check(&self, at: &Arguments) -> Result<(), Error> {
        let request = &self.plan.request;
        let tensors = [("Q", at.q.codes, 16), ("K", at.k.codes, 16), ("V", at.v.codes, 16), ("O", at.o, 8)];
        for (name, tensor, unit) in tensors {
            aligned(name, tensor.address, 16)?;
            let Strides { batch, head, row } = tensor.strides;
            if [batch, head, row].iter().any(|stride| !stride.is_multiple_of(unit)) {
                return Err(Error::Invalid(format!(
                    "{name} has the strides {batch}, {head} and {row}; expected multiples of {unit} elements"
                )));
            }
        }
        for (name, address) in
            [("the scales of Q", at.q.scales), ("the scales of K", at.k.scales), ("the scales of V", at.v.scales)]
        {
            aligned(name, address, 4)?;
        }
        if request.lse {
            aligned("the log-sum-exp", at.lse, 4)?;
        }
        if self.plan.varlen() {
            aligned("the starts of the queries", at.starts.0, 4)?;
            aligned("the starts of the keys", at.starts.1, 4)?;
        }
        if self.workspace() > 0 {
            aligned("the workspace", at.workspace, 16)?;
        }
        Ok(())
    }
}

/// Checks that an address is given and aligned.
fn aligned(name: &str, address: u64, bytes: u64) -> Result<(), Error> {
    if address == 0 {
        return Err(Error::Invalid(format!("{name}: expected an address, found a null pointer")));
    }
    if !address.is_multiple_of(bytes) {
        return Err(Error::Invalid(format!("{name} at {address:#x} is not aligned to {bytes} bytes")));
    }
    Ok(())
}

/// A number that no other launch of the process has; the blocks of a launch find each other by it. Never 0.
fn next_epoch() -> u32 {
    // An odd factor maps distinct numbers to distinct values, which memory is unlikely to contain by chance.
    const SPREAD: u32 = 0x9e37_79b1;
    static LAUNCHES: AtomicU32 = AtomicU32::new(1);
    let number = LAUNCHES.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD);
    if number == 0 { SPREAD } else { number }
}

/// The device as the plans see it: an L4 with the number of multiprocessors that it has.
fn device(current: Current) -> Result<Device, Error> {
    if current.capability < (8, 9) {
        let (major, minor) = current.capability;
        return Err(Error::Unsupported(format!("8-bit floats need sm_89 or later; this device is sm_{major}{minor}")));
    }
    let l4 = Device::named("l4").ok_or_else(|| Error::Invalid("the device table has no L4".to_owned()))?;
    let mut device = *l4;
    device.multiprocessors.value = current.multiprocessors.max(1);
    Ok(device)
}

fn refused(error: PlanError) -> Error {
    match error {
        PlanError::Unsupported { .. } | PlanError::Device(_) => Error::Unsupported(error.to_string()),
        _ => Error::Invalid(error.to_string()),
    }
}
