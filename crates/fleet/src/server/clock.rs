//! The clock behind the server's time limits, rate limits, caches and maintenance. A server gets it with its configuration: the
//! system's clock, or one that only a test advances, so that no test depends on how busy its machine is.
//!
//! Two kinds of time do not come from it: the database's clock decides about leases and ages, and how long the server waits for its
//! own database and for the end of open requests is the system's time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;
use tokio::sync::watch;

/// A clock of a server.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// A clock that stands still until it is advanced.
    Manual(ManualClock),
}

/// A clock that stands still until it is advanced; clones are the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<watch::Sender<Instant>>);

impl Default for ManualClock {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Instant::now())))
    }
}

impl ManualClock {
    /// The present moment.
    pub fn now(&self) -> Instant {
        *self.0.borrow()
    }

    /// Advances the clock; what waits for a moment that has now passed continues.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

/// Waits until a manual clock has reached a moment.
struct Reached(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl fmt::Debug for Reached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reached")
    }
}

impl Future for Reached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl Sleep for Reached {}

impl Clock {
    /// Waits for this time.
    pub(super) fn sleep(&self, time: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + time)
    }

    /// Runs a future until a moment; `None` if it was not ready by then.
    pub(super) async fn timeout_at<T>(&self, end: Instant, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep_until(end) => None,
        }
    }

    /// Runs a future for at most this time; `None` if it was not ready by then.
    pub(super) async fn timeout<T>(&self, time: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.timeout_at(self.now() + time, work).await
    }

    /// The present moment.
    pub(super) fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// Waits until this moment.
    pub(super) fn sleep_until(&self, end: Instant) -> Pin<Box<dyn Sleep>> {
        match self {
            Self::System => TokioTimer::new().sleep_until(end),
            Self::Manual(clock) => {
                // The clock lives as long as something waits for it.
                let (clock, mut now) = (clock.clone(), clock.0.subscribe());
                Box::pin(Reached(Box::pin(async move {
                    let _reached = now.wait_for(|now| *now >= end).await.is_ok();
                    drop(clock);
                })))
            }
        }
    }
}

impl Timer for Clock {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Sleep>> {
        Self::sleep(self, time)
    }

    fn sleep_until(&self, end: Instant) -> Pin<Box<dyn Sleep>> {
        Self::sleep_until(self, end)
    }

    fn now(&self) -> Instant {
        Self::now(self)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn is_ready(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_manual_clock_moves_only_when_it_is_advanced() {
        let manual = ManualClock::default();
        let clock = Clock::Manual(manual.clone());
        let start = clock.now();
        let (mut short, mut long) =
            (clock.sleep(Duration::from_secs(2)), clock.sleep(Duration::from_secs(3)));
        assert!(!is_ready(&mut short) && !is_ready(&mut long));
        assert_eq!(clock.now(), start);
        manual.advance(Duration::from_secs(2));
        assert_eq!(clock.now() - start, Duration::from_secs(2));
        assert!(is_ready(&mut short) && !is_ready(&mut long));
        // A moment that has passed is not waited for.
        assert!(is_ready(&mut clock.sleep_until(start)));
        manual.advance(Duration::from_hours(1));
        assert!(is_ready(&mut long));
    }
}
