//! What part of a study runs: all of it, or a sample.
//!
//! A study is a list of items: kernels, mutants, pages, tests. A sample takes them in an order drawn from a seed and begins
//! no other one when its time ends; the first always runs. The seed comes from the content that is studied (`ci.rs`), so the
//! same content begins with the same items, and a change draws others. A sample can miss what the whole study finds.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How much of a study runs.
#[derive(Clone, Debug)]
pub(crate) struct Part(Option<Sample>);

#[derive(Clone, Debug)]
struct Sample {
    seed: String,
    end: Instant,
}

/// Results of the items that ran, in the order of the items.
#[derive(Debug)]
pub(crate) struct Results<R> {
    /// The index of each item, and its result.
    pub(crate) found: Vec<(usize, R)>,
    of: usize,
}

impl<R> Results<R> {
    /// "19 of 283 modules", or "283 modules" if all ran.
    pub(crate) fn note(&self, what: &str) -> String {
        let (ran, of) = (self.found.len(), self.of);
        if ran == of { format!("{of} {what}") } else { format!("{ran} of {of} {what}") }
    }

    /// The results alone.
    pub(crate) fn into_results(self) -> impl Iterator<Item = R> {
        self.found.into_iter().map(|(_, result)| result)
    }
}

impl<R, E> Results<Result<R, E>> {
    /// The results if all are good, otherwise the first error.
    pub(crate) fn all(self) -> Result<Results<R>, E> {
        let good: Result<Vec<(usize, R)>, E> =
            self.found.into_iter().map(|(index, result)| Ok((index, result?))).collect();
        Ok(Results { found: good?, of: self.of })
    }
}

impl Part {
    /// All of a study.
    pub(crate) const fn whole() -> Self {
        Self(None)
    }

    /// Items in an order drawn from the seed, until this time ends.
    pub(crate) fn sample(seed: &str, time: Duration) -> Self {
        Self(Some(Sample { seed: seed.to_owned(), end: Instant::now() + time }))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.0.is_none()
    }

    /// How much time a sample has left; nothing for a whole study.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.0.as_ref().map(|sample| sample.end.saturating_duration_since(Instant::now()))
    }

    /// Works on the items that belong to this part, on several threads.
    pub(crate) fn each<'i, T: Sync, R: Send>(
        &self,
        threads: usize,
        items: &'i [T],
        work: impl Fn(&'i T) -> R + Sync,
    ) -> Results<R> {
        let order = self.order(items.len());
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..threads.clamp(1, items.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let turn = next.fetch_add(1, Ordering::Relaxed);
                        if turn > 0 && self.time_left() == Some(Duration::ZERO) {
                            return;
                        }
                        let Some(index) = order.get(turn).copied() else { return };
                        let Some(item) = items.get(index) else { return };
                        let result = work(item);
                        found.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                    }
                });
            }
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(index, _)| *index);
        Results { found, of: items.len() }
    }

    /// The items one after the other, in the order of this part. An item that fails ends the study.
    pub(crate) fn try_each<'i, T: Sync, R: Send>(
        &self,
        items: &'i [T],
        work: impl Fn(&'i T) -> Result<R, String> + Sync,
    ) -> Result<Results<R>, String> {
        self.each(1, items, work).all()
    }

    /// A choice of this many of the items, for studies whose items share what is expensive to set up. All of a whole study.
    pub(crate) fn few<'a, T>(&self, items: &'a [T], count: usize) -> Vec<&'a T> {
        let mut order = self.order(items.len());
        if !self.is_whole() {
            order.truncate(count.max(1));
        }
        order.into_iter().filter_map(|index| items.get(index)).collect()
    }

    /// A number below `below` that the seed determines; 0 for a whole study.
    pub(crate) fn draw(&self, what: &str, below: usize) -> usize {
        let Some(sample) = &self.0 else { return 0 };
        let drawn = u64::from_le_bytes(hash(&sample.seed, what));
        usize::try_from(drawn % u64::try_from(below.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    fn order(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        if let Some(sample) = &self.0 {
            order.sort_by_key(|index| hash(&sample.seed, &index.to_string()));
        }
        order
    }
}

fn hash(seed: &str, what: &str) -> [u8; 8] {
    let whole = blake3::hash(format!("{seed} {what}").as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&whole.as_bytes()[..8]);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    fn ran(part: &Part, items: &[u32]) -> Vec<u32> {
        let order = Mutex::new(Vec::new());
        part.each(1, items, |item| order.lock().unwrap().push(*item));
        order.into_inner().unwrap()
    }

    #[test]
    fn a_whole_study_runs_every_item_in_order() {
        let items: Vec<u32> = (0..50).collect();
        assert_eq!(ran(&Part::whole(), &items), items);
        let results = Part::whole().each(4, &items, |item| item * 2);
        assert_eq!(results.note("numbers"), "50 numbers");
        assert_eq!(
            results.into_results().collect::<Vec<_>>(),
            items.iter().map(|n| n * 2).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_seed_determines_the_order_of_a_sample() {
        let items: Vec<u32> = (0..50).collect();
        let one = ran(&Part::sample("one", LONG), &items);
        assert_eq!(ran(&Part::sample("one", LONG), &items), one);
        assert_ne!(ran(&Part::sample("other", LONG), &items), one);
        let mut sorted = one;
        sorted.sort_unstable();
        assert_eq!(sorted, items);
        let first = Part::sample("one", LONG).draw("seed", 12);
        assert!(first < 12 && first == Part::sample("one", LONG).draw("seed", 12));
    }

    #[test]
    fn a_sample_without_time_still_runs_one_item() {
        let items: Vec<u32> = (0..50).collect();
        let results = Part::sample("one", Duration::ZERO).each(2, &items, |item| *item);
        assert_eq!(results.found.len(), 1);
        assert_eq!(results.note("numbers"), "1 of 50 numbers");
        assert_eq!(Part::sample("one", Duration::ZERO).few(&items, 3).len(), 3);
        assert_eq!(Part::whole().few(&items, 3).len(), 50);
    }

    /// What CONTRIBUTING states: a failure outside of the sample is found by `--full` only.
    #[test]
    fn a_failure_outside_of_the_sample_is_found_by_the_whole_study() {
        let items: Vec<u32> = (0..50).collect();
        let sample = Part::sample("one", Duration::ZERO);
        let in_sample = ran(&sample, &items)[0];
        let planted = (in_sample + 1) % 50;
        let study = |part: &Part| {
            let failing =
                |item: &u32| if *item == planted { Err(format!("item {item} failed")) } else { Ok(()) };
            part.try_each(&items, failing).map(|results| results.note("items"))
        };
        assert_eq!(study(&sample), Ok("1 of 50 items".to_owned()));
        assert_eq!(study(&Part::whole()), Err(format!("item {planted} failed")));
    }
}
