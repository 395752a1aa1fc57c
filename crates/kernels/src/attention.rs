//! Runs a plan on a GPU, from device addresses or from host tensors.

use std::fmt;

use crate::inputs::{Inputs, heads_of};
use crate::paged::PageTable;
use crate::params::Params;
use crate::plan::{Plan, Step};
use crate::tensor::Quantized;
use warpproof_launch::{Gpu, Use};

/// A plan whose kernels are loaded on a device.
#[derive(Debug)]
pub struct Attention<G: Gpu> {
    plan: Plan,
    module: G::Module,
}

/// Device addresses of a launch. Codes and O must be aligned to 16 bytes, everything else to 4.
///
/// The contents are not checked: codes must be finite, and scales positive and finite. A kernel also
/// multiplies the keys of a tile that a row does not see, by 0, and 0 times an infinity or NaN would make the
/// output NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Codes and scales of Q.
    pub q: (u64, u64),
    /// Codes and scales of K.
    pub k: (u64, u64),
    /// Codes and scales of V.
    pub v: (u64, u64),
    /// The output, f16 or bf16.
    pub o: u64,
    /// The log-sum-exp, f32, `[batch][heads][most queries]`, if the plan has one.
    pub lse: u64,
    /// Rows before each sequence, followed by the total, as u32, if lengths differ: of the queries and of the
    /// keys.
    pub starts: (u64, u64),
    /// The sink of each query head, f32, if the plan has sinks.
    pub sinks: u64,
    /// The slope of each query head, f32, if the plan has ALiBi.
    pub slopes: u64,
    /// The pages of each sequence, u32, `[batch][pages of the longest]`, if K and V are in pages; `k` and `v` are
    /// then those of the pools ([`crate::paged`]).
    pub pages: u64,
}

/// [`Plan::workspace`] bytes of device memory, and the number of launches that have used them.
///
/// A launch borrows it mutably until the launch has ended, so that no two launches use it at the same time;
/// streams that run concurrently need one workspace each. Blocks count each other in it under the number of
/// their launch, so values left there by an aborted launch or by another kernel are ignored.
#[derive(Debug, Default)]
pub struct Workspace {
    address: u64,
    launches: u32,
}

impl Workspace {
    /// Memory at an address, aligned to 16 bytes. Its contents do not matter.
    pub fn new(address: u64) -> Workspace {
        Workspace { address, launches: 0 }
    }

    /// The address of its first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The value that the next launch writes into the counters: never 0, and repeated only after 2³² − 1
    /// launches.
    fn next_epoch(&mut self) -> u32 {
        // An odd factor maps distinct launch numbers to distinct values, which memory is unlikely to contain
        // by chance.
        const SPREAD: u32 = 0x9e37_79b1;
        self.launches = self.launches.checked_add(1).unwrap_or(1);
        self.launches.wrapping_mul(SPREAD)
    }
}

impl Addresses {
    /// Kernels read 16 codes and store four sums of the workspace at once; O is stored at most four elements at once so far.
    fn check<E>(&self, workspace: u64) -> Result<(), RunError<E>> {
        let all = [
            ("Q", self.q.0, 16),
            ("K", self.k.0, 16),
            ("V", self.v.0, 16),
            ("O", self.o, 16),
            ("the workspace", workspace, 16),
            ("the scales of Q", self.q.1, 4),
            ("the scales of K", self.k.1, 4),
            ("the scales of V", self.v.1, 4),
            ("the log-sum-exp", self.lse, 4),
            ("the starts of the queries", self.starts.0, 4),
            ("the starts of the keys", self.starts.1, 4),
            ("the sinks", self.sinks, 4),
            ("the slopes", self.slopes, 4),
            ("the page table", self.pages, 4),
        ];
        match all.into_iter().find(|(_, address, bytes)| !address.is_multiple_of(*bytes)) {
            Some((name, address, bytes)) => Err(RunError::Alignment { name, address, bytes }),
            None => Ok(()),
        }
    }
}

/// The seed of the order of pages in [`Attention::run`].
const TABLE_SEED: u64 = 1;

/// What a run copies to the device.
struct Operands<'a> {
    tensors: [&'a Quantized; 3],
    sinks: Option<&'a [f32]>,
    slopes: Option<&'a [f32]>,
}

/// The output of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// O as codes of the request's output format, in its layout.
    pub output: Vec<u16>,
    /// The log-sum-exp as f32 codes, `[batch][heads][most queries]`; 0 beyond the end of a sequence.
    pub lse: Option<Vec<u32>>,
}

/// Why a run failed.
#[derive(Debug)]
pub enum RunError<E> {
    /// An error of the device.
    Gpu(E),
    /// A tensor does not match the plan.
    Tensor(String),
    /// An address is not aligned.
    Alignment {
        /// The name of the address.
        name: &'static str,
        /// The address.
        address: u64,
        /// The required alignment.
        bytes: u64,
    },
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Gpu(error) => error.fmt(f),
            RunError::Tensor(text) => f.write_str(text),
            RunError::Alignment { name, address, bytes } => {
                write!(f, "{name} at {address:#x} is not aligned to {bytes} bytes")
            }
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for RunError<E> {}

impl<E> From<E> for RunError<E> {
    fn from(error: E) -> Self {
        RunError::Gpu(error)
    }
}

impl<G: Gpu> Attention<G> {
    /// Loads the plan's PTX, as compiled by [`Plan::compile`].
    pub fn load(plan: Plan, ptx: &str, gpu: &mut G) -> Result<Self, G::Error> {
        let module = gpu.load(ptx)?;
        Ok(Attention { plan, module })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Launches on device memory, and returns when the last launch has ended.
    pub fn launch(
        &self,
        gpu: &mut G,
        at: &Addresses,
        workspace: &mut Workspace,
    ) -> Result<(), RunError<G::Error>> {
        let params = self.params(at, workspace)?;
        for step in &self.plan.steps {
            self.step(gpu, step, &params)?;
        }
        Ok(())
    }

    /// The parameters with the addresses filled in.
    fn params(&self, at: &Addresses, workspace: &mut Workspace) -> Result<Params, RunError<G::Error>> {
        at.check(workspace.address)?;
        let mut params = self.plan.params;
        for (operand, (codes, scales)) in
            [(&mut params.q, at.q), (&mut params.k, at.k), (&mut params.v, at.v)]
        {
            operand.codes = codes;
            operand.scales = scales;
        }
        params.o = at.o;
        params.lse = at.lse;
        params.partial = workspace.address;
        params.epoch = workspace.next_epoch();
        (params.query_starts, params.key_starts) = at.starts;
        (params.sinks, params.slopes, params.pages) = (at.sinks, at.slopes, at.pages);
        Ok(params)
    }

    fn step(&self, gpu: &mut G, step: &Step, params: &Params) -> Result<(), G::Error> {
        gpu.launch(&self.module, step.kernel, step.geometry, &params.bytes())
    }

    /// Copies tensors to the device, launches, and copies the output back. [`Attention::run_inputs`] is for
    /// requests that have values of heads too.
    pub fn run(
        &self,
        gpu: &mut G,
        q: &Quantized,
        k: &Quantized,
        v: &Quantized,
    ) -> Result<Answer, RunError<G::Error>> {
        self.run_with(gpu, &Operands { tensors: [q, k, v], sinks: None, slopes: None })
    }

    /// Copies inputs to the device, launches, and copies the output back. If the plan has pages, K and V are
    /// copied to pools whose pages are in a pseudorandom order.
    pub fn run_inputs(&self, gpu: &mut G, inputs: &Inputs) -> Result<Answer, RunError<G::Error>> {
        let tensors = [&inputs.q, &inputs.k, &inputs.v];
        let (sinks, slopes) = (inputs.sinks.as_deref(), inputs.slopes.as_deref());
        self.run_with(gpu, &Operands { tensors, sinks, slopes })
    }

    fn run_with(&self, gpu: &mut G, operands: &Operands<'_>) -> Result<Answer, RunError<G::Error>> {
        let [q, k, v] = operands.tensors;
        self.check(q, k, v)?;
        let shape = &self.plan.request.shape;
        heads_of(&self.plan.request, [operands.sinks, operands.slopes])
            .map_err(|error| RunError::Tensor(error.to_string()))?;
        let mut used = Vec::new();
        let outcome = self.run_in(gpu, operands, &mut used);
        // Every buffer is freed, also after an error; the first error is returned.
        let mut freed = Ok(());
        for memory in used {
            freed = freed.and(gpu.free(memory));
        }
        let (output, lse) = outcome?;
        freed?;
        let halves = output.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let mut lse = lse.map(|bytes| {
            let words =
                bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            words.collect::<Vec<u32>>()
        });
        // Rows beyond the end of a sequence are not part of the output.
        if let Some(lse) = lse.as_mut() {
            let most = shape.max_queries();
            for (index, value) in lse.iter_mut().enumerate() {
                if index % most >= shape.sequences[index / most / shape.heads].queries {
                    *value = 0;
                }
            }
        }
        Ok(Answer { output: halves, lse })
    }

    #[expect(clippy::type_complexity, reason = "the bytes of both outputs")]
    fn run_in(
        &self,
        gpu: &mut G,
        operands: &Operands<'_>,
        used: &mut Vec<G::Memory>,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>), RunError<G::Error>> {
        let shape = &self.plan.request.shape;
        let tensors = operands.tensors;
        // Returns the buffer's index in `used`, and its address.
        let mut put = |gpu: &mut G, name: &str, bytes: &[u8], what: Use| {
            // A device has no address for an empty buffer.
            used.push(gpu.allocate(name, bytes.len().max(1), what)?);
            let place = used.len() - 1;
            gpu.write(&used[place], bytes)?;
            Ok::<_, G::Error>((place, gpu.address(&used[place])))
        };
        let floats =
            |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let mut at = Addresses::default();
        let page_size = self.plan.request.page_size;
        let table = page_size.map(|size| PageTable::shuffled(&tensors[1].rows, size, TABLE_SEED));
        let names = [("q", "q_scales"), ("k", "k_scales"), ("v", "v_scales")];
        for ((to, tensor), (codes, scales)) in
            [&mut at.q, &mut at.k, &mut at.v].into_iter().zip(tensors).zip(names)
        {
            if let Some(table) = table.as_ref().filter(|_| codes != "q") {
                let pool = table.pool(tensor);
                to.0 = put(gpu, codes, &pool.codes, Use::Input)?.1;
                to.1 = put(gpu, scales, &floats(&pool.scales), Use::Input)?.1;
                continue;
            }
            to.0 = put(gpu, codes, &tensor.codes, Use::Input)?.1;
            to.1 = put(gpu, scales, &floats(&tensor.scales), Use::Input)?.1;
        }
        if let Some(table) = &table {
            let entries: Vec<u8> = table.entries.iter().flat_map(|page| page.to_le_bytes()).collect();
            at.pages = put(gpu, "pages", &entries, Use::Input)?.1;
        }
        if self.plan.varlen() {
            let starts = |tensor: &Quantized| {
                let starts = tensor.rows.starts().iter();
                starts.flat_map(|row| crate::params::narrow(*row).to_le_bytes()).collect::<Vec<u8>>()
            };
            at.starts.0 = put(gpu, "query_starts", &starts(tensors[0]), Use::Input)?.1;
            at.starts.1 = put(gpu, "key_starts", &starts(tensors[1]), Use::Input)?.1;
        }
        if let Some(sinks) = operands.sinks {
            at.sinks = put(gpu, "sinks", &floats(sinks), Use::Input)?.1;
        }
        if let Some(slopes) = operands.slopes {
            at.slopes = put(gpu, "slopes", &floats(slopes), Use::Input)?.1;
        }
        // Elements that a kernel does not write stay NaN, in f16, bf16 and f32, and show up in the output. A plan
        // of several steps passes data through the workspace; in a plan of one step, the blocks share it.
        let last = self.plan.steps.len().saturating_sub(1);
        let (shared, read) = if last > 0 { (Use::Scratch, Use::Input) } else { (Use::Shared, Use::Shared) };
        let mut held = Workspace::default();
        let workspace = if self.plan.workspace > 0 {
            let (place, address) = put(gpu, "workspace", &self.plan.blank_workspace(), shared)?;
            held = Workspace::new(address);
            Some(place)
        } else {
            None
        };
        let mut own =
            |gpu: &mut G, name: &str, bytes: usize| put(gpu, name, &vec![0xff; bytes], Use::Scratch);
        let lse = if self.plan.request.lse {
            let rows = shape.batch() * shape.heads * shape.max_queries();
            let (place, address) = own(gpu, "lse", rows * size_of::<f32>())?;
            at.lse = address;
            Some(place)
        } else {
            None
        };
        let output = own(gpu, "o", tensors[0].rows.elements() * size_of::<u16>())?;
        at.o = output.1;

        let params = self.params(&at, &mut held)?;
        // If lengths differ, the rows beyond the end of a sequence stay unwritten.
        let padded = if self.plan.varlen() { Use::Scratch } else { Use::Output };
        for (index, step) in self.plan.steps.iter().enumerate() {
            let (before, after) =
                if index == last { (read, [Use::Output, padded]) } else { (padded, [Use::Scratch; 2]) };
            let uses = [(workspace, before), (Some(output.0), after[0]), (lse, after[1])];
            for (place, what) in uses {
                if let Some(memory) = place.and_then(|place| used.get(place)) {
                    gpu.declare(memory, what);
                }
            }
            self.step(gpu, step, &params)?;
        }
        let mut read = |place: usize| gpu.read(&used[place]);
        Ok((read(output.0)?, lse.map(read).transpose()?))
    }

    fn check(&self, q: &Quantized, k: &Quantized, v: &Quantized) -> Result<(), RunError<G::Error>> {
        let request = &self.plan.request;
        let (queries, keys) =
            (request.shape.query_rows(request.layout), request.shape.key_rows(request.layout));
        let scales = request.scales;
        for (name, tensor, rows, granularity) in
            [("Q", q, &queries, scales.q), ("K", k, &keys, scales.k), ("V", v, &keys, scales.v)]
        {
            if !tensor.fits(rows, request.format, granularity) {
                return Err(RunError::Tensor(format!(
                    "{name} does not have the planned shape, layout, format or granularity ({})",
                    request.shape
                )));
            }
            if let Some(scale) = tensor.scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
                return Err(RunError::Tensor(format!(
                    "{name} has the scale {scale}; scales must be positive and finite"
                )));
            }
            if let Some(index) = tensor.non_finite() {
                let (code, format) = (tensor.codes[index], tensor.format);
                return Err(RunError::Tensor(format!(
                    "element {index} of {name} is {code:#04x}, which is not a finite {format} value"
                )));
            }
        }
        Ok(())
    }
}
