//! An explanation as a table for a terminal.

use std::fmt::Write as _;

use warpproof_model::grouped;
use warpproof_model::schedule::Reason;

use super::{Explanation, Line, Origin, Place, Run, Scheduled, Stall};

/// Lines, conflicts and uncoalesced accesses that are shown, unless all are requested.
const SHOWN: usize = 8;

/// The display name of a stall reason.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::FixedLatency => "a result of fixed latency",
        Reason::Global => "global memory",
        Reason::Shared => "shared memory",
        Reason::Variable => "a result of variable latency",
        Reason::AsyncCopy => "asynchronous copies",
        Reason::Barrier => "the barrier",
        Reason::TensorBusy => "the tensor core",
        Reason::PipeBusy => "a busy pipe",
        Reason::GlobalQueue => "the memory queue, to global memory",
        Reason::MemoryQueue => "the memory queue",
        Reason::NotSelected => "its turn",
    }
}

/// The explanation; `all` lines, or the first of each list.
pub fn text(explanation: &Explanation, all: bool) -> String {
    let most = if all { usize::MAX } else { SHOWN };
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = head(&mut out, explanation);
    let _ = times(&mut out, explanation);
    let _ = phases(&mut out, explanation);
    let _ = lines(&mut out, explanation, most);
    let _ = accesses(&mut out, explanation, most);
    let _ = purchases(&mut out, explanation);
    for remark in &explanation.remarks {
        let _ = writeln!(out, "\nnote: {remark}");
    }
    out
}

fn extents([x, y, z]: [u32; 3]) -> String {
    let [x, y, z] = [(x, true), (y, y > 1 || z > 1), (z, z > 1)].map(|(n, shown)| shown.then(|| grouped(n)));
    [x, y, z].into_iter().flatten().collect::<Vec<_>>().join(" x ")
}

/// A count with its noun.
pub(super) fn several(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// The singular or plural noun for the product of the extents.
fn noun<'a>(extents: [u32; 3], one: &'a str, more: &'a str) -> &'a str {
    if extents == [1, 1, 1] { one } else { more }
}

/// How much of the launch was counted, if not all, and the margin of its instructions.
pub(super) fn sampled(explanation: &Explanation) -> Option<String> {
    let sampling = explanation.sampled.as_ref()?;
    let executions = explanation.counted.totals.get("executions").copied().unwrap_or(0);
    let margin = sampling.percent("executions", executions).unwrap_or(0.0);
    Some(format!(
        "{} of {} blocks; counts are scaled, instructions ± {margin:.1} % (95 %); see the notes",
        grouped(sampling.blocks),
        grouped(sampling.of)
    ))
}

fn head(out: &mut String, explanation: &Explanation) -> std::fmt::Result {
    let subject = &explanation.subject;
    writeln!(
        out,
        "{} on an {} ({}, ptxas {})\n",
        subject.kernel, subject.device, subject.arch, subject.ptxas
    )?;
    let shared = subject.static_shared.saturating_add(subject.dynamic_shared);
    let spills = match subject.spills {
        0 => "no spills".to_owned(),
        bytes => format!("{} bytes of spills", grouped(bytes)),
    };
    writeln!(
        out,
        "  launch          {} {} of {} {}; {}, {} of shared memory, {spills}",
        extents(subject.grid),
        noun(subject.grid, "block", "blocks"),
        extents(subject.block),
        noun(subject.block, "thread", "threads"),
        several(u64::from(subject.registers), "register"),
        several(u64::from(shared), "byte"),
    )?;
    if let Some(statement) = sampled(explanation) {
        writeln!(out, "  sampled         {statement}")?;
    }
    let occupancy = &explanation.predicted.bounds.occupancy;
    let limiters: Vec<String> = occupancy.limiters.iter().map(ToString::to_string).collect();
    writeln!(
        out,
        "  occupancy       {:.1} %: {} per SM, {} of {} warps (predicted)",
        occupancy.percent,
        several(u64::from(occupancy.blocks_per_sm), "block"),
        occupancy.warps,
        occupancy.max_warps
    )?;
    writeln!(out, "  limited by      {}", limiters.join(", "))?;
    writeln!(out, "  one more block  {}", occupancy.next)?;
    let waves = &explanation.predicted.bounds.waves;
    writeln!(
        out,
        "  waves           {} in {}, {} on the fullest SM: {:.2} times as long as if spread evenly",
        several(waves.blocks, "block"),
        several(waves.rounds, "round"),
        grouped(waves.most_per_sm),
        waves.stretch,
    )
}

fn times(out: &mut String, explanation: &Explanation) -> std::fmt::Result {
    let predicted = &explanation.predicted;
    let bounds = &predicted.bounds;
    writeln!(out, "\npredicted microseconds, without launch overhead ({:.1})", bounds.launch_us)?;
    writeln!(out, "                                   L2 cold    L2 warm")?;
    match &predicted.schedule {
        Scheduled::Known(timed) => {
            writeln!(out, "  schedule of the machine code  {:>10.2} {:>10.2}", timed.cold.us, timed.warm.us)?;
        }
        Scheduled::Uncertain { why } => {
            writeln!(out, "  schedule of the machine code   uncertain: {why}")?;
            writeln!(out, "                                 only the bounds below are available")?;
        }
    }
    if let Some(share) = &predicted.roofline {
        let name = format!("any kernel, cold: {}", share.resource);
        let warm = predicted.roofline_warm.map_or("–".to_owned(), |share| format!("{:.2}", share.us));
        writeln!(out, "  {name:<29} {:>10.2} {warm:>10}", share.us)?;
    }
    let mut names: Vec<_> = bounds.warm.iter().map(|share| share.resource).collect();
    names.extend(
        bounds
            .cold
            .iter()
            .map(|share| share.resource)
            .filter(|one| bounds.warm.iter().all(|share| share.resource != *one)),
    );
    let (cold, warm) = (bounds.binding_cold(), bounds.binding_warm());
    for name in names {
        let of = |list: &[warpproof_model::bound::Share]| {
            list.iter().find(|share| share.resource == name).map_or(0.0, |share| share.us)
        };
        let mut words = Vec::new();
        for (cache, (first, next)) in [("cold", cold), ("warm", warm)] {
            if first.is_some_and(|share| share.resource == name) {
                words.push(format!("binds {cache}"));
            }
            if next.is_some_and(|share| share.resource == name) {
                words.push(format!("next {cache}"));
            }
        }
        let bound = format!("bound: {name}");
        let row = format!(
            "  {bound:<29} {:>10.2} {:>10.2}  {}",
            of(&bounds.cold),
            of(&bounds.warm),
            words.join(", ")
        );
        writeln!(out, "{}", row.trim_end())?;
    }
    // Equations derive the execution counts of machine code from the run; PTX instructions were counted.
    let (how, origin) = match explanation.counted.instructions_of {
        Origin::MachineCode => ("inferred from the run", "machine code"),
        Origin::Ptx => ("counted", "PTX"),
    };
    let issued: u64 = explanation.counted.work.instructions.iter().map(|(_, count)| *count).sum();
    writeln!(
        out,
        "  {how}: {} of {origin}; counted: {} of shared memory, {} of L1",
        several(issued, "warp instruction"),
        match explanation.counted.work.shared_wavefronts {
            1 => "1 pass".to_owned(),
            passes => format!("{} passes", grouped(passes)),
        },
        several(explanation.counted.work.l1_sectors, "sector")
    )?;
    if let Scheduled::Known(timed) = &predicted.schedule {
        waits(out, &timed.warm)?;
        for assumed in &timed.assumed {
            writeln!(out, "  assumed: {assumed}")?;
        }
    }
    Ok(())
}

fn waits(out: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(out, "\nwhere the time of the fullest SM goes, and the cycles of its warps (predicted, warm)")?;
    writeln!(out, "     time    warps")?;
    let of = |stalls: &[Stall], wanted: Reason| {
        stalls.iter().find(|stall| stall.reason == wanted).map_or(0.0, |stall| stall.share * 100.0)
    };
    let sum = |stalls: &[Stall]| stalls.iter().map(|stall| stall.share).sum::<f64>();
    writeln!(
        out,
        "  {:>5.1} %  {:>5.1} %  issuing",
        run.issue_active * 100.0,
        (1.0 - sum(&run.stalls)) * 100.0
    )?;
    let mut reasons: Vec<Reason> = run.lost.iter().map(|stall| stall.reason).collect();
    reasons.extend(run.stalls.iter().map(|stall| stall.reason).filter(|one| of(&run.lost, *one) == 0.0));
    for one in reasons {
        let (time, warps) = (of(&run.lost, one), of(&run.stalls, one));
        writeln!(out, "  {time:>5.1} %  {warps:>5.1} %  waiting for {}: {}", reason(one), one.nsight())?;
    }
    let ended = 1.0 - run.issue_active - sum(&run.lost);
    writeln!(out, "  {:>5.1} %           sub-cores that ended before the others", ended.max(0.0) * 100.0)
}

fn waiting(stalls: &[Stall]) -> String {
    stalls.first().map_or(String::new(), |stall| format!("waits for {}", reason(stall.reason)))
}

fn place(place: &Place) -> String {
    let file = place.file.as_deref().unwrap_or("ptx");
    // The file name is sufficient: compilers' paths are long.
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    format!("{name}:{}", place.line)
}

/// What a share of the cost refers to.
fn cost(explanation: &Explanation) -> &'static str {
    let scheduled = explanation.lines.iter().any(|line| line.predicted.is_some());
    if scheduled { "predicted warp cycles, warm" } else { "counted warp instructions" }
}

fn phases(out: &mut String, explanation: &Explanation) -> std::fmt::Result {
    if explanation.phases.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nphases by {}", cost(explanation))?;
    for phase in &explanation.phases {
        let counted = several(phase.executions, "instruction");
        writeln!(out, "  {:>5.1} %  {:<22} {counted} of PTX", phase.share * 100.0, phase.name)?;
    }
    Ok(())
}

fn lines(out: &mut String, explanation: &Explanation, most: usize) -> std::fmt::Result {
    writeln!(out, "\ntop lines by {}", cost(explanation))?;
    for line in explanation.lines.iter().take(most) {
        let Line { predicted, counted, .. } = line;
        let mut notes = vec![match counted.executions {
            0 => "added by ptxas".to_owned(),
            count => format!("{} of PTX", several(count, "instruction")),
        }];
        if let Some(cost) = predicted {
            notes.push(waiting(&cost.stalls));
        }
        if counted.conflicts > 0 {
            notes.push(several(counted.conflicts, "bank conflict"));
        }
        notes.retain(|note| !note.is_empty());
        writeln!(out, "  {:>5.1} %  {:<22} {}", line.share * 100.0, place(&line.place), notes.join(", "))?;
        if let Some(text) = &line.text {
            writeln!(out, "           {}", shortened(text))?;
        }
    }
    more(out, explanation.lines.len(), most)
}

fn shortened(text: &str) -> String {
    const WIDTH: usize = 100;
    let text = text.trim();
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    let cut: String = text.chars().take(WIDTH - 1).collect();
    format!("{cut}…")
}

fn more(out: &mut String, all: usize, most: usize) -> std::fmt::Result {
    if all > most {
        writeln!(out, "  … and {} more (--all)", all - most)?;
    }
    Ok(())
}

fn accesses(out: &mut String, explanation: &Explanation, most: usize) -> std::fmt::Result {
    writeln!(out, "\nbank conflicts (counted)")?;
    if explanation.conflicts.is_empty() {
        writeln!(out, "  none")?;
    }
    for one in explanation.conflicts.iter().take(most) {
        writeln!(
            out,
            "  {:>5.2}-way  {:<22} {} passes instead of {}, {}",
            one.degree,
            place(&one.place),
            grouped(one.wavefronts),
            grouped(one.ideal),
            one.opcode
        )?;
        if let Some(pattern) = &one.pattern {
            writeln!(out, "             worst: {}", pattern.says)?;
        }
    }
    more(out, explanation.conflicts.len(), most)?;
    writeln!(out, "\nuncoalesced accesses (counted)")?;
    if explanation.uncoalesced.is_empty() {
        writeln!(out, "  none")?;
    }
    for one in explanation.uncoalesced.iter().take(most) {
        writeln!(
            out,
            "  {:<22} {:.1} sectors per request instead of {:.1}, {}, {}",
            place(&one.place),
            one.per_request,
            one.ideal_per_request,
            several(one.requests, "request"),
            one.opcode
        )?;
        if let Some(pattern) = &one.pattern {
            writeln!(out, "    worst: {}", pattern.says)?;
        }
    }
    more(out, explanation.uncoalesced.len(), most)?;
    if explanation.atomics.is_empty() {
        return Ok(());
    }
    writeln!(out, "\natomics (counted)")?;
    for one in explanation.atomics.iter().take(most) {
        writeln!(
            out,
            "  {:<22} {:.1} lanes at an address, {} at most, {}, {}",
            place(&one.place),
            one.per_address,
            grouped(one.most),
            several(one.requests, "request"),
            one.opcode
        )?;
        let merged = if one.most > 1 && one.serial == one.requests {
            "; ptxas combines each request into one operation"
        } else {
            ""
        };
        writeln!(out, "    {}, serialized{merged}", several(one.serial, "operation"))?;
    }
    more(out, explanation.atomics.len(), most)?;
    let hottest = explanation.counted.work.one_address;
    if hottest > 0 {
        writeln!(out, "  the hottest address of device memory: {}", several(hottest, "operation"))?;
    }
    Ok(())
}

fn purchases(out: &mut String, explanation: &Explanation) -> std::fmt::Result {
    let all = &explanation.predicted.purchases;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\npredicted effect of changes")?;
    let limiters = &explanation.predicted.bounds.occupancy.limiters;
    if !all.iter().any(|purchase| purchase.is_told(limiters)) {
        writeln!(out, "  no tried change affects a bound, the schedule or occupancy")?;
    }
    for purchase in all.iter().filter(|purchase| purchase.is_told(limiters)) {
        writeln!(out, "  {}\n      {}", purchase.title, purchase.verdict)?;
    }
    Ok(())
}
