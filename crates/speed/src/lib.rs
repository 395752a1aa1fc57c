//! The statistics of the speed stage: whether the candidate is faster than the baseline by at least a threshold, and
//! with what confidence.
//!
//! Five steps, each a file:
//!
//! 1. A [`Clock`] times one batch of back-to-back launches: a GPU, a recorded [`Trace`], or a [`Synthetic`] clock
//!    whose truth is known, on which the procedure itself is evaluated.
//! 2. [`measure`] follows a [`Plan`]: it finds the timer's [`Resolution`], chooses how many launches make a batch, warms
//!    up, and takes blocks of four batches, A B B A or B A A B by a seeded coin.
//! 3. [`Comparison::of`] gives the ratio of the latencies with a bootstrap interval over blocks, the spread of each
//!    side, and instabilities of the run.
//! 4. [`calibrate`] runs the same program on both sides: this machine's false positive rate, and the smallest gain it
//!    can detect.
//! 5. [`Comparison::judge`] gives one of three outcomes against a threshold, with its reasons as text.
//!
//! The unit is the **latency reduction**, (baseline − candidate) / baseline, everywhere: [`LatencyReduction`].
//!
//! This crate does no input or output, and nothing is random without a seed: the same samples and the same plan give
//! the same outcome.
#![forbid(unsafe_code)]

mod calibration;
mod clock;
mod comparison;
mod interval;
mod judgement;
mod plan;
mod random;
mod reading;
mod stability;
mod synthetic;
mod timer;
mod trace;

pub use calibration::{Calibration, calibrate};
pub use clock::{Clock, ClockError, Origin, Sample, Side};
pub use comparison::{Comparison, Spread};
pub use interval::{Interval, MINIMUM_BLOCKS, bootstrap};
pub use judgement::{Judgement, LatencyReduction, Outcome, Reason};
pub use plan::{Block, Budget, Measurement, Plan, SpeedError, measure};
pub use random::Random;
pub use reading::Reading;
pub use stability::{Readings, Shift, Stability, Trend};
pub use synthetic::{FrequencyStep, Noise, Quantized, Synthetic, Ticks, Truth};
pub use timer::{Evidence, Resolution, resolution};
pub use trace::{Recorded, Recorder, Trace, TraceError, TraceSample};
