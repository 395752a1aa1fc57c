//! Running a plan on a GPU, from device addresses or from tensors of the host.

use std::fmt;

use crate::gpu::{Gpu, Use};
use crate::plan::Plan;
use crate::tensor::Quantised;

/// A plan whose kernels are loaded on a device.
#[derive(Debug)]
pub struct Attention<G: Gpu> {
    plan: Plan,
    module: G::Module,
}

/// Device addresses of a launch. Codes and O are aligned to 16 bytes, with all else to their elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Codes and scales of Q.
    pub q: (u64, u64),
    /// Codes and scales of K.
    pub k: (u64, u64),
    /// Codes and scales of V.
    pub v: (u64, u64),
    /// The output, f16.
    pub o: u64,
    /// The log-sum-exp, f32, `[batch][heads][most queries]`, where the plan has one.
    pub lse: u64,
    /// Rows before each sequence and all rows, u32, where lengths differ: of the queries and of the keys.
    pub starts: (u64, u64),
    /// [`Plan::workspace`] bytes.
    pub workspace: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// O as f16 codes, in the layout of the request.
    pub output: Vec<u16>,
    /// The log-sum-exp as f32 codes, `[batch][heads][most queries]`; 0 beyond the end of a sequence.
    pub lse: Option<Vec<u32>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum RunError<E> {
    /// The device's own.
    Gpu(E),
    /// A tensor is not what was planned for.
    Tensor(String),
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Gpu(error) => error.fmt(f),
            RunError::Tensor(text) => f.write_str(text),
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
    /// Loads the plan's PTX, as [`Plan::compile`] made it.
    pub fn load(plan: Plan, ptx: &str, gpu: &mut G) -> Result<Self, G::Error> {
        let module = gpu.load(ptx)?;
        Ok(Attention { plan, module })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Launches on memory of the device.
    pub fn launch(&self, gpu: &mut G, at: &Addresses) -> Result<(), G::Error> {
        let mut params = self.plan.params;
        for (operand, (codes, scales)) in
            [(&mut params.q, at.q), (&mut params.k, at.k), (&mut params.v, at.v)]
        {
            operand.codes = codes;
            operand.scales = scales;
        }
        params.o = at.o;
        params.lse = at.lse;
        params.partial = at.workspace;
        (params.query_starts, params.key_starts) = at.starts;
        let bytes = params.bytes();
        for step in &self.plan.steps {
            gpu.launch(&self.module, step.kernel, step.geometry, &bytes)?;
        }
        Ok(())
    }

    /// Copies tensors to the device, launches, and copies the answer back.
    pub fn run(
        &self,
        gpu: &mut G,
        q: &Quantised,
        k: &Quantised,
        v: &Quantised,
    ) -> Result<Answer, RunError<G::Error>> {
        self.check(q, k, v)?;
        let shape = &self.plan.request.shape;
        let mut used = Vec::new();
        let outcome = self.run_in(gpu, [q, k, v], &mut used);
        for memory in used {
            gpu.free(memory)?;
        }
        let (output, lse) = outcome?;
        let halves = output.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let mut lse = lse.map(|bytes| {
            let words =
                bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            words.collect::<Vec<u32>>()
        });
        // Rows that do not exist are no part of the answer.
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
        operands: [&Quantised; 3],
        used: &mut Vec<G::Memory>,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>), G::Error> {
        let shape = &self.plan.request.shape;
        let mut input = |gpu: &mut G, name: &str, bytes: &[u8]| -> Result<u64, G::Error> {
            // Nothing may be empty: a device has no address for it.
            let memory = gpu.allocate(name, bytes.len().max(1), Use::Input)?;
            gpu.write(&memory, bytes)?;
            let address = gpu.address(&memory);
            used.push(memory);
            Ok(address)
        };
        let floats =
            |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let mut at = Addresses::default();
        let names = [("q", "q_scales"), ("k", "k_scales"), ("v", "v_scales")];
        for ((to, tensor), (codes, scales)) in
            [&mut at.q, &mut at.k, &mut at.v].into_iter().zip(operands).zip(names)
        {
            *to = (input(gpu, codes, &tensor.codes)?, input(gpu, scales, &floats(&tensor.scales))?);
        }
        if self.plan.varlen() {
            let starts = |tensor: &Quantised| {
                let starts = tensor.rows.starts().iter();
                starts.flat_map(|row| crate::params::narrow(*row).to_le_bytes()).collect::<Vec<u8>>()
            };
            at.starts = (
                input(gpu, "query_starts", &starts(operands[0]))?,
                input(gpu, "key_starts", &starts(operands[1]))?,
            );
        }
        if self.plan.workspace > 0 {
            let memory = gpu.allocate("workspace", self.plan.workspace, Use::Scratch)?;
            at.workspace = gpu.address(&memory);
            used.push(memory);
        }
        let lse = if self.plan.request.lse {
            let bytes = shape.batch() * shape.heads * shape.max_queries() * size_of::<f32>();
            // Where lengths differ, the rows beyond a sequence's end stay as they are.
            let memory = gpu.allocate(
                "lse",
                bytes,
                if self.plan.varlen() { Use::Scratch } else { self.output_use() },
            )?;
            at.lse = gpu.address(&memory);
            Some(memory)
        } else {
            None
        };
        let elements = operands[0].rows.elements();
        let output = gpu.allocate("o", (elements * size_of::<u16>()).max(1), self.output_use())?;
        at.o = gpu.address(&output);
        self.launch(gpu, &at)?;
        let answer = (gpu.read(&output)?, lse.as_ref().map(|memory| gpu.read(memory)).transpose()?);
        used.push(output);
        used.extend(lse);
        Ok(answer)
    }

    /// A checked launch must write all of its output; the first of two launches leaves it to the second.
    fn output_use(&self) -> Use {
        if self.plan.is_split() { Use::Scratch } else { Use::Output }
    }

    fn check(&self, q: &Quantised, k: &Quantised, v: &Quantised) -> Result<(), RunError<G::Error>> {
        let request = &self.plan.request;
        let (queries, keys) =
            (request.shape.query_rows(request.layout), request.shape.key_rows(request.layout));
        let scales = request.scales;
        for (name, tensor, rows, granularity) in
            [("Q", q, &queries, scales.q), ("K", k, &keys, scales.k), ("V", v, &keys, scales.v)]
        {
            let fits = tensor.format == request.format
                && tensor.granularity == granularity
                && tensor.rows.layout == rows.layout
                && tensor.rows.starts() == rows.starts()
                && (tensor.rows.heads, tensor.rows.dim) == (rows.heads, rows.dim)
                && tensor.codes.len() == rows.elements()
                && tensor.scales.len() == granularity.count(rows);
            if !fits {
                return Err(RunError::Tensor(format!(
                    "{name} is not of the planned shape, layout, format or granularity ({})",
                    request.shape
                )));
            }
            if let Some(scale) = tensor.scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
                return Err(RunError::Tensor(format!("{name} has a scale of {scale}; scales are positive")));
            }
        }
        Ok(())
    }
}
