//! A problem that is ready to run: its plans, its kernels on the device, and its arguments.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys;
use warpproof_kernels::attention::RunError;
use warpproof_kernels::inputs::TensorName;
use warpproof_kernels::params::Strides;
use warpproof_kernels::plan::Step;
use warpproof_kernels::quantize::{Element, QuantizeAddresses, Quantizer};
use warpproof_kernels::unsmooth::{Unsmooth, UnsmoothAddresses};
use warpproof_kernels::{Plan, Request};
use warpproof_model::Device;

use crate::catalog::{self, Kernels};
use crate::cuda::{Current, Function};
use crate::layout::Layout;
use crate::{Error, image};

/// What is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Sizes, mask, formats. The layout describes the codes of [`Prepared::run_slices`] and of values; [`Prepared::run`] takes strides.
    pub request: Request,
    /// The type of Q, K and V if they are values, which the run quantizes; `None`: they are codes with scales. With pages, this is the
    /// type of Q, and K and V are codes.
    pub values: Option<Element>,
    /// Subtract the mean of each channel of K before it is quantized, which makes the codes more precise.
    pub smooth_keys: bool,
}

impl From<Request> for Problem {
    fn from(request: Request) -> Problem {
        Problem { request, values: None, smooth_keys: false }
    }
}

/// A tensor in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tensor {
    /// The address of its first element, a multiple of 16.
    pub address: u64,
    /// Elements from one sequence, head and row to the next, each a multiple of 16 bytes. The elements of a row are adjacent. The
    /// stride of sequences is not used if lengths are in device memory.
    pub strides: Strides,
}

/// Q, K or V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// Codes or values.
    pub tensor: Tensor,
    /// The address of the scales of codes, f32, `[batch][heads][blocks of 64 rows]`, or `[batch][heads]` with one for each head.
    pub scales: u64,
}

/// What a run reads and writes: addresses in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the operands")]
pub struct Arguments {
    pub q: Operand,
    pub k: Operand,
    pub v: Operand,
    /// The output.
    pub o: Tensor,
    /// The log-sum-exp, f32, `[batch][heads][queries]`, if requested.
    pub lse: u64,
    /// The sink of each query head, f32, if requested.
    pub sinks: u64,
    /// The slope of ALiBi of each query head, f32, if requested.
    pub slopes: u64,
    /// The pages of each sequence, u32, `[batch][entries]`, and the entries of each sequence, if K and V are in pages. Their stride of
    /// sequences is then that of pages.
    pub pages: (u64, u32),
    /// Rows before each sequence, and all rows, as u32: of the queries and of the keys, if lengths are in device memory.
    pub starts: (u64, u64),
    /// [`Prepared::workspace`] bytes, aligned to 16. Its contents do not matter. Runs that may overlap need one each.
    pub workspace: u64,
}

/// A problem that is ready to run in the context that was current when it was made.
#[derive(Debug)]
pub struct Prepared {
    problem: Problem,
    plan: Plan,
    attention: Vec<(Step, Function)>,
    /// Of Q, K and V, for those that are values.
    quantizers: Vec<Stage>,
    unsmooth: Option<(Vec<(Step, Function)>, Unsmooth)>,
    /// Offsets in the workspace.
    attention_workspace: u64,
    lse: u64,
    workspace: usize,
}

/// The quantizer of an operand, and where its results are in the workspace.
#[derive(Debug)]
struct Stage {
    plan: Quantizer,
    steps: Vec<(Step, Function)>,
    codes: u64,
    scales: u64,
    mean: u64,
    workspace: u64,
}

impl Prepared {
    /// Chooses the kernels for a problem and loads them in the current context.
    pub fn new(problem: impl Into<Problem>) -> Result<Prepared, Error> {
        let problem = problem.into();
        let request = &problem.request;
        let current = Current::get()?;
        let device = device(current)?;
        if problem.smooth_keys && (problem.values.is_none() || request.page_size.is_some()) {
            return Err(Error::Invalid("only keys that the run quantizes can be smoothed".to_owned()));
        }
        // Smoothing adds the same number to all scores of a row, which must not matter.
        if problem.smooth_keys && (request.softcap.is_some() || request.sinks) {
            return Err(Error::Invalid(
                "keys cannot be smoothed with soft caps or sinks: they depend on the scores themselves"
                    .to_owned(),
            ));
        }
        let plans = catalog::plans(request, &device)?;
        let found = plans.into_iter().find_map(|plan| Some((image::find(&Kernels::of(&plan).name())?, plan)));
        let (entry, plan) = found.ok_or_else(|| absent(&problem))?;
        let attention = current.functions(&entry, &plan.steps)?;

        let mut layout = Layout::default();
        let attention_workspace = layout.add(plan.workspace);
        let rows = request.shape.batch() * request.shape.heads * request.shape.max_queries();
        let lse = layout.add(if plan.request.lse && !request.lse { rows * size_of::<f32>() } else { 0 });
        let quantizers = match problem.values {
            None => Vec::new(),
            Some(element) => stages(&problem, element, &device, current, &mut layout)?,
        };
        let unsmooth = if problem.smooth_keys && request.lse {
            let unsmooth = Unsmooth::new(&plan)?;
            let entry =
                image::find(&Kernels::of_unsmooth(&unsmooth).name()).ok_or_else(|| absent(&problem))?;
            Some((current.functions(&entry, &[unsmooth.step])?, unsmooth))
        } else {
            None
        };
        let workspace = layout.bytes();
        Ok(Prepared { problem, plan, attention, quantizers, unsmooth, attention_workspace, lse, workspace })
    }

    /// Bytes of device memory that a run needs besides its arguments.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The plan of attention itself.
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
        self.check(arguments)?;
        let stream: sys::CUstream = stream.cast();
        let mut codes = [arguments.q, arguments.k, arguments.v];
        let starts = [arguments.starts.0, arguments.starts.1, arguments.starts.1];
        for ((stage, operand), starts) in self.quantizers.iter().zip(&mut codes).zip(starts) {
            let (parameter, made) = stage.params(operand.tensor, starts, arguments.workspace);
            // SAFETY: by the caller; the parameter is the one of the quantizer's kernels.
            unsafe { launch(&stage.steps, stream, &parameter)? };
            *operand = made;
        }
        let parameter = self.params(arguments, codes);
        // SAFETY: by the caller; the parameter is the one of the plan's kernels.
        unsafe { launch(&self.attention, stream, &parameter)? };
        if let (Some((steps, unsmooth)), [_, keys, _]) = (&self.unsmooth, self.quantizers.as_slice()) {
            let at = UnsmoothAddresses {
                q: (codes[0].tensor.address, codes[0].scales),
                mean: arguments.workspace.saturating_add(keys.mean),
                lse: arguments.lse,
                starts: arguments.starts.0,
            };
            let parameter =
                unsmooth.params(&at).map_err(|error: RunError<Error>| Error::Invalid(error.to_string()))?;
            // SAFETY: by the caller; the parameter is the one of this kernel.
            unsafe { launch(steps, stream, &parameter)? };
        }
        Ok(())
    }

    fn params(&self, arguments: &Arguments, codes: [Operand; 3]) -> Vec<u8> {
        let mut params = self.plan.params;
        let varlen = self.plan.varlen();
        let packed = varlen && self.problem.request.page_size.is_none();
        for ((operand, from), packed) in
            [&mut params.q, &mut params.k, &mut params.v].into_iter().zip(codes).zip([varlen, packed, packed])
        {
            operand.codes = from.tensor.address;
            operand.scales = from.scales;
            operand.strides = placed(from.tensor.strides, packed);
        }
        (params.pages, params.max_pages) = arguments.pages;
        params.o = arguments.o.address;
        params.o_strides = placed(arguments.o.strides, varlen);
        let requested = self.problem.request.lse;
        params.lse = if requested { arguments.lse } else { arguments.workspace.saturating_add(self.lse) };
        params.partial = arguments.workspace.saturating_add(self.attention_workspace);
        (params.query_starts, params.key_starts) = arguments.starts;
        (params.sinks, params.slopes) = (arguments.sinks, arguments.slopes);
        params.epoch = next_epoch();
        params.bytes()
    }

    fn check(&self, at: &Arguments) -> Result<(), Error> {
        let bytes = |operand: usize| {
            if operand < self.quantizers.len() { self.problem.values.map_or(1, Element::bytes) } else { 1 }
        };
        let tensors = [
            ("Q", at.q.tensor, bytes(0)),
            ("K", at.k.tensor, bytes(1)),
            ("V", at.v.tensor, bytes(2)),
            ("O", at.o, size_of::<u16>()),
        ];
        for (name, tensor, bytes) in tensors {
            aligned(name, tensor.address, 16)?;
            let Strides { batch, head, row } = tensor.strides;
            let unit = 16 / u64::try_from(bytes).unwrap_or(16);
            if [batch, head, row].iter().any(|stride| !stride.is_multiple_of(unit)) {
                return Err(Error::Invalid(format!(
                    "{name} has the strides {batch}, {head} and {row}; expected multiples of {unit} elements"
                )));
            }
        }
        let scales = [
            ("the scales of Q", at.q.scales),
            ("the scales of K", at.k.scales),
            ("the scales of V", at.v.scales),
        ];
        for (name, address) in scales.into_iter().skip(self.quantizers.len()) {
            aligned(name, address, 4)?;
        }
        let request = &self.problem.request;
        for (requested, name, address) in [
            (request.lse, "the log-sum-exp", at.lse),
            (request.sinks, "the sinks", at.sinks),
            (request.alibi, "the slopes of ALiBi", at.slopes),
            (request.page_size.is_some(), "the page table", at.pages.0),
        ] {
            if requested {
                aligned(name, address, 4)?;
            }
        }
        if let Some(size) = request.page_size {
            let needed = request.shape.max_keys().div_ceil(size);
            if usize::try_from(at.pages.1).is_ok_and(|entries| entries < needed) {
                return Err(Error::Invalid(format!(
                    "the page table has {} entries for each sequence; expected at least {needed}",
                    at.pages.1
                )));
            }
        }
        if self.plan.varlen() {
            aligned("the starts of the queries", at.starts.0, 4)?;
            aligned("the starts of the keys", at.starts.1, 4)?;
        }
        if self.workspace > 0 {
            aligned("the workspace", at.workspace, 16)?;
        }
        Ok(())
    }
}

/// The quantizers of Q, K and V; with pages, of Q.
fn stages(
    problem: &Problem,
    element: Element,
    device: &Device,
    current: Current,
    layout: &mut Layout,
) -> Result<Vec<Stage>, Error> {
    let request = &problem.request;
    let mut stage = |tensor: TensorName, smooth: bool| {
        let plan = Quantizer::new(&request.quantize(tensor, element, smooth), device)?;
        let entry = image::find(&Kernels::of_quantizer(&plan).name()).ok_or_else(|| absent(problem))?;
        Ok::<_, Error>(Stage {
            steps: current.functions(&entry, &plan.steps)?,
            codes: layout.add(plan.request.rows.elements()),
            scales: layout.add(plan.scales() * size_of::<f32>()),
            mean: layout.add(plan.mean() * size_of::<f32>()),
            workspace: layout.add(plan.workspace),
            plan,
        })
    };
    let mut all = vec![stage(TensorName::Q, false)?];
    if request.page_size.is_none() {
        all.push(stage(TensorName::K, problem.smooth_keys)?);
        all.push(stage(TensorName::V, false)?);
    }
    Ok(all)
}

impl Stage {
    /// The parameter of a run, and the codes that it writes.
    fn params(&self, values: Tensor, starts: u64, workspace: u64) -> (Vec<u8>, Operand) {
        let at = |offset: u64| workspace.saturating_add(offset);
        let addresses = QuantizeAddresses {
            values: values.address,
            codes: at(self.codes),
            scales: at(self.scales),
            mean: at(self.mean),
            starts,
            workspace: at(self.workspace),
        };
        let mut params = self.plan.params_at(&addresses);
        params.value_strides = placed(values.strides, self.plan.request.varlen());
        let codes = Tensor { address: params.codes, strides: params.code_strides };
        (params.bytes(), Operand { tensor: codes, scales: params.scales })
    }
}

/// Launches one kernel after the other.
///
/// # Safety
///
/// As for [`Function::launch`].
unsafe fn launch(steps: &[(Step, Function)], stream: sys::CUstream, parameter: &[u8]) -> Result<(), Error> {
    for (step, function) in steps {
        // SAFETY: by the caller.
        unsafe { function.launch(step, stream, parameter)? };
    }
    Ok(())
}

/// Strides as the kernels read them: packed sequences have no stride of their own.
fn placed(strides: Strides, varlen: bool) -> Strides {
    if varlen { Strides { batch: 0, ..strides } } else { strides }
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
        return Err(Error::Unsupported(format!(
            "8-bit floats need sm_89 or later; this device is sm_{major}{minor}"
        )));
    }
    let l4 = Device::named("l4").ok_or_else(|| Error::Invalid("the device table has no L4".to_owned()))?;
    let mut device = *l4;
    device.multiprocessors.value = current.multiprocessors.max(1);
    Ok(device)
}

fn absent(problem: &Problem) -> Error {
    let Request { shape, format, output, .. } = &problem.request;
    Error::Unsupported(format!(
        "the library has no kernel for this combination: {shape}, {format}, output {output:?}; the header has what it supports"
    ))
}
