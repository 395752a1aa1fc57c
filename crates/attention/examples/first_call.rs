//! Attention of two sequences with cudarc, on the first CUDA device.
//!
//!     cargo run --example first_call
//!
//! Without a GPU: `warpproof exec -- cargo run --example first_call`. `examples/first_call.c` and `python/sample/attention.py`
//! compute the same and print the same line.
#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;

use cudarc::driver::CudaContext;
use warpproof_attention::{Output, Prepared, Slices};
use warpproof_kernels::Request;
use warpproof_kernels::problem::{Layout, Lengths, Mask, Shape};

const BATCH: usize = 2;
const ROWS: usize = 192;

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let shape = Shape {
        heads: 4,
        kv_heads: 2,
        dim: 64,
        sequences: vec![Lengths { queries: ROWS, keys: ROWS }; BATCH],
    };
    let request = Request { mask: Mask::Causal, layout: Layout::Bshd, ..Request::new(shape.clone()) };
    let prepared = Prepared::new(request)?;

    let elements = |heads: usize| BATCH * ROWS * heads * shape.dim;
    let tensor = |heads: usize, seed: u32| stream.clone_htod(&codes(seed, elements(heads)));
    let scales = |heads: usize| stream.clone_htod(&scales(BATCH * heads));
    let (q, k, v) = (tensor(shape.heads, 1)?, tensor(shape.kv_heads, 2)?, tensor(shape.kv_heads, 3)?);
    let (q_scales, kv_scales) = (scales(shape.heads)?, scales(shape.kv_heads)?);
    let mut o = stream.alloc_zeros::<u16>(elements(shape.heads))?;
    // A device has no empty memory.
    let mut workspace = stream.alloc_zeros::<u8>(prepared.workspace().max(1))?;
    prepared.run_slices(
        &stream,
        Slices { q: (&q, &q_scales), k: (&k, &kv_scales), v: (&v, &kv_scales) },
        Output { o: &mut o, lse: None, workspace: &mut workspace },
    )?;
    let output = stream.clone_dtoh(&o)?;
    stream.synchronize()?;

    // FNV-1a of the output.
    let hash =
        output.iter().flat_map(|value| value.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    println!("B2 H4/2 S192 D64 causal: {hash:016x}");
    Ok(())
}

/// Codes with a sign and a magnitude between 2⁻⁴ and 1.75.
fn codes(mut state: u32, count: usize) -> Vec<u8> {
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, _, low, high] = state.to_le_bytes();
        (high & 0x80) | (0x18 + (low & 0x1f))
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Scales of heads: 0.5, 0.75, 1, 1.25, and again.
fn scales(count: usize) -> Vec<f32> {
    [0.5, 0.75, 1.0, 1.25].into_iter().cycle().take(count).collect()
}
