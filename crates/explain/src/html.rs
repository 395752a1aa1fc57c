//! An explanation as one HTML page: the binding resource, a bar for each resource, the roofline, and every line with
//! its heat. Style and pictures are embedded, nothing is loaded; light and dark.

mod roofline;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use warpproof_model::bound::{Consumed, Share};
use warpproof_model::grouped;

use super::text::{reason, sampled, several};
use super::{Change, Explanation, Line, Origin, Predicted, Purchase, Scheduled};
use warpproof_report::escape::markup;
use warpproof_report::html::page;
use warpproof_report::scale::Scale;

const STYLE: &str = include_str!("explain.css");

/// Maximum lines, conflicts and uncoalesced accesses on a page; the most expensive are kept.
const MOST_LINES: usize = 2000;
const MOST_ACCESSES: usize = 50;

/// Width of the pictures.
const WIDTH: f64 = 980.0;

/// The page.
pub fn html(explanation: &Explanation) -> String {
    let subject = &explanation.subject;
    let title = format!("{} on an {}", subject.kernel, subject.device);
    let mut out = String::new();
    header(&mut out, explanation, &title);
    out.push_str("<h2>Time by resource</h2>\n");
    resources(&mut out, explanation);
    out.push_str("<h2>Roofline</h2>\n");
    out.push_str(&roofline::figure(explanation));
    lines(&mut out, explanation);
    accesses(&mut out, explanation);
    waits(&mut out, explanation);
    purchases(&mut out, &explanation.predicted);
    if !explanation.remarks.is_empty() {
        out.push_str("<h2>Remarks</h2>\n<ul>\n");
        for remark in &explanation.remarks {
            // Writing to a string cannot fail, here and elsewhere.
            let _ = writeln!(out, "<li>{}</li>", markup(remark));
        }
        out.push_str("</ul>\n");
    }
    page(&title, STYLE, &out)
}

fn extents([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => grouped(x),
        (_, 1) => format!("{} × {}", grouped(x), grouped(y)),
        _ => format!("{} × {} × {}", grouped(x), grouped(y), grouped(z)),
    }
}

fn header(out: &mut String, explanation: &Explanation, title: &str) {
    let (subject, bounds) = (&explanation.subject, &explanation.predicted.bounds);
    let _ = writeln!(out, "<header class=\"quiet\">\n<h1>{}</h1>", markup(title));
    let lead = match bounds.binding_warm() {
        (Some(first), Some(next)) => format!(
            "Bound by <b>{}</b>: at least {:.2} µs. Next: {}, {:.2} µs.",
            first.resource, first.us, next.resource, next.us
        ),
        (Some(first), None) => format!("Bound by <b>{}</b>: at least {:.2} µs.", first.resource, first.us),
        _ => "The launch uses no resource.".to_owned(),
    };
    let _ = writeln!(out, "<p class=\"lead\">{lead} <small class=\"kind\">predicted, warm L2</small></p>");
    let schedule = match &explanation.predicted.schedule {
        Scheduled::Known(timed) => format!(
            "Schedule of the machine code: {:.2} µs with a warm L2, {:.2} µs with a cold one; issuing in {:.0} % of slots. \
             <small class=\"kind\">predicted</small>",
            timed.warm.us,
            timed.cold.us,
            100.0 * timed.warm.issue_active
        ),
        Scheduled::Uncertain { why } => format!("No schedule: {}. Only bounds are available.", markup(why)),
    };
    let occupancy = &bounds.occupancy;
    let limiters: Vec<String> = occupancy.limiters.iter().map(ToString::to_string).collect();
    let shared = subject.static_shared.saturating_add(subject.dynamic_shared);
    let rows = [
        schedule,
        format!(
            "Occupancy {:.1} %: {} of {} warps, {} blocks per SM, limited by {}. One more block: {}. \
             <small class=\"kind\">predicted</small>",
            occupancy.percent,
            occupancy.warps,
            occupancy.max_warps,
            occupancy.blocks_per_sm,
            markup(&limiters.join(" and ")),
            markup(&occupancy.next.to_string())
        ),
        format!(
            "{} blocks of {} threads; {} registers, {} bytes of shared memory, {} bytes of spills ({}, ptxas {}). \
             {}, {} on the fullest SM.",
            extents(subject.grid),
            extents(subject.block),
            subject.registers,
            grouped(shared),
            grouped(subject.spills),
            markup(&subject.arch),
            markup(&subject.ptxas),
            several(bounds.waves.rounds, "round"),
            several(bounds.waves.most_per_sm, "block")
        ),
    ];
    let sampled = sampled(explanation).map(|statement| format!("Sampled: {}.", markup(&statement)));
    for row in sampled.into_iter().chain(rows) {
        let _ = writeln!(out, "<p class=\"line\">{row}</p>");
    }
    out.push_str("</header>\n");
}

/// A bar for each resource: warm, and the rest up to cold.
fn resources(out: &mut String, explanation: &Explanation) {
    const ROW: f64 = 28.0;
    const LABEL: f64 = 190.0;
    const VALUE: f64 = 150.0;
    let bounds = &explanation.predicted.bounds;
    let mut rows: Vec<(Consumed, f64, f64)> = Vec::new();
    let of = |list: &[Share], resource: Consumed| {
        list.iter().find(|share| share.resource == resource).map_or(0.0, |share| share.us)
    };
    for share in bounds.warm.iter().chain(&bounds.cold) {
        if rows.iter().all(|(known, ..)| *known != share.resource) {
            let resource = share.resource;
            rows.push((resource, of(&bounds.warm, resource), of(&bounds.cold, resource)));
        }
    }
    let scheduled = match &explanation.predicted.schedule {
        Scheduled::Known(timed) => Some(timed.warm.us),
        Scheduled::Uncertain { .. } => None,
    };
    let floor = explanation.predicted.roofline;
    let largest = rows
        .iter()
        .map(|(_, warm, cold)| warm.max(*cold))
        .fold(scheduled.unwrap_or(0.0).max(floor.map_or(0.0, |share| share.us)), f64::max);
    let scale = Scale::new(largest, 6);
    let room = WIDTH - LABEL - VALUE;
    let bottom = ROW * real(rows.len()) + 30.0;
    let _ = writeln!(
        out,
        "<figure>\n<figcaption>Minimum microseconds by each resource alone <small class=\"kind\">predicted from counts</small>\
         </figcaption>\n<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"a bar for each \
         resource\">",
        bottom + 26.0
    );
    for tick in &scale.ticks {
        let x = LABEL + scale.place(*tick, room);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"24\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/><text class=\"tick\" \
             x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            scale.label(*tick)
        );
    }
    for (index, (resource, warm, cold)) in rows.iter().enumerate() {
        let y = 30.0 + ROW * real(index);
        let class = if index == 0 { "bar binds" } else { "bar" };
        let (length, more) = (scale.place(*warm, room), scale.place(cold.max(*warm), room));
        let value = if (cold - warm).abs() > 0.005 {
            format!("{warm:.2} warm, {cold:.2} cold")
        } else {
            format!("{warm:.2}")
        };
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{resource}</text><rect class=\"cold\" x=\"{LABEL}\" \
             y=\"{y:.1}\" width=\"{more:.1}\" height=\"18\"/><rect class=\"{class}\" x=\"{LABEL}\" y=\"{y:.1}\" \
             width=\"{length:.1}\" height=\"18\"/><text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{value}</text>",
            LABEL - 8.0,
            y + 14.0,
            LABEL + more + 8.0,
            y + 14.0
        );
    }
    if let Some(us) = scheduled {
        let x = LABEL + scale.place(us, room);
        let _ = writeln!(
            out,
            "<line class=\"bound\" x1=\"{x:.1}\" y1=\"18\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/><text class=\"bound-label\" \
             x=\"{x:.1}\" y=\"13\" text-anchor=\"middle\">schedule, warm {us:.2}</text>"
        );
    }
    out.push_str("</svg>\n");
    if let Some(share) = floor {
        let _ = writeln!(
            out,
            "<p>No kernel for this problem takes less than {:.2} µs: {}, with a cold L2 and without launch overhead. \
             Bars in full color are warm. <small class=\"kind\">predicted</small></p>",
            share.us, share.resource
        );
    }
    out.push_str("</figure>\n");
    if !bounds.left_out.is_empty() {
        let _ = writeln!(out, "<p>Not bounded: {}.</p>", markup(&bounds.left_out.join("; ")));
    }
}

/// Every executed line, in the order of its file, with a heat color by cost.
fn lines(out: &mut String, explanation: &Explanation) {
    let scheduled = explanation.lines.iter().any(|line| line.predicted.is_some());
    let what = if scheduled { "predicted warp cycles, warm L2" } else { "counted warp instructions" };
    let _ = writeln!(
        out,
        "<h2>Lines</h2>\n<p>Heat is a line's share of {what}. Lines that never ran are omitted.</p>"
    );
    let mut files: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in explanation.lines.iter().take(MOST_LINES) {
        files.entry(line.place.file.as_deref().unwrap_or("PTX")).or_default().push(line);
    }
    let hottest = explanation.lines.iter().map(|line| line.share).fold(0.0, f64::max);
    // The most expensive file first.
    let mut files: Vec<(&str, Vec<&Line>)> = files.into_iter().collect();
    let share = |lines: &[&Line]| lines.iter().map(|line| line.share).sum::<f64>();
    files.sort_by(|(_, a), (_, b)| share(b).total_cmp(&share(a)));
    for (file, mut lines) in files {
        lines.sort_by_key(|line| line.place.line);
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let _ = writeln!(
            out,
            "<h3>{} <small class=\"kind\">{:.1} %</small></h3>\n<div class=\"wide\"><table class=\"heat\">\n<thead><tr>\
             <th>share</th><th>line</th><th>source</th><th>PTX instructions</th><th>shared passes</th><th>conflicts</th>\
             <th>sectors</th><th>waits most for</th></tr></thead>\n<tbody>",
            markup(name),
            100.0 * share(&lines)
        );
        let mut before: Option<u32> = None;
        for line in lines {
            if before.is_some_and(|before| line.place.line > before.saturating_add(1)) {
                out.push_str("<tr class=\"gap\"><td colspan=\"8\">⋯</td></tr>\n");
            }
            before = Some(line.place.line);
            row(out, line, hottest);
        }
        out.push_str("</tbody></table></div>\n");
    }
    if explanation.lines.len() > MOST_LINES {
        let _ = writeln!(out, "<p>{} cheaper lines are omitted.</p>", explanation.lines.len() - MOST_LINES);
    }
}

fn row(out: &mut String, line: &Line, hottest: f64) {
    let heat = if hottest > 0.0 { 70.0 * (line.share / hottest).clamp(0.0, 1.0) } else { 0.0 };
    let counted = &line.counted;
    let shown = |count: u64| if count == 0 { String::new() } else { grouped(count) };
    // A line that is too long for its column is shown completely as a tooltip.
    let source = markup(line.text.as_deref().unwrap_or_default());
    let waits = line.predicted.as_ref().and_then(|cost| cost.stalls.first());
    let _ = writeln!(
        out,
        "<tr><td class=\"num\" style=\"--heat: {heat:.0}%\">{:.1} %</td><td class=\"num\">{}</td><td \
         style=\"--heat: {heat:.0}%\"><code title=\"{source}\">{source}</code></td><td class=\"num\">{}</td><td class=\"num\">{}</td><td \
         class=\"num{}\">{}</td><td class=\"num\">{}</td><td>{}</td></tr>",
        100.0 * line.share,
        // The compiler's own code has no line.
        if line.place.line == 0 { "–".to_owned() } else { line.place.line.to_string() },
        shown(counted.executions),
        shown(counted.wavefronts),
        if counted.conflicts > 0 { " hot" } else { "" },
        shown(counted.conflicts),
        shown(counted.sectors),
        waits.map_or("", |stall| reason(stall.reason)),
    );
}

fn place(place: &super::Place) -> String {
    let file = place.file.as_deref().unwrap_or("PTX");
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    markup(&format!("{name}:{}", place.line))
}

fn accesses(out: &mut String, explanation: &Explanation) {
    let none = |out: &mut String, what: &str| {
        let _ = writeln!(out, "<p>No {what}. <small class=\"kind\">counted</small></p>");
    };
    out.push_str("<h2>Bank conflicts</h2>\n");
    if explanation.conflicts.is_empty() {
        none(out, "two lanes of a request share a bank");
    } else {
        out.push_str(
            "<div class=\"wide\"><table>\n<thead><tr><th>degree</th><th>line</th><th>passes</th><th>needed</th>\
             <th>the worst request</th></tr></thead>\n<tbody>\n",
        );
        for one in explanation.conflicts.iter().take(MOST_ACCESSES) {
            let description = one.pattern.as_ref().map_or("", |pattern| pattern.says.as_str());
            let _ = writeln!(
                out,
                "<tr><td class=\"num hot\">{:.2}-way</td><td><b>{}</b><br><code>{}</code></td><td class=\"num\">{}</td>\
                 <td class=\"num\">{}</td><td>{}</td></tr>",
                one.degree,
                place(&one.place),
                markup(one.text.as_deref().unwrap_or(&one.opcode).trim()),
                grouped(one.wavefronts),
                grouped(one.ideal),
                markup(description)
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
    out.push_str("<h2>Uncoalesced accesses</h2>\n");
    if explanation.uncoalesced.is_empty() {
        none(out, "request touches more sectors than its bytes fill");
    } else {
        uncoalesced(out, explanation);
    }
    atomics(out, explanation);
}

fn uncoalesced(out: &mut String, explanation: &Explanation) {
    out.push_str(
        "<div class=\"wide\"><table>\n<thead><tr><th>sectors per request</th><th>needed</th><th>line</th><th>requests</th>\
         <th>the worst request</th></tr></thead>\n<tbody>\n",
    );
    for one in explanation.uncoalesced.iter().take(MOST_ACCESSES) {
        let description = one.pattern.as_ref().map_or("", |pattern| pattern.says.as_str());
        let _ = writeln!(
            out,
            "<tr><td class=\"num hot\">{:.1}</td><td class=\"num\">{:.1}</td><td><b>{}</b><br><code>{}</code></td><td \
             class=\"num\">{}</td><td>{}</td></tr>",
            one.per_request,
            one.ideal_per_request,
            place(&one.place),
            markup(one.text.as_deref().unwrap_or(&one.opcode).trim()),
            grouped(one.requests),
            markup(description)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn atomics(out: &mut String, explanation: &Explanation) {
    if explanation.atomics.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Atomics</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>lanes at an address</th><th>at most</th><th>line</th>\
         <th>instruction</th><th>requests</th><th>serialized operations</th></tr></thead>\n<tbody>\n",
    );
    for one in explanation.atomics.iter().take(MOST_ACCESSES) {
        let hot = if one.most > 1 { " hot" } else { "" };
        let _ = writeln!(
            out,
            "<tr><td class=\"num{hot}\">{:.1}</td><td class=\"num\">{}</td><td><b>{}</b><br><code>{}</code></td><td>{}</td>\
             <td class=\"num\">{}</td><td class=\"num\">{}</td></tr>",
            one.per_address,
            grouped(one.most),
            place(&one.place),
            markup(one.text.as_deref().unwrap_or_default().trim()),
            markup(&one.opcode),
            grouped(one.requests),
            grouped(one.serial)
        );
    }
    out.push_str("</tbody></table></div>\n");
    let hottest = explanation.counted.work.one_address;
    if hottest > 0 {
        let _ = writeln!(
            out,
            "<p>The hottest address of device memory: {}. <small class=\"kind\">counted</small></p>",
            several(hottest, "operation")
        );
    }
}

/// Stall reasons of warps, as one segmented bar.
fn waits(out: &mut String, explanation: &Explanation) {
    let Scheduled::Known(timed) = &explanation.predicted.schedule else { return };
    out.push_str(
        "<h2>What warps wait for</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>share of warp cycles</th><th></th>\
         <th>of one round of the fullest SM, warm L2; predicted</th></tr></thead>\n<tbody>\n",
    );
    let issuing = 1.0 - timed.warm.stalls.iter().map(|stall| stall.share).sum::<f64>();
    let waits = timed.warm.stalls.iter().map(|stall| (stall.share, reason(stall.reason)));
    for (share, what) in [(issuing, "nothing: it issues")].into_iter().chain(waits) {
        let _ = writeln!(
            out,
            "<tr><td class=\"num\">{:.1} %</td><td><svg class=\"share\" viewBox=\"0 0 300 12\"><rect class=\"bar\" \
             width=\"{:.1}\" height=\"12\"/></svg></td><td>{what}</td></tr>",
            100.0 * share,
            300.0 * share.clamp(0.0, 1.0)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn purchases(out: &mut String, predicted: &Predicted) {
    let limiters = &predicted.bounds.occupancy.limiters;
    let shown: Vec<&Purchase> = predicted.purchases.iter().filter(|one| one.is_told(limiters)).collect();
    if shown.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Predicted effect of changes</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>change</th><th>bound, warm</th>\
         <th>schedule, warm</th><th>blocks per SM</th><th>verdict <small class=\"kind\">predicted</small></th></tr>\
         </thead>\n<tbody>\n",
    );
    let from_to = |change: &Change| format!("{:.2} → {:.2} µs", change.before, change.after);
    for one in shown {
        let scheduled = one.scheduled.as_ref().map_or("–".to_owned(), from_to);
        let (before, after) = one.blocks_per_sm;
        let _ = writeln!(
            out,
            "<tr><td><b>{}</b></td><td class=\"num\">{}</td><td class=\"num\">{scheduled}</td><td class=\"num\">{before} → \
             {after}</td><td>{}</td></tr>",
            markup(&one.title),
            from_to(&one.warm),
            markup(&one.verdict)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// Which instructions were counted, as text.
fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::MachineCode => "machine code",
        Origin::Ptx => "PTX",
    }
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts of rows")]
fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
