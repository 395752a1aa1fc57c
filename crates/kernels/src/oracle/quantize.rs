//! The exact bits of [`crate::quantize`]: codes, scales and means.
//!
//! Without smoothing and for finite values these are the bits of [`Quantized::quantize`]. The order of the sums of a
//! mean is that of the kernel: a tile has 64 rows; a slot adds every `slots`-th of them, slots are added in order, and
//! tiles are added in order. Rows beyond the end count as 0.

use crate::problem::BLOCK_ROWS;
use crate::quantize::{Quantize, Smoothed};
use crate::tensor::{Quantized, Unquantizable, each_row};

/// The bits that a quantizer must write for these values, which lie as the codes do; strides are ignored.
pub fn quantize(values: &[f32], request: &Quantize) -> Result<Smoothed, Unquantizable> {
    let Quantize { rows, format, granularity, smooth, .. } = request;
    let elements = rows.elements();
    if values.len() != elements {
        return Err(Unquantizable::Length { elements, values: values.len() });
    }
    let mut values = values.to_vec();
    let mean = smooth.then(|| mean(&values, request));
    if let Some(mean) = &mean {
        for (batch, head, row) in each_row(rows) {
            let (at, of) = (rows.offset(batch, head, row), (batch * rows.heads + head) * rows.dim);
            for (value, mean) in values[at..at + rows.dim].iter_mut().zip(&mean[of..]) {
                *value -= mean;
            }
        }
    }
    // Scales from the finite values alone, then the codes of all.
    let finite: Vec<f32> = values.iter().map(|value| if value.is_finite() { *value } else { 0.0 }).collect();
    let mut tensor = Quantized::of_all(&finite, rows.clone(), *format, *granularity);
    for (batch, head, row) in each_row(rows) {
        let (at, scale) = (rows.offset(batch, head, row), tensor.scale_of(batch, head, row));
        for (code, value) in tensor.codes[at..].iter_mut().zip(&values[at..at + rows.dim]) {
            *code = format.encode(value / scale);
        }
    }
    Ok(Smoothed { tensor, mean })
}

/// The mean of each channel, `[batch][head][element]`.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "rounded to f32 by definition")]
fn mean(values: &[f32], request: &Quantize) -> Vec<f32> {
    let rows = &request.rows;
    let slots = request.slots();
    let mut means = Vec::with_capacity(rows.batch() * rows.heads * rows.dim);
    for (batch, head) in (0..rows.batch()).flat_map(|batch| (0..rows.heads).map(move |head| (batch, head))) {
        let count = rows.length(batch);
        let value = |row: usize, d: usize| {
            let value = if row < count { values[rows.offset(batch, head, row) + d] } else { 0.0 };
            if value.is_finite() { value } else { 0.0 }
        };
        let slot = |first: usize, d: usize| {
            (first..first - first % BLOCK_ROWS + BLOCK_ROWS)
                .step_by(slots)
                .fold(0f32, |sum, row| sum + value(row, d))
        };
        let tile =
            |first: usize, d: usize| (first..first + slots).fold(0f32, |sum, first| sum + slot(first, d));
        means.extend((0..rows.dim).map(|d| {
            let sum = (0..count).step_by(BLOCK_ROWS).fold(0f32, |sum, first| sum + tile(first, d));
            if count > 0 && sum.is_finite() { sum / count as f32 } else { 0.0 }
        }));
    }
    means
}

/// Corrects the log-sum-exp bits of attention over smoothed keys, `[batch][head][longest]`, as [`crate::unsmooth`] does;
/// padding is not changed. `mean` is `[batch][key head][element]`. Returns `false` if a length does not match.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "rounding is intended")]
pub fn unsmooth(lse: &mut [u32], q: &Quantized, mean: &[f32], kv_heads: usize, softmax_scale: f64) -> bool {
    let (rows, longest) = (&q.rows, q.rows.longest());
    let fits = kv_heads > 0
        && rows.heads.is_multiple_of(kv_heads)
        && lse.len() == rows.batch() * rows.heads * longest
        && mean.len() == rows.batch() * kv_heads * rows.dim;
    if !fits {
        return false;
    }
    let group = rows.heads / kv_heads;
    for (batch, head, row) in each_row(rows) {
        let mean = &mean[(batch * kv_heads + head / group) * rows.dim..][..rows.dim];
        // Lanes take four neighboring elements of each 128, and are added from near to far.
        let mut lanes = [0f32; 32];
        for (d, (code, mean)) in q.row(batch, head, row).iter().zip(mean).enumerate() {
            let lane = &mut lanes[d / 4 % 32];
            *lane = q.format.decode(*code).mul_add(*mean, *lane);
        }
        for step in [1, 2, 4, 8, 16] {
            lanes = std::array::from_fn(|lane| lanes[lane] + lanes[lane ^ step]);
        }
        let dot = lanes[0] * q.scale_of(batch, head, row);
        let lse = &mut lse[(batch * rows.heads + head) * longest + row];
        *lse = dot.mul_add(softmax_scale as f32, f32::from_bits(*lse)).to_bits();
    }
    true
}
