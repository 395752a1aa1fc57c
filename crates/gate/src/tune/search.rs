//! Chooses the next points to evaluate. The caller asks for points and passes back their scores. A search depends
//! only on its seed and on those scores, so an interrupted search can be replayed.
//!
//! **Evolution.** The first generation is the starting point and a Latin hypercube of the space: each value of each
//! macro occurs equally often. Later points are children: parents win tournaments in the population, a child takes
//! each value from either of them, and some values move by one place. A generation keeps the best of the previous one
//! as elites. Half of a generation, and all of one after a generation without improvement, are points around the
//! best: those that differ by one step in one macro, then in two, then those around the next best. No point is
//! requested twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::points::{Point, Points};
use warpproof_speed::Random;

/// How points are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// All of them, in their order.
    Grid,
    /// Any of them, each as likely.
    Random,
    /// Children of the best so far.
    #[default]
    Evolution,
}

impl Strategy {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::Grid => "grid",
            Strategy::Random => "random",
            Strategy::Evolution => "evolution",
        }
    }
}

/// The source of a time; times from different sources are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Measured on a device.
    Measured,
    /// Predicted by the schedule of the machine code.
    Schedule,
    /// Predicted as the lower bound of the binding resource, because the counts do not determine how often a block of
    /// machine code ran. It ranks after all points that have a schedule.
    Bound,
}

/// How good a point is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// What the time is from.
    pub basis: Basis,
    /// Microseconds of a launch.
    pub us: f64,
}

impl Score {
    const WORST: Score = Score { basis: Basis::Bound, us: f64::INFINITY };

    /// Orders the better one first.
    pub fn order(&self, other: &Score) -> std::cmp::Ordering {
        self.basis.cmp(&other.basis).then(self.us.total_cmp(&other.us))
    }
}

/// How evolution proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Evolution {
    /// Points of the first generation.
    pub first: usize,
    /// Points of each later one.
    pub generation: usize,
    /// Points that may have children.
    pub population: usize,
    /// Points that survive regardless of their children.
    pub elites: usize,
    /// Points of the population from which a tournament picks the best as a parent.
    pub tournament: usize,
}

impl Evolution {
    /// Parameters for a number of evaluations: a sixth of them explore, then at most twenty generations follow.
    pub fn for_budget(budget: usize) -> Evolution {
        let first = (budget / 6).clamp(4, 64);
        let generation = (budget / 24).clamp(4, 32);
        Evolution { first, generation, population: first.max(8), elites: 4, tournament: 3 }
    }
}

/// How likely a value of a child moves by one place.
const MUTATION: f64 = 0.2;
/// Children drawn before any free point is taken.
const TRIES: usize = 64;

/// A search over the points of a space.
#[derive(Clone, Debug)]
pub struct Search<'p> {
    points: &'p Points,
    strategy: Strategy,
    shape: Evolution,
    random: Random,
    start: Option<usize>,
    asked: BTreeSet<usize>,
    /// Scores passed back so far: less is better, `None` if a point is not a solution.
    told: BTreeMap<usize, Option<Score>>,
    population: Vec<usize>,
    /// The best before the generation under way.
    best_before: Option<Score>,
    generations: usize,
}

impl<'p> Search<'p> {
    /// A search that has not requested any point.
    pub fn new(
        points: &'p Points,
        strategy: Strategy,
        shape: Evolution,
        seed: u64,
        start: Option<usize>,
    ) -> Search<'p> {
        Search {
            points,
            strategy,
            shape,
            random: Random::new(seed),
            start,
            asked: BTreeSet::new(),
            told: BTreeMap::new(),
            population: Vec::new(),
            best_before: None,
            generations: 0,
        }
    }

    /// The next points, up to a maximum; none when all were requested. The caller must first pass back the scores of
    /// all earlier points.
    pub fn ask(&mut self, most: usize) -> Vec<usize> {
        let left = self.points.len().saturating_sub(self.asked.len());
        let next = match self.strategy {
            Strategy::Grid => {
                let open = (0..self.points.len()).filter(|number| !self.asked.contains(number));
                open.take(self.shape.generation.min(most)).collect()
            }
            Strategy::Random => {
                let start = self.start.filter(|_| self.generations == 0);
                let mut next: Vec<usize> = start.into_iter().collect();
                self.fill(&mut next, self.shape.generation.min(most).min(left));
                next
            }
            Strategy::Evolution if self.generations == 0 => {
                self.hypercube(self.shape.first.min(most).min(left))
            }
            Strategy::Evolution => self.descend(self.shape.generation.min(most).min(left)),
        };
        self.asked.extend(next.iter().copied());
        self.generations += 1;
        next
    }

    /// Passes back a point's score. A later call replaces it: a leading point that then fails a stage is not a
    /// solution any more.
    pub fn tell(&mut self, number: usize, score: Option<Score>) {
        self.told.insert(number, score.filter(|score| score.us.is_finite()));
    }

    /// Points that are solutions, the best first; among equals the one with the lower number.
    pub fn ranking(&self) -> Vec<(usize, Score)> {
        let mut all: Vec<(usize, Score)> =
            self.told.iter().filter_map(|(number, score)| Some((*number, (*score)?))).collect();
        all.sort_by(|a, b| a.1.order(&b.1).then(a.0.cmp(&b.0)));
        all
    }

    /// The number of generations that were requested.
    pub fn generations(&self) -> usize {
        self.generations
    }

    /// Adds random points that were not requested yet, up to a count.
    fn fill(&mut self, next: &mut Vec<usize>, count: usize) {
        while next.len() < count {
            // Most points are free at first, and drawing one is cheaper than listing them.
            let drawn = (0..TRIES).find_map(|_| {
                let number = self.random.below(self.points.len());
                (!self.asked.contains(&number) && !next.contains(&number)).then_some(number)
            });
            if let Some(number) = drawn {
                next.push(number);
                continue;
            }
            let open: Vec<usize> = (0..self.points.len())
                .filter(|number| !self.asked.contains(number) && !next.contains(number))
                .collect();
            let Some(number) = open.get(self.random.below(open.len())) else { return };
            next.push(*number);
        }
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.random.below(last + 1));
        }
    }

    /// The start, and points in which each value of each macro occurs equally often, as far as constraints allow.
    fn hypercube(&mut self, count: usize) -> Vec<usize> {
        let mut next: Vec<usize> = self.start.into_iter().take(count).collect();
        let extents: Vec<usize> = self.points.knobs().iter().map(|knob| knob.values.len()).collect();
        let mut columns: Vec<Vec<usize>> = Vec::new();
        for extent in &extents {
            let mut column: Vec<usize> = (0..count).map(|row| row % extent).collect();
            self.shuffle(&mut column);
            columns.push(column);
        }
        for row in 0..count {
            if next.len() >= count {
                break;
            }
            let mut point: Point = columns.iter().map(|column| column[row]).collect();
            // Fix a forbidden point one macro at a time, so that the other values stay.
            for _ in 0..TRIES {
                if let Some(number) = self.free(&point, &next) {
                    next.push(number);
                    break;
                }
                let knob = self.random.below(extents.len());
                point[knob] = self.random.below(extents[knob]);
            }
        }
        self.fill(&mut next, count);
        next
    }

    /// The number of a point that is allowed and was not requested yet.
    fn free(&self, point: &[usize], next: &[usize]) -> Option<usize> {
        let number = self.points.number(point)?;
        (!self.asked.contains(&number) && !next.contains(&number)).then_some(number)
    }

    /// A later generation.
    fn descend(&mut self, count: usize) -> Vec<usize> {
        let ranking = self.ranking();
        let best = ranking.first().map(|(_, score)| *score);
        let stagnates = match (best, self.best_before) {
            (Some(best), Some(before)) => best.order(&before).is_ge(),
            _ => false,
        };
        self.best_before = best;
        self.select(&ranking);
        let mut next = Vec::new();
        let around = if stagnates { count } else { count.div_ceil(2) };
        self.around(&ranking, &mut next, around);
        for _ in 0..TRIES * count {
            if next.len() >= count || self.population.is_empty() {
                break;
            }
            let child = self.child();
            next.extend(self.free(&child, &next));
        }
        self.fill(&mut next, count);
        next
    }

    /// The population after a generation: the elites of the previous one, then the best of all others.
    fn select(&mut self, ranking: &[(usize, Score)]) {
        let mut population: Vec<usize> = Vec::new();
        let elites =
            ranking.iter().map(|(number, _)| *number).filter(|number| self.population.contains(number));
        population.extend(elites.take(self.shape.elites));
        for (number, _) in ranking {
            if population.len() >= self.shape.population {
                break;
            }
            if !population.contains(number) {
                population.push(*number);
            }
        }
        self.population = population;
    }

    /// Points around the best, then around the next best.
    fn around(&mut self, ranking: &[(usize, Score)], next: &mut Vec<usize>, count: usize) {
        for (number, _) in ranking.iter().take(self.shape.elites.max(1)) {
            for changes in [1, 2] {
                let mut near = self.points.neighbors(*number, changes);
                self.shuffle(&mut near);
                near.retain(|one| !self.asked.contains(one) && !next.contains(one));
                for one in near {
                    if next.len() >= count {
                        return;
                    }
                    if !next.contains(&one) {
                        next.push(one);
                    }
                }
            }
        }
    }

    /// The best of some of the population.
    fn parent(&mut self) -> usize {
        let score = |number: &usize| self.told.get(number).copied().flatten().unwrap_or(Score::WORST);
        let mut picked: Vec<usize> = Vec::new();
        let mut random = self.random.clone();
        for _ in 0..self.shape.tournament.max(1) {
            picked.extend(self.population.get(random.below(self.population.len())));
        }
        let best = picked.into_iter().min_by(|a, b| score(a).order(&score(b)).then(a.cmp(b)));
        self.random = random;
        best.unwrap_or(0)
    }

    fn child(&mut self) -> Point {
        let (one, other) = (self.parent(), self.parent());
        let (one, other) = (self.points.get(one).to_vec(), self.points.get(other).to_vec());
        let mut child: Point =
            one.iter().zip(&other).map(|(a, b)| if self.random.chance(0.5) { *a } else { *b }).collect();
        let mut moved = false;
        for (place, knob) in child.iter_mut().zip(self.points.knobs()) {
            if self.random.chance(MUTATION) {
                moved = true;
                *place = step(&mut self.random, *place, knob.values.len());
            }
        }
        if !moved && (child == one || child == other) && !child.is_empty() {
            let knob = self.random.below(child.len());
            child[knob] = step(&mut self.random, child[knob], self.points.knobs()[knob].values.len());
        }
        child
    }
}

/// One place up or down, inward at the ends.
fn step(random: &mut Random, place: usize, extent: usize) -> usize {
    let up = place + 1 < extent;
    match (place > 0, up) {
        (true, true) if random.chance(0.5) => place + 1,
        (true, _) => place - 1,
        (false, true) => place + 1,
        (false, false) => place,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::points::tests::space;
    // The prelude has a `Strategy` too.
    use super::Strategy;
    use super::*;

    fn scored(us: f64) -> Score {
        Score { basis: Basis::Schedule, us }
    }

    #[test]
    fn a_bound_ranks_after_a_schedule() {
        let bound = Score { basis: Basis::Bound, us: 1.0 };
        assert!(scored(2.0).order(&bound).is_lt());
        assert!(scored(2.0).order(&scored(1.0)).is_gt());
    }

    /// Runs a search on a landscape to its budget.
    fn run<'p>(
        points: &'p Points,
        strategy: Strategy,
        seed: u64,
        budget: usize,
        landscape: &dyn Fn(&[usize]) -> Option<f64>,
    ) -> (Search<'p>, Vec<usize>) {
        let mut search = Search::new(points, strategy, Evolution::for_budget(budget), seed, Some(0));
        let mut order = Vec::new();
        while order.len() < budget {
            let next = search.ask(budget - order.len());
            if next.is_empty() {
                break;
            }
            for number in &next {
                search.tell(*number, landscape(points.get(*number)).map(scored));
            }
            order.extend(next);
        }
        (search, order)
    }

    /// A valley off the diagonal with a step, similar to tiles and occupancy; some of its points are not solutions.
    fn valley(point: &[usize]) -> Option<f64> {
        let at = |knob: usize| f64::from(u32::try_from(point.get(knob).copied().unwrap_or(0)).unwrap());
        if at(0) + at(1) > 6.0 {
            return None;
        }
        let bowl = (at(0) - 2.0).powi(2) + 0.5 * (at(1) - 3.0).powi(2) + (at(2) - at(0)).abs();
        Some(10.0 + bowl + if at(3) > 0.0 { 0.0 } else { 1.5 } + 0.3 * at(4))
    }

    #[test]
    fn a_quarter_of_the_space_is_enough_on_a_valley() {
        let points = Points::of(&space(&[5, 5, 4, 2, 2], &["a * b * c <= 512"]), &BTreeMap::new()).unwrap();
        assert!(points.len() >= 200, "{}", points.len());
        let best = (0..points.len()).filter_map(|n| valley(points.get(n))).min_by(f64::total_cmp).unwrap();
        for seed in 0..200 {
            let (search, order) = run(&points, Strategy::Evolution, seed, points.len() / 4, &valley);
            assert_eq!(order.len(), points.len() / 4);
            let found = search.ranking()[0].1.us;
            assert!(found <= 1.01 * best, "seed {seed}: {found} of {best}");
        }
    }

    #[test]
    fn a_leader_that_fails_leads_no_more() {
        let points = Points::of(&space(&[4, 4], &[]), &BTreeMap::new()).unwrap();
        let (mut search, _) = run(&points, Strategy::Grid, 0, 16, &|point| valley(point));
        let leader = search.ranking()[0].0;
        search.tell(leader, None);
        assert!(search.ranking().iter().all(|(number, _)| *number != leader));
        assert_eq!(search.ranking().len(), 15);
    }

    proptest! {
        #[test]
        fn nothing_is_asked_for_twice_and_all_is_found_in_the_end(
            extents in prop::collection::vec(1usize..5, 1..5),
            seed: u64,
            scores in prop::collection::vec(prop::option::of(0.0f64..100.0), 1..64),
            strategy in prop::sample::select(vec![Strategy::Grid, Strategy::Random, Strategy::Evolution]),
            share in 1usize..5,
        ) {
            let points = Points::of(&space(&extents, &[]), &BTreeMap::new()).unwrap();
            let budget = (points.len() / share).max(1);
            let landscape =
                |point: &[usize]| points.number(point).and_then(|number| scores[number % scores.len()]);
            let (search, order) = run(&points, strategy, seed, budget, &landscape);
            let mut once = order.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), order.len());
            prop_assert_eq!(order.len(), budget);
            // The same results again, whatever happened before.
            let (_, again) = run(&points, strategy, seed, budget, &landscape);
            prop_assert_eq!(&again, &order);
            // The ranking is sorted and holds only solutions.
            let ranking = search.ranking();
            prop_assert!(ranking.windows(2).all(|pair| pair[0].1.us <= pair[1].1.us));
            let answers = order.iter().filter(|number| landscape(points.get(**number)).is_some()).count();
            prop_assert_eq!(ranking.len(), answers);
        }

        #[test]
        fn a_search_is_replayed_from_its_outcomes(seed: u64, generations in 1usize..5) {
            let points = Points::of(&space(&[4, 4, 3, 2], &[]), &BTreeMap::new()).unwrap();
            let budget = 40;
            let begin =
                || Search::new(&points, Strategy::Evolution, Evolution::for_budget(budget), seed, None);
            let (mut known, mut first) = (BTreeMap::new(), begin());
            for _ in 0..generations {
                for number in first.ask(budget) {
                    let score = valley(points.get(number)).map(scored);
                    known.insert(number, score);
                    first.tell(number, score);
                }
            }
            // Another search with the same seed requests the known points, and then what the first requests.
            let mut replay = begin();
            for _ in 0..generations {
                for number in replay.ask(budget) {
                    prop_assert!(known.contains_key(&number));
                    replay.tell(number, known.get(&number).copied().flatten());
                }
            }
            prop_assert_eq!(first.ask(budget), replay.ask(budget));
        }
    }

    #[test]
    fn a_search_depends_on_what_it_was_told() {
        let points = Points::of(&space(&[4, 4, 3, 2], &[]), &BTreeMap::new()).unwrap();
        let asked = |upwards: bool| {
            let shape = Evolution::for_budget(40);
            let mut search = Search::new(&points, Strategy::Evolution, shape, 7, None);
            for number in search.ask(40) {
                let at = f64::from(u32::try_from(number).unwrap());
                search.tell(number, Some(scored(if upwards { 1.0 + at } else { 1000.0 - at })));
            }
            search.ask(40)
        };
        assert_ne!(asked(true), asked(false));
    }
}
