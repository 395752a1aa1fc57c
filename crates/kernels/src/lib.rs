//! FP8 attention for Ada: the kernels, the formats they read, and the oracles that verify them.
//!
//! `cuda/` contains the kernels as CUDA C++: a ladder of variants ("rungs"), each with one change over the
//! rung before. The modules here plan, compile, run and verify them: describe a request, plan it for a
//! device, compile the plan, load it on a GPU, run it, and compare the output with its oracles:
//!
//! ```no_run
//! use warpproof_kernels::inputs::{Distribution, generate};
//! use warpproof_kernels::{Attention, Mask, Plan, Request, Shape};
//! use warpproof_toolchain::{Options, Toolchain};
//!
//! // Two sequences of 256 rows, eight heads, 64 elements per row; default: E4M3 with one scale per head.
//! let shape = Shape::equal(2, 8, 256, 64);
//! let request = Request { mask: Mask::Causal, ..Request::new(shape.clone()) };
//! let l4 = warpproof_model::Device::named("L4").ok_or("not in the device table")?;
//! let plan = Plan::new(&request, l4)?;
//!
//! // NVIDIA's compiler; `warpproof toolchain install` fetches it.
//! let ptx = plan.compile(&Toolchain::find(&Options::from_env())?)?;
//! let mut gpu = warpproof_sim::Device::new();
//! let attention = Attention::load(plan, &ptx, &mut gpu)?;
//!
//! let inputs = generate(&shape, Distribution::Normal, 0, request.spec());
//! let answer = attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v)?;
//! let verdict = attention.plan().oracles(&inputs)?.judge(&answer);
//! assert!(verdict.passed(), "{verdict:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/attention.rs` starts from f32 tensors instead, and also runs the plan under the checks of the
//! software GPU.
//!
//! Modules, from the request to the verdict:
//!
//! - [`problem`]: sizes, masks, layouts, which elements share a scale
//! - [`format`](mod@format): the 8-bit formats of inputs and the 16-bit formats of outputs, code to value and back
//! - [`tensor`]: codes with their scales, and quantization
//! - [`quantize`]: the same quantization on a GPU, from f16, bf16 or f32, with smoothing
//! - [`unsmooth`]: corrects the log-sum-exp of attention over smoothed keys
//! - [`inputs`]: Q, K and V together; inputs from a seed
//! - [`ladder`]: every rung, its toggles, its features, and the arithmetic that decides its bits
//! - [`plan`](mod@plan): turns a request into a rung, macros, launches and parameters, or an error
//! - [`dispatch`]: chooses a rung for a shape from a table of predicted times
//! - [`fit`]: how many rows and keys a block takes on a device
//! - [`source`]: the CUDA C++ sources, embedded in the library
//! - [`paged`]: keys and values in pages of a pool
//! - [`params`]: the kernels' parameter struct, as bytes
//! - [`attention`]: runs a plan on a GPU, from tensors or from device addresses
//! - [`oracle`]: attention in f64, and the exact bits of each rung
//! - [`tolerance`]: how far from exact an output may be, derived from formats and lengths
//! - [`judge`]: compares an output with both oracles
//! - [`null`]: deliberately wrong outputs, to test the tests
//!
//! The types that a user of one plan needs are re-exported here. The crate contains no `unsafe` code, and
//! only [`Plan::compile`] requires NVIDIA's compiler.
#![forbid(unsafe_code)]

pub mod attention;
pub mod dispatch;
pub mod fit;
pub mod format;
pub mod inputs;
pub mod judge;
pub mod ladder;
pub mod null;
pub mod oracle;
pub mod paged;
pub mod params;
pub mod plan;
pub mod problem;
pub mod quantize;
pub mod source;
pub mod stream_k;
pub mod tensor;
pub mod tolerance;
pub mod unsmooth;

pub use attention::{Addresses, Answer, Attention, RunError};
pub use format::{Format, OutputFormat};
pub use inputs::Inputs;
pub use judge::{Oracles, Verdict};
pub use paged::{PageTable, Pool};
pub use plan::{Plan, PlanError, Request, Scales, Splits};
pub use problem::{Granularity, Layout, Lengths, Mask, Rows, Shape, Window};
pub use quantize::{Element, Quantization, Quantize, QuantizeAddresses, Quantizer, Smoothed};
pub use tensor::Quantized;
pub use unsmooth::Unsmooth;
