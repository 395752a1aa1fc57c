//! Shapes with all extents known, and the launches and tensors that result.

use std::collections::BTreeMap;
use std::ops::Range;

use warpproof_num::random::SplitMix;

use super::attention::AttentionShape;
use super::model::{Candidate, Extent, Launch, Shape, Step, Task};
use super::problem::{At, Problem};
use crate::expr::{Expr, ExprError};

/// Extents by axis.
pub type Axes = BTreeMap<String, u64>;

/// A shape with all extents known.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// The shape's name; for a tail `mission:s=17`.
    pub name: String,
    /// Its extents.
    pub axes: Axes,
    /// Whether candidates do not know it.
    pub hidden: bool,
    /// Attention: what the shape sets.
    pub attention: AttentionShape,
    /// For a hidden shape: small sizes next to it, which together have every remainder of every drawn axis.
    pub residues: Vec<Axes>,
}

/// Remainders that a hidden shape covers: all modulo 32, and with them those modulo 2, 4, 8 and 16.
const RESIDUES: u64 = 32;

/// Small extents from the drawn ranges of a shape, so that each axis has every remainder modulo [`RESIDUES`] in one
/// of them, or every extent of its range if the range is smaller. The pairing of remainders of two axes is drawn.
fn residues(shape: &Shape, random: &mut SplitMix) -> Vec<Axes> {
    let width = |extent: &Extent| match *extent {
        Extent::Fixed(_) => 0,
        Extent::Range(low, high) => (high - low).saturating_add(1).min(RESIDUES),
    };
    let count = shape.axes.values().map(width).max().unwrap_or(0);
    let mut all = vec![Axes::new(); usize::try_from(count).unwrap_or(0)];
    for (name, extent) in &shape.axes {
        let span = width(extent).max(1);
        // An odd step visits every residue of a power of two once; other spans use the plain order.
        let step = if span == RESIDUES { random.next() | 1 } else { 1 };
        let first = random.next() % span;
        for (place, axes) in (0..).zip(&mut all) {
            let extent = match *extent {
                Extent::Fixed(extent) => extent,
                Extent::Range(low, _) => low + (first + (place % span).wrapping_mul(step % span)) % span,
            };
            axes.insert(name.clone(), extent);
        }
    }
    all
}

/// Blocks, threads and dynamic shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of a launch")]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

impl Task {
    /// Every shape with its tails. Extents of hidden shapes are drawn from the run's secret and depend only on it.
    pub fn sizes(&self, secret: u64) -> Vec<Size> {
        let mut sizes = Vec::new();
        for shape in &self.shapes {
            let seed = blake3::hash(shape.name.as_bytes());
            let seed = seed.as_bytes().iter().take(8).fold(0u64, |seed, byte| seed << 8 | u64::from(*byte));
            let mut random = SplitMix(secret ^ seed);
            let draw = |(name, extent): (&String, &Extent)| {
                let extent = match *extent {
                    Extent::Fixed(extent) => extent,
                    Extent::Range(low, high) => {
                        let wide = u128::from(random.next()) * (u128::from(high - low) + 1);
                        low + u64::try_from(wide >> 64).unwrap_or(0)
                    }
                };
                (name.clone(), extent)
            };
            let axes: Axes = shape.axes.iter().map(draw).collect();
            let residues = if shape.hidden { residues(shape, &mut random) } else { Vec::new() };
            let size = Size {
                name: shape.name.value.clone(),
                axes,
                hidden: shape.hidden,
                attention: shape.attention.clone(),
                residues,
            };
            sizes.push(size.clone());
            for (axis, extent) in
                shape.tails.iter().flat_map(|(axis, all)| all.iter().map(move |one| (axis, *one)))
            {
                let mut tail = size.clone();
                tail.name = format!("{}:{axis}={extent}", shape.name.value);
                tail.axes.insert(axis.clone(), extent);
                tail.residues.clear();
                sizes.push(tail);
            }
        }
        sizes
    }

    /// The value of a name in a candidate's launch: an axis, or an integer macro.
    fn name_in_launch(&self, candidate: &Candidate, axes: &Axes, name: &str) -> Option<i64> {
        if let Some(extent) = axes.get(name) {
            return i64::try_from(*extent).ok();
        }
        self.macro_of(candidate, name)?.parse().ok()
    }

    /// The value of a macro for a candidate: its own, or the toggle's default.
    fn macro_of<'a>(&'a self, candidate: &'a Candidate, name: &str) -> Option<&'a String> {
        let own =
            candidate.toggles.get(name).or_else(|| candidate.defines.get(name)).map(|value| &value.value);
        let default = || self.toggles.iter().find(|toggle| toggle.name.value == name)?.default.as_ref();
        own.or_else(default)
    }

    /// The launch with the candidate's macros in the names of its kernels: `softmax<float, {BLOCK}>` becomes
    /// `softmax<float, 256>`.
    pub fn named_launch(&self, candidate: &Candidate, launch: &Launch) -> Launch {
        launch.renamed(|name| {
            let mut text = name.to_owned();
            for place in macros_in(name) {
                if let Some(value) = self.macro_of(candidate, place) {
                    text = text.replace(&format!("{{{place}}}"), value);
                }
            }
            text
        })
    }

    /// The value of an expression of a candidate's launch.
    pub fn size_of(&self, candidate: &Candidate, axes: &Axes, expr: &At<Expr>) -> Result<i64, Problem> {
        expr.integer(&|name| self.name_in_launch(candidate, axes, name))
            .map_err(|error| located(error, &expr.span))
    }

    /// Grid, block and shared memory of a step.
    pub fn geometry(&self, candidate: &Candidate, step: &Step, axes: &Axes) -> Result<Geometry, Problem> {
        let extents = |exprs: &[At<Expr>]| -> Result<[u32; 3], Problem> {
            let mut extents = [1; 3];
            for (extent, expr) in extents.iter_mut().zip(exprs) {
                let value = self.size_of(candidate, axes, expr)?;
                *extent = u32::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| {
                    Problem::new(
                        expr.span.clone(),
                        format!("`{}` is {value}, which is not a valid launch dimension", expr.value),
                    )
                })?;
            }
            Ok(extents)
        };
        let shared = step.shared_bytes.as_ref().map(|expr| {
            let value = self.size_of(candidate, axes, expr)?;
            u32::try_from(value).map_err(|_| {
                Problem::new(
                    expr.span.clone(),
                    format!("`{}` is {value}, which is not a valid number of bytes", expr.value),
                )
            })
        });
        Ok(Geometry {
            grid: extents(&step.grid)?,
            block: extents(&step.block)?,
            shared_bytes: shared.transpose()?.unwrap_or(0),
        })
    }
}

/// The macros in the name of a kernel: `BLOCK` in `softmax<float, {BLOCK}>`.
pub(super) fn macros_in(name: &str) -> Vec<&str> {
    let pieces = name.split('{').skip(1);
    pieces.filter_map(|piece| piece.split_once('}')).map(|(place, _)| place).collect()
}

fn located(error: ExprError, span: &Range<usize>) -> Problem {
    Problem { span: span.clone(), sentence: error.sentence, help: error.help }
}

/// Extents of a tensor; the product fits memory addresses.
pub fn dims(exprs: &[At<Expr>], axes: &Axes) -> Result<Vec<usize>, Problem> {
    let mut dims = Vec::with_capacity(exprs.len());
    let mut elements = 1usize;
    for expr in exprs {
        let value_of = |name: &str| axes.get(name).and_then(|extent| i64::try_from(*extent).ok());
        let value = expr.integer(&value_of).map_err(|error| located(error, &expr.span))?;
        let wrong = || {
            Problem::new(
                expr.span.clone(),
                format!("`{}` is {value}, which is not a valid extent", expr.value),
            )
        };
        let extent = usize::try_from(value).map_err(|_| wrong())?;
        elements = elements.checked_mul(extent).filter(|all| *all <= 1 << 40).ok_or_else(wrong)?;
        dims.push(extent);
    }
    Ok(dims)
}

/// Values of expressions that may be negative.
pub fn values_of(exprs: &[&At<Expr>], axes: &Axes) -> Result<Vec<i64>, Problem> {
    let value_of = |name: &str| axes.get(name).and_then(|extent| i64::try_from(*extent).ok());
    exprs.iter().map(|expr| expr.integer(&value_of).map_err(|error| located(error, &expr.span))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hidden_shapes_have_every_remainder_of_every_drawn_axis() {
        let axes = [("m", Extent::Range(34, 500)), ("n", Extent::Range(1, 3)), ("k", Extent::Fixed(64))];
        let axes = axes.map(|(name, extent)| (name.to_owned(), extent)).into();
        let name = At::unsaid("surprise".to_owned());
        let shape =
            Shape { name, axes, hidden: true, tails: BTreeMap::new(), attention: AttentionShape::default() };
        let mut pairs = BTreeSet::new();
        for secret in 0..20 {
            let found = residues(&shape, &mut SplitMix(secret));
            for modulus in [2, 4, 8, 16, 32] {
                let rest: BTreeSet<u64> = found.iter().map(|axes| axes["m"] % modulus).collect();
                assert_eq!(rest.len(), usize::try_from(modulus).unwrap(), "{modulus}");
            }
            assert!(found.iter().all(|axes| (34..=500).contains(&axes["m"]) && axes["k"] == 64));
            assert_eq!(
                found.iter().map(|axes| axes["n"]).collect::<BTreeSet<_>>(),
                BTreeSet::from([1, 2, 3])
            );
            pairs.insert(found);
        }
        assert!(pairs.len() > 10, "the pairing is drawn");
    }
}
