//! The memory that one size of a task needs, computed before anything is allocated.
//!
//! References compute in f64, so an element of a small type takes many times its own size. The figures are what the
//! stages hold at the same time. For an input: its values, the reference's copy, and the bytes before and after a
//! launch. For an output: the expected value with its limit, and the bytes of the candidate and of its bitwise
//! baseline.

use super::{Bench, Ending};
use crate::limits::{MEMORY_FLAG, shown};
use warpproof_evidence::record::Obstacle;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Candidate, Program, Size, dims};

/// Bytes for each element of an input and of an output, in addition to some in its own type.
const INPUT: u64 = 16;
const OUTPUT: u64 = 24;
/// The number of copies of a tensor's bytes in its own type.
const COPIES: u64 = 3;

/// The ending for a size that needs more memory than is allowed.
pub(super) fn refused(bench: &Bench<'_>, candidate: &Candidate, size: &Size) -> Option<Ending> {
    let (bytes, largest) = needed(bench, candidate, size)?;
    if bytes <= bench.allowance.memory {
        return None;
    }
    let reason = format!(
        "{}: this size needs about {}, most of it for `{largest}`; the limit is {}; raise it with {MEMORY_FLAG}",
        size.name,
        shown(bytes),
        shown(bench.allowance.memory)
    );
    Some(Ending::inconclusive(reason, Some(Obstacle::Limit)))
}

/// Bytes that a size needs, and the tensor that needs most of them. `None` if the extents are wrong, which is
/// reported where they are used.
fn needed(bench: &Bench<'_>, candidate: &Candidate, size: &Size) -> Option<(u64, String)> {
    let data = &bench.task.data;
    let dtypes = candidate.dtypes.as_ref().unwrap_or(&data.dtypes);
    let each = dtypes.iter().copied().max_by_key(|dtype| dtype.size()).unwrap_or(Dtype::F32);
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let element = |dtype: Dtype, fixed: u64| fixed.saturating_add(COPIES.saturating_mul(wide(dtype.size())));
    let mut tensors: Vec<(u64, &str)> = Vec::new();
    for input in &data.inputs {
        let elements = wide(dims(&input.dims, &size.axes).ok()?.iter().product());
        tensors.push((elements.saturating_mul(element(input.dtype.with(each), INPUT)), &input.name.value));
    }
    for output in &data.outputs {
        let elements = wide(dims(&output.dims, &size.axes).ok()?.iter().product());
        tensors.push((elements.saturating_mul(element(output.dtype.with(each), OUTPUT)), &output.name.value));
    }
    if data.inputs.is_empty() || matches!(candidate.program, Program::Rung { .. }) {
        // Attention brings its own tensors: q, k, v and o.
        let extent = |axis: &str| size.axes.get(axis).copied().unwrap_or(1);
        let rows = extent("s").max(extent("keys"));
        let elements = [extent("b"), extent("h"), rows, extent("d"), 4];
        let elements = elements.into_iter().fold(1, u64::saturating_mul);
        tensors.push((elements.saturating_mul(OUTPUT), "q, k, v and o"));
    }
    if let Program::Source { launch, .. } | Program::Ptx { launch, .. } = &candidate.program {
        for scratch in &launch.scratch {
            let count = bench.task.size_of(candidate, &size.axes, &scratch.count).ok()?;
            let count = u64::try_from(count).ok()?;
            tensors.push((count.saturating_mul(element(scratch.dtype.with(each), 0)), &scratch.name.value));
        }
    }
    let all = tensors.iter().fold(0u64, |all, (bytes, _)| all.saturating_add(*bytes));
    let largest = tensors.iter().max_by_key(|(bytes, _)| *bytes)?;
    Some((all, largest.1.to_owned()))
}
