//! The health of a worker: if its machine cannot evaluate, it pauses, longer each time, and leaves the jobs to others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The first pause and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The longest pause of a worker whose jobs all fail: the jobs may be the cause.
const FAILED_PAUSE: Duration = Duration::from_secs(2);
/// Number of consecutive failures that is suspicious.
const FAILED: u32 = 3;
/// Number of consecutive troubles after which a worker with `--until-idle` exits.
const LASTING: u32 = 5;
/// Maximum number of remembered jobs.
const REMEMBERED: usize = 10_000;

/// Recent problems.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Consecutive problems of this machine, without a result in between.
    troubles: u32,
    /// Consecutive failures of jobs, without a result in between.
    failures: u32,
    results: u64,
    until: Option<Instant>,
    reason: String,
    /// Jobs that had a problem, each with the number of results at that time.
    troubled: BTreeMap<i64, u64>,
}

impl Health {
    /// Records a result.
    pub(super) fn result(&mut self) {
        (self.troubles, self.failures, self.until) = (0, 0, None);
        self.results += 1;
    }

    /// Records a problem of this machine with a job. Returns whether the job is the cause: other jobs succeeded since its last
    /// attempt here.
    pub(super) fn trouble(&mut self, job: i64, reason: &str) -> bool {
        if self.troubled.get(&job).is_some_and(|then| *then < self.results) {
            self.troubled.remove(&job);
            return true;
        }
        if self.troubled.len() >= REMEMBERED {
            self.troubled.clear();
        }
        self.troubled.insert(job, self.results);
        reason.clone_into(&mut self.reason);
        // Simultaneous problems in several slots count as one.
        if self.pause().is_none() {
            self.troubles += 1;
            self.rest(self.troubles, PAUSES.1);
        }
        false
    }

    /// Records a failed job.
    pub(super) fn failure(&mut self) {
        self.failures += 1;
        if self.failures >= FAILED {
            self.rest(self.failures - FAILED + 1, FAILED_PAUSE);
        }
    }

    fn rest(&mut self, times: u32, longest: Duration) {
        let pause = PAUSES.0.saturating_mul(1 << times.saturating_sub(1).min(10)).min(longest);
        self.until = Some(Instant::now() + pause);
    }

    /// How long to claim no jobs.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.until
            .map(|until| until.saturating_duration_since(Instant::now()))
            .filter(|pause| !pause.is_zero())
    }

    /// The reason of a problem that persists.
    pub(super) fn lasting_trouble(&self) -> Option<&str> {
        (self.troubles >= LASTING).then_some(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_at_once_are_one_and_a_result_ends_them() {
        let mut health = Health::default();
        for job in 0..100 {
            assert!(!health.trouble(job, "the disk is full"));
        }
        assert_eq!(health.troubles, 1);
        assert!(health.pause().is_some_and(|pause| pause <= PAUSES.0));
        for _ in 0..LASTING {
            health.until = None;
            assert!(!health.trouble(1, "the disk is full"), "no result in between");
        }
        assert!(health.pause().is_some_and(|pause| pause > 8 * PAUSES.0));
        assert_eq!(health.lasting_trouble(), Some("the disk is full"));
        health.result();
        assert_eq!((health.pause(), health.lasting_trouble()), (None, None));
        assert!(health.trouble(1, "no such file"), "other jobs succeeded since");
        assert!(!health.trouble(1, "no such file"));
    }

    #[test]
    fn failures_in_a_row_are_followed_by_short_pauses() {
        let mut health = Health::default();
        health.failure();
        health.failure();
        assert_eq!(health.pause(), None);
        for _ in 0..50 {
            health.failure();
        }
        assert!(health.pause().is_some_and(|pause| pause <= FAILED_PAUSE));
    }
}
