//! Solves linear equations between counts in integers.
//!
//! Each unknown has a minimum and a maximum. Equations narrow the ranges of their unknowns until nothing
//! changes; if more than one value remains, one is tried, and another if it leads to a contradiction. The
//! number of trials is bounded, and not every value is tried: a solution may be missed, but a returned
//! solution is never wrong.

/// Maximum number of trials.
const MOST_CHOICES: u32 = 4000;
/// A value above any count; an unknown that can reach it is not bounded by the counts.
const UNBOUNDED: i64 = 1 << 52;

/// The values an unknown may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) least: i64,
    pub(super) most: i64,
}

/// `sum of factor * unknown = constant`.
#[derive(Clone, Debug)]
pub(super) struct Equation {
    pub(super) terms: Vec<(usize, i64)>,
    pub(super) constant: i64,
}

/// `whole` is zero unless one of `parts` is nonzero: a loop does not iterate unless it is entered.
#[derive(Clone, Debug)]
pub(super) struct Entered {
    pub(super) whole: usize,
    pub(super) parts: Vec<usize>,
}

/// The system.
#[derive(Clone, Debug, Default)]
pub(super) struct System {
    pub(super) unknowns: usize,
    pub(super) equations: Vec<Equation>,
    pub(super) entered: Vec<Entered>,
    /// The unknowns to choose first.
    pub(super) preferences: Vec<Preference>,
    /// Multiples of this value are tried first.
    pub(super) step: i64,
}

/// An unknown to choose a value for, and which values to try first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preference {
    pub(super) unknown: usize,
    pub(super) large: bool,
}

/// Why there is no solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The equations contradict each other.
    Contradiction,
    /// An unknown may have any value.
    Open(usize),
    /// More trials than the limit.
    TooMany,
}

/// The values of all unknowns, and the unknowns that were chosen among several values, with their ranges.
pub(super) type Solution = (Vec<i64>, Vec<(usize, Range)>);

/// Solves a system. Unknowns without a preference are chosen last, preferring small values.
pub(super) fn solve(system: &System) -> Result<Solution, Failure> {
    let mut ranges = vec![Range { least: 0, most: UNBOUNDED }; system.unknowns];
    if !system.narrow(&mut ranges) {
        return Err(Failure::Contradiction);
    }
    let mut search = Search { system, left: MOST_CHOICES, chosen: Vec::new() };
    let found = search.descend(ranges)?;
    let values = found.iter().map(|range| range.least).collect();
    Ok((values, search.chosen))
}

/// Whether narrowing finds no contradiction; the system may still have no solution.
pub(super) fn may_hold(system: &System) -> bool {
    system.narrow(&mut vec![Range { least: 0, most: UNBOUNDED }; system.unknowns])
}

struct Search<'a> {
    system: &'a System,
    left: u32,
    chosen: Vec<(usize, Range)>,
}

impl Search<'_> {
    fn descend(&mut self, ranges: Vec<Range>) -> Result<Vec<Range>, Failure> {
        let open = |unknown: &usize| ranges.get(*unknown).is_some_and(|r| r.least < r.most);
        let preferred = self.system.preferences.iter().find(|p| open(&p.unknown)).copied();
        let any = || (0..ranges.len()).find(open).map(|unknown| Preference { unknown, large: false });
        let Some(choice) = preferred.or_else(any) else { return Ok(ranges) };
        let range = ranges[choice.unknown];
        if range.most >= UNBOUNDED {
            return Err(Failure::Open(choice.unknown));
        }
        self.chosen.push((choice.unknown, range));
        let depth = self.chosen.len();
        for value in self.values(range, choice.large) {
            self.left = self.left.checked_sub(1).ok_or(Failure::TooMany)?;
            let mut tried = ranges.clone();
            tried[choice.unknown] = Range { least: value, most: value };
            if !self.system.narrow(&mut tried) {
                continue;
            }
            match self.descend(tried) {
                Err(Failure::Contradiction) => self.chosen.truncate(depth),
                other => return other,
            }
        }
        self.chosen.truncate(depth - 1);
        Err(Failure::Contradiction)
    }

    /// The values to try. Equal counts in every warp are the most likely.
    fn values(&self, range: Range, large: bool) -> Vec<i64> {
        let step = self.system.step.max(1);
        let (up, down) = (range.least + (step - range.least % step) % step, range.most - range.most % step);
        let mut values = if large {
            vec![down, range.most, up, range.least]
        } else {
            vec![up, range.least, down, range.most]
        };
        values.extend((1..=6).map(|n| down - n * step));
        values.retain(|value| (range.least..=range.most).contains(value));
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|value| seen.insert(*value));
        values
    }
}

impl System {
    /// Narrows ranges until nothing changes; returns false on a contradiction.
    fn narrow(&self, ranges: &mut [Range]) -> bool {
        loop {
            if !narrow(ranges, &self.equations) {
                return false;
            }
            let mut changed = false;
            for Entered { whole, parts } in &self.entered {
                let mut may = parts.iter().copied().filter(|part| ranges[*part].most > 0);
                match (may.next(), may.next()) {
                    (None, _) if ranges[*whole].most > 0 => {
                        ranges[*whole].most = 0;
                        changed = true;
                    }
                    (Some(one), None) if ranges[*whole].least > 0 && ranges[one].least == 0 => {
                        ranges[one].least = 1;
                        changed = true;
                    }
                    _ => {}
                }
                if ranges[*whole].least > ranges[*whole].most {
                    return false;
                }
            }
            if !changed {
                return true;
            }
        }
    }
}

/// Narrows ranges by every equation until nothing changes; returns false on a contradiction.
fn narrow(ranges: &mut [Range], equations: &[Equation]) -> bool {
    // A chain of blocks needs as many rounds as it is long.
    for _ in 0..ranges.len() + 64 {
        let mut changed = false;
        for equation in equations {
            let (mut low, mut high) = (0_i128, 0_i128);
            for (unknown, factor) in &equation.terms {
                let (a, b) = ends(ranges[*unknown], *factor);
                low += a;
                high += b;
            }
            let constant = i128::from(equation.constant);
            if low > constant || high < constant {
                return false;
            }
            for (unknown, factor) in &equation.terms {
                let range = ranges[*unknown];
                let (a, b) = ends(range, *factor);
                // The range of this term, given the others.
                let (from, to) = (constant - (high - b), constant - (low - a));
                let factor = i128::from(*factor);
                let (from, to) = if factor > 0 { (from, to) } else { (-to, -from) };
                let size = factor.abs().max(1);
                let least = from.div_euclid(size) + i128::from(from.rem_euclid(size) != 0);
                let most = to.div_euclid(size);
                let least = range.least.max(i64::try_from(least.max(0)).unwrap_or(i64::MAX));
                let most = range.most.min(i64::try_from(most).unwrap_or(range.most));
                if least > most {
                    return false;
                }
                if least != range.least || most != range.most {
                    ranges[*unknown] = Range { least, most };
                    changed = true;
                    let (c, d) = ends(ranges[*unknown], i64::try_from(factor).unwrap_or(1));
                    low += c - a;
                    high += d - b;
                }
            }
        }
        if !changed {
            break;
        }
    }
    true
}

fn ends(range: Range, factor: i64) -> (i128, i128) {
    let (a, b) = (i128::from(range.least) * i128::from(factor), i128::from(range.most) * i128::from(factor));
    (a.min(b), a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equation(terms: &[(usize, i64)], constant: i64) -> Equation {
        Equation { terms: terms.to_vec(), constant }
    }

    fn system(unknowns: usize, equations: Vec<Equation>) -> System {
        System { unknowns, equations, step: 1, ..System::default() }
    }

    #[test]
    fn what_follows_is_not_chosen() {
        let follows = system(2, vec![equation(&[(0, 1)], 7), equation(&[(0, 1), (1, -2)], 1)]);
        assert_eq!(solve(&follows), Ok((vec![7, 3], Vec::new())));
        assert_eq!(solve(&system(1, vec![equation(&[(0, 2)], 7)])), Err(Failure::Contradiction));
    }

    #[test]
    fn preferences_choose_and_contradictions_choose_again() {
        // 4a + b = 11: a is 2 because large values are preferred.
        let mut two = system(2, vec![equation(&[(0, 4), (1, 1)], 11)]);
        two.preferences = vec![Preference { unknown: 0, large: true }];
        let (values, chosen) = solve(&two).unwrap();
        assert_eq!(values, [2, 3]);
        assert_eq!(chosen.len(), 1);
        // The large value contradicts: a + c = 2 with c = 1.
        let more = [equation(&[(0, 1), (2, 1)], 2), equation(&[(2, 1)], 1)];
        two.unknowns = 3;
        two.equations.extend(more);
        assert_eq!(solve(&two).unwrap().0, [1, 7, 1]);
    }

    #[test]
    fn a_loop_that_turns_was_entered() {
        // a + b = 4 and b = 0 unless c; c + d = 4.
        let mut entered = system(4, vec![equation(&[(0, 1), (1, 1)], 4), equation(&[(2, 1), (3, 1)], 4)]);
        entered.entered = vec![Entered { whole: 1, parts: vec![2] }];
        entered.preferences = vec![Preference { unknown: 1, large: true }];
        assert_eq!(solve(&entered).unwrap().0, [0, 4, 1, 3]);
        entered.equations.push(equation(&[(2, 1)], 0));
        assert_eq!(solve(&entered).unwrap().0, [4, 0, 0, 4]);
    }

    #[test]
    fn what_nothing_bounds_is_open() {
        assert_eq!(solve(&system(2, vec![equation(&[(0, 1), (1, -1)], 0)])), Err(Failure::Open(0)));
    }
}
