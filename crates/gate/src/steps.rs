//! A plan of steps, run in parallel where they do not depend on each other.
//!
//! A step is identified by a key computed from the content it depends on. A step with a known result is not
//! run. A step is also not run if it needs a step that did not pass; its outcome names that step. A stop
//! takes effect between steps: finished steps are reported, and steps that have not begun are skipped.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// A step of a plan.
pub struct Step<'a, K, T> {
    /// What its result depends on.
    pub key: K,
    /// Steps that must pass first, by index; all of them come earlier in the plan.
    pub needs: Vec<usize>,
    /// Runs it.
    pub work: Box<dyn FnOnce() -> T + Send + 'a>,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done<T> {
    /// It was run.
    Fresh(T),
    /// Its result was known.
    Known(T),
    /// It was not run because this step did not pass.
    Blocked(usize),
    /// It was not run because a stop was requested before.
    Stopped,
}

impl<T> Done<T> {
    /// The result, if there is one.
    pub fn result(&self) -> Option<&T> {
        match self {
            Done::Fresh(result) | Done::Known(result) => Some(result),
            Done::Blocked(_) | Done::Stopped => None,
        }
    }
}

/// Progress events, sent on the thread that called [`run`].
#[derive(Debug)]
pub enum Event<'e, T> {
    /// A step begins.
    Begun(usize),
    /// A step has ended, with any result. The observer's work is complete before any step that needs this one begins.
    Ended(usize, &'e Done<T>),
}

/// How a plan is run.
pub struct Rules<'a, K, T> {
    /// Steps at a time.
    pub threads: usize,
    /// Whether steps that need this result may run.
    pub green: &'a dyn Fn(&T) -> bool,
    /// The result of a key, if it is known.
    pub known: &'a dyn Fn(&K) -> Option<T>,
    /// Set to request a stop.
    pub stop: &'a AtomicBool,
}

type Work<'a, T> = (usize, Box<dyn FnOnce() -> T + Send + 'a>);

/// What workers take from.
struct Queue<'a, T> {
    waiting: Mutex<(VecDeque<Work<'a, T>>, bool)>,
    changed: Condvar,
}

impl<'a, T> Queue<'a, T> {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<Work<'a, T>>, bool)> {
        // No thread panics while holding the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, work: Work<'a, T>) {
        self.lock().0.push_back(work);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().1 = true;
        self.changed.notify_all();
    }

    fn take(&self) -> Option<Work<'a, T>> {
        let mut waiting = self.lock();
        loop {
            if let Some(work) = waiting.0.pop_front() {
                return Some(work);
            }
            if waiting.1 {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs a plan; the outcomes are in its order. A dependency that does not come before its step counts as
/// not passed.
pub fn run<K, T: Send>(
    plan: Vec<Step<'_, K, T>>,
    rules: &Rules<'_, K, T>,
    mut tell: impl FnMut(Event<'_, T>),
) -> Vec<Done<T>> {
    let queue = Queue { waiting: Mutex::new((VecDeque::new(), false)), changed: Condvar::new() };
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..rules.threads.max(1).min(plan.len()) {
            let (queue, send) = (&queue, send.clone());
            scope.spawn(move || {
                while let Some((place, work)) = queue.take() {
                    // Forward a panic to the caller. The receiver lives until all workers have ended.
                    let _gone = send.send((place, catch_unwind(AssertUnwindSafe(work))));
                }
            });
        }
        let outcome = conduct(plan, rules, &queue, &receive, &mut tell);
        queue.close();
        outcome
    })
}

fn conduct<'a, K, T>(
    plan: Vec<Step<'a, K, T>>,
    rules: &Rules<'_, K, T>,
    queue: &Queue<'a, T>,
    receive: &mpsc::Receiver<(usize, thread::Result<T>)>,
    tell: &mut impl FnMut(Event<'_, T>),
) -> Vec<Done<T>> {
    let mut done: Vec<Option<Done<T>>> = plan.iter().map(|_| None).collect();
    let mut waiting: Vec<(usize, Step<'a, K, T>)> = plan.into_iter().enumerate().collect();
    let mut running = 0;
    loop {
        // Start or settle every step that can be; settling one may unblock the next, so repeat in order until nothing
        // changes.
        let mut changed = true;
        while changed {
            changed = false;
            let mut still = Vec::new();
            for (place, step) in waiting {
                let end = match ready(place, &step.needs, &done, rules) {
                    Ready::Blocked(by) => Some(Done::Blocked(by)),
                    _ if rules.stop.load(Ordering::Relaxed) => Some(Done::Stopped),
                    Ready::No => {
                        still.push((place, step));
                        continue;
                    }
                    Ready::Yes => (rules.known)(&step.key).map(Done::Known),
                };
                changed = true;
                if let Some(end) = end {
                    tell(Event::Ended(place, &end));
                    done[place] = Some(end);
                } else {
                    tell(Event::Begun(place));
                    running += 1;
                    queue.push((place, step.work));
                }
            }
            waiting = still;
        }
        if running == 0 {
            break;
        }
        let Ok((place, result)) = receive.recv() else { break };
        running -= 1;
        let end = Done::Fresh(result.unwrap_or_else(|panic| {
            queue.close();
            resume_unwind(panic)
        }));
        tell(Event::Ended(place, &end));
        done[place] = Some(end);
    }
    done.into_iter().map(|end| end.unwrap_or(Done::Stopped)).collect()
}

enum Ready {
    Yes,
    No,
    Blocked(usize),
}

fn ready<K, T>(place: usize, needs: &[usize], done: &[Option<Done<T>>], rules: &Rules<'_, K, T>) -> Ready {
    let mut all = true;
    for &need in needs {
        match done.get(need).filter(|_| need < place) {
            Some(None) => all = false,
            Some(Some(end)) if end.result().is_some_and(|result| (rules.green)(result)) => {}
            // A blocked step blocks the steps that need it: name the first cause.
            Some(Some(Done::Blocked(by))) => return Ready::Blocked(*by),
            _ => return Ready::Blocked(need),
        }
    }
    if all { Ready::Yes } else { Ready::No }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn step<'a>(key: u32, needs: &[usize], work: impl FnOnce() -> bool + Send + 'a) -> Step<'a, u32, bool> {
        Step { key, needs: needs.to_vec(), work: Box::new(work) }
    }

    fn rules<'a>(
        threads: usize,
        known: &'a dyn Fn(&u32) -> Option<bool>,
        stop: &'a AtomicBool,
    ) -> Rules<'a, u32, bool> {
        Rules { threads, green: &|green| *green, known, stop }
    }

    #[test]
    fn what_needs_a_red_step_is_not_run_and_names_the_first_cause() {
        let stop = AtomicBool::new(false);
        let never = || panic!("must not run");
        let plan = vec![
            step(0, &[], || true),
            step(1, &[0], || false),
            step(2, &[1], never),
            step(3, &[2, 0], never),
            step(4, &[0], || true),
        ];
        let done = run(plan, &rules(2, &|_| None, &stop), |_| {});
        let wanted =
            [Done::Fresh(true), Done::Fresh(false), Done::Blocked(1), Done::Blocked(1), Done::Fresh(true)];
        assert_eq!(done, wanted);
    }

    #[test]
    fn known_results_are_not_computed_again() {
        let stop = AtomicBool::new(false);
        let plan = vec![step(7, &[], || panic!("known")), step(8, &[0], || true)];
        let mut told = Vec::new();
        let done = run(plan, &rules(1, &|key| (*key == 7).then_some(true), &stop), |event| {
            if let Event::Ended(place, end) = event {
                told.push((place, end.clone()));
            }
        });
        assert_eq!(done, [Done::Known(true), Done::Fresh(true)]);
        assert_eq!(told, [(0, Done::Known(true)), (1, Done::Fresh(true))]);
    }

    #[test]
    fn a_stop_lets_the_running_end_and_begins_nothing() {
        let stop = AtomicBool::new(false);
        let plan = vec![
            step(0, &[], || {
                stop.store(true, Ordering::Relaxed);
                true
            }),
            step(1, &[0], || panic!("after the stop")),
            step(2, &[1], || panic!("after the stop")),
        ];
        let done = run(plan, &rules(1, &|_| None, &stop), |_| {});
        assert_eq!(done, [Done::Fresh(true), Done::Stopped, Done::Blocked(1)]);
    }

    #[test]
    fn independent_steps_run_at_a_time() {
        let stop = AtomicBool::new(false);
        let met = AtomicUsize::new(0);
        let meet = || {
            met.fetch_add(1, Ordering::SeqCst);
            // Each waits for the other: running one at a time would never end.
            while met.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            true
        };
        let done = run(vec![step(0, &[], meet), step(1, &[], meet)], &rules(2, &|_| None, &stop), |_| {});
        assert_eq!(done, [Done::Fresh(true), Done::Fresh(true)]);
    }

    #[test]
    #[should_panic(expected = "a bug in a step")]
    fn a_panic_reaches_the_caller() {
        let stop = AtomicBool::new(false);
        let plan = vec![step(0, &[], || panic!("a bug in a step")), step(1, &[], || true)];
        run(plan, &rules(1, &|_| None, &stop), |_| {});
    }

    #[test]
    fn a_need_that_comes_later_is_no_deadlock() {
        let stop = AtomicBool::new(false);
        let plan = vec![step(0, &[1], || true), step(1, &[], || true), step(2, &[9], || true)];
        let done = run(plan, &rules(1, &|_| None, &stop), |_| {});
        assert_eq!(done, [Done::Blocked(1), Done::Fresh(true), Done::Blocked(9)]);
    }
}
