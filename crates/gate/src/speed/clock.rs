//! What times a kernel: one batch of back-to-back launches, and what is known of the device around it.
//!
//! Times are whole picoseconds. Event timers tick at about a microsecond and processors at a nanosecond or less, so
//! nothing is lost, and a trace that was written and read again gives the same bits.

use std::{error, fmt};

use serde::{Deserialize, Serialize};

pub use warpproof_gpu::Reading;

/// Which of the two programs is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// What the candidate is held against.
    Baseline,
    /// What may be faster.
    Candidate,
}

impl Side {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Baseline => Self::Candidate,
            Self::Candidate => Self::Baseline,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Candidate => "candidate",
        })
    }
}

/// What the times of a clock are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Origin {
    /// Measured on a device.
    Measured {
        /// The device's name and what tells it from its like.
        device: String,
    },
    /// Predicted for a device by a model of it.
    Predicted {
        /// The device that was modelled.
        device: String,
    },
    /// Made from a known truth, to judge the statistics themselves.
    Synthetic,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured { device } => write!(f, "measured on {device}"),
            Self::Predicted { device } => write!(f, "predicted for {device}"),
            Self::Synthetic => f.write_str("synthetic"),
        }
    }
}

/// One timed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From before the first launch to after the last, picoseconds.
    pub elapsed_ps: u64,
    /// The device before the batch, where known.
    pub before: Reading,
    /// The device after the batch, where known.
    pub after: Reading,
}

/// Why there is no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockError {
    /// The device is gone or does not answer; what it said.
    Device(String),
    /// A timed launch gave a wrong output; what was wrong.
    Output(String),
    /// A trace holds no further sample.
    Exhausted {
        /// Samples that it held.
        samples: usize,
    },
    /// A trace holds another batch than the one that is asked for.
    Mismatch {
        /// Index of the sample.
        sample: usize,
        /// What was asked for.
        asked: String,
        /// What was recorded.
        recorded: String,
    },
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(said) => write!(f, "the device gave no time: {said}"),
            Self::Output(said) => write!(f, "a timed launch gave a wrong output: {said}"),
            Self::Exhausted { samples } => {
                write!(f, "the trace ends after {samples} samples, and the plan asks for more")
            }
            Self::Mismatch { sample, asked, recorded } => write!(
                f,
                "sample {sample} of the trace is {recorded}, and the plan asks for {asked}; a trace replays under the \
                 plan and the seed it was recorded with"
            ),
        }
    }
}

impl error::Error for ClockError {}

/// Times batches of launches.
pub trait Clock {
    /// What the times are.
    fn origin(&self) -> Origin;

    /// The timer's tick as its documentation gives it, picoseconds; the coarser of this and what samples show is used.
    fn resolution_hint_ps(&self) -> Option<u64> {
        None
    }

    /// The most launches that one batch can hold; 1 for a clock that can time single launches only.
    fn launch_limit(&self) -> u32 {
        u32::MAX
    }

    /// Called before each batch, outside the timed part: the place to lay fresh inputs at the same addresses, to poison
    /// outputs and to bring caches into the stated condition. `batch` counts from 0 over the whole run.
    fn refresh(&mut self, side: Side, batch: u64) -> Result<(), ClockError> {
        let _ = (side, batch);
        Ok(())
    }

    /// Times `launches` back-to-back launches of one side. Where outputs are verified, this is where a wrong one is told.
    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError>;
}

/// A clock behind a pointer is the same clock.
macro_rules! behind {
    ($($pointer:ty),*) => {$(
        impl<C: Clock + ?Sized> Clock for $pointer {
            fn origin(&self) -> Origin {
                (**self).origin()
            }

            fn resolution_hint_ps(&self) -> Option<u64> {
                (**self).resolution_hint_ps()
            }

            fn launch_limit(&self) -> u32 {
                (**self).launch_limit()
            }

            fn refresh(&mut self, side: Side, batch: u64) -> Result<(), ClockError> {
                (**self).refresh(side, batch)
            }

            fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
                (**self).time(side, launches)
            }
        }
    )*};
}

behind!(&mut C, Box<C>);
