//! The picture of a profile: one bar for each run, as long as its instructions, divided into the parts of the software GPU.

use std::fmt::Write as _;

use super::profile::{Cost, LIBRARIES, PARTS};

const COLORS: [&str; LIBRARIES + 1] = [
    "#4e79a7", "#76b7b2", "#b6455c", "#e15759", "#f28e2b", "#b07aa1", "#edc948", "#59a14f", "#a0cbe8",
    "#bab0ac",
];

/// Pixels of the longest bar, of a bar's height, and from one bar to the next.
const LONGEST: f64 = 560.0;
const HEIGHT: u32 = 22;
const STEP: u32 = 34;
/// Where bars begin.
const LEFT: f64 = 90.0;

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

/// Draws the runs, the first of which is the unchecked one.
pub(super) fn draw(name: &str, runs: &[(&str, Cost)]) -> String {
    let total = |index: usize| runs.get(index).map_or(1.0, |(_, cost)| number(cost.total().max(1)));
    let longest = (0..runs.len()).map(total).fold(1.0, f64::max);
    let used: Vec<usize> = (0..=LIBRARIES)
        .filter(|part| runs.iter().any(|(_, cost)| number(cost.parts[*part]) > 0.005 * longest))
        .collect();
    let bars = u32::try_from(runs.len()).unwrap_or(0) * STEP;
    let lines = u32::try_from(used.len().div_ceil(3)).unwrap_or(0);
    let height = 40 + bars + 20 * lines;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"760\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"20\" font-weight=\"bold\">{name}: instructions of the host, unchecked run = 1</text>\n"
    );
    for (index, (mode, cost)) in runs.iter().enumerate() {
        let top = 32 + u32::try_from(index).unwrap_or(0) * STEP;
        let _ = writeln!(text, "<text x=\"8\" y=\"{}\">{mode}</text>", top + 16);
        let mut left = LEFT;
        for part in &used {
            let width = number(cost.parts[*part]) / longest * LONGEST;
            if width < 0.1 {
                continue;
            }
            let share = 100.0 * number(cost.parts[*part]) / total(index);
            let label = PARTS.get(*part).map_or("libraries", |(label, _)| label);
            let _ = writeln!(
                text,
                "<rect x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{}\"><title>{label}: {share:.0} %</title></rect>",
                COLORS[*part]
            );
            if width > 34.0 {
                let _ = writeln!(
                    text,
                    "<text x=\"{:.1}\" y=\"{}\" fill=\"#fff\" text-anchor=\"middle\" font-size=\"11\">{share:.0} %</text>",
                    left + width / 2.0,
                    top + 15
                );
            }
            left += width;
        }
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{}\">{:.2}</text>",
            left + 6.0,
            top + 16,
            total(index) / total(0)
        );
    }
    for (index, part) in used.iter().enumerate() {
        let index = u32::try_from(index).unwrap_or(0);
        let (x, y) = (8 + index % 3 * 250, 32 + bars + index / 3 * 20);
        let label = PARTS.get(*part).map_or("libraries", |(label, _)| label);
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{label}</text>",
            COLORS[*part],
            x + 18,
            y + 11
        );
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_instructions() {
        let cost = |arithmetic: u64| {
            let mut cost = Cost::default();
            cost.parts[0] = arithmetic;
            cost
        };
        let text = draw("copy", &[("unchecked", cost(100)), ("checked", cost(400))]);
        assert!(text.contains("width=\"140.0\"") && text.contains("width=\"560.0\""), "{text}");
        assert!(text.contains(">4.00</text>"), "{text}");
    }
}
