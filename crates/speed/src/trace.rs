//! Traces: every batch of a run as JSON, written from any clock and replayed as a clock.
//!
//! A trace is the raw evidence of a speed stage: replayed under the same plan it gives the same outcome, to the bit.

use std::{error, fmt};

use serde::{Deserialize, Serialize};

use super::clock::{Clock, ClockError, Origin, Sample, Side};
use super::reading::Reading;

/// The format this build writes, and the only one it reads.
const FORMAT: &str = "warpproof trace 1";

/// Maximum samples of a trace; a run of the longest plan stays below.
const SAMPLES_LIMIT: usize = 1_000_000;

/// Every batch of a run, in time order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    format: String,
    /// The origin of the times.
    pub origin: Origin,
    /// The timer's tick, as the clock stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_hint_ps: Option<u64>,
    /// Maximum launches of a batch of the clock.
    pub launch_limit: u32,
    /// The batches.
    pub samples: Vec<TraceSample>,
}

/// One batch of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSample {
    /// Which program was launched.
    pub side: Side,
    /// The number of launches.
    pub launches: u32,
    /// Their duration, picoseconds.
    pub elapsed_ps: u64,
    /// The device before it.
    #[serde(default, skip_serializing_if = "Reading::is_empty")]
    pub before: Reading,
    /// The device after it.
    #[serde(default, skip_serializing_if = "Reading::is_empty")]
    pub after: Reading,
}

/// Why a text is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// It is not the JSON of a trace; the parser's error.
    Json(String),
    /// It has another format or version.
    Format(String),
    /// It has more samples than any plan takes.
    TooLong(usize),
    /// A sample has no launches.
    NoLaunches(usize),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(said) => write!(f, "not a valid trace: {said}"),
            Self::Format(found) => write!(f, "expected trace format `{FORMAT}`, found `{found}`"),
            Self::TooLong(samples) => {
                write!(f, "the trace has {samples} samples; at most {SAMPLES_LIMIT} are supported")
            }
            Self::NoLaunches(sample) => write!(f, "sample {sample} of the trace has no launches"),
        }
    }
}

impl error::Error for TraceError {}

impl Trace {
    /// An empty trace of a clock.
    pub fn of(clock: &dyn Clock) -> Self {
        Self {
            format: FORMAT.to_owned(),
            origin: clock.origin(),
            resolution_hint_ps: clock.resolution_hint_ps(),
            launch_limit: clock.launch_limit(),
            samples: Vec::new(),
        }
    }

    /// Reads a trace.
    pub fn from_json(text: &str) -> Result<Self, TraceError> {
        let trace: Self = serde_json::from_str(text).map_err(|error| TraceError::Json(error.to_string()))?;
        if trace.format != FORMAT {
            return Err(TraceError::Format(trace.format));
        }
        if trace.samples.len() > SAMPLES_LIMIT {
            return Err(TraceError::TooLong(trace.samples.len()));
        }
        match trace.samples.iter().position(|sample| sample.launches == 0) {
            Some(sample) => Err(TraceError::NoLaunches(sample)),
            None => Ok(trace),
        }
    }

    /// Writes it with one sample per line, so that traces diff well.
    pub fn to_json(&self) -> Result<String, TraceError> {
        let json = |error: serde_json::Error| TraceError::Json(error.to_string());
        let head = serde_json::to_string(&Self { samples: Vec::new(), ..self.clone() }).map_err(json)?;
        // The head ends in `[]}`: the samples go between the brackets.
        let mut text = head.strip_suffix("]}").unwrap_or(&head).to_owned();
        for (index, sample) in self.samples.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(sample).map_err(json)?);
        }
        text.push_str("\n]}\n");
        Ok(text)
    }
}

/// Records every batch that a clock times.
#[derive(Debug)]
pub struct Recorder<C> {
    clock: C,
    trace: Trace,
}

impl<C: Clock> Recorder<C> {
    /// A recorder around a clock.
    pub fn new(clock: C) -> Self {
        let trace = Trace::of(&clock);
        Self { clock, trace }
    }

    /// The recording so far; also available after an error of the clock.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Ends the recording.
    pub fn into_trace(self) -> Trace {
        self.trace
    }
}

impl<C: Clock> Clock for Recorder<C> {
    fn origin(&self) -> Origin {
        self.clock.origin()
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        self.clock.resolution_hint_ps()
    }

    fn launch_limit(&self) -> u32 {
        self.clock.launch_limit()
    }

    fn refresh(&mut self, side: Side, batch: u64) -> Result<(), ClockError> {
        self.clock.refresh(side, batch)
    }

    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
        let Sample { elapsed_ps, before, after } = self.clock.time(side, launches)?;
        self.trace.samples.push(TraceSample { side, launches, elapsed_ps, before, after });
        Ok(Sample { elapsed_ps, before, after })
    }
}

/// Replays a trace: returns the recorded batches in order, and rejects other requests.
#[derive(Clone, Debug)]
pub struct Recorded {
    trace: Trace,
    next: usize,
}

impl Recorded {
    /// A clock that starts at the first sample.
    pub const fn new(trace: Trace) -> Self {
        Self { trace, next: 0 }
    }

    /// Samples that were not requested yet.
    pub fn left(&self) -> usize {
        self.trace.samples.len().saturating_sub(self.next)
    }
}

impl Clock for Recorded {
    fn origin(&self) -> Origin {
        self.trace.origin.clone()
    }

    fn resolution_hint_ps(&self) -> Option<u64> {
        self.trace.resolution_hint_ps
    }

    fn launch_limit(&self) -> u32 {
        self.trace.launch_limit
    }

    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
        let sample = self.next;
        let Some(recorded) = self.trace.samples.get(sample) else {
            return Err(ClockError::Exhausted { samples: self.trace.samples.len() });
        };
        if (recorded.side, recorded.launches) != (side, launches) {
            let batch = |side: Side, launches: u32| format!("a batch of {launches} of the {side}");
            return Err(ClockError::Mismatch {
                sample,
                asked: batch(side, launches),
                recorded: batch(recorded.side, recorded.launches),
            });
        }
        self.next += 1;
        Ok(Sample { elapsed_ps: recorded.elapsed_ps, before: recorded.before, after: recorded.after })
    }
}
