//! A clock whose truth is known: two latencies, noise, drift, changes of frequency, and a timer that ticks.
//!
//! Noise multiplies the batch as a whole. On a real device part of it averages out within a batch; here none of it
//! does, which is the harder case for the statistics.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "simulated times are positive and far below 2^53 ps"
)]

use super::{
    clock::{Clock, ClockError, Origin, Sample, Side},
    random::Random,
    reading::Reading,
};

/// The distribution of the noise of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// No noise.
    None,
    /// Normal around the truth.
    Gaussian {
        /// Standard deviation, relative.
        sd: f64,
    },
    /// The truth is the minimum; a log-normal part with a heavy right tail is added.
    LogNormal {
        /// Standard deviation, relative.
        sd: f64,
        /// Standard deviation of the logarithm; 1 is a heavy tail.
        shape: f64,
    },
    /// Another program uses the device from time to time.
    Contention {
        /// Standard deviation of a permanent normal part, relative.
        sd: f64,
        /// Fraction of batches that are slowed.
        share: f64,
        /// By how much, relative.
        slowdown: f64,
        /// Mean length of a disturbance in batches; 1 makes batches independent.
        burst: f64,
    },
}

/// From some batch on, the device runs at another frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrequencyStep {
    /// The first batch that is timed at it, counted over the run.
    pub at: u32,
    /// Factor on the baseline's latency.
    pub baseline: f64,
    /// Factor on the candidate's latency; it differs if the candidate is memory-bound.
    pub candidate: f64,
}

/// How a time becomes a number of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantized {
    /// The elapsed time is truncated to whole ticks.
    Floor,
    /// The elapsed time is rounded to whole ticks.
    Round,
    /// Start and end are truncated separately, like a counter that is read twice; the phase is random.
    Edges,
}

/// A timer that ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// One tick, picoseconds.
    pub tick_ps: u64,
    /// How the remainder is quantized.
    pub quantized: Quantized,
}

impl Ticks {
    /// The tick of the event timer of common cards, 1.024 µs.
    #[must_use]
    pub const fn event(quantized: Quantized) -> Self {
        Self { tick_ps: 1_024_000, quantized }
    }
}

/// The truth behind a synthetic clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Latency of the baseline, nanoseconds.
    pub baseline_ns: f64,
    /// Latency of the candidate, nanoseconds.
    pub candidate_ns: f64,
    /// The noise of a batch.
    pub noise: Noise,
    /// Relative growth of all latencies from one batch to the next.
    pub drift_per_batch: f64,
    /// Changes of frequency, in order.
    pub steps: Vec<FrequencyStep>,
    /// The timer; `None` gives picoseconds.
    pub ticks: Option<Ticks>,
    /// Maximum launches of one batch.
    pub launch_limit: u32,
    /// The clock reading at full frequency, MHz; `None` gives no readings, like a driver that does not report them.
    pub sm_mhz: Option<u32>,
}

impl Truth {
    /// Two latencies in nanoseconds and nothing else.
    pub const fn new(baseline_ns: f64, candidate_ns: f64) -> Self {
        Self {
            baseline_ns,
            candidate_ns,
            noise: Noise::None,
            drift_per_batch: 0.0,
            steps: Vec::new(),
            ticks: None,
            launch_limit: u32::MAX,
            sm_mhz: None,
        }
    }

    /// The true latency reduction.
    pub fn reduction(&self) -> f64 {
        1.0 - self.candidate_ns / self.baseline_ns
    }
}

/// The clock.
#[derive(Clone, Debug)]
pub struct Synthetic {
    truth: Truth,
    random: Random,
    taken: u32,
    now_ps: f64,
    disturbed: bool,
}

impl Synthetic {
    /// A clock with a known truth; the seed determines its noise.
    pub const fn new(truth: Truth, seed: u64) -> Self {
        Self { truth, random: Random::new(seed), taken: 0, now_ps: 0.0, disturbed: false }
    }

    fn noise(&mut self) -> f64 {
        match self.truth.noise {
            Noise::None => 1.0,
            // A batch takes at least a twentieth of its time: a normal tail must not become a negative time.
            Noise::Gaussian { sd } => (1.0 + sd * self.random.normal()).max(0.05),
            Noise::LogNormal { sd, shape } => {
                let square = shape * shape;
                let spread = (square.exp_m1() * square.exp()).sqrt();
                1.0 + sd * (shape * self.random.normal()).exp() / spread.max(f64::MIN_POSITIVE)
            }
            Noise::Contention { sd, share, slowdown, burst } => {
                // Two states; the mean duration of the disturbed one is `burst`, and its fraction of time is `share`.
                let leave = 1.0 / burst.max(1.0);
                let enter = if burst <= 1.0 { share } else { leave * share / (1.0 - share).max(1e-9) };
                let turn = match (self.disturbed, burst <= 1.0) {
                    (true, false) => 1.0 - leave,
                    _ => enter,
                };
                self.disturbed = self.random.chance(turn);
                let normal = (1.0 + sd * self.random.normal()).max(0.05);
                if self.disturbed { normal * (1.0 + slowdown) } else { normal }
            }
        }
    }

    /// Factors of the current frequency: for the side, and for the clock reading.
    fn frequency(&self, side: Side) -> (f64, f64) {
        self.truth.steps.iter().rfind(|step| step.at <= self.taken).map_or((1.0, 1.0), |step| {
            let side = match side {
                Side::Baseline => step.baseline,
                Side::Candidate => step.candidate,
            };
            (side, step.baseline.max(step.candidate))
        })
    }

    fn quantize(&mut self, elapsed_ps: f64) -> u64 {
        let Some(Ticks { tick_ps, quantized }) = self.truth.ticks else { return elapsed_ps.round() as u64 };
        let tick = tick_ps.max(1) as f64;
        let ticks = match quantized {
            Quantized::Floor => (elapsed_ps / tick).floor(),
            Quantized::Round => (elapsed_ps / tick).round(),
            Quantized::Edges => {
                // Some ticks pass between batches, so that the phase is random.
                let start = self.now_ps + tick * 8.0 * self.random.uniform();
                self.now_ps = start + elapsed_ps;
                (self.now_ps / tick).floor() - (start / tick).floor()
            }
        };
        (ticks.max(0.0) as u64).saturating_mul(tick_ps)
    }
}

impl Clock for Synthetic {
    fn origin(&self) -> Origin {
        Origin::Synthetic
    }

    fn launch_limit(&self) -> u32 {
        self.truth.launch_limit
    }

    fn time(&mut self, side: Side, launches: u32) -> Result<Sample, ClockError> {
        let latency = match side {
            Side::Baseline => self.truth.baseline_ns,
            Side::Candidate => self.truth.candidate_ns,
        };
        let (slowed, read) = self.frequency(side);
        let drift = 1.0 + self.truth.drift_per_batch * f64::from(self.taken);
        let elapsed_ps = latency * 1e3 * f64::from(launches) * slowed * drift * self.noise();
        let elapsed_ps = self.quantize(elapsed_ps.max(0.0));
        self.taken = self.taken.saturating_add(1);
        let sm_mhz = self.truth.sm_mhz.map(|mhz| (f64::from(mhz) / read.max(1e-3)).round() as u32);
        let reading = Reading { sm_mhz, ..Reading::default() };
        Ok(Sample { elapsed_ps, before: reading, after: reading })
    }
}
