//! Jobs that request some stages: cached separately from jobs with all stages, and checked against the requested ones.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use stand::{
    Stand, claim, outcome, run_record, segment, status, step_record, submission, submit, verdict_record,
};
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{Body, Outcome as Ended, Stage, Verdict};
use warpproof_fleet::wire::{Bundle, Leased, Outcome, State, Submission};

const TIMED: [Stage; 3] = [Stage::Build, Stage::Budget, Stage::Model];

fn partial(number: u64, stages: &[Stage]) -> Submission {
    let whole = submission(number, "task", 1);
    Submission { bundle: Bundle { stages: Some(stages.to_vec()), ..whole.bundle.clone() }, ..whole }
}

/// The content of a result.
#[derive(Clone)]
struct Made {
    judges: Vec<&'static str>,
    steps: Vec<(&'static str, Stage, Ended)>,
    verdict: Option<Verdict>,
}

impl Made {
    fn green(stages: &[Stage]) -> Self {
        let steps = stages.iter().map(|stage| ("c0", *stage, Ended::Pass)).collect();
        Self { judges: Vec::new(), steps, verdict: None }
    }

    fn outcome(&self, job: &Leased) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(dir.path()).unwrap();
        let mut writer = ledger.writer();
        let run = run_record(job, &self.judges);
        writer.append(&Body::Run(run.clone())).unwrap();
        let mut steps = Vec::new();
        for (candidate, stage, outcome) in &self.steps {
            let step = step_record(&run, candidate, *stage, *outcome);
            steps.push(writer.append(&Body::Step(step)).unwrap());
        }
        if let Some(verdict) = self.verdict {
            writer.append(&Body::Verdict(verdict_record(&run, "c0", verdict, steps))).unwrap();
        }
        segment(&ledger, job)
    }
}

#[test]
fn stages_are_part_of_what_a_job_is() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    let some = fleet.submit(&partial(2, &TIMED)).unwrap();
    let others = fleet.submit(&partial(3, &TIMED[..1])).unwrap();
    let same = fleet.submit(&partial(4, &TIMED)).unwrap();
    let whole = fleet.run(&stand::run_name(1), 0).unwrap();
    let jobs = [&whole, &some, &others, &same].map(|run| run.jobs[0].job);
    assert!(jobs[0] != jobs[1] && jobs[1] != jobs[2] && jobs[0] != jobs[2] && jobs[1] == jobs[3], "{jobs:?}");
    // In order, without duplicates, and at least one.
    for wrong in [&[][..], &[Stage::Model, Stage::Build], &[Stage::Build, Stage::Build]] {
        assert_eq!(status(&fleet.submit(&partial(9, wrong)).unwrap_err()), 400, "{wrong:?}");
    }
    // The worker gets the stages, and its result is cached.
    let leased = fleet.claim(&claim("w", 9, 600)).unwrap().jobs;
    let wanted: Vec<Option<Vec<Stage>>> = leased.iter().map(|job| job.bundle.stages.clone()).collect();
    assert_eq!(wanted, [None, Some(TIMED.to_vec()), Some(TIMED[..1].to_vec())]);
    let accepted = fleet.finish(leased[1].job, &Made::green(&TIMED).outcome(&leased[1])).unwrap();
    assert_eq!(accepted.verdict, None);
    let again = fleet.submit(&partial(5, &TIMED)).unwrap();
    let job = &again.jobs[0];
    assert_eq!((again.open, job.state, job.known, &job.verdict), (0, State::Done, true, &None));
    // Its record is that of the run.
    let segment = fleet.segment(job.segment.as_ref().unwrap()).unwrap();
    let records = warpproof_evidence::ledger::read_segment(job.segment.as_ref().unwrap(), &segment).unwrap();
    let run = records.iter().find(|record| matches!(record.body, Body::Run(_))).unwrap();
    assert_eq!(job.record.as_ref(), Some(&run.hash.to_string()));
    // A job with all stages does not reuse this result, and no candidate is on the leaderboard before such a job ends.
    assert_eq!(fleet.run(&stand::run_name(1), 0).unwrap().open, 1);
    assert_eq!(stand.sql("SELECT count(*) FROM standings").trim(), "0");
    // The pages show the available results.
    let page = |path: String| {
        let cookie = format!("warpproof_token={}", stand.token);
        let asked = ureq::get(format!("{}{path}", stand.base())).header("cookie", cookie).call();
        asked.unwrap().body_mut().read_to_string().unwrap()
    };
    assert!(page(format!("/runs/{}", again.run)).contains("done"));
    assert!(page(format!("/jobs/{}", job.job)).contains("budget"));
    assert!(page("/".to_owned()).contains("Runs"));
}

#[test]
fn a_result_is_held_against_the_stages_of_its_job() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    fleet.submit(&partial(2, &TIMED)).unwrap();
    let leased = fleet.claim(&claim("w", 9, 600)).unwrap().jobs;
    let (whole, some) = (&leased[0], &leased[1]);
    let green = Made::green(&TIMED);
    let red = |at: usize, verdict| {
        let mut made = Made::green(&TIMED[..=at]);
        made.steps[at].2 = Ended::Fail;
        Made { verdict, ..made }
    };
    let mut of_another = green.clone();
    of_another.steps.push(("c1", Stage::Build, Ended::Pass));
    let mut twice = green.clone();
    twice.steps.push(("c0", Stage::Model, Ended::Fail));
    let mut beyond = red(1, Some(Verdict::Reject));
    beyond.steps.push(("c0", Stage::Model, Ended::Pass));
    let wrong: [(&str, Made); 9] = [
        ("judges", Made { judges: vec!["c0"], ..green.clone() }),
        ("fewer stages", Made::green(&TIMED[..2])),
        ("other stages", Made::green(&[Stage::Build, Stage::Correct, Stage::Model])),
        ("more stages", Made::green(&[Stage::Build, Stage::Budget, Stage::Correct, Stage::Model])),
        (
            "a verdict although all stages passed",
            Made { verdict: Some(Verdict::Provisional), ..green.clone() },
        ),
        ("no verdict although a stage failed", red(1, None)),
        ("another candidate", of_another),
        ("a stage twice", twice),
        ("stages after a failed one", beyond),
    ];
    for (what, made) in wrong {
        let refused = fleet.finish(some.job, &made.outcome(some)).map_err(|error| status(&error));
        assert_eq!(refused.map(|accepted| accepted.verdict), Err(422), "{what}");
    }
    assert_eq!(status(&fleet.finish(some.job, &outcome(some, Verdict::Reject)).unwrap_err()), 422);
    assert_eq!(status(&fleet.finish(whole.job, &green.outcome(whole)).unwrap_err()), 422);
    // Stages up to the first failure are a complete result.
    let accepted = fleet.finish(some.job, &red(1, Some(Verdict::Reject)).outcome(some)).unwrap();
    assert_eq!(accepted.verdict.as_deref(), Some("REJECT"));
}
