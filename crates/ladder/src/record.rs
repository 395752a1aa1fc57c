//! Converts the ladder's table to records and back; the picture is drawn from the records.

use std::collections::BTreeMap;
use std::time::SystemTime;

use warpproof_kernels::problem::Shape;
use warpproof_model::bound::{Consumed, Floor, roofline};
use warpproof_model::{Device, TensorType};

use super::{Author, Ladder, RowOutcome};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Ledger, LedgerError, utc};
use warpproof_evidence::record::{Body, Figure, FigureKind, Finite, Outcome, RunRecord, Stage, StepRecord};
use warpproof_evidence::vocabulary as name;

/// Records the table as a run without verdicts: one step of the stage model for each row and one for the problem's
/// bounds. Returns the run's name.
pub fn record(
    ladder: &Ladder,
    shape: &Shape,
    device: &Device,
    ledger: &Ledger,
    arguments: Vec<String>,
) -> Result<String, LedgerError> {
    let started = utc(SystemTime::now());
    let content = serde_json::to_vec(ladder).unwrap_or_default();
    let digits: String = Hash::of(&content).to_string().chars().take(8).collect();
    let run = format!("{}-{digits}", started.replace([':', '-'], "").trim_end_matches('Z'));
    let task = format!("{} {}", name::LADDER_TASK, ladder.shape);
    let mut bodies = vec![Body::Run(RunRecord {
        run: run.clone(),
        task: task.clone(),
        task_version: 1,
        task_hash: Hash::of(task.as_bytes()),
        warpproof: env!("CARGO_PKG_VERSION").to_owned(),
        started: Some(started),
        arguments,
        candidates: Vec::new(),
        programs: BTreeMap::new(),
        secret: None,
        chosen: None,
        host: BTreeMap::from([(name::MODEL_DEVICE.to_owned(), ladder.device.clone())]),
        objects: BTreeMap::from([("ladder".to_owned(), ledger.put_object(&content)?)]),
    })];
    let step = |candidate: &str, outcome, reason: String, figures| {
        let key = Hash::of_pieces([content.as_slice(), candidate.as_bytes()]);
        Body::Step(StepRecord {
            run: run.clone(),
            key,
            candidate: candidate.to_owned(),
            stage: Stage::Model,
            part: None,
            outcome,
            reason,
            obstacle: None,
            figures,
            objects: BTreeMap::new(),
            counterexample: None,
            tested: None,
            seconds: Finite::ZERO,
            from: None,
        })
    };
    bodies.push(step(name::PROBLEM, Outcome::Pass, String::new(), bounds(shape, device)));
    for row in &ladder.rows {
        let body = match &row.outcome {
            RowOutcome::Explained(figures) => {
                let times = &figures.predicted;
                let mut all = Vec::new();
                let mut put = |what: &str, us: Option<f64>, at: &str| {
                    let figure = us.and_then(|us| Figure::new(what, us, "us", FigureKind::Predicted).ok());
                    all.extend(figure.map(|figure| figure.at(at)));
                };
                put(name::SCHEDULE, times.schedule_warm_us, name::WARM);
                put(name::SCHEDULE, times.schedule_cold_us, name::COLD);
                put(name::LATENCY_BOUND, Some(times.bound_warm_us), name::WARM);
                put(name::LATENCY_BOUND, Some(times.bound_cold_us), name::COLD);
                let author = if row.author == Author::Triton { name::TRITON } else { "" };
                step(&row.name, Outcome::Pass, author.to_owned(), all)
            }
            RowOutcome::LeftOut(left) => step(&row.name, Outcome::Skipped, left.why.clone(), Vec::new()),
        };
        bodies.push(body);
    }
    ledger.writer().append_all(&bodies)?;
    Ok(run)
}

/// Lower bounds of the problem by resource, on E4M3 codes; and the cost of a launch.
fn bounds(shape: &Shape, device: &Device) -> Vec<Figure> {
    let whole = super::floor(shape, TensorType::F8ToF32, 1);
    let none = Floor { fma: (Some(TensorType::F8ToF32), 0), ..Floor::default() };
    let parts = [
        Floor { fma: whole.fma, ..none },
        Floor { special: whole.special, ..none },
        Floor { loaded: whole.loaded, stored: whole.stored, ..none },
    ];
    let mut figures = Vec::new();
    let mut put = |what: &str, us: f64, at: &str| {
        figures.extend(Figure::new(what, us, "us", FigureKind::Predicted).map(|figure| figure.at(at)));
    };
    for part in parts {
        if let Ok(share) = roofline(device, &part) {
            put(name::FLOOR, share.us, &share.resource.to_string());
        }
    }
    if let Some(rate) = device.rates.l2_bytes {
        let sms = f64::from(device.multiprocessors.value);
        let mhz = f64::from(device.boost_mhz.value);
        put(
            name::FLOOR,
            real(whole.loaded.saturating_add(whole.stored)) / rate.value / sms / mhz,
            &Consumed::L2.to_string(),
        );
    }
    put(name::LAUNCH, device.rates.launch_us.value, "");
    figures
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "bytes are far below 2^53")]
fn real(bytes: u64) -> f64 {
    bytes as f64
}
