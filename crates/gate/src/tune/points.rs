//! The allowed combinations of a space, as points: for each macro the index of its value.

use std::collections::BTreeMap;
use std::fmt;

use warpproof_task::{Candidate, Knob, Space, Task};

/// Combinations that are enumerated before constraints remove some of them.
pub const MAX_COMBINATIONS: usize = 1 << 18;

/// For each macro of the space, in its order, the index of its value.
pub type Point = Vec<usize>;

/// All points of a space that its constraints allow, in counting order: the last macro changes fastest.
#[derive(Clone, Debug)]
pub struct Points {
    knobs: Vec<Knob>,
    valid: Vec<Point>,
    /// Combinations that a constraint excludes.
    forbidden: usize,
}

/// Why a space has no points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPoints {
    /// It has more combinations than are enumerated.
    TooMany,
    /// Constraints exclude everything.
    None,
    /// A constraint cannot be evaluated.
    Constraint(String),
}

impl fmt::Display for NoPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPoints::TooMany => write!(f, "the space has more than {MAX_COMBINATIONS} combinations"),
            NoPoints::None => f.write_str("the constraints of the space exclude every combination"),
            NoPoints::Constraint(why) => write!(f, "cannot evaluate a constraint of the space: {why}"),
        }
    }
}

impl std::error::Error for NoPoints {}

impl Points {
    /// The points of a space. Constraints may also name macros that are not varied.
    pub fn of(space: &Space, fixed: &BTreeMap<String, i64>) -> Result<Points, NoPoints> {
        let extents = || space.knobs.iter().map(|knob| knob.values.len());
        let all = extents().try_fold(1usize, usize::checked_mul);
        let all = all.filter(|all| *all <= MAX_COMBINATIONS).ok_or(NoPoints::TooMany)?;
        let mut points = Points { knobs: space.knobs.clone(), valid: Vec::new(), forbidden: 0 };
        let mut point: Point = vec![0; space.knobs.len()];
        for _ in 0..all {
            if points.allowed(space, fixed, &point)? {
                points.valid.push(point.clone());
            } else {
                points.forbidden += 1;
            }
            for (digit, extent) in point.iter_mut().zip(extents()).rev() {
                *digit += 1;
                if *digit < extent {
                    break;
                }
                *digit = 0;
            }
        }
        if points.valid.is_empty() { Err(NoPoints::None) } else { Ok(points) }
    }

    fn allowed(
        &self,
        space: &Space,
        fixed: &BTreeMap<String, i64>,
        point: &[usize],
    ) -> Result<bool, NoPoints> {
        let value = |name: &str| {
            let place = self.knobs.iter().position(|knob| knob.name.value == name)?;
            self.knobs[place].values.get(*point.get(place)?)
        };
        for expr in &space.require {
            let holds = expr
                .integer(&|name| value(name).map_or_else(|| fixed.get(name).copied(), |own| own.parse().ok()))
                .map_err(|error| NoPoints::Constraint(format!("{}: {error}", expr.value)))?;
            if holds == 0 {
                return Ok(false);
            }
        }
        let meant = |one: &BTreeMap<String, String>| {
            one.iter().all(|(name, forbidden)| value(name) == Some(forbidden))
        };
        Ok(!space.forbid.iter().any(meant))
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.valid.len()
    }

    /// Always false: a space without points is an error.
    pub fn is_empty(&self) -> bool {
        self.valid.is_empty()
    }

    /// Combinations that a constraint excludes.
    pub fn forbidden(&self) -> usize {
        self.forbidden
    }

    /// The macros that are varied.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// A point by its number.
    pub fn get(&self, number: usize) -> &[usize] {
        self.valid.get(number).map_or(&[], Vec::as_slice)
    }

    /// The number of a point, if it is allowed.
    pub fn number(&self, point: &[usize]) -> Option<usize> {
        self.valid.binary_search_by(|other| other.as_slice().cmp(point)).ok()
    }

    /// The macros of a point with their values.
    pub fn settings(&self, number: usize) -> Vec<(String, String)> {
        let values = self.knobs.iter().zip(self.get(number));
        values
            .filter_map(|(knob, place)| Some((knob.name.value.clone(), knob.values.get(*place)?.clone())))
            .collect()
    }

    /// The point of the candidate without a search, if it is one: its own macros, then the task's defaults.
    pub fn start(&self, task: &Task, candidate: &Candidate) -> Option<usize> {
        let mut point = Vec::with_capacity(self.knobs.len());
        for knob in &self.knobs {
            let name = &knob.name.value;
            let own =
                candidate.toggles.get(name).or_else(|| candidate.defines.get(name)).map(|own| &own.value);
            let default = || task.toggles.iter().find(|toggle| toggle.name.value == *name)?.default.as_ref();
            let rung = || match &candidate.program {
                warpproof_task::Program::Rung { rung, .. } => {
                    let rung = warpproof_kernels::ladder::rung(rung)?;
                    Some(u8::from(rung.setting(name)).to_string())
                }
                _ => None,
            };
            let value = own.or_else(default).cloned().or_else(rung)?;
            point.push(knob.values.iter().position(|other| *other == value)?);
        }
        self.number(&point)
    }

    /// Points that differ in one value, by one place up or down; then those that differ in two, which is needed if a
    /// constraint couples two macros. The order is fixed.
    pub fn neighbors(&self, number: usize, changes: usize) -> Vec<usize> {
        let point = self.get(number);
        let moves: Vec<(usize, usize)> = point
            .iter()
            .enumerate()
            .flat_map(|(knob, place)| {
                let up = Some(place + 1).filter(|up| *up < self.knobs[knob].values.len());
                [place.checked_sub(1), up].into_iter().flatten().map(move |place| (knob, place))
            })
            .collect();
        let moved = |changes: &[(usize, usize)]| {
            let mut other = point.to_vec();
            for (knob, place) in changes {
                other[*knob] = *place;
            }
            self.number(&other)
        };
        let mut found = Vec::new();
        for (index, first) in moves.iter().enumerate() {
            if changes == 1 {
                found.extend(moved(&[*first]));
                continue;
            }
            let second = moves.iter().skip(index + 1).filter(|second| second.0 != first.0);
            found.extend(second.filter_map(|second| moved(&[*first, *second])));
        }
        found
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use warpproof_task::At;
    use warpproof_task::expr::Expr;

    /// A space of macros `a`, `b`, …, each with the given number of values: 1, 2, 4, ….
    pub(crate) fn space(extents: &[usize], require: &[&str]) -> Space {
        let knobs = extents.iter().zip("abcdefgh".chars()).map(|(extent, name)| Knob {
            name: At::unsaid(name.to_string()),
            values: (0..*extent).map(|place| (1u64 << place).to_string()).collect(),
        });
        Space {
            candidate: At::unsaid("k".to_owned()),
            knobs: knobs.collect(),
            require: require.iter().map(|text| At::unsaid(Expr::parse(text).unwrap())).collect(),
            forbid: Vec::new(),
        }
    }

    #[test]
    fn constraints_leave_combinations_out() {
        let mut space = space(&[3, 3, 2], &["a * b <= 8"]);
        assert_eq!(Points::of(&space, &BTreeMap::new()).unwrap().len(), 16);
        space
            .forbid
            .push(BTreeMap::from([("a".to_owned(), "1".to_owned()), ("c".to_owned(), "2".to_owned())]));
        let points = Points::of(&space, &BTreeMap::new()).unwrap();
        assert_eq!((points.len(), points.forbidden()), (13, 5));
        for number in 0..points.len() {
            assert_eq!(points.number(points.get(number)), Some(number));
        }
        assert_eq!(points.number(&[2, 2, 0]), None);
        space.require.push(At::unsaid(Expr::parse("a > 4").unwrap()));
        assert_eq!(Points::of(&space, &BTreeMap::new()).unwrap_err(), NoPoints::None);
        space.require = vec![At::unsaid(Expr::parse("a / (b - 1)").unwrap())];
        assert!(matches!(Points::of(&space, &BTreeMap::new()).unwrap_err(), NoPoints::Constraint(_)));
    }

    #[test]
    fn neighbors_differ_by_one_place() {
        let points = Points::of(&space(&[3, 3], &["a * b == 4"]), &BTreeMap::new()).unwrap();
        assert_eq!(points.len(), 3);
        // Every single change violates the product; two at once do not.
        assert_eq!(points.neighbors(1, 1), Vec::<usize>::new());
        assert_eq!(points.neighbors(1, 2), vec![0, 2]);
        let free = Points::of(&space(&[3, 2], &[]), &BTreeMap::new()).unwrap();
        let at = free.number(&[1, 0]).unwrap();
        let near: Vec<&[usize]> = free.neighbors(at, 1).into_iter().map(|n| free.get(n)).collect();
        assert_eq!(near, [[0, 0], [2, 0], [1, 1]]);
    }

    #[test]
    fn spaces_without_end_are_refused() {
        assert_eq!(
            Points::of(&space(&[60, 60, 60, 60], &[]), &BTreeMap::new()).unwrap_err(),
            NoPoints::TooMany
        );
    }

    const RUNGS: &str = r#"
name = "rungs"
version = 1
operator = "attention"
seeds = [1]
distributions = ["normal"]
shape = [{ name = "small", axes = { b = 1, h = 1, s = 32, d = 64 } }]
tolerance = { policy = "derived", derivation = "that of the family" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }]
toggle = [{ name = "USE_TWO_LEVEL", values = [0, 1] }, { name = "USE_SMEM_SWIZZLE_XOR", values = [0, 1] }]
candidate = [{ name = "n4", rung = "n4" }, { name = "single", rung = "n4", toggles = { USE_TWO_LEVEL = 0 } }]

[[space]]
candidate = "n4"
values = { USE_TWO_LEVEL = [0, 1], USE_SMEM_SWIZZLE_XOR = [0, 1] }
"#;

    #[test]
    fn a_rung_is_varied_by_its_toggles() {
        let task = Task::parse(RUNGS).unwrap();
        let points = Points::of(&task.spaces[0], &task.integers(task.candidate("n4").unwrap())).unwrap();
        assert_eq!(points.len(), 4);
        // n4 has both on.
        let n4 = task.candidate("n4").unwrap();
        let start = points.start(&task, n4).unwrap();
        assert!(points.settings(start).iter().all(|(_, value)| value == "1"));
        let variant = task.variant("n4", &points.settings(0)).unwrap();
        assert!(variant.toggles.values().all(|value| value.value == "0"));
        assert_eq!(variant.variant_of.as_deref(), Some("n4"));
        assert!(variant.is_among(&[At::unsaid("n4".to_owned())]));
        assert!(!variant.is_among(&[At::unsaid("single".to_owned())]));
        let again = task.variant_named(&variant.name.value).unwrap().unwrap();
        assert_eq!(again, variant);
        assert!(task.variant_named("n4").is_none());
        for wrong in [
            "n9[A=1]",
            "n4[A=1]",
            "n4[USE_TWO_LEVEL]",
            "n4[USE_TWO_LEVEL=2]",
            "n4[USE_TWO_LEVEL=0,USE_TWO_LEVEL=1]",
        ] {
            assert!(task.variant_named(wrong).unwrap().is_err(), "{wrong}");
        }
    }
}
