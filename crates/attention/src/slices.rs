//! Runs on cudarc's slices: contiguous tensors in the request's layout, whose sizes are checked.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use warpproof_kernels::params::Strides;

use crate::{Arguments, Error, Operand, Prepared, Tensor};

/// Q, K and V: codes and scales.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the operands")]
pub struct Slices<'a> {
    pub q: (&'a CudaSlice<u8>, &'a CudaSlice<f32>),
    pub k: (&'a CudaSlice<u8>, &'a CudaSlice<f32>),
    pub v: (&'a CudaSlice<u8>, &'a CudaSlice<f32>),
}

/// Where a run writes.
#[derive(Debug)]
pub struct Output<'a> {
    /// The output as f16 codes.
    pub o: &'a mut CudaSlice<u16>,
    /// The log-sum-exp, if requested.
    pub lse: Option<&'a mut CudaSlice<f32>>,
    /// At least [`Prepared::workspace`] bytes.
    pub workspace: &'a mut CudaSlice<u8>,
}

impl Prepared {
    /// Launches on a stream of the context that was current in [`Prepared::new`]. Tensors are contiguous in the layout of the
    /// request, whose sequences have equal lengths.
    pub fn run_slices(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Slices<'_>,
        output: Output<'_>,
    ) -> Result<(), Error> {
        let request = &self.problem().request;
        if self.problem().values.is_some() {
            return Err(Error::Invalid("Q, K and V are values: use `Prepared::run`".to_owned()));
        }
        if request.sinks || request.alibi || request.page_size.is_some() {
            return Err(Error::Invalid("sinks, ALiBi and pages: use `Prepared::run`".to_owned()));
        }
        if request.varlen() {
            return Err(Error::Invalid("lengths in device memory: use `Prepared::run`".to_owned()));
        }
        let (queries, keys) =
            (request.shape.query_rows(request.layout), request.shape.key_rows(request.layout));
        let operands = [
            ("Q", inputs.q, &queries, request.scales.q),
            ("K", inputs.k, &keys, request.scales.k),
            ("V", inputs.v, &keys, request.scales.v),
        ];
        let mut at = Arguments::default();
        let mut used = Vec::new();
        for ((name, (codes, scales), rows, granularity), to) in
            operands.into_iter().zip([&mut at.q, &mut at.k, &mut at.v])
        {
            expect(name, codes.len(), rows.elements())?;
            expect(&format!("the scales of {name}"), scales.len(), granularity.count(rows))?;
            let ((codes, one), (scales, other)) = (codes.device_ptr(stream), scales.device_ptr(stream));
            used.extend([one, other]);
            *to = Operand { tensor: Tensor { address: codes, strides: Strides::of(rows, false) }, scales };
        }
        expect("O", output.o.len(), queries.elements())?;
        let (address, one) = output.o.device_ptr_mut(stream);
        at.o = Tensor { address, strides: Strides::of(&queries, false) };
        used.push(one);
        if request.lse {
            let wanted = request.shape.batch() * request.shape.heads * request.shape.max_queries();
            let lse = output.lse.ok_or_else(|| {
                Error::Invalid("the request has a log-sum-exp, but no slice is given for it".to_owned())
            })?;
            expect("the log-sum-exp", lse.len(), wanted)?;
            let (address, one) = lse.device_ptr_mut(stream);
            at.lse = address;
            used.push(one);
        }
        if output.workspace.len() < self.workspace() {
            return Err(Error::Invalid(format!(
                "the workspace has {} bytes; expected at least {}",
                output.workspace.len(),
                self.workspace()
            )));
        }
        let (address, one) = output.workspace.device_ptr_mut(stream);
        at.workspace = address;
        used.push(one);
        // SAFETY: the slices have the requested sizes and live in the stream's context until it has used them: cudarc frees a
        // slice in the order of its stream, and `used` makes it wait for this stream.
        unsafe { self.run(&at, stream.cu_stream().cast()) }
    }
}

fn expect(name: &str, found: usize, wanted: usize) -> Result<(), Error> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::Invalid(format!("{name}: expected {wanted} elements, found {found}")))
}
