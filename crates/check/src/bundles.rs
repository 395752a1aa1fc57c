//! Which bundles of a kernel can be checked as one: those with ordinary loads only, and with no instruction that a check must see
//! even while it is calm. Then a check needs to know only the addresses that the loads start from.

use super::array::Arrays;
use super::site::Sites;
use std::ops::Range;
use warpproof_sim::machine::at;
use warpproof_sim::observe::{BundleReads, Sight};
use warpproof_sim::program::{Bundle, Program};

/// By number: the bounds of a bundle that can be checked as one.
#[derive(Debug)]
pub(crate) struct Bundles(Vec<Option<Vec<Bound>>>);

/// Loads that must stay in one variable.
#[derive(Debug)]
struct Bound {
    /// The register that they start from.
    base: usize,
    /// The distances from it to the first byte that they read, and behind the last one.
    reach: (i64, i64),
    variable: Range<u32>,
}

impl Bundles {
    pub(crate) fn of(program: &Program, sites: &Sites, sights: &[Sight], arrays: Option<&Arrays>) -> Bundles {
        let mut all: Vec<Option<Vec<Bound>>> = Vec::new();
        all.resize_with(program.bundles, || None);
        let bundles = program.code.iter().filter_map(|inst| inst.bundle.as_deref());
        for bundle in bundles.filter(|_| sites.barriers_only) {
            if let Some(slot) = all.get_mut(bundle.number).filter(|_| is_ordinary(bundle, sites, sights)) {
                *slot = Some(bounds(program, bundle, arrays));
            }
        }
        Bundles(all)
    }

    /// Whether the loads of a bundle stay in their variables, and the bundle can be checked as one.
    pub(crate) fn admit(&self, reads: &BundleReads<'_>) -> bool {
        let Some(Some(bounds)) = self.0.get(reads.bundle.number) else { return false };
        bounds.iter().all(|bound| {
            reads.places.get(bound.base).is_some_and(|place| {
                i64::from(place.ends.0) + bound.reach.0 >= i64::from(bound.variable.start)
                    && i64::from(place.ends.1) + bound.reach.1 <= i64::from(bound.variable.end)
            })
        })
    }
}

fn is_ordinary(bundle: &Bundle, sites: &Sites, sights: &[Sight]) -> bool {
    let silent = (bundle.first..)
        .take(bundle.steps.len())
        .all(|pc| sights.get(at(pc)).is_some_and(|sight| *sight != Sight::Always));
    let ordinary = |pc: u32| {
        let site = sites.get(pc);
        site.ordering.strong.is_none() && !site.volatile
    };
    silent && bundle.loads().all(|(pc, _)| ordinary(pc))
}

fn bounds(program: &Program, bundle: &Bundle, arrays: Option<&Arrays>) -> Vec<Bound> {
    let mut bounds: Vec<Bound> = Vec::new();
    for (pc, load) in bundle.loads() {
        let Some(variable) = arrays.and_then(|arrays| arrays.variable(program, pc)) else { continue };
        let reach = (load.offset, load.offset + 4 * i64::from(load.words));
        match bounds.iter_mut().find(|bound| (bound.base, &bound.variable) == (load.base, &variable)) {
            Some(bound) => bound.reach = (bound.reach.0.min(reach.0), bound.reach.1.max(reach.1)),
            None => bounds.push(Bound { base: load.base, reach, variable }),
        }
    }
    bounds
}
