//! Maintenance of a fleet: rejected and streamed bodies, failing jobs, expiring tokens, contents of lists.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use stand::{Stand, claim, outcome, run_name, submit};
use ureq::Agent;
use warpproof_evidence::hash::{Hash, Hasher};
use warpproof_evidence::record::Verdict;
use warpproof_fleet::client::FleetError;
use warpproof_fleet::wire::{Failure, NewToken, Role, State};

fn get(stand: &Stand, path: &str) -> String {
    let agent = Agent::config_builder().max_redirects(0).build().new_agent();
    let asked = agent.get(format!("{}{path}", stand.base()));
    let mut answer = asked.header("authorization", format!("Bearer {}", stand.token)).call().unwrap();
    answer.body_mut().read_to_string().unwrap()
}

/// Sends the head of a request with this announced length.
fn begun(stand: &Stand, method: &str, path: &str, length: u64) -> TcpStream {
    let mut stream = TcpStream::connect(stand.server.as_ref().unwrap().address()).unwrap();
    let token = &stand.token;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    stream
}

fn status(stream: &mut TcpStream) -> String {
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    String::from_utf8_lossy(&first[9..]).into_owned()
}

#[test]
fn a_body_that_announces_too_much_is_refused_before_it_is_read() {
    let stand = Stand::new();
    let object = format!("/v1/objects/{}", Hash::of(b""));
    // No byte of these bodies is ever sent.
    for (method, path, length) in [
        ("PUT", object.as_str(), 10 << 30),
        ("PUT", &object, 1 << 62),
        ("POST", "/v1/runs", 10 << 30),
        // Small bodies have a small limit.
        ("POST", "/v1/claims", 2 << 20),
        ("POST", "/v1/tokens", 2 << 20),
        ("POST", "/v1/heartbeats", 2 << 20),
    ] {
        let mut stream = begun(&stand, method, path, length);
        assert_eq!(status(&mut stream), "413", "{method} {path} {length}");
    }
}

/// Peak memory of this process, in megabytes.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn objects_go_to_the_store_as_they_come() {
    const UPLOADS: u8 = 10;
    const PIECES: u64 = 60;
    let stand = Stand::new();
    let fleet = stand.fleet();
    fleet.put_object(&Hash::of(b"small"), b"small").unwrap();
    let before = peak();
    thread::scope(|scope| {
        for number in 0..UPLOADS {
            let stand = &stand;
            scope.spawn(move || {
                let piece = vec![number; 1 << 20];
                let mut hasher = Hasher::default();
                (0..PIECES).for_each(|_| hasher.update(&piece));
                let path = format!("/v1/objects/{}", hasher.hash());
                let mut stream = begun(stand, "PUT", &path, PIECES << 20);
                (0..PIECES).for_each(|_| stream.write_all(&piece).unwrap());
                assert_eq!(status(&mut stream), "200");
            });
        }
    });
    // Server and clients are this process; the bodies have 600 MB in total.
    let grown = peak() - before;
    assert!(grown < 150, "{grown} MB for ten uploads of 60 MB");
    let mut hasher = Hasher::default();
    (0..PIECES).for_each(|_| hasher.update(&vec![3; 1 << 20]));
    assert_eq!(fleet.object(&hasher.hash()).unwrap().len(), 60 << 20);
    // Bytes that do not match their hash leave nothing behind, even after several parts.
    let name = Hash::of(b"something else");
    let mut stream = begun(&stand, "PUT", &format!("/v1/objects/{name}"), 3 << 20);
    stream.write_all(&vec![7; 3 << 20]).unwrap();
    assert_eq!(status(&mut stream), "400");
    assert!(matches!(fleet.object(&name), Err(FleetError::Refused(404, _))));
}

/// Lets all leases expire.
fn expire(stand: &Stand) {
    stand.sql("UPDATE jobs SET lease_until = now() - interval '1 second' WHERE state = 'leased'");
}

#[test]
fn a_job_that_kills_its_workers_ends_after_three_of_them() {
    let (stand, clock) = Stand::with_clock(|_| ());
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    for worker in ["one", "two", "three"] {
        assert_eq!(fleet.claim(&claim(worker, 9, 600)).unwrap().jobs.len(), 1, "{worker}");
        expire(&stand);
    }
    assert!(
        fleet.claim(&claim("four", 9, 600)).unwrap().jobs.is_empty(),
        "the job must not be claimed by a fourth worker"
    );
    // The job fails at the next maintenance.
    let run = loop {
        let run = fleet.run(&run_name(1), 0).unwrap();
        if run.open == 0 {
            break run;
        }
        clock.advance(Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(run.jobs[0].state, State::Failed);
    let reason = run.jobs[0].reason.as_deref().unwrap();
    let words = "failed after 3 attempts: 3 workers stopped responding during it, the last was three";
    assert_eq!(reason, words);
    // Metrics, pages and lists show it.
    let metrics = get(&stand, "/metrics");
    assert!(metrics.contains("warpproof_leases_lost_total 3\n"), "{metrics}");
    assert!(metrics.contains("warpproof_jobs_given_up_total 1\n"), "{metrics}");
    let workers = get(&stand, "/workers");
    assert!(workers.contains("Lost leases") && workers.contains("<td>two</td>"), "{workers}");
    assert!(get(&stand, "/").contains("leases lost in the last 24 hours"));
    assert_eq!(fleet.runs(9).unwrap()[0].verdicts.get("failed"), Some(&1));
    let lost = fleet.workers().unwrap().into_iter().map(|worker| (worker.worker, worker.lost));
    assert!(lost.clone().any(|one| one == ("one".to_owned(), 1)), "{:?}", lost.collect::<Vec<_>>());
    // When it is submitted again, it is retried.
    let mut again = stand::submission(2, "task", 1);
    again.priority = 1;
    assert_eq!(fleet.submit(&again).unwrap().open, 1);
    assert_eq!(fleet.claim(&claim("four", 9, 600)).unwrap().jobs.len(), 1);
}

#[test]
fn a_worker_that_said_goodbye_is_not_waited_for() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    // Two workers are known, so that one alone cannot fail a job.
    let job = fleet.claim(&claim("leaves", 1, 600)).unwrap().jobs.remove(0);
    fleet.release(job.job, job.token).unwrap();
    let fails = || {
        let job = fleet.claim(&claim("fails", 1, 600)).unwrap().jobs.remove(0);
        fleet.fail(job.job, &Failure { token: job.token, reason: "no".to_owned() }).unwrap();
    };
    (0..3).for_each(|_| fails());
    assert_eq!(fleet.run(&run_name(1), 0).unwrap().open, 1, "the other worker could try");
    fleet.goodbye("leaves").unwrap();
    assert!(fleet.workers().unwrap().iter().any(|worker| worker.worker == "leaves" && worker.left));
    fails();
    assert_eq!(fleet.run(&run_name(1), 0).unwrap().jobs[0].state, State::Failed);
    // A worker that comes back counts again.
    fleet.claim(&claim("leaves", 1, 600)).unwrap();
    assert!(!fleet.workers().unwrap().iter().any(|worker| worker.left));
}

#[test]
fn a_token_expires() {
    let (stand, clock) = Stand::with_clock(|_| ());
    let fleet = stand.fleet();
    let wanted = |days| NewToken { name: "for a day".to_owned(), roles: vec![Role::Read], quota: 0, days };
    let made = fleet.make_token(&wanted(Some(1))).unwrap();
    stand.fleet_as(&made.token).queue().unwrap();
    let view = |id: i64| fleet.tokens().unwrap().into_iter().find(|token| token.id == id).unwrap();
    assert!(view(made.id).expires_at.is_some() && !view(made.id).expired);
    stand.sql(&format!("UPDATE tokens SET expires_at = '2001-02-03' WHERE id = {}", made.id));
    // A cached token is accepted for two more seconds.
    stand.fleet_as(&made.token).queue().unwrap();
    clock.advance(Duration::from_secs(2));
    let refused = stand.fleet_as(&made.token).queue().unwrap_err();
    let FleetError::Refused(401, refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.error, "expired");
    assert!(refusal.message.contains("this token expired on 2001-02-03"), "{}", refusal.message);
    assert!(view(made.id).expired);
    let never = fleet.make_token(&wanted(None)).unwrap();
    assert_eq!((view(never.id).expires_at, view(never.id).expired), (None, false));
    assert!(fleet.make_token(&wanted(Some(0))).is_err() && fleet.make_token(&wanted(Some(9_999))).is_err());
    // The default lifetime is ninety days.
    let text = r#"{"name": "plain", "roles": ["read"]}"#;
    let plain: NewToken = serde_json::from_str(text).unwrap();
    assert_eq!(plain.days, Some(90));
    assert!(get(&stand, "/metrics").contains("warpproof_tokens_expiring 0\n"));
}

#[test]
fn lists_say_task_version_submitter_and_verdicts() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    let task = std::fs::read_to_string("examples/doubled/task.toml").unwrap();
    submit(&fleet, 1, &task, 3);
    let jobs = fleet.claim(&claim("w", 2, 600)).unwrap().jobs;
    fleet.finish(jobs[0].job, &outcome(&jobs[0], Verdict::Provisional)).unwrap();
    fleet.finish(jobs[1].job, &outcome(&jobs[1], Verdict::Reject)).unwrap();
    submit(&fleet, 2, "no task at all", 1);
    let runs = fleet.runs(9).unwrap();
    let [other, run] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!((run.task_name.as_deref(), run.task_version), (Some("doubled"), Some(1)));
    assert_eq!((run.submitter.as_str(), run.open), ("all", 1));
    let verdicts: Vec<(&str, i64)> =
        run.verdicts.iter().map(|(word, count)| (word.as_str(), *count)).collect();
    assert_eq!(verdicts, [("PROVISIONAL", 1), ("REJECT", 1)]);
    assert_eq!((other.task_name.as_deref(), other.task.as_str()), (None, "task.toml"));
    for path in ["/", "/runs"] {
        let page = get(&stand, path);
        for text in [
            "<td>doubled</td>",
            "<td>1</td>",
            "<td>all</td>",
            "pill unsure\">PROVISIONAL",
            "pill bad\">REJECT",
        ] {
            assert!(page.contains(text), "{path} lacks {text}: {page}");
        }
    }
    // The chart has the same colors as the lists.
    let page = get(&stand, "/");
    assert!(page.contains("<rect class=\"unsure\"") && page.contains("<rect class=\"bad\""), "{page}");
}
