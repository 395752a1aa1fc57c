//! A study as text.

use std::fmt::Write as _;

use super::search::{Basis, Score, Strategy};
use super::study::{Evaluation, Standing, Study};
use warpproof_speed::LatencyReduction;

/// Variants of the table.
const SHOWN: usize = 10;

fn unit(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Schedule => "predicted",
        Basis::Bound => "predicted, at least",
    }
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The study for a terminal; `task` is the task file as the command line named it.
pub fn text(study: &Study, task: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let how = match study.strategy {
        Strategy::Grid => "grid".to_owned(),
        other => format!("{}, seed {}", other.as_str(), study.seed),
    };
    let _ = writeln!(
        out,
        "{}: {} of {} evaluated ({} forbidden), {how}",
        study.candidate,
        study.evaluations.len(),
        plural(study.combinations, "combination"),
        study.forbidden,
    );
    let ranked = study.evaluations.iter().filter(|one| one.score().is_some()).count();
    let twins = study.evaluations.iter().filter(|one| one.same_as.is_some()).count();
    let refused = study.evaluations.len() - ranked;
    let _ = writeln!(
        out,
        "{ranked} ranked by time{}, {twins} of them duplicates; {refused} rejected",
        study.case.as_ref().map(|case| format!(" for {case}")).unwrap_or_default(),
    );
    let stages = if study.full {
        "every variant ran all stages".to_owned()
    } else {
        format!(
            "each variant ran build, budget and model; {} variants that were the best also ran all stages",
            study.judged
        )
    };
    let _ = writeln!(out, "{stages}\n");
    table(&mut out, study);
    worth(&mut out, study);
    for (knob, compared) in &study.dead {
        let _ =
            writeln!(out, "{knob} has no effect: the same program in {}", plural(*compared, "comparison"));
    }
    for one in &study.refusals {
        let _ = writeln!(out, "{} rejected {}: {}", one.stage, one.count, one.first);
    }
    if !(study.dead.is_empty() && study.refusals.is_empty()) {
        out.push('\n');
    }
    match &study.winner {
        Some(winner) => {
            let gain = winner.reduction.map(|gain| format!(", {gain} compared with `{}`", study.candidate));
            let _ = writeln!(
                out,
                "winner: {}: {:.3} us {}{}",
                winner.candidate,
                winner.score.us,
                unit(winner.score.basis),
                gain.unwrap_or_default(),
            );
            let verdict = winner.verdict.map_or("no verdict", |verdict| verdict.as_str());
            let _ = writeln!(out, "{verdict}: {}", winner.reason);
            let _ = writeln!(out, "reproduce: warpproof gate {task} '{}'", winner.candidate);
        }
        None if study.stopped => out.push_str("stopped; run the same command to continue\n"),
        None => out.push_str("no variant passed all stages\n"),
    }
    if study.out_of_time {
        out.push_str("time limit reached; run the same command with a higher --time-limit to continue\n");
    }
    out
}

/// The best variants.
fn table(out: &mut String, study: &Study) {
    let best: Vec<(&Evaluation, Score)> = study
        .evaluations
        .iter()
        .filter_map(|one| Some((one, one.score()?)))
        .filter(|(one, _)| one.same_as.is_none())
        .take(SHOWN)
        .collect();
    let Some((first, score)) = best.first() else { return };
    let knobs: Vec<&String> = first.settings.keys().collect();
    let width = |knob: &str| {
        let values = best.iter().filter_map(|(one, _)| one.settings.get(knob)).map(String::len);
        values.max().unwrap_or(0).max(knob.len())
    };
    let _ = write!(
        out,
        "{:>10}  {:>9}",
        format!("us {}", if score.basis == Basis::Measured { "meas." } else { "pred." }),
        "latency"
    );
    for knob in &knobs {
        let _ = write!(out, "  {:>wide$}", knob, wide = width(knob));
    }
    out.push('\n');
    for (one, score) in &best {
        let change = study.start.filter(|start| start.basis == score.basis);
        let change =
            change.map_or("–".to_owned(), |start| LatencyReduction::of(start.us, score.us).percent());
        // A bound is not a time: the kernel may take longer.
        let us = if score.basis == Basis::Bound {
            format!("≥ {:.3}", score.us)
        } else {
            format!("{:.3}", score.us)
        };
        let _ = write!(out, "{us:>10}  {change:>9}");
        for knob in &knobs {
            let value = one.settings.get(*knob).map_or("", String::as_str);
            let _ = write!(out, "  {value:>wide$}", wide = width(knob));
        }
        if matches!(&one.standing, Standing::Ranked { full: true, .. }) {
            out.push_str("  passed all stages");
        }
        out.push('\n');
    }
    if study.start.is_some() {
        let _ = writeln!(out, "latency: compared with `{}` as the task defines it", study.candidate);
    }
    out.push('\n');
}

/// The effect of each value.
fn worth(out: &mut String, study: &Study) {
    let Some(winner) = &study.winner else { return };
    let wide = study.effects.iter().map(|one| one.knob.len() + one.value.len() + 1).max().unwrap_or(0);
    let title = "effect of each value";
    let wide = wide.max(title.len());
    let _ = writeln!(out, "{title:wide$}  variants  the best with it  the winner with it");
    let over = |us: Option<f64>| {
        us.map_or("–".to_owned(), |us| match LatencyReduction::of(winner.score.us, us).percent() {
            same if same == "0.0 %" => "the same".to_owned(),
            percent => format!("{us:.3} ({percent})"),
        })
    };
    for one in &study.effects {
        let named = format!("{}={}", one.knob, one.value);
        let alone = if one.wins { "wins".to_owned() } else { over(one.alone_us) };
        let _ = writeln!(out, "{named:wide$}  {:>8}  {:>16}  {alone:>18}", one.evaluated, over(one.best_us));
    }
    out.push('\n');
}
