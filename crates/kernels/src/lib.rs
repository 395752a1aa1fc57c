//! FP8 attention for Ada: the kernels, the formats they read, and the oracles that judge them.
//!
//! `cuda/` holds the kernels as CUDA C++, a ladder of rungs with one change each; the modules here hold what surrounds
//! them. Say what is wanted, plan it for a device, compile, load on a GPU, run, and hold the answer against its oracles:
//!
//! ```no_run
//! use warpproof_kernels::inputs::{Distribution, generate};
//! use warpproof_kernels::{Attention, Mask, Plan, Request, Shape};
//! use warpproof_toolchain::{Options, Toolchain};
//!
//! // Two sequences of 256 rows, eight heads, 64 elements to a row; E4M3 with a scale for each head unless said otherwise.
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
//! `examples/attention.rs` begins with f32 tensors instead, and runs the plan under the checks of the software GPU too.
//!
//! Where to look, from the question to the verdict:
//!
//! - [`problem`]: sizes, masks, layouts, which elements share a scale
//! - [`format`](mod@format): the 8-bit formats, code to value and back
//! - [`tensor`]: codes with their scales, and quantization
//! - [`inputs`]: Q, K and V together; inputs from a seed
//! - [`ladder`]: every rung, its toggles, what it can do, what decides its bits
//! - [`plan`](mod@plan): a request becomes a rung, macros, launches and parameters, or a reason why not
//! - [`dispatch`]: which rung a shape gets, from a table of predictions
//! - [`fit`]: how many rows and keys a block gets on a device
//! - [`source`]: the CUDA C++, carried inside the library
//! - [`params`]: the kernels' one parameter, as bytes
//! - [`attention`]: a plan on a GPU, from tensors or from device addresses
//! - [`oracle`]: attention in f64, and the very bits of each rung
//! - [`tolerance`]: how far from exact an output may be, derived from formats and lengths
//! - [`judge`]: an answer held against both oracles
//! - [`null`]: outputs that are wrong on purpose, to test the tests
//!
//! What a user of one plan needs is re-exported here; the rest keeps to its module. Nothing here is `unsafe`, and nothing
//! but [`Plan::compile`] asks for NVIDIA's compiler.
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
pub mod params;
pub mod plan;
pub mod problem;
pub mod source;
pub mod straddle;
pub mod tensor;
pub mod tolerance;

pub use attention::{Addresses, Answer, Attention, RunError};
pub use format::Format;
pub use inputs::Inputs;
pub use judge::{Oracles, Verdict};
pub use plan::{Plan, PlanError, Request, Scales, Splits};
pub use problem::{Granularity, Layout, Lengths, Mask, Rows, Shape};
pub use tensor::Quantized;
