//! Three outcomes against a threshold of latency reduction, with their reasons as text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    calibration::Calibration,
    comparison::Comparison,
    interval::{Interval, MINIMUM_BLOCKS},
    stability::Readings,
    timer::Evidence,
};

/// (baseline − candidate) / baseline: the only unit of speed. Prints as "−45.3 % latency (1.83×)".
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LatencyReduction(pub f64);

impl LatencyReduction {
    /// From two latencies in the same unit.
    #[must_use]
    pub fn of(baseline: f64, candidate: f64) -> Self {
        Self((baseline - candidate) / baseline)
    }

    /// Baseline over candidate.
    #[must_use]
    pub fn speed_up(self) -> f64 {
        1.0 / (1.0 - self.0)
    }

    /// The change of latency alone, "−45.3 %".
    pub fn percent(self) -> String {
        let change = format!("{:.1}", (-self.0 * 100.0).abs());
        let sign = match self.0 {
            _ if change == "0.0" => "",
            reduction if reduction > 0.0 => "−",
            _ => "+",
        };
        format!("{sign}{change} %")
    }
}

impl fmt::Display for LatencyReduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} latency ({:.2}×)", self.percent(), self.speed_up())
    }
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The whole interval is above the threshold.
    Improved,
    /// The whole interval is below the threshold.
    NotImproved,
    /// Neither; see the reasons.
    Inconclusive,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Improved => "improved",
            Self::NotImproved => "not improved",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// Why the result is inconclusive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reason {
    /// The threshold lies in the interval.
    Straddles {
        /// Ends of the interval of the reduction.
        low: LatencyReduction,
        /// Likewise.
        high: LatencyReduction,
        /// The threshold.
        threshold: LatencyReduction,
    },
    /// The sides differ by one tick or less.
    WithinOneTick {
        /// The tick, picoseconds.
        tick_ps: u64,
        /// One tick as a share of a batch of the baseline.
        share: f64,
    },
    /// Without the error of the ticks there would be a decision.
    TimerTooCoarse {
        /// The tick, picoseconds.
        tick_ps: u64,
        /// How far ticks can shift the ratio.
        error: f64,
        /// Why the batch is not longer.
        capped: Option<String>,
    },
    /// Batches that took no tick at all.
    NoTick {
        /// Blocks with such a batch.
        blocks: usize,
    },
    /// All times were equal, and the clock does not state its resolution.
    TimerUnknown,
    /// Too few blocks for an interval.
    TooFewBlocks {
        /// Blocks that can be used.
        blocks: usize,
    },
    /// A clock that was read moved.
    ClocksMoved {
        /// "SM" or "memory".
        clock: String,
        /// The readings.
        readings: Readings,
    },
    /// The latencies of both sides stepped.
    LevelStepped {
        /// By how much.
        change: f64,
        /// After which block.
        after_block: usize,
        /// Of how many.
        blocks: usize,
    },
    /// The latencies of both sides drifted too far.
    Drifted {
        /// By how much over the run.
        change: f64,
    },
    /// The ratio changed.
    RatioChanged {
        /// By how much.
        change: f64,
        /// After which block.
        after_block: usize,
        /// Of how many.
        blocks: usize,
    },
    /// This machine finds differences between a program and itself more often than the level allows.
    FalseAlarms {
        /// Runs of one program against itself with a difference.
        alarms: u32,
        /// Of how many.
        runs: u32,
        /// The stated rate.
        stated: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Straddles { low, high, threshold } => write!(
                f,
                "the interval from {} to {} contains the threshold of {}: more blocks or less noise would decide",
                low.percent(),
                high.percent(),
                threshold.percent()
            ),
            Self::WithinOneTick { tick_ps, share } => write!(
                f,
                "the two differ by no more than one tick of the timer ({}, {:.2} % of a batch)",
                microseconds(*tick_ps),
                share * 100.0
            ),
            Self::TimerTooCoarse { tick_ps, error, capped } => {
                write!(
                    f,
                    "the timer is too coarse: its tick of {} leaves the ratio uncertain by {:.2} %",
                    microseconds(*tick_ps),
                    error * 100.0
                )?;
                capped.as_ref().map_or(Ok(()), |why| write!(f, "; {why}"))
            }
            Self::NoTick { blocks } => {
                write!(f, "in {blocks} blocks, a batch took less than one tick of the timer")
            }
            Self::TimerUnknown => f.write_str(
                "all batches took the same time, and the clock does not state its resolution: nothing is known below \
                 that time",
            ),
            Self::TooFewBlocks { blocks } => {
                write!(f, "{blocks} blocks are too few for an interval; at least {MINIMUM_BLOCKS} are required")
            }
            Self::ClocksMoved { clock, readings } => write!(
                f,
                "the {clock} clock moved between {:.0} and {:.0} MHz (medians of the quarters of the run: {})",
                readings.lowest,
                readings.highest,
                readings.quarters.map(|mhz| format!("{mhz:.0}")).join(", ")
            ),
            Self::LevelStepped { change, after_block, blocks } => write!(
                f,
                "the latencies of both sides stepped by {:+.1} % after block {} of {blocks}, as by a change of frequency",
                change * 100.0,
                after_block + 1
            ),
            Self::Drifted { change } => {
                write!(f, "the latencies of both sides drifted by {:+.1} % during the run", change * 100.0)
            }
            Self::RatioChanged { change, after_block, blocks } => write!(
                f,
                "the ratio of the two changed by {:+.1} % after block {} of {blocks}: the run contains two conditions, not one",
                change * 100.0,
                after_block + 1
            ),
            Self::FalseAlarms { alarms, runs, stated } => write!(
                f,
                "this machine found a difference between a program and itself in {alarms} of {runs} runs, more than the \
                 allowed {:.0} %",
                stated * 100.0
            ),
        }
    }
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a tick is far below 2^53 ps")]
fn microseconds(ps: u64) -> String {
    format!("{:.3} µs", ps as f64 / 1e6)
}

/// The outcome, and its basis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The decision.
    pub outcome: Outcome,
    /// The required reduction.
    pub threshold: LatencyReduction,
    /// Level of the interval.
    pub confidence: f64,
    /// The reduction with its interval; `None` with too few blocks.
    pub reduction: Option<Interval>,
    /// Why the result is inconclusive; empty after a decision.
    pub reasons: Vec<Reason>,
}

impl Judgement {
    /// Gains above this are excluded at the level of the interval; a valid negative states it.
    pub fn excluded(&self) -> Option<LatencyReduction> {
        match (self.outcome, self.reduction) {
            (Outcome::NotImproved, Some(interval)) => Some(LatencyReduction(interval.high)),
            _ => None,
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outcome)?;
        if let Some(interval) = self.reduction {
            write!(
                f,
                ": {}, {:.0} % interval {} to {}, threshold {}",
                LatencyReduction(interval.estimate),
                self.confidence * 100.0,
                LatencyReduction(interval.low).percent(),
                LatencyReduction(interval.high).percent(),
                self.threshold.percent()
            )?;
        }
        if let Some(excluded) = self.excluded() {
            if excluded.0 > 0.0 {
                write!(f, "; a gain beyond {} is excluded", excluded.percent())?;
            } else {
                f.write_str("; any gain is excluded")?;
            }
        }
        for reason in &self.reasons {
            write!(f, "; {reason}")?;
        }
        Ok(())
    }
}

impl Comparison {
    /// The outcome against a threshold, using the machine's calibration if given.
    pub fn judge(&self, threshold: LatencyReduction, calibration: Option<&Calibration>) -> Judgement {
        let mut reasons = self.unfit();
        if let Some(calibration) = calibration
            && calibration.alarming()
        {
            reasons.push(Reason::FalseAlarms {
                alarms: calibration.told_apart,
                runs: calibration.runs,
                stated: 1.0 - calibration.confidence,
            });
        }
        let outcome = match self.reduction {
            Some(reduction) if reasons.is_empty() => self.against(reduction, threshold, &mut reasons),
            _ => Outcome::Inconclusive,
        };
        Judgement { outcome, threshold, confidence: self.confidence, reduction: self.reduction, reasons }
    }

    /// Reasons why the run cannot give any answer.
    fn unfit(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if self.without_tick > 0 {
            reasons.push(Reason::NoTick { blocks: self.without_tick });
        }
        if self.reduction.is_none() {
            reasons.push(Reason::TooFewBlocks { blocks: self.blocks - self.without_tick });
        }
        if self.resolution.evidence == Evidence::Unknown {
            reasons.push(Reason::TimerUnknown);
        }
        let stability = &self.stability;
        for (clock, readings) in [("SM", stability.sm_mhz), ("memory", stability.memory_mhz)] {
            if let Some(readings) = readings.filter(|readings| readings.moved) {
                reasons.push(Reason::ClocksMoved { clock: clock.to_owned(), readings });
            }
        }
        let blocks = self.blocks;
        if let Some(shift) = stability.level {
            reasons.push(Reason::LevelStepped {
                change: shift.change,
                after_block: shift.after_block,
                blocks,
            });
        }
        if stability.drifted_far() {
            reasons.push(Reason::Drifted { change: stability.drift.change });
        }
        if let Some(shift) = stability.ratio {
            reasons.push(Reason::RatioChanged {
                change: shift.change,
                after_block: shift.after_block,
                blocks,
            });
        }
        reasons
    }

    fn against(
        &self,
        reduction: Interval,
        threshold: LatencyReduction,
        reasons: &mut Vec<Reason>,
    ) -> Outcome {
        let tick_ps = self.resolution.tick_ps;
        let batch_ps = self.baseline.p50_ns * f64::from(self.launches) * 1e3;
        let within = Reason::WithinOneTick { tick_ps, share: self.resolution.share_of(batch_ps) };
        if reduction.high < threshold.0 {
            return Outcome::NotImproved;
        }
        if reduction.low > threshold.0 {
            // However certain the average is, one tick never counts as a gain.
            if self.within_one_tick() {
                reasons.push(within);
                return Outcome::Inconclusive;
            }
            return Outcome::Improved;
        }
        reasons.push(Reason::Straddles {
            low: LatencyReduction(reduction.low),
            high: LatencyReduction(reduction.high),
            threshold,
        });
        let decided = self.ratio.is_some_and(|ratio| !ratio.map(|ratio| 1.0 - ratio).contains(threshold.0));
        if decided {
            reasons.push(Reason::TimerTooCoarse {
                tick_ps,
                error: self.tick_error,
                capped: self.capped.clone(),
            });
        }
        if self.within_one_tick() {
            reasons.push(within);
        }
        Outcome::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_definition_and_one_way_to_print_it() {
        assert_eq!(LatencyReduction::of(1000.0, 547.0).to_string(), "−45.3 % latency (1.83×)");
        assert_eq!(LatencyReduction::of(100.0, 113.8).to_string(), "+13.8 % latency (0.88×)");
        assert_eq!(LatencyReduction(0.0002).to_string(), "0.0 % latency (1.00×)");
        assert_eq!(LatencyReduction(-0.0002).percent(), "0.0 %");
    }

    #[test]
    fn reasons_are_one_sentence_of_lower_case() {
        let reason = Reason::WithinOneTick { tick_ps: 1_024_000, share: 0.00156 };
        assert_eq!(
            reason.to_string(),
            "the two differ by no more than one tick of the timer (1.024 µs, 0.16 % of a batch)"
        );
        let json = serde_json::to_string(&reason).unwrap();
        assert_eq!(json, r#"{"kind":"within-one-tick","tick_ps":1024000,"share":0.00156}"#);
        assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), reason);
    }
}
