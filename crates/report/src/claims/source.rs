//! Times that a person writes, and whether a file states them.

use super::written::{Dimension, find, values};

/// A time as it is written: `656us`, `2.87 ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// In microseconds.
    pub us: f64,
    /// Half a unit of the last written digit, in microseconds.
    half: f64,
    /// Microseconds of one of its written units.
    scale: f64,
}

impl Time {
    /// Parses a text that is one time and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let [one] = &*find(text) else { return None };
        if one.dimension != Dimension::Time || one.column != 1 || one.text.trim() != text.trim() {
            return None;
        }
        let [written] = *values(text) else { return None };
        let scale = if written > 0.0 { one.value / written / 1e3 } else { return None };
        // In this order, so that 656.4 us stays exactly the number that was written.
        let us = if (scale - 1.0).abs() < 1e-9 { written } else { one.value / 1e3 };
        Some(Self { us, half: one.half / 1e3, scale })
    }

    /// Whether a text contains this time within the written precision: as a time, or as a number without unit, as
    /// tables have them.
    pub fn is_in(&self, text: &str) -> bool {
        let same = |us: f64| (us - self.us).abs() <= self.half * (1.0 + 1e-9);
        text.lines().any(|line| {
            let times = find(line).into_iter().filter(|one| one.dimension == Dimension::Time);
            times.into_iter().any(|one| same(one.value / 1e3))
                || values(line).into_iter().any(|value| same(value) || same(value * self.scale))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_number_with_a_unit() {
        for (text, us) in [("656us", 656.0), ("656.4 µs", 656.4), ("2.87 ms", 2870.0), ("4.25 us", 4.25)] {
            let found = Time::parse(text).map(|time| time.us);
            assert!(found.is_some_and(|found| (found - us).abs() < 1e-9), "{text}: {found:?}");
        }
        for text in ["656", "fast", "", "656us or less", "about 656us", "84 registers", "0us", "-3us"] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_states_a_time_within_its_precision() {
        let is_in = |time: &str, text: &str| Time::parse(time).is_some_and(|time| time.is_in(text));
        assert!(is_in("656us", "- p50: **656 µs** on L4"));
        assert!(is_in("656us", "| v2.0 | WMMA | 656.38 | 1.83 |"));
        assert!(is_in("656.4us", "| **v2.0** | **656.4** |"));
        assert!(is_in("2.87 ms", "the original takes 2870.0 us"));
        assert!(!is_in("656us", "| v1.0 | 1199.0 |"));
        assert!(!is_in("656us", "p50 = 657.41 us"));
        assert!(!is_in("656.3us", "| v2.0 | 656.38 |"));
    }
}
