//! The values of two kernels, by tile, block and row.

use std::collections::BTreeMap;
use std::fmt::Write;

use warpproof_sim::values::{Event, Values};

use super::expression::{Expression, Numbers};

/// Maximum number of tiles in the summary.
const TILES: usize = 8;

/// What a value belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) row: Expression,
    pub(super) tile: Expression,
}

/// In the order in which differences are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    tile: i64,
    line: usize,
    block: u32,
    row: i64,
    element: u32,
}

/// The values of one kernel at one key: those of all threads that have it, without repetition.
type Held = Vec<Event>;

/// A place at which the kernels differ.
#[derive(Clone, Debug)]
struct Difference {
    key: Key,
    first: Held,
    second: Held,
}

/// The comparison of two kernels.
#[derive(Clone, Debug, Default)]
pub(super) struct Compared {
    differences: Vec<Difference>,
    /// By line: the number of compared keys, and those of one kernel only.
    counts: BTreeMap<usize, [usize; 3]>,
    /// By line and tile: rows, and those that differ.
    tiles: BTreeMap<(usize, i64), (usize, usize)>,
}

impl Compared {
    pub(super) fn of(
        (first, first_keys): (&Values, &Keys),
        (second, second_keys): (&Values, &Keys),
        tolerance: f64,
    ) -> Result<Self, String> {
        let (first, mut second) = (held(first, first_keys)?, held(second, second_keys)?);
        let mut compared = Self::default();
        for (key, one) in first {
            let counts = compared.counts.entry(key.line).or_default();
            let Some(other) = second.remove(&key) else {
                counts[1] += 1;
                continue;
            };
            counts[0] += 1;
            let tile = compared.tiles.entry((key.line, key.tile)).or_default();
            tile.0 += 1;
            let finds = |all: &Held, one: &Event| all.iter().any(|other| is_close(one, other, tolerance));
            if !one.iter().all(|event| finds(&other, event)) || !other.iter().all(|event| finds(&one, event))
            {
                tile.1 += 1;
                compared.differences.push(Difference { key, first: one, second: other });
            }
        }
        for key in second.keys() {
            compared.counts.entry(key.line).or_default()[2] += 1;
        }
        Ok(compared)
    }

    pub(super) fn is_equal(&self) -> bool {
        self.differences.is_empty()
            && self.counts.values().all(|[both, one, two]| *both > 0 && one + two == 0)
    }

    /// What was compared at a line, and how much of it differs.
    pub(super) fn summary(&self, line: usize, name: &str, first: &str, second: &str) -> String {
        let [both, one, two] = self.counts.get(&line).copied().unwrap_or_default();
        let differ = self.differences.iter().filter(|found| found.key.line == line).count();
        let mut out =
            format!("{name}: {both} values compared, {differ} differ\n  a  {first}\n  b  {second}\n");
        // Writing to a string does not fail.
        if one + two > 0 {
            let _ =
                writeln!(out, "  only in a: {one}, only in b: {two}; --row and --tile match rows and tiles");
        }
        let tiles: Vec<_> =
            self.tiles.iter().filter(|((of, _), (_, differ))| *of == line && *differ > 0).collect();
        for ((_, tile), (rows, differ)) in tiles.iter().take(TILES) {
            let _ = writeln!(out, "  tile {tile}: {differ} of {rows} differ");
        }
        if tiles.len() > TILES {
            let _ = writeln!(out, "  and {} more tiles", tiles.len() - TILES);
        }
        out
    }

    /// The first difference.
    pub(super) fn first(&self) -> String {
        let Some(Difference { key, first, second }) = self.differences.first() else {
            return if self.is_equal() {
                "all values are equal\n".into()
            } else {
                "no common value differs\n".into()
            };
        };
        let element = if key.element > 0 { format!(", element {}", key.element) } else { String::new() };
        let mut out =
            format!("\nfirst difference: tile {}, block {}, row {}{element}\n", key.tile, key.block, key.row);
        for (name, held) in [("a", first), ("b", second)] {
            for event in held {
                let _ =
                    writeln!(out, "  {name}  {} in thread {}", event.format.shown(event.bits), event.thread);
            }
        }
        if first.len() > 1 || second.len() > 1 {
            out.push_str("  threads of one row have different values\n");
        }
        out
    }

    pub(super) fn json(&self, names: &[String]) -> serde_json::Value {
        let side = |held: &Held| -> Vec<serde_json::Value> {
            let value = |event: &Event| serde_json::json!({ "thread": event.thread, "value": event.format.shown(event.bits) });
            held.iter().map(value).collect()
        };
        let differences: Vec<serde_json::Value> = self
            .differences
            .iter()
            .map(|Difference { key, first, second }| {
                serde_json::json!({
                    "at": names.get(key.line), "tile": key.tile, "block": key.block, "row": key.row,
                    "element": key.element, "a": side(first), "b": side(second),
                })
            })
            .collect();
        let compared: BTreeMap<&str, serde_json::Value> = self
            .counts
            .iter()
            .map(|(line, [both, one, two])| {
                let name = names.get(*line).map_or("", String::as_str);
                (name, serde_json::json!({ "compared": both, "only_a": one, "only_b": two }))
            })
            .collect();
        serde_json::json!({ "schema": "warpproof.diff/1", "at": compared, "differences": differences })
    }
}

fn held(values: &Values, keys: &Keys) -> Result<BTreeMap<Key, Held>, String> {
    let mut all: BTreeMap<Key, Held> = BTreeMap::new();
    for event in &values.events {
        let numbers = Numbers {
            block: event.block.into(),
            thread: event.thread.into(),
            step: event.step.into(),
            element: event.element.into(),
        };
        let value = |expression: &Expression, what: &str| {
            let thread = event.thread;
            expression.value(numbers).ok_or_else(|| format!("--{what} has no value in thread {thread}"))
        };
        let (row, tile) = (value(&keys.row, "row")?, value(&keys.tile, "tile")?);
        let key = Key { tile, line: event.line, block: event.block, row, element: event.element };
        let held = all.entry(key).or_default();
        if !held.iter().any(|other| (other.bits, other.format) == (event.bits, event.format)) {
            held.push(*event);
        }
    }
    Ok(all)
}

fn is_close(one: &Event, other: &Event, tolerance: f64) -> bool {
    if (one.bits, one.format) == (other.bits, other.format) {
        return true;
    }
    let (a, b) = (one.format.number(one.bits), other.format.number(other.bits));
    (a.is_nan() && b.is_nan()) || a.total_cmp(&b).is_eq() || (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpproof_sim::values::Format;

    fn values(all: &[(u32, u32, f32)]) -> Values {
        let event = |&(thread, step, value): &(u32, u32, f32)| Event {
            line: 0,
            block: 0,
            thread,
            step,
            element: 0,
            bits: u64::from(value.to_bits()),
            format: Format::Float(32),
        };
        Values { events: all.iter().map(event).collect(), truncated: false }
    }

    fn keys(row: &str, tile: &str) -> Keys {
        Keys { row: Expression::parse(row).unwrap(), tile: Expression::parse(tile).unwrap() }
    }

    #[test]
    fn the_first_tile_with_a_difference_is_first() {
        let one = values(&[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 3.0), (1, 1, 4.0)]);
        let other = values(&[(0, 0, 1.0), (0, 1, 2.5), (1, 0, 3.0), (1, 1, 4.0)]);
        let plain = keys("thread", "step");
        let compared = Compared::of((&one, &plain), (&other, &plain), 0.0).unwrap();
        assert!(!compared.is_equal());
        let text = compared.first();
        assert!(text.contains("tile 1, block 0, row 0") && text.contains("2.5 in thread 0"), "{text}");
        assert!(compared.summary(0, "m", "a", "b").contains("4 values compared, 1 differ"));
        assert!(Compared::of((&one, &plain), (&one, &plain), 0.0).unwrap().is_equal());
        assert!(Compared::of((&one, &plain), (&other, &plain), 0.25).unwrap().is_equal());
    }

    #[test]
    fn rows_of_different_mappings_match() {
        // The first kernel has a row in each thread; in the second, two threads have each row.
        let one = values(&[(0, 0, 1.0), (1, 0, 2.0)]);
        let other = values(&[(0, 0, 1.0), (1, 0, 1.0), (2, 0, 2.0), (3, 0, 2.5)]);
        let (row, pair) = (keys("thread", "step"), keys("thread/2", "step"));
        let compared = Compared::of((&one, &row), (&other, &pair), 0.0).unwrap();
        let text = compared.first();
        assert!(
            text.contains("row 1") && text.contains("threads of one row have different values"),
            "{text}"
        );
        let unmatched = Compared::of((&one, &row), (&other, &row), 0.0).unwrap();
        assert!(unmatched.summary(0, "m", "a", "b").contains("only in b: 2"));
        let nothing = keys("thread/step", "step");
        assert!(
            Compared::of((&one, &nothing), (&other, &nothing), 0.0)
                .unwrap_err()
                .contains("--row has no value")
        );
    }

    #[test]
    fn nothing_compared_is_not_equal() {
        let plain = keys("thread", "step");
        assert!(
            !Compared::of((&values(&[(0, 0, 1.0)]), &plain), (&values(&[]), &plain), 0.0).unwrap().is_equal()
        );
    }
}
