//! Runs, leases, fencing tokens and results with a real PostgreSQL.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use stand::{Stand, claim, export, outcome, run_name, status, submission, submit};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{Body, NoteRecord, Verdict};
use warpproof_fleet::exchange;
use warpproof_fleet::wire::{Failure, Heartbeat, Lease, Role, State};

#[test]
fn every_job_has_exactly_one_result() {
    const JOBS: usize = 400;
    let stand = Stand::new();
    let fleet = stand.fleet();
    assert_eq!(submit(&fleet, 1, "task", JOBS).open, 400);
    let accepted = AtomicUsize::new(0);
    let claimed = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for worker in 0..8 {
            let (fleet, accepted, claimed) = (fleet.clone(), &accepted, &claimed);
            scope.spawn(move || {
                loop {
                    let jobs = fleet.claim(&claim(&format!("w{worker}"), 7, 600)).unwrap().jobs;
                    if jobs.is_empty() {
                        break;
                    }
                    for job in jobs {
                        assert!(claimed.lock().unwrap().insert(job.job), "claimed twice");
                        let outcome = outcome(&job, Verdict::Provisional);
                        assert!(!fleet.finish(job.job, &outcome).unwrap().replayed);
                        // The response may have been lost: sending the same result again returns the same response.
                        assert!(fleet.finish(job.job, &outcome).unwrap().replayed);
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(accepted.load(Ordering::Relaxed), JOBS);
    let run = fleet.run(&run_name(1), 0).unwrap();
    assert_eq!(run.open, 0);
    assert!(
        run.jobs.iter().all(|job| job.state == State::Done && job.verdict.as_deref() == Some("PROVISIONAL"))
    );
    assert_eq!(
        stand.sql("SELECT count(*), count(DISTINCT job), count(DISTINCT segment) FROM results"),
        "400|400|400"
    );
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    assert_eq!(export(&fleet, &ledger), JOBS);
    let report = ledger.verify().unwrap();
    assert!(report.is_sound() && report.tally.records == 1200, "{report}");
    // No more jobs, and a second export fetches nothing.
    assert!(fleet.claim(&claim("late", 7, 600)).unwrap().jobs.is_empty());
    assert_eq!(export(&fleet, &ledger), 0);
}

#[test]
fn only_the_newest_token_is_listened_to_and_only_while_the_lease_holds() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    let first = fleet.claim(&claim("one", 5, 600)).unwrap().jobs.remove(0);
    assert!(fleet.claim(&claim("two", 5, 600)).unwrap().jobs.is_empty(), "it is held");
    let held = Heartbeat {
        worker: "one".to_owned(),
        leases: vec![Lease { job: first.job, token: first.token }],
        lease_seconds: 600,
    };
    assert_eq!(fleet.heartbeat(&held).unwrap().lost, [0; 0]);
    // The database's clock decides when the lease expires, however busy this machine is.
    stand.sql("UPDATE jobs SET lease_until = now() - interval '1 second'");
    // The lease has expired, although no other worker has the job yet.
    let late = outcome(&first, Verdict::Provisional);
    assert_eq!(status(&fleet.finish(first.job, &late).unwrap_err()), 409);
    assert_eq!(fleet.heartbeat(&held).unwrap().lost, [first.job]);
    let second = fleet.claim(&claim("two", 5, 600)).unwrap().jobs.remove(0);
    assert_eq!(second.job, first.job);
    assert!(second.token > first.token);
    for (token, what) in
        [(first.token, "an old token"), (second.token + 1, "a forged one"), (0, "none"), (-1, "less")]
    {
        let mut forged = outcome(&second, Verdict::Defer);
        forged.token = token;
        let error = fleet.finish(second.job, &forged).unwrap_err();
        assert_eq!((status(&error), error.word()), (409, Some("lease")), "{what}");
        assert_eq!(status(&fleet.release(second.job, token).unwrap_err()), 409, "{what}");
        let failure = Failure { token, reason: "no".to_owned() };
        assert_eq!(status(&fleet.fail(second.job, &failure).unwrap_err()), 409, "{what}");
    }
    let right = outcome(&second, Verdict::Reject);
    assert!(!fleet.finish(second.job, &right).unwrap().replayed);
    assert!(fleet.finish(second.job, &right).unwrap().replayed);
    // Another result with the right token, and the right result with another token, are rejected.
    let other = outcome(&second, Verdict::Defer);
    assert_eq!(fleet.finish(second.job, &other).unwrap_err().word(), Some("done"));
    let mut moved = right.clone();
    moved.token = first.token;
    assert_eq!(fleet.finish(second.job, &moved).unwrap_err().word(), Some("done"));
    assert_eq!(status(&fleet.finish(999, &right).unwrap_err()), 404);
    let run = fleet.run(&run_name(1), 0).unwrap();
    assert_eq!(run.jobs[0].verdict.as_deref(), Some("REJECT"));
    assert_eq!(stand.sql("SELECT count(*) FROM results"), "1");
    assert_eq!(stand.sql("SELECT count(*) FROM segments"), "1");
}

#[test]
fn what_is_known_by_content_comes_back_without_work() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 2);
    let mut jobs = fleet.claim(&claim("w", 5, 600)).unwrap().jobs;
    jobs.sort_by(|a, b| a.candidate.cmp(&b.candidate));
    fleet.finish(jobs[0].job, &outcome(&jobs[0], Verdict::Provisional)).unwrap();
    fleet.finish(jobs[1].job, &outcome(&jobs[1], Verdict::Inconclusive)).unwrap();
    // The same content under another name: decided results are reused, undecided ones are evaluated again.
    let again = submit(&fleet, 2, "task", 2);
    assert_eq!((again.jobs[0].job, again.jobs[0].known, again.open), (jobs[0].job, true, 1));
    assert_ne!(again.jobs[1].job, jobs[1].job);
    // The same request returns the same response; a different one with its name is rejected.
    assert_eq!(submit(&fleet, 2, "task", 2), again);
    assert_eq!(status(&fleet.submit(&submission(2, "task", 1)).unwrap_err()), 409);
    // A client that submits it meanwhile waits for the same job.
    assert_eq!(submit(&fleet, 3, "task", 2).jobs[1].job, again.jobs[1].job);
    // Other content, another secret or another capability is a different job; `fresh` creates a new one.
    let other = submit(&fleet, 4, "task of another text", 1);
    assert!(!other.jobs[0].known);
    for (number, change) in [(5, "secret"), (6, "capability"), (7, "fresh")] {
        let mut wish = submission(number, "task", 1);
        match change {
            "secret" => wish.bundle.secret = Some("ff".to_owned()),
            "capability" => wish.capability = "RTX 4090".to_owned(),
            _ => wish.fresh = true,
        }
        let run = fleet.submit(&wish).unwrap();
        assert!(!run.jobs[0].known && run.jobs[0].job != jobs[0].job, "{change}");
    }
    let newest = submit(&fleet, 8, "task", 1);
    assert!(!newest.jobs[0].known, "the fresh one is the current one");
}

#[test]
fn what_is_asked_for_anew_and_taken_back_leaves_what_was_known() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 2);
    let jobs = fleet.claim(&claim("w", 5, 600)).unwrap().jobs;
    for job in &jobs {
        fleet.finish(job.job, &outcome(job, Verdict::Provisional)).unwrap();
    }
    let before = submit(&fleet, 2, "task", 2);
    let mut anew = submission(3, "task", 1);
    anew.fresh = true;
    assert_eq!(fleet.submit(&anew).unwrap().open, 1);
    fleet.cancel(&run_name(3)).unwrap();
    let after = submit(&fleet, 4, "task", 2);
    assert_eq!((after.open, &after.jobs), (0, &before.jobs));
    // Jobs without a result are only removed.
    let other = submit(&fleet, 5, "another task", 1);
    fleet.cancel(&run_name(5)).unwrap();
    assert_ne!(submit(&fleet, 6, "another task", 1).jobs[0].job, other.jobs[0].job);
}

#[test]
fn jobs_go_to_who_can_do_them_the_urgent_first_and_are_given_up_at_last() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 2);
    let mut urgent = submission(2, "task", 1);
    (urgent.priority, urgent.bundle.secret) = (9, Some("1".to_owned()));
    let urgent = fleet.submit(&urgent).unwrap();
    let mut timed = submission(3, "task", 1);
    timed.capability = "RTX 4090".to_owned();
    let timed = fleet.submit(&timed).unwrap();
    let first = fleet.claim(&claim("w", 1, 600)).unwrap().jobs.remove(0);
    assert_eq!(first.job, urgent.jobs[0].job);
    let mut both = claim("gpu", 2, 600);
    both.capabilities.insert(0, "RTX 4090".to_owned());
    let jobs = fleet.claim(&both).unwrap().jobs;
    assert_eq!((jobs.len(), jobs[0].job), (2, timed.jobs[0].job));
    // After a release, it is claimed again and the claim is not counted.
    fleet.release(first.job, first.token).unwrap();
    // There are two workers: three failures of one count once, so the other one must try too.
    for worker in ["w", "w", "w", "gpu"] {
        assert_eq!(fleet.run(&run_name(2), 0).unwrap().open, 1);
        let job = fleet.claim(&claim(worker, 1, 600)).unwrap().jobs.remove(0);
        assert_eq!(job.job, first.job, "{worker}");
        fleet
            .fail(job.job, &Failure { token: job.token, reason: "the child was killed".to_owned() })
            .unwrap();
    }
    let run = fleet.run(&run_name(2), 0).unwrap();
    assert_eq!((run.open, run.jobs[0].state), (0, State::Failed));
    assert_eq!(run.jobs[0].reason.as_deref(), Some("the child was killed"));
    // A failed job is retried when it is submitted again.
    let mut again = submission(4, "task", 1);
    again.bundle.secret = Some("1".to_owned());
    assert_eq!(fleet.submit(&again).unwrap().open, 1);
    // Its submitter can cancel it, unless another run needs it.
    let stranger = stand.fleet_as(&stand.token_for(&[Role::Submit], 9));
    assert_eq!(status(&stranger.cancel(&run_name(4)).unwrap_err()), 404);
    fleet.cancel(&run_name(4)).unwrap();
    assert_eq!(fleet.run(&run_name(4), 0).unwrap().jobs[0].state, State::Cancelled);
    let workers = fleet.workers().unwrap();
    assert_eq!(workers.len(), 2);
    assert_eq!(fleet.queue().unwrap().iter().map(|queue| queue.jobs).sum::<i64>(), 3);
}

#[test]
fn a_quota_and_a_version_are_held() {
    let stand = Stand::new();
    let small = stand.fleet_as(&stand.token_for(&[Role::Submit], 3));
    submit(&small, 1, "task", 3);
    let error = small.submit(&submission(2, "task", 4)).unwrap_err();
    assert_eq!((status(&error), error.word()), (429, Some("quota")));
    // Nothing of it remains.
    assert_eq!(stand.sql("SELECT count(*) FROM jobs"), "3");
    assert_eq!(stand.sql("SELECT count(*) FROM runs"), "1");
    let mut old = claim("w", 1, 600);
    old.version = "0.0.0".to_owned();
    assert_eq!(stand.fleet().claim(&old).unwrap_err().word(), Some("version"));
}

#[test]
fn a_ledger_goes_in_and_out_byte_for_byte() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    let dir = tempfile::tempdir().unwrap();
    let from = Ledger::create(dir.path().join("from")).unwrap();
    let note = |text: &str, about: Vec<Hash>| {
        Body::Note(NoteRecord {
            topic: "t".to_owned(),
            text: text.to_owned(),
            run: None,
            candidate: None,
            about,
            ..NoteRecord::default()
        })
    };
    let mut all = Vec::new();
    for at in 0..5 {
        // Each segment refers to the heads before it, and to a record of the first.
        let about = all.first().map(|first| vec![*first]).unwrap_or_default();
        let mut writer = from.writer();
        all.push(writer.append(&note(&format!("ä \u{0} ' \" \\ {at}"), about)).unwrap());
        all.push(writer.append(&note("more", Vec::new())).unwrap());
    }
    assert_eq!(exchange::import(&fleet, &from).unwrap(), 5);
    assert_eq!(exchange::import(&fleet, &from).unwrap(), 0);
    let into = Ledger::create(dir.path().join("into")).unwrap();
    assert_eq!(exchange::export(&fleet, &into).unwrap(), 5);
    assert_eq!(into.segment_names().unwrap(), from.segment_names().unwrap());
    for id in from.segment_names().unwrap() {
        assert_eq!(into.segment_text(&id).unwrap(), from.segment_text(&id).unwrap());
    }
    assert!(into.verify().unwrap().is_sound());
    assert_eq!(into.heads().unwrap(), from.heads().unwrap());
    // A segment whose head is missing here, and one that was changed, are rejected.
    let other = Stand::new();
    let last = from.segment_names().unwrap().pop().unwrap();
    let text = from.segment_text(&last).unwrap();
    let mut names: Vec<(Hash, String)> = Vec::new();
    for id in from.segment_names().unwrap() {
        let first = warpproof_evidence::ledger::read_segment(&id, &from.segment_text(&id).unwrap()).unwrap();
        names.push((first[0].hash, id));
    }
    let later = &names.iter().find(|(hash, _)| *hash == all[2]).unwrap().1;
    let orphan = other.fleet().put_segment(later, &from.segment_text(later).unwrap()).unwrap_err();
    assert_eq!(orphan.word(), Some("missing_records"));
    let mut changed = text.clone();
    changed[40] ^= 1;
    assert_eq!(status(&fleet.put_segment(&last, &changed).unwrap_err()), 422);
}

#[test]
fn a_server_and_a_database_may_come_and_go() {
    // Leases that are lost in an outage must not end a job.
    let mut stand = Stand::with(|config| config.attempts = 100);
    submit(&stand.fleet(), 1, "task", 150);
    // The port stays the same, so that clients can reconnect.
    stand.restart();
    let fleet = stand.fleet();
    let over = AtomicBool::new(false);
    let acknowledged = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for worker in 0..4 {
            let (fleet, over, acknowledged) = (fleet.clone(), &over, &acknowledged);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok(claimed) = fleet.claim(&claim(&format!("w{worker}"), 3, 600)) else { continue };
                    if claimed.jobs.is_empty() {
                        thread::sleep(Duration::from_millis(50));
                    }
                    for job in claimed.jobs {
                        match fleet.finish(job.job, &outcome(&job, Verdict::Provisional)) {
                            Ok(_) => {
                                acknowledged.lock().unwrap().insert(job.job);
                            }
                            // The lease expired during the outage, and another worker may have done the job.
                            Err(error) => {
                                assert!(matches!(error.word(), Some("lease" | "done")), "{error}");
                            }
                        }
                        thread::sleep(Duration::from_millis(10));
                    }
                }
            });
        }
        for round in 0..4 {
            // Each outage comes while results arrive, and while some are missing.
            let before = acknowledged.lock().unwrap().len();
            while acknowledged.lock().unwrap().len() < before + 10 {
                thread::sleep(Duration::from_millis(1));
            }
            if round % 2 == 0 {
                stand.postgres.stop();
            } else {
                stand.postgres.kill();
            }
            stand.postgres.resume().unwrap();
            stand.restart();
        }
        // A job whose worker did not get the response to its claim has a lease that no worker knows.
        while fleet.run(&run_name(1), 5).unwrap().open > 0 {
            stand.sql("UPDATE jobs SET lease_until = now() - interval '1 second' WHERE state = 'leased'");
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(stand.sql("SELECT count(*), count(DISTINCT job) FROM results"), "150|150");
    // No acknowledged result is lost.
    let done = fleet.run(&run_name(1), 0).unwrap();
    let done: BTreeSet<i64> =
        done.jobs.iter().filter(|job| job.state == State::Done).map(|job| job.job).collect();
    assert!(acknowledged.lock().unwrap().is_subset(&done));
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    assert_eq!(export(&fleet, &ledger), 150);
    assert!(ledger.verify().unwrap().is_sound());
}

#[test]
fn a_claim_walks_its_index_and_old_stretches_are_dropped() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 3);
    let jobs = fleet.claim(&claim("w", 2, 600)).unwrap().jobs;
    for job in &jobs {
        fleet.finish(job.job, &outcome(job, Verdict::Provisional)).unwrap();
    }
    // Many more jobs wait, and many are done.
    stand.sql(
        "INSERT INTO jobs (key, current, token, capability, candidate, bundle, state, ended_at)
         SELECT decode(md5(n::text) || md5('x' || n), 'hex'), true, token, capability, 'c' || n, bundle,
                CASE WHEN n % 2 = 0 THEN 'queued' ELSE 'done' END::job_state, CASE WHEN n % 2 = 1 THEN now() END
         FROM generate_series(1, 200000) AS n, (SELECT token, capability, bundle FROM jobs LIMIT 1) AS one",
    );
    stand.sql("ANALYZE jobs");
    // The generic plan, which a server uses after a few claims.
    let statement = warpproof_fleet::server::CLAIM;
    let plan = stand.sql(&format!(
        "SET plan_cache_mode = force_generic_plan;
         PREPARE claim (text, bigint, float8, text, bigint, text[], text, integer) AS {statement};
         EXPLAIN EXECUTE claim ('software-gpu', 32, 60, 'w', 1, '{{software-gpu}}', '0', 3)"
    ));
    assert!(plan.contains("Index Scan using jobs_waiting"), "{plan}");
    assert!(plan.contains("using jobs_leased"), "{plan}");
    assert!(!plan.contains("Seq Scan on jobs") && !plan.contains("Sort Key: jobs.priority"), "{plan}");
    let plan = stand.sql("EXPLAIN SELECT FROM jobs WHERE key = decode(repeat('00', 32), 'hex') AND current");
    assert!(plan.contains("jobs_by_content"), "{plan}");
    let plan = stand.sql("EXPLAIN SELECT text FROM lines WHERE hash = decode(repeat('00', 32), 'hex')");
    assert!(!plan.contains("Seq Scan on lines_from"), "{plan}");
    stand.sql("DELETE FROM jobs WHERE job > 3");

    // Results and lines are partitioned. Once the first partition is full and old, it is dropped.
    assert_eq!(stand.sql("SELECT count(*) FROM results_from_0"), "2");
    assert_eq!(stand.sql("SELECT count(*) FROM lines_from_0"), "6");
    assert_eq!(stand.sql("SELECT count(*) FROM lines_rest"), "0");
    assert_eq!(fleet.retain(1).unwrap().partitions, 0);
    stand.sql("SELECT setval(pg_get_serial_sequence('jobs', 'job'), 1000000)");
    stand.sql("SELECT setval(pg_get_serial_sequence('segments', 'number'), 100000)");
    let new = submit(&fleet, 2, "another task", 1).jobs.remove(0).job;
    assert!(new > 1_000_000);
    let claimed = fleet.claim(&claim("w", 9, 600)).unwrap().jobs;
    assert_eq!(claimed.len(), 2);
    let late = claimed.iter().find(|job| job.job == new).unwrap();
    fleet.finish(new, &outcome(late, Verdict::Provisional)).unwrap();
    // One job of the first partition is unfinished: it stays, however old.
    stand.sql("UPDATE jobs SET ended_at = ended_at - interval '40 days' WHERE job < 1000");
    stand.sql("UPDATE segments SET made_at = made_at - interval '40 days' WHERE number < 1000");
    stand.sql("UPDATE runs SET made_at = made_at - interval '40 days' WHERE number = 1");
    assert_eq!(fleet.retain(30).unwrap().partitions, 0);
    let old = claimed.iter().find(|job| job.job != new).unwrap();
    fleet.fail(old.job, &Failure { token: old.token, reason: "no".to_owned() }).unwrap();
    stand.sql("UPDATE jobs SET state = 'failed', ended_at = now() - interval '40 days' WHERE job < 1000");
    stand.sql("UPDATE jobs SET state = 'done' WHERE job < 3");
    let retained = fleet.retain(30).unwrap();
    assert_eq!((retained.partitions, retained.jobs, retained.segments, retained.runs), (2, 3, 2, 1));
    assert_eq!(stand.sql("SELECT count(*) FROM results"), "1");
    assert_eq!(fleet.segments(0).unwrap().len(), 1);
    assert_eq!(status(&fleet.run(&run_name(1), 0).unwrap_err()), 404);
    assert_eq!(fleet.run(&run_name(2), 0).unwrap().jobs[0].state, State::Done);
}
