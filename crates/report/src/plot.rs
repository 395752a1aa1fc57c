//! Plots: bars with bounds, and lines. As SVG, which takes its colors from the page, and as text.

use super::document::{Inline, Phrase};
use super::escape;
use super::number::Number;
use super::scale::Scale;
use super::text::width;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use warpproof_evidence::record::FigureKind;

/// Maximum number of bars; a plot notes how many are left out.
const MAX_BARS: usize = 200;
const WIDTH: f64 = 760.0;
const ROW: f64 = 30.0;
/// The width of a character of the labels, rounded up.
const CHARACTER: f64 = 7.2;
const TEXT_BAR: f64 = 40.0;

/// The pattern of predicted bars, which the page defines once.
pub(super) const HATCH: &str = concat!(
    r#"<svg class="defs" width="0" height="0" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" "#,
    r#"patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-ground" width="6" height="6"/>"#,
    r#"<rect class="hatch-line" width="2.5" height="6"/></pattern></defs></svg>"#,
);

/// A plot of numbers of one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Its title.
    pub title: Phrase,
    /// Whether the numbers form one series, drawn as a line; else they are bars.
    pub line: bool,
    /// The numbers.
    pub bars: Vec<Bar>,
    /// Horizontal or vertical lines.
    pub bounds: Vec<Bound>,
}

/// One number of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Its label: a name or words.
    pub label: Inline,
    /// The number.
    pub number: Inline,
}

/// A bound, drawn as a line across a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Its label.
    pub label: Inline,
    /// The number.
    pub number: Inline,
}

fn number(inline: &Inline) -> Option<&Number> {
    match inline {
        Inline::Number(number) => Some(number),
        _ => None,
    }
}

fn words(inline: &Inline) -> String {
    match inline {
        Inline::Words(text) | Inline::Quote { text, .. } | Inline::Name { text, .. } => {
            escape::plain(text).into_owned()
        }
        Inline::Number(number) => escape::plain(&number.shown()).into_owned(),
        Inline::Status(status) => status.word(),
    }
}

/// Truncates to a number of characters.
fn short(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts of bars and characters")]
fn real(count: usize) -> f64 {
    count as f64
}

fn kind(number: &Number) -> &'static str {
    match number.kind {
        Some(FigureKind::Predicted) => "predicted",
        Some(FigureKind::Measured) => "measured",
        Some(FigureKind::Counted) => "counted",
        Some(FigureKind::Reported) => "reported",
        None => "agreed",
    }
}

impl Plot {
    pub(super) fn inlines(&self) -> Vec<&Inline> {
        let bars = self.bars.iter().flat_map(|bar| [&bar.label, &bar.number]);
        let bounds = self.bounds.iter().flat_map(|bound| [&bound.label, &bound.number]);
        self.title.0.iter().chain(bars).chain(bounds).collect()
    }

    fn numbers(&self) -> impl Iterator<Item = &Number> {
        let bars = self.bars.iter().take(MAX_BARS).filter_map(|bar| number(&bar.number));
        bars.chain(self.bounds.iter().filter_map(|bound| number(&bound.number)))
    }

    /// Whether all numbers have the same unit and are numbers.
    pub(super) fn one_unit(&self) -> bool {
        let mut units = self.numbers().map(|number| &number.unit);
        let first = units.next();
        let all =
            self.bars.iter().map(|bar| &bar.number).chain(self.bounds.iter().map(|bound| &bound.number));
        units.all(|unit| Some(unit) == first) && all.into_iter().all(|inline| number(inline).is_some())
    }

    fn unit(&self) -> &str {
        self.numbers().next().map_or("", |number| &number.unit)
    }

    fn scale(&self, ticks: u32) -> Scale {
        Scale::new(self.numbers().map(|number| number.value).fold(0.0, f64::max), ticks)
    }

    /// The plot in characters: a row for each number, bounds below.
    pub(super) fn text(&self) -> String {
        let largest = self.numbers().map(|number| number.value).fold(0.0, f64::max);
        let rows = self.bars.iter().take(MAX_BARS).map(|bar| (&bar.label, &bar.number, '█'));
        let bounds = self.bounds.iter().map(|bound| (&bound.label, &bound.number, '┄'));
        let rows: Vec<_> = rows.chain(bounds).collect();
        let label = rows.iter().map(|(label, ..)| width(&short(&words(label), 28))).max().unwrap_or(0);
        let mut out = String::new();
        for (name, inline, fill) in rows {
            let Some(number) = number(inline) else { continue };
            let name = short(&words(name), 28);
            let fill = if fill == '█' && number.kind == Some(FigureKind::Predicted) { '░' } else { fill };
            let share = if largest > 0.0 { (number.value / largest).clamp(0.0, 1.0) } else { 0.0 };
            let length = (0..40).filter(|step| f64::from(*step) < (share * TEXT_BAR).round()).count();
            let bar: String = std::iter::repeat_n(fill, length.max(1)).collect();
            let pad = " ".repeat(label.saturating_sub(width(&name)));
            let shown = escape::plain(&number.shown()).into_owned();
            let _ = writeln!(out, "{name}{pad}  {bar} {shown} {}", kind(number));
        }
        out.push_str(&self.left_out());
        out
    }

    fn left_out(&self) -> String {
        match self.bars.len().saturating_sub(MAX_BARS) {
            0 => String::new(),
            more => format!("and {more} more\n"),
        }
    }

    /// The plot as SVG, for a page that defines its classes.
    pub(super) fn svg(&self) -> String {
        if self.line { self.svg_line() } else { self.svg_bars() }
    }

    fn open(&self, height: f64, what: &str) -> String {
        let mut label = String::from(what);
        for bar in self.bars.iter().take(MAX_BARS) {
            let _ = write!(label, " {} {};", words(&bar.label), words(&bar.number));
        }
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
            escape::markup(&label)
        )
    }

    /// A row for each number; names are left of the axis, numbers right of the bars, bounds are dashed vertical
    /// lines.
    fn svg_bars(&self) -> String {
        let bars: Vec<(String, &Number)> = self
            .bars
            .iter()
            .take(MAX_BARS)
            .filter_map(|bar| Some((words(&bar.label), number(&bar.number)?)))
            .collect();
        let labels = bars.iter().map(|(label, _)| width(&short(label, 24))).max().unwrap_or(0);
        let left = real(labels) * CHARACTER + 14.0;
        let values = bars.iter().map(|(_, number)| width(&value_text(number))).max().unwrap_or(0);
        let right = real(values) * CHARACTER + 14.0;
        let length = (WIDTH - left - right).max(120.0);
        let scale = self.scale(5);
        let levels = self.bound_levels(&scale, left, length);
        let top = 10.0 + real(levels.iter().map(|(level, _)| level + 1).max().unwrap_or(0)) * 18.0;
        let bottom = top + real(bars.len()) * ROW;
        let mut out = self.open(bottom + 44.0, "Bars:");
        for tick in &scale.ticks {
            let x = left + scale.place(*tick, length);
            let label = scale.label(*tick);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/><text class=\"tick\" \
                 x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 16.0
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left + length / 2.0,
            bottom + 34.0,
            escape::markup(self.unit())
        );
        for (i, (label, number)) in bars.iter().enumerate() {
            let y = top + real(i) * ROW;
            let wide = scale.place(number.value, length).max(1.0);
            let shown = short(label, 24);
            let _ = writeln!(
                out,
                "<g><title>{} {} {}</title><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect \
                 class=\"bar {}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{:.1}\" rx=\"2\"/><text \
                 class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
                escape::markup(label),
                escape::markup(&number.shown()),
                kind(number),
                left - 8.0,
                y + ROW / 2.0 + 4.5,
                escape::markup(&shown),
                kind(number),
                y + 5.0,
                ROW - 10.0,
                left + wide + 6.0,
                y + ROW / 2.0 + 4.5,
                escape::markup(&value_text(number))
            );
        }
        for (bound, (level, x)) in self.bounds.iter().zip(&levels) {
            let y = 14.0 + real(*level) * 18.0;
            let text = bound_text(bound);
            // A label that would extend beyond the right edge ends at its line.
            let ends = x + real(width(&text)) * CHARACTER > WIDTH;
            let (anchor, shift) = if ends { ("end", -4.0) } else { ("start", 4.0) };
            let _ = writeln!(
                out,
                "<line class=\"bound\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/><text class=\"bound-label\" \
                 x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                y - 10.0,
                x + shift,
                escape::markup(&text)
            );
        }
        self.close(out)
    }

    /// For each bound the row of its label, so that labels do not overlap, and its position on the axis.
    fn bound_levels(&self, scale: &Scale, left: f64, length: f64) -> Vec<(usize, f64)> {
        let mut taken: Vec<(usize, f64, f64)> = Vec::new();
        let mut levels = Vec::new();
        for bound in &self.bounds {
            let value = number(&bound.number).map_or(0.0, |number| number.value);
            let x = left + scale.place(value, length);
            let wide = real(width(&bound_text(bound))) * CHARACTER + 10.0;
            let (from, to) = if x + wide > WIDTH { (x - wide, x) } else { (x, x + wide) };
            let free = |level: &usize| {
                taken.iter().all(|(other, low, high)| other != level || to < *low || from > *high)
            };
            let level = (0..=taken.len()).find(free).unwrap_or(taken.len());
            taken.push((level, from, to));
            levels.push((level, x));
        }
        levels
    }

    /// A point for each number; names below, as many as fit.
    fn svg_line(&self) -> String {
        let points: Vec<(String, &Number)> = self
            .bars
            .iter()
            .take(MAX_BARS)
            .filter_map(|bar| Some((words(&bar.label), number(&bar.number)?)))
            .collect();
        let scale = self.scale(5);
        let ticks = scale.ticks.iter().map(|tick| width(&scale.label(*tick))).max().unwrap_or(1);
        let (left, right, top, tall) = (real(ticks) * CHARACTER + 16.0, 10.0, 30.0, 190.0);
        let length = WIDTH - left - right;
        let bottom = top + tall;
        // The first and the last point are away from the edge, so that their names fit.
        let inset = 52.0;
        let apart = (length - 2.0 * inset) / real(points.len().max(2) - 1).max(1.0);
        let at =
            |i: usize| if points.len() == 1 { left + length / 2.0 } else { left + inset + apart * real(i) };
        let height = |value: f64| bottom - scale.place(value, tall);
        let mut out = self.open(bottom + 34.0, "Line:");
        for tick in &scale.ticks {
            let y = height(*tick);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/><text class=\"tick\" \
                 x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left + length,
                left - 6.0,
                y + 4.0,
                scale.label(*tick)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"14\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            escape::markup(self.unit())
        );
        // Segments that start or end at a prediction are dashed, because they were not measured.
        for (i, pair) in points.windows(2).enumerate() {
            let [(_, from), (_, to)] = pair else { continue };
            let predicted = [from, to].iter().any(|number| number.kind == Some(FigureKind::Predicted));
            let class = if predicted { "course predicted" } else { "course" };
            let (from, to) = (height(from.value), height(to.value));
            let _ = writeln!(
                out,
                "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{from:.1}\" x2=\"{:.1}\" y2=\"{to:.1}\"/>",
                at(i),
                at(i + 1)
            );
        }
        // Label every n-th point, so that the longest name fits.
        let longest = points.iter().map(|(label, _)| width(&short(label, 14))).max().unwrap_or(1);
        let every = (1..=points.len().max(1))
            .find(|every| apart * real(*every) >= real(longest) * CHARACTER + 8.0)
            .unwrap_or(1);
        let widest = points.iter().map(|(_, number)| width(&bare_text(number))).max().unwrap_or(1);
        let values = (1..=points.len().max(1))
            .find(|every| apart * real(*every) >= real(widest) * CHARACTER + 8.0)
            .unwrap_or(1);
        for (i, (label, number)) in points.iter().enumerate() {
            let (x, y) = (at(i), height(number.value));
            let _ = write!(
                out,
                "<g><title>{} {} {}</title><circle class=\"dot {}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>",
                escape::markup(label),
                escape::markup(&number.shown()),
                kind(number),
                kind(number)
            );
            if i.is_multiple_of(values) {
                let _ = write!(
                    out,
                    "<text class=\"value\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    y - 12.0,
                    bare_text(number)
                );
            }
            if i.is_multiple_of(every) {
                let _ = write!(
                    out,
                    "<text class=\"label\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    bottom + 20.0,
                    escape::markup(&short(label, 14))
                );
            }
            out.push_str("</g>\n");
        }
        for bound in &self.bounds {
            let Some(number) = number(&bound.number) else { continue };
            let y = height(number.value);
            let _ = writeln!(
                out,
                "<line class=\"bound\" x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/><text class=\"bound-label\" \
                 x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left + length,
                left + length,
                y - 5.0,
                escape::markup(&bound_text(bound))
            );
        }
        self.close(out)
    }

    fn close(&self, mut out: String) -> String {
        out.push_str("</svg>\n");
        let left_out = self.left_out();
        if !left_out.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", left_out.trim_end());
        }
        out
    }
}

/// The number next to a bar; numbers that were not measured are marked.
fn value_text(number: &Number) -> String {
    let shown = escape::plain(&number.shown()).into_owned();
    match number.kind {
        Some(FigureKind::Predicted) => format!("{shown} predicted"),
        _ => shown,
    }
}

/// The number at a point, whose unit is at the axis; numbers that were not measured are marked.
fn bare_text(number: &Number) -> String {
    let shown = super::number::shown(number.value);
    match number.kind {
        Some(FigureKind::Predicted) => format!("{shown} predicted"),
        _ => shown,
    }
}

fn bound_text(bound: &Bound) -> String {
    let value = number(&bound.number).map(value_text).unwrap_or_default();
    format!("{} {value}", short(&words(&bound.label), 32))
}
