//! The variants of the ladder and the named shapes that the study runs.

use warpproof_kernels::ladder::{LADDER, Rung};
use warpproof_kernels::problem::Shape;

/// A rung with its settings.
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) rung: &'static Rung,
    pub(super) toggles: Vec<(String, bool)>,
}

/// Every rung, and n4 a second time with a single accumulator.
pub(super) fn variants() -> Vec<Variant> {
    let mut variants: Vec<Variant> =
        LADDER.iter().map(|rung| Variant { name: rung.name, rung, toggles: Vec::new() }).collect();
    variants.extend(LADDER.iter().filter(|rung| rung.id == "n4").map(|rung| Variant {
        name: "n4 single chain",
        rung,
        toggles: vec![("USE_TWO_LEVEL".to_owned(), false)],
    }));
    variants
}

/// A shape of the study.
pub(super) struct Shaped {
    pub(super) shape: Shape,
    /// Small enough for CI.
    pub(super) quick: bool,
}

/// The shape for which the ladder is tuned, that of the older runs, a small one, tails, and a long one.
pub(super) fn shapes() -> Vec<Shaped> {
    let shape = |batch, heads, rows, quick| Shaped { shape: Shape::equal(batch, heads, rows, 64), quick };
    vec![
        shape(2, 8, 256, true),
        shape(1, 8, 512, false),
        shape(1, 1, 32, true),
        shape(1, 2, 1, true),
        shape(1, 2, 17, true),
        shape(1, 2, 31, true),
        shape(1, 2, 33, true),
        shape(1, 2, 257, true),
        shape(1, 2, 1000, false),
        shape(1, 8, 2048, false),
    ]
}
