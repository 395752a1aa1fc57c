//! The health of a worker: if its machine cannot evaluate, it pauses, longer each time, and leaves the jobs to others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The first pause and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The longest pause of a worker all of whose jobs fail: it may be the jobs.
const FAILED_PAUSE: Duration = Duration::from_secs(2);
/// So many failures in a row are suspicious.
const FAILED: u32 = 3;
/// So many troubles in a row, and a worker that was to end with the queue ends.
const LASTING: u32 = 5;
/// How many jobs are remembered.
const REMEMBERED: usize = 10_000;

/// What went wrong lately.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Troubles of this machine, with no result between them.
    troubles: u32,
    /// Failures of jobs, with no result between them.
    failures: u32,
    results: u64,
    until: Option<Instant>,
    reason: String,
    /// Jobs that met a trouble, each with the results there were then.
    troubled: BTreeMap<i64, u64>,
}

impl Health {
    /// A result was made.
    pub(super) fn result(&mut self) {
        (self.troubles, self.failures, self.until) = (0, 0, None);
        self.results += 1;
    }

    /// This machine could not do a job. Says whether it is the job after all: others were done since it was tried here.
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
        // What goes wrong in several slots at once is one trouble.
        if self.pause().is_none() {
            self.troubles += 1;
            self.rest(self.troubles, PAUSES.1);
        }
        false
    }

    /// A job could not be done.
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

    /// How long nothing is to be claimed.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.until
            .map(|until| until.saturating_duration_since(Instant::now()))
            .filter(|pause| !pause.is_zero())
    }

    /// Why it has been unwell for long.
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
            assert!(!health.trouble(1, "the disk is full"), "no result came between");
        }
        assert!(health.pause().is_some_and(|pause| pause > 8 * PAUSES.0));
        assert_eq!(health.lasting_trouble(), Some("the disk is full"));
        health.result();
        assert_eq!((health.pause(), health.lasting_trouble()), (None, None));
        assert!(health.trouble(1, "no such file"), "others were done since");
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
