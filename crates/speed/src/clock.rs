//! Clocks time a kernel: one batch of back-to-back launches, with the state of the device around it.
//!
//! Times are whole picoseconds. Event timers tick at about a microsecond and processors at a nanosecond or less, so
//! no precision is lost, and a trace that was written and read again gives the same bits.

use std::{error, fmt};

use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// The program that is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The program that the candidate is compared with.
    Baseline,
    /// The program that may be faster.
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

/// The origin of a clock's times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Origin {
    /// Measured on a device.
    Measured {
        /// The device's name, with what distinguishes it from others of its model.
        device: String,
    },
    /// Predicted for a device by a model of it.
    Predicted {
        /// The modeled device.
        device: String,
    },
    /// Generated from a known truth, to evaluate the statistics themselves.
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
    /// The device before the batch, if known.
    pub before: Reading,
    /// The device after the batch, if known.
    pub after: Reading,
}

/// Why timing failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockError {
    /// The device is lost or does not answer; its error.
    Device(String),
    /// A timed launch gave a wrong output; the error.
    Output(String),
    /// A trace has no further sample.
    Exhausted {
        /// Samples that it held.
        samples: usize,
    },
    /// A trace has another batch than the requested one.
    Mismatch {
        /// Index of the sample.
        sample: usize,
        /// The requested batch.
        asked: String,
        /// The recorded batch.
        recorded: String,
    },
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(said) => write!(f, "the device returned no time: {said}"),
            Self::Output(said) => write!(f, "a timed launch gave a wrong output: {said}"),
            Self::Exhausted { samples } => {
                write!(f, "the trace ends after {samples} samples, but the plan requests more")
            }
            Self::Mismatch { sample, asked, recorded } => write!(
                f,
                "sample {sample} of the trace is {recorded}, but the plan requests {asked}; replay a trace with the \
                 plan and the seed it was recorded with"
            ),
        }
    }
}

impl error::Error for ClockError {}

/// Times batches of launches.
pub trait Clock {
    /// The origin of the times.
    fn origin(&self) -> Origin;

    /// The timer's documented tick, picoseconds; the coarser of this and the observed one is used.
    fn resolution_hint_ps(&self) -> Option<u64> {
        None
    }

    /// Maximum launches of one batch; 1 for a clock that can time only single launches.
    fn launch_limit(&self) -> u32 {
        u32::MAX
    }

    /// Called before each batch, outside the timed part: use it to write fresh inputs at the same addresses, to
    /// poison outputs and to bring caches into the stated condition. `batch` counts from 0 over the whole run.
    fn refresh(&mut self, side: Side, batch: u64) -> Result<(), ClockError> {
        let _ = (side, batch);
        Ok(())
    }

    /// Times `launches` back-to-back launches of one side. A clock that verifies outputs reports a wrong one here.
    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError>;
}

/// A clock behind a pointer is also a clock.
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
