//! Limits of one client's use of shared resources: requests, memory, counts; and concurrent requests.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use stand::{Stand, claim, outcome, run_name, submission, submit};
use ureq::Agent;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::Verdict;
use warpproof_fleet::wire::{Role, State};

/// Status and text of a response.
fn get(stand: &Stand, path: &str, token: &str) -> (u16, String) {
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
    let agent = config.max_idle_connections(0).build().new_agent();
    let asked =
        agent.get(format!("{}{path}", stand.base())).header("authorization", format!("Bearer {token}"));
    let mut answer = asked.call().unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

#[test]
fn strangers_are_slowed_down_together_and_lock_nobody_out() {
    let (stand, clock) = Stand::with_clock(|config| config.limits.requests_per_second = 1);
    let known = || get(&stand, "/v1/queue", &stand.token).0;
    // Each with a different token: separate buckets for each would never be empty.
    let strangers = |first: u64| -> Vec<u16> {
        let tokens = (first..first + 4).map(|number| format!("wpf_{number:064x}"));
        tokens.map(|token| get(&stand, "/v1/queue", &token).0).collect()
    };
    // Two requests are allowed at once, and the first one with the valid token, which was unknown before, is one of them.
    assert_eq!(known(), 200);
    assert_eq!(strangers(0), [401, 429, 429, 429]);
    assert_eq!(known(), 200);
    assert_eq!(known(), 429, "a valid token has its own limit");
    // The valid token is still accepted after its cache entry has expired, although unknown ones are not.
    clock.advance(Duration::from_millis(2_100));
    assert_eq!(strangers(4), [401, 401, 429, 429]);
    assert_eq!(known(), 200);
    clock.advance(Duration::from_secs(1));
    assert_eq!(strangers(8), [401, 429, 429, 429]);
    // A malformed token costs nothing and is not counted.
    assert!((0..40).all(|_| get(&stand, "/v1/queue", "wpf_x").0 == 401));
}

/// Starts a submission with this announced length, and sends no body.
fn begun(stand: &Stand, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(stand.server.as_ref().unwrap().address()).unwrap();
    let token = &stand.token;
    write!(
        stream,
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    stream
}

/// Waits until this number of requests waits for memory for their bodies.
fn until_bodies_wait(stand: &Stand, count: usize) {
    let line = format!("warpproof_bodies_waiting {count}\n");
    while !get(stand, "/metrics", "").1.contains(&line) {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_claim_does_not_wait_behind_large_bodies() {
    let (stand, _clock) = Stand::with_clock(|_| ());
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 3);
    // More large bodies than fit in memory at a time, none of which ends: two of them wait.
    let large: Vec<TcpStream> = (0..4).map(|_| begun(&stand, 60 << 20)).collect();
    until_bodies_wait(&stand, 2);
    assert_eq!(fleet.claim(&claim("w", 1, 600)).unwrap().jobs.len(), 1);
    // An object is streamed to the store and does not wait either.
    let bytes = vec![7; 9 << 20];
    fleet.put_object(&Hash::of(&bytes), &bytes).unwrap();
    // A submission waits for memory, and a claim meanwhile does not.
    let mut wish = submission(2, "task", 100_000);
    wish.candidates.iter_mut().for_each(|name| name.push_str("-of-a-run-that-has-a-great-many-candidates"));
    thread::scope(|scope| {
        let waits = scope.spawn(|| fleet.submit(&wish));
        until_bodies_wait(&stand, 3);
        assert!(!fleet.claim(&claim("w", 1, 600)).unwrap().jobs.is_empty());
        assert!(!waits.is_finished());
        drop(large);
        waits.join().unwrap().unwrap();
    });
    until_bodies_wait(&stand, 0);
}

#[test]
fn the_queue_is_counted_once_in_five_seconds() {
    let (stand, clock) = Stand::with_clock(|_| ());
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 3);
    let jobs = || fleet.queue().unwrap().iter().map(|row| row.jobs).sum::<i64>();
    assert_eq!(jobs(), 3);
    submit(&fleet, 2, "another task", 4);
    assert_eq!(jobs(), 3);
    clock.advance(Duration::from_millis(4_900));
    assert_eq!(jobs(), 3);
    clock.advance(Duration::from_millis(200));
    assert_eq!(jobs(), 7);
}

#[test]
fn who_takes_a_run_back_takes_nothing_from_who_asks_at_that_moment() {
    const ROUNDS: u64 = 40;
    let stand = Stand::new();
    let (one, two) = (stand.fleet(), stand.fleet());
    let (mut joined, mut again) = (0, 0);
    for round in 0..ROUNDS {
        let task = format!("task {round}");
        let first = submit(&one, 2 * round + 1, &task, 3);
        let together = Barrier::new(2);
        let second = thread::scope(|scope| {
            let cancels = scope.spawn(|| {
                together.wait();
                one.cancel(&run_name(2 * round + 1)).unwrap();
            });
            let asks = scope.spawn(|| {
                together.wait();
                two.submit(&submission(2 * round + 2, &task, 3)).unwrap()
            });
            cancels.join().unwrap();
            asks.join().unwrap()
        });
        let now = two.run(&run_name(2 * round + 2), 0).unwrap();
        assert_eq!(now.jobs.len(), 3);
        for (at, job) in now.jobs.iter().enumerate() {
            assert_eq!(job.state, State::Queued, "round {round}: {job:?}");
            if job.job == first.jobs[at].job { joined += 1 } else { again += 1 }
        }
        assert_eq!(second.open, 3);
    }
    assert_eq!(joined + again, 3 * ROUNDS);
    // Every waiting job belongs to a run, and no job exists twice.
    assert_eq!(stand.sql("SELECT count(*) FROM jobs WHERE state = 'queued'"), (3 * ROUNDS).to_string());
    assert_eq!(stand.sql("SELECT count(*) FROM jobs WHERE state = 'cancelled' AND current"), "0");
}

#[test]
fn jobs_that_a_young_run_names_stay_however_old_they_are() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 2);
    for job in fleet.claim(&claim("w", 2, 600)).unwrap().jobs {
        fleet.finish(job.job, &outcome(&job, Verdict::Provisional)).unwrap();
    }
    stand.sql("UPDATE jobs SET ended_at = now() - interval '90 days'");
    stand.sql("UPDATE runs SET made_at = now() - interval '90 days'");
    stand.sql("UPDATE segments SET made_at = now() - interval '90 days'");
    stand.sql("SELECT setval(pg_get_serial_sequence('jobs', 'job'), 1000000)");
    stand.sql("SELECT setval(pg_get_serial_sequence('segments', 'number'), 100000)");
    // The next partition has begun, and a run of today reuses a job of the first one.
    submit(&fleet, 3, "another task", 1);
    let again = submit(&fleet, 2, "task", 1);
    assert!(again.jobs[0].known && again.jobs[0].job < 1_000_000);
    let retained = fleet.retain(30).unwrap();
    assert_eq!((retained.partitions, retained.jobs, retained.segments, retained.runs), (0, 0, 0, 0));
    assert_eq!(fleet.run(&run_name(2), 0).unwrap(), again);
    // When that run is old as well, everything is deleted.
    stand
        .sql(&format!("UPDATE runs SET made_at = now() - interval '90 days' WHERE run <> '{}'", run_name(3)));
    let retained = fleet.retain(30).unwrap();
    assert_eq!((retained.jobs, retained.runs), (2, 2));
    assert_eq!(fleet.run(&run_name(3), 0).unwrap().open, 1);
}

#[test]
fn a_page_is_made_of_so_many_bytes_and_says_what_it_leaves_out() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 3);
    for job in fleet.claim(&claim("w", 3, 600)).unwrap().jobs {
        fleet.finish(job.job, &outcome(&job, Verdict::Defer)).unwrap();
    }
    let page = || get(&stand, "/negatives", &stand.token);
    let (status, whole) = page();
    assert!(status == 200 && !whole.contains("are not shown"), "{whole}");
    // Only two of them fit.
    stand.sql(&format!("UPDATE segments SET bytes = {}", 12 << 20));
    let (status, cut) = page();
    assert!(status == 200 && cut.contains("1 older results are not shown"), "{cut}");
    stand.sql(&format!("UPDATE segments SET bytes = {}", (32 << 20) + 1));
    assert!(page().1.contains("3 older results are not shown"));
}

#[test]
fn a_quota_holds_for_those_who_ask_at_once() {
    let stand = Stand::new();
    let (fleet, mine) = (stand.fleet(), stand.fleet_as(&stand.token_for(&[Role::Submit], 10)));
    let tasks: Vec<String> = (0..8).map(|number| format!("task {number}")).collect();
    for task in &tasks {
        fleet.put_object(&Hash::of(task.as_bytes()), task.as_bytes()).unwrap();
    }
    let start = Barrier::new(tasks.len());
    let asked: Vec<Option<String>> = thread::scope(|scope| {
        let all: Vec<_> = (1..)
            .zip(&tasks)
            .map(|(number, task)| {
                let (start, mine) = (&start, &mine);
                scope.spawn(move || {
                    start.wait();
                    let refused = mine.submit(&submission(number, task, 10)).err();
                    refused.map(|error| error.word().unwrap_or_default().to_owned())
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    // Each submission needs the whole quota of the token.
    assert_eq!(asked.iter().filter(|refused| refused.is_none()).count(), 1, "{asked:?}");
    assert!(asked.iter().flatten().all(|word| word == "quota"), "{asked:?}");
    assert_eq!(stand.sql("SELECT count(*) FROM jobs"), "10");
}
