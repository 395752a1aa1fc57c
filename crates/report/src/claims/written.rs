//! Numbers in prose: sign, groups of thousands, decimals, range, unit.

/// The dimension of a number with a unit. Values are compared within one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dimension {
    /// In nanoseconds.
    Time,
    /// In percent.
    Percent,
    /// A ratio.
    Factor,
    /// In bytes.
    Bytes,
    /// In bytes per second.
    Bandwidth,
    /// In floating-point operations per second.
    Rate,
    /// In hertz.
    Frequency,
    /// A count, by the noun that is counted.
    Count(&'static str),
}

/// A number with its unit, found in a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    /// From one, in characters.
    pub(super) column: usize,
    pub(super) text: String,
    pub(super) dimension: Dimension,
    /// In the unit of its dimension.
    pub(super) value: f64,
    /// Half a unit of the last written digit, in the same unit.
    pub(super) half: f64,
    /// Whether a sign is written.
    pub(super) signed: bool,
}

/// Units as spelled, longest first if one is a prefix of another.
const UNITS: &[(&str, Dimension, f64)] = &[
    ("TFLOP/s", Dimension::Rate, 1e12),
    ("TFLOPS", Dimension::Rate, 1e12),
    ("GFLOP/s", Dimension::Rate, 1e9),
    ("GFLOPS", Dimension::Rate, 1e9),
    ("TB/s", Dimension::Bandwidth, 1e12),
    ("GB/s", Dimension::Bandwidth, 1e9),
    ("MB/s", Dimension::Bandwidth, 1e6),
    ("GHz", Dimension::Frequency, 1e9),
    ("MHz", Dimension::Frequency, 1e6),
    ("microseconds", Dimension::Time, 1e3),
    ("milliseconds", Dimension::Time, 1e6),
    ("nanoseconds", Dimension::Time, 1.0),
    ("seconds", Dimension::Time, 1e9),
    ("second", Dimension::Time, 1e9),
    ("µs", Dimension::Time, 1e3),
    ("μs", Dimension::Time, 1e3),
    ("us", Dimension::Time, 1e3),
    ("ms", Dimension::Time, 1e6),
    ("ns", Dimension::Time, 1.0),
    ("s", Dimension::Time, 1e9),
    ("percent", Dimension::Percent, 1.0),
    ("per cent", Dimension::Percent, 1.0),
    ("%", Dimension::Percent, 1.0),
    ("×", Dimension::Factor, 1.0),
    ("x", Dimension::Factor, 1.0),
    ("times", Dimension::Factor, 1.0),
    ("KiB", Dimension::Bytes, 1024.0),
    ("MiB", Dimension::Bytes, 1048576.0),
    ("GiB", Dimension::Bytes, 1073741824.0),
    // On a GPU a KB of shared memory is 1,024 bytes.
    ("KB", Dimension::Bytes, 1024.0),
    ("kB", Dimension::Bytes, 1000.0),
    ("MB", Dimension::Bytes, 1e6),
    ("GB", Dimension::Bytes, 1e9),
    ("bytes", Dimension::Bytes, 1.0),
    ("byte", Dimension::Bytes, 1.0),
    ("B", Dimension::Bytes, 1.0),
];

/// Countable nouns: as written in the plural and the singular.
const COUNTS: &[(&str, &str)] = &[
    ("registers", "register"),
    ("blocks", "block"),
    ("warps", "warp"),
    ("threads", "thread"),
    ("barriers", "barrier"),
    ("instructions", "instruction"),
    ("sectors", "sector"),
    ("requests", "request"),
    ("cycles", "cycle"),
    ("launches", "launch"),
    ("spills", "spill"),
    ("stages", "stage"),
    ("findings", "finding"),
    ("schedules", "schedule"),
];

/// Words in the name of a pure number that is a share of something.
const SHARES: [&str; 10] = [
    "ratio",
    "share",
    "fraction",
    "reduction",
    "relative",
    "occupancy",
    "efficiency",
    "utilization",
    "utilization",
    "rate",
];

/// The dimensions in which a figure may be stated, with their factors.
pub(super) fn dimensions(unit: &str, name: &str) -> Vec<(Dimension, f64)> {
    let unit = unit.trim();
    let mut found: Vec<(Dimension, f64)> =
        UNITS.iter().filter(|(spelled, ..)| *spelled == unit).map(|(_, d, f)| (*d, *f)).collect();
    if let Some((plural, _)) = COUNTS.iter().find(|(plural, singular)| unit == *plural || unit == *singular) {
        found.push((Dimension::Count(plural), 1.0));
    }
    if found.is_empty() && unit.is_empty() {
        // A pure number is stated with the word of its name, or as a percentage if the name is that of a share.
        let words = || name.split(|c: char| !c.is_alphanumeric());
        for (plural, singular) in COUNTS {
            if words().any(|word| word == *plural || word == *singular) {
                found.push((Dimension::Count(plural), 1.0));
            }
        }
        if words().any(|word| SHARES.contains(&word)) {
            found.push((Dimension::Percent, 100.0));
        }
        if words().any(|word| word == "ratio") {
            found.push((Dimension::Factor, 1.0));
        }
    }
    found
}

/// A number without its unit: where it begins and ends, its value, and half of its last digit.
struct Bare {
    from: usize,
    to: usize,
    value: f64,
    half: f64,
    signed: bool,
}

const SPACES: [char; 4] = [' ', '\u{a0}', '\u{202f}', '\u{2009}'];

/// The numbers with units in a line, including those of ranges with the unit at their end.
pub(super) fn find(line: &str) -> Vec<Written> {
    let chars: Vec<char> = line.chars().collect();
    let mut out = Vec::new();
    let mut range: Option<Bare> = None;
    let mut i = 0;
    while i < chars.len() {
        let Some(bare) = number(&chars, i) else {
            // A word is skipped completely: digits in a name are not a number.
            let word = |c: &char| c.is_alphanumeric() || *c == '_';
            let wide = chars.iter().skip(i).take_while(|c| word(c)).count();
            let tail = if chars.get(i).is_some_and(word) { name_tail(&chars, i + wide) } else { 0 };
            i += (wide + tail).max(1);
            continue;
        };
        let to = bare.to;
        if let Some((dimension, factor, end)) = unit(&chars, to) {
            let from = range.take();
            for bare in from.into_iter().chain([bare]) {
                let text = chars.get(bare.from..end).unwrap_or_default().iter().collect();
                let (value, half) = (bare.value * factor, bare.half * factor * (1.0 + 1e-9));
                let (column, signed) = (bare.from + 1, bare.signed);
                out.push(Written { column, text, dimension, value, half, signed });
            }
            i = end;
        } else {
            // `26–47 µs`, `26 to 47 µs`: the unit at the end is that of both.
            let joined = joint(&chars, to);
            i = joined.unwrap_or(to);
            range = joined.map(|_| bare);
        }
    }
    out
}

/// The values of all numbers in a line, with or without a unit.
pub(super) fn values(line: &str) -> Vec<f64> {
    let chars: Vec<char> = line.chars().collect();
    let (mut out, mut i) = (Vec::new(), 0);
    while i < chars.len() {
        match number(&chars, i) {
            Some(bare) => {
                out.push(bare.value);
                i = bare.to.max(i + 1);
            }
            // Digits in a name are not a number.
            None => {
                i += chars.iter().skip(i).take_while(|c| c.is_alphanumeric() || **c == '_').count().max(1);
            }
        }
    }
    out
}

/// The length of the rest of a name such as `sm_89` or `v1.2.3` after a point or a hyphen.
fn name_tail(chars: &[char], at: usize) -> usize {
    let mut end = at;
    while let (Some('.' | '-'), Some(next)) = (chars.get(end), chars.get(end + 1)) {
        if !next.is_ascii_digit() {
            break;
        }
        end += 1 + chars.iter().skip(end + 1).take_while(|c| c.is_alphanumeric() || **c == '_').count();
    }
    end - at
}

fn number(chars: &[char], from: usize) -> Option<Bare> {
    let mut at = from;
    let mut negative = false;
    let mut signed = false;
    if let Some(sign @ ('+' | '-' | '−' | '–')) = chars.get(at) {
        // After a word or a number this is a hyphen or a dash.
        let before = from.checked_sub(1).and_then(|before| chars.get(before));
        if before.is_some_and(|c| c.is_alphanumeric()) {
            return None;
        }
        negative = *sign != '+';
        signed = true;
        at += 1;
    }
    let first = at;
    let mut digits = String::new();
    while let Some(c) = chars.get(at) {
        if c.is_ascii_digit() {
            digits.push(*c);
            at += 1;
        } else if (*c == ',' || matches!(c, '\u{202f}' | '\u{a0}' | '\u{2009}')) && group(chars, at, &digits)
        {
            at += 1;
        } else {
            break;
        }
    }
    if at == first || digits.len() > 18 {
        return None;
    }
    let mut decimals = 0;
    if chars.get(at) == Some(&'.') && chars.get(at + 1).is_some_and(char::is_ascii_digit) {
        let tail: String = chars.iter().skip(at + 1).take_while(|c| c.is_ascii_digit()).take(18).collect();
        at += 1 + tail.len();
        decimals = i32::try_from(tail.len()).unwrap_or(0);
        digits.push('.');
        digits.push_str(&tail);
        // `1.2.3` is a version.
        if chars.get(at) == Some(&'.') && chars.get(at + 1).is_some_and(char::is_ascii_digit) {
            return None;
        }
    }
    let mut power = 0;
    if let Some('e' | 'E') = chars.get(at) {
        let sign = matches!(chars.get(at + 1), Some('-' | '+' | '−'));
        let start = at + 1 + usize::from(sign);
        let tail: String = chars.iter().skip(start).take_while(|c| c.is_ascii_digit()).take(3).collect();
        if !tail.is_empty() {
            power = tail.parse::<i32>().unwrap_or(0);
            if sign && chars.get(at + 1) != Some(&'+') {
                power = -power;
            }
            at = start + tail.len();
        }
    }
    let size = format!("{digits}e{power}").parse().ok().filter(|size: &f64| size.is_finite())?;
    let half = 0.5 * 10f64.powi(power - decimals);
    Some(Bare { from, to: at, value: if negative { -size } else { size }, half, signed })
}

/// Whether exactly three digits follow a separator of thousands.
fn group(chars: &[char], at: usize, before: &str) -> bool {
    let digits = chars.iter().skip(at + 1).take_while(|c| c.is_ascii_digit()).count();
    digits == 3 && !before.is_empty()
}

/// Where the second number of a range begins, if one does.
fn joint(chars: &[char], at: usize) -> Option<usize> {
    let rest = |text: &str| text.chars().enumerate().all(|(j, c)| chars.get(at + j) == Some(&c));
    [" to ", " and ", " or ", " – ", "–", "-", "/", " / ", ", "]
        .into_iter()
        .find(|joint| rest(joint) && chars.get(at + joint.chars().count()).is_some_and(char::is_ascii_digit))
        .map(|joint| at + joint.chars().count())
}

/// The unit at a place, after at most one space, and where it ends.
fn unit(chars: &[char], at: usize) -> Option<(Dimension, f64, usize)> {
    let start = at + usize::from(chars.get(at).is_some_and(|c| SPACES.contains(c) || *c == '-'));
    let spelled = |text: &str| {
        let wide = text.chars().count();
        let same = text.chars().enumerate().all(|(j, c)| chars.get(start + j) == Some(&c));
        let word = text.chars().last().is_some_and(char::is_alphanumeric);
        let ends = chars.get(start + wide).is_none_or(|c| !(word && (c.is_alphanumeric() || *c == '_')));
        (same && ends).then_some(start + wide)
    };
    // `3 x 4` and `2x2` are products: a factor stands at the number, and no number follows.
    let product = |text: &str, end: usize| {
        matches!(text, "x" | "×")
            && (start != at
                || chars.iter().skip(end).find(|c| !SPACES.contains(c)).is_some_and(char::is_ascii_digit))
    };
    let found = UNITS.iter().find_map(|(text, dimension, factor)| {
        let end = spelled(text).filter(|end| !product(text, *end))?;
        Some((*dimension, *factor, end))
    });
    found.or_else(|| {
        COUNTS.iter().find_map(|(plural, singular)| {
            let end = spelled(plural).or_else(|| spelled(singular))?;
            Some((Dimension::Count(plural), 1.0, end))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        find(line).into_iter().map(|written| written.text).collect()
    }

    #[test]
    fn numbers_with_units_are_found() {
        let line = "from 10.2 µs to 5.60 µs, −45.3 % latency (1.83×), 96 registers, 12,288 bytes";
        assert_eq!(texts(line), ["10.2 µs", "5.60 µs", "−45.3 %", "1.83×", "96 registers", "12,288 bytes"]);
        let ranges = find("26–47 µs and 3 to 5 %");
        assert_eq!(ranges.iter().map(|written| written.value).collect::<Vec<_>>(), [26e3, 47e3, 3.0, 5.0]);
        assert!((find("5.60 µs")[0].half - 5.0).abs() < 1e-6);
        assert_eq!(find("é 7 ms")[0].column, 3);
    }

    #[test]
    fn what_is_no_claim_is_passed_over() {
        for line in [
            "sm_89",
            "v1.2.3",
            "CUDA 12.4",
            "B=2 H=8 S=256",
            "16x8x16",
            "3 × 4",
            "f16x2",
            "m16n8k16",
            "2026-08-04",
            "chapter 3, 5",
        ] {
            assert_eq!(texts(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn any_text_is_taken() {
        for line in
            ["", "1e999 %", "1e-999 s", "99999999999999999999999 %", ",,,1,000,", "−", "1.", "1e", "-–+5%"]
        {
            let _ = find(line);
        }
    }
}
