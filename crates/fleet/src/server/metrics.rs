//! Metrics in the format of Prometheus. Counters belong to this process; queue lengths come from the database.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::vitals::Vitals;
use crate::wire::QueueView;

/// Upper bounds of the request time buckets, in seconds.
const BUCKETS: [f64; 8] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0, 10.0];

/// Counters of one process.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// By the first digit of the status.
    requests: [AtomicU64; 6],
    times: [AtomicU64; 9],
    microseconds: AtomicU64,
    pub(super) submitted: AtomicU64,
    pub(super) claimed: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) replayed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) given_up: AtomicU64,
    /// Requests that wait for memory for their bodies.
    waiting: AtomicU64,
}

/// Counts a request as waiting until it is dropped.
pub(super) struct Waiting<'m>(&'m AtomicU64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a request.
    pub(super) fn request(&self, status: u16, took: Duration) {
        if let Some(counter) = self.requests.get(usize::from(status / 100)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let seconds = took.as_secs_f64();
        let place = BUCKETS.iter().position(|end| seconds <= *end).unwrap_or(BUCKETS.len());
        if let Some(counter) = self.times.get(place) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a request that waits for memory for its body, until the result is dropped.
    pub(super) fn body_waits(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    /// All metrics as text.
    pub(super) fn text(&self, queue: &[QueueView], vitals: Option<Vitals>) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{arguments}");
        };
        line(format_args!("# TYPE warpproof_requests_total counter"));
        for (class, counter) in self.requests.iter().enumerate().skip(1) {
            let count = counter.load(Ordering::Relaxed);
            line(format_args!("warpproof_requests_total{{class=\"{class}xx\"}} {count}"));
        }
        line(format_args!("# TYPE warpproof_request_seconds histogram"));
        let mut sum = 0;
        for (place, counter) in self.times.iter().enumerate() {
            sum += counter.load(Ordering::Relaxed);
            let end = BUCKETS.get(place).map_or_else(|| "+Inf".to_owned(), ToString::to_string);
            line(format_args!("warpproof_request_seconds_bucket{{le=\"{end}\"}} {sum}"));
        }
        let seconds = Duration::from_micros(self.microseconds.load(Ordering::Relaxed)).as_secs_f64();
        line(format_args!("warpproof_request_seconds_sum {seconds}"));
        line(format_args!("warpproof_request_seconds_count {sum}"));
        for (name, counter) in [
            ("submitted", &self.submitted),
            ("claimed", &self.claimed),
            ("accepted", &self.accepted),
            ("replayed", &self.replayed),
            ("refused", &self.refused),
            ("failed", &self.failed),
            ("released", &self.released),
            ("given_up", &self.given_up),
        ] {
            line(format_args!("# TYPE warpproof_jobs_{name}_total counter"));
            line(format_args!("warpproof_jobs_{name}_total {}", counter.load(Ordering::Relaxed)));
        }
        line(format_args!("# TYPE warpproof_bodies_waiting gauge"));
        line(format_args!("warpproof_bodies_waiting {}", self.waiting.load(Ordering::Relaxed)));
        if let Some(vitals) = vitals {
            line(format_args!("# TYPE warpproof_leases_lost_total counter"));
            line(format_args!("warpproof_leases_lost_total {}", vitals.lost_leases));
            for (name, value) in [("workers", vitals.workers), ("tokens_expiring", vitals.tokens_expiring)] {
                line(format_args!("# TYPE warpproof_{name} gauge"));
                line(format_args!("warpproof_{name} {value}"));
            }
            line(format_args!("# TYPE warpproof_queue_oldest_seconds gauge"));
            line(format_args!("warpproof_queue_oldest_seconds {}", vitals.oldest_seconds));
        }
        line(format_args!("# TYPE warpproof_queue gauge"));
        for QueueView { capability, state, jobs } in queue {
            let capability = capability.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let state = format!("{state:?}").to_lowercase();
            line(format_args!("warpproof_queue{{capability=\"{capability}\",state=\"{state}\"}} {jobs}"));
        }
        text
    }
}
