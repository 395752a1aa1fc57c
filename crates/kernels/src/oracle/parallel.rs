//! Runs the oracles' work on all cores.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The results of `work` for each item, in the order of the items, independent of the worker that computed
/// them. Each worker has its own state, which it passes from one of its items to the next. A panic of a
/// worker propagates to the caller.
pub(super) fn each<I, S, T>(
    items: &[I],
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &I) -> T + Sync,
) -> Vec<T>
where
    I: Sync,
    T: Send,
{
    let next = AtomicUsize::new(0);
    let worker = || {
        let (mut state, mut done) = (state(), Vec::new());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(&mut state, item)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let mut all = thread::scope(|scope| {
        // If a thread cannot be spawned, the other threads do its work.
        let others: Vec<_> =
            (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, worker).ok()).collect();
        let mut all = worker();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled = each(&items, || 0, |_, item| item * 2);
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(each(&[], || 0, |_, item: &usize| *item).is_empty());
    }

    #[test]
    fn a_panic_of_any_worker_is_not_lost() {
        let items: Vec<usize> = (0..100).collect();
        for bad in [0, 57, 99] {
            let outcome = std::panic::catch_unwind(|| each(&items, || (), |(), item| assert_ne!(*item, bad)));
            assert!(outcome.is_err(), "item {bad}");
        }
    }
}
