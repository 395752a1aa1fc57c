//! Charts of the dashboard as SVG, rendered on the server, so that pages need no script.
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts become coordinates")]

use std::fmt::Write;

use warpproof_report::markup;

use super::layout::{number, tone};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 190.0;
/// Margins for the axis labels on the left and below.
const LEFT: f64 = 52.0;
const BELOW: f64 = 24.0;
const ABOVE: f64 = 12.0;

/// Number of results per verdict in one hour.
pub(super) struct Column {
    /// The label of the hour.
    pub(super) label: String,
    /// Verdicts with their counts.
    pub(super) parts: Vec<(String, i64)>,
}

/// A search ran some stages of these candidates and none failed: they have no verdict.
pub(super) const SCREENED: &str = "SCREENED";

/// Stacking order of the verdicts, best at the bottom.
const ORDER: [&str; 6] = ["MERGE", "PROVISIONAL", "DEFER", "INCONCLUSIVE", "REJECT", SCREENED];

/// The CSS class of a verdict: its color on all pages. If two share a color, the second is an outline.
fn class(verdict: &str) -> String {
    match verdict {
        SCREENED => "faint".to_owned(),
        "INCONCLUSIVE" => format!("{} outlined", tone(verdict)),
        _ => tone(verdict).to_owned(),
    }
}

/// A stacked column chart.
pub(super) fn columns(title: &str, columns: &[Column]) -> String {
    let sum = |column: &Column| column.parts.iter().map(|(_, count)| *count).sum::<i64>();
    let largest = columns.iter().map(sum).max().unwrap_or(0);
    if largest == 0 {
        return format!("<p class=\"nothing\">{}: none yet.</p>\n", markup(title));
    }
    let mut out = open(title);
    let floor = HEIGHT - BELOW;
    let scale = (floor - ABOVE) / largest as f64;
    for value in [largest / 2, largest].into_iter().filter(|value| *value > 0) {
        grid(&mut out, floor - value as f64 * scale, &number(value));
    }
    let step = (WIDTH - LEFT) / columns.len() as f64;
    let every = columns.len().div_ceil(8).max(1);
    for (at, column) in columns.iter().enumerate() {
        let x = LEFT + at as f64 * step;
        let mut top = floor;
        for verdict in ORDER {
            let class = class(verdict);
            let count: i64 =
                column.parts.iter().filter(|(word, _)| word == verdict).map(|(_, count)| *count).sum();
            if count == 0 {
                continue;
            }
            let height = count as f64 * scale;
            top -= height;
            let _ = writeln!(
                out,
                "<rect class=\"{}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}: {} \
                 {verdict}</title></rect>",
                class,
                x + step * 0.1,
                step * 0.8,
                markup(&column.label),
                number(count),
            );
        }
        if at % every == 0 {
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                HEIGHT - 6.0,
                markup(&column.label)
            );
        }
    }
    out.push_str("</svg>\n<ul class=\"legend\">");
    for verdict in ORDER {
        let _ = write!(out, "<li><i class=\"{}\"></i>{verdict}</li>", class(verdict));
    }
    out + "</ul></figure>\n"
}

/// A chart of the best latency over time.
pub(super) fn course(title: &str, unit: &str, predicted: bool, points: &[(String, f64)]) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    if points.len() < 2 {
        return String::new();
    }
    let mut out = open(title);
    let floor = HEIGHT - BELOW;
    let scale = (floor - ABOVE) / first.1.max(f64::MIN_POSITIVE);
    for share in [0.5, 1.0] {
        let value = first.1 * share;
        grid(&mut out, floor - value * scale, &format!("{value:.3} {}", markup(unit)));
    }
    let step = (WIDTH - LEFT) / points.len() as f64;
    let mut path = String::new();
    for (at, (label, value)) in points.iter().enumerate() {
        let (x, y) = (LEFT + at as f64 * step, floor - value * scale);
        let _ = if at == 0 {
            write!(path, "M{x:.1} {y:.1}H{:.1}", x + step)
        } else {
            write!(path, "V{y:.1}H{:.1}", x + step)
        };
        let _ = writeln!(
            out,
            "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}: {value} {}</title></circle>",
            markup(label),
            markup(unit)
        );
    }
    let kind = if predicted { " predicted" } else { "" };
    let _ = writeln!(out, "<path class=\"step{kind}\" d=\"{path}\"/>");
    let _ = writeln!(
        out,
        "<text class=\"tick\" x=\"{LEFT}\" y=\"{:.1}\">{}</text><text class=\"tick\" text-anchor=\"end\" x=\"{WIDTH}\" \
         y=\"{:.1}\">{}</text>",
        HEIGHT - 6.0,
        markup(&first.0),
        HEIGHT - 6.0,
        markup(&last.0)
    );
    out + "</svg></figure>\n"
}

fn open(title: &str) -> String {
    let title = markup(title);
    format!(
        "<figure><figcaption>{title}</figcaption>\n<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\">\n"
    )
}

fn grid(out: &mut String, y: f64, label: &str) {
    let _ = writeln!(
        out,
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"tick\" x=\"0\" \
         y=\"{:.1}\">{label}</text>",
        y + 4.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_in_the_proportion_of_the_counts() {
        let parts = vec![("MERGE".to_owned(), 30), ("REJECT".to_owned(), 10)];
        let picture = columns("Results", &[Column { label: "20:00".to_owned(), parts }]);
        let height = |class: &str| -> f64 {
            let at = picture.find(&format!("<rect class=\"{class}\"")).unwrap();
            let rest = &picture[at..];
            let from = rest.find("height=\"").unwrap() + 8;
            rest[from..].split('"').next().unwrap().parse().unwrap()
        };
        assert!((height("good") - 3.0 * height("bad")).abs() < 0.2);
    }

    #[test]
    fn nothing_is_said_in_words() {
        assert!(columns("Results", &[]).contains("none yet"));
        assert_eq!(course("Best", "µs", true, &[]), "");
    }
}
