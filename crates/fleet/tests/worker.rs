//! A worker with problems: defects of its machine do not fail jobs, and leftovers of a task do not stop it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stand::{Stand, claim, outcome, run_name, submit, write_result};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::Verdict;
use warpproof_fleet::client::Fleet;
use warpproof_fleet::server::Server;
use warpproof_fleet::wire::State;
use warpproof_fleet::worker::{Config, Tally, work};
use warpproof_sandbox::Limits;

/// A worker whose evaluations run a shell script, which gets the directory as `$0`.
fn config(directory: &Path, script: &str) -> Config {
    Config {
        name: "w".to_owned(),
        slots: 2,
        lease_seconds: 60,
        devices: Vec::new(),
        taken: directory.join("devices"),
        directory: directory.to_owned(),
        program: ("/bin/sh".into(), vec!["-c".to_owned(), script.to_owned()]),
        limits: Limits::default(),
        // Nothing here comes from a task.
        unconfined: true,
        until_idle: false,
    }
}

#[test]
fn a_machine_in_trouble_gives_its_jobs_back_and_rests() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 6);
    let directory = stand.dir.path().join("worker");
    fs::create_dir(&directory).unwrap();
    // A file in place of the directory for task files, so that nothing can be stored.
    fs::write(directory.join("objects"), "no directory").unwrap();
    let (stop, said) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let tally = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let say = |text: &str| said.lock().unwrap().push(text.to_owned());
            work(&config(&directory, "exit 1"), &fleet, &stop, &say)
        });
        let rests = || said.lock().unwrap().iter().any(|text: &String| text.contains("pauses"));
        while !rests() && !worker.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap().unwrap()
    });
    assert!(said.lock().unwrap().iter().any(|text| text.contains("pauses")), "{said:?}");
    assert_eq!((tally.accepted, tally.failed), (0, 0));
    assert!(tally.released > 0, "{tally:?}");
    assert_eq!(
        stand.sql("SELECT count(*), sum(failures), sum(attempts) FROM jobs WHERE state = 'queued'"),
        "6|0|0"
    );
}

#[test]
fn what_a_task_leaves_neither_blocks_a_worker_nor_stays() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 2);
    let directory = stand.dir.path().join("worker");
    let leaves = "mkdir -p \"$0/ledger/segments\" \"$0/tmp/a/b\" && mkfifo \"$0/ledger/segments/x\" && \
                  ln -s /dev/zero \"$0/ledger/y\" && chmod 000 \"$0/tmp/a/b\" \"$0/tmp/a\"";
    let mut config = config(&directory, leaves);
    config.until_idle = true;
    let tally = work(&config, &fleet, &AtomicBool::new(false), &|_| {}).unwrap();
    // There is no other worker: after three attempts the jobs fail, and nothing waited.
    assert_eq!((tally.accepted, tally.failed), (0, 6));
    let run = fleet.run(&run_name(1), 0).unwrap();
    for job in &run.jobs {
        assert_eq!(job.state, State::Failed);
        assert!(job.reason.as_ref().unwrap().contains("unexpected file in the ledger"), "{:?}", job.reason);
    }
    assert_eq!(fs::read_dir(directory.join("jobs")).unwrap().count(), 0);
    assert!(!directory.join("left").exists());
    // Leftovers of a killed worker do not stop it either.
    fs::create_dir_all(directory.join("jobs/1-1/locked/inner")).unwrap();
    for locked in ["jobs/1-1/locked", "jobs/1-1"] {
        fs::set_permissions(directory.join(locked), std::os::unix::fs::PermissionsExt::from_mode(0o000))
            .unwrap();
    }
    work(&config, &fleet, &AtomicBool::new(false), &|_| {}).unwrap();
    assert_eq!(fs::read_dir(directory.join("jobs")).unwrap().count(), 0);
}

/// What each candidate does; `c4` only leaves no result.
const EXCESSES: &str = r#"
job=$(grep -o '"candidate":"c[0-9]"' "$0/order.json")
bomb() { if [ "$1" -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi; sleep 617.3; }
case $job in
*c0*) bomb 10 ;;
*c1*) (head -c 200000000 /dev/zero; sleep 617.3) | tail ;;
*c2*) for i in 1 2 3 4 5; do head -c 10000000 /dev/zero > "$0/tmp/$i"; done; sleep 617.3 ;;
*c3*) exec 3> "$0/tmp/unnamed"; rm "$0/tmp/unnamed"; head -c 50000000 /dev/zero >&3; sleep 617.3 ;;
esac
exit 7
"#;

#[test]
#[cfg(target_os = "linux")]
fn what_an_evaluation_uses_as_a_whole_is_limited_and_the_next_one_runs() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 5);
    let mut config = config(&stand.dir.path().join("worker"), EXCESSES);
    config.limits.processes = 64;
    config.limits.total_memory_bytes = 100 << 20;
    config.limits.disk_bytes = 32 << 20;
    (config.until_idle, config.slots) = (true, 1);
    let tally = work(&config, &fleet, &AtomicBool::new(false), &|_| {}).unwrap();
    assert_eq!((tally.accepted, tally.failed), (0, 15));
    let run = fleet.run(&run_name(1), 0).unwrap();
    let reasons: Vec<&str> = run.jobs.iter().map(|job| job.reason.as_deref().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "the evaluation had more than 64 processes",
            "the processes of the evaluation had more than 100 MB in memory",
            "the evaluation had more than 32 MB on disk",
            "the evaluation had more than 32 MB on disk",
            "the evaluation ended with exit status: 7: ",
        ]
    );
    // None of their processes remains.
    let left = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x00617.3\0"));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_result_that_the_server_does_not_take_is_a_failure_and_is_not_sent_again() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    // Every evaluation here leaves a valid ledger, but of another task.
    let directory = stand.dir.path().join("left behind");
    let ledger = Ledger::create(&directory).unwrap();
    let job = fleet.claim(&claim("elsewhere", 1, 600)).unwrap().jobs.remove(0);
    fleet.release(job.job, job.token).unwrap();
    let mut other = job.clone();
    other.bundle.files.insert(job.bundle.task.clone(), Hash::of(b"another task").to_string());
    write_result(&ledger, &other, Verdict::Provisional);
    let script = format!("cp -r '{}' \"$0/ledger\"", directory.display());
    let mut config = config(&stand.dir.path().join("worker"), &script);
    (config.until_idle, config.slots) = (true, 1);
    let said = Mutex::new(Vec::new());
    let say = |text: &str| said.lock().unwrap().push(text.to_owned());
    // The earlier worker would count as a second one that could try, so that failures of this one alone would not fail the job.
    stand.sql("UPDATE workers SET last_seen = now() - interval '1 hour'");
    let tally = work(&config, &fleet, &AtomicBool::new(false), &say).unwrap();
    assert_eq!((tally.accepted, tally.lost, tally.failed), (0, 0, 3), "{said:?}");
    let view = fleet.run(&run_name(1), 0).unwrap().jobs.remove(0);
    assert_eq!(view.state, State::Failed);
    let reason = view.reason.unwrap();
    assert!(reason.starts_with("its result was rejected:") && reason.contains("another task"), "{reason}");
    assert_eq!(stand.sql("SELECT failures, (SELECT count(*) FROM results) FROM jobs"), "3|0");
    // No unsent result remains.
    assert_eq!(fs::read_dir(stand.dir.path().join("worker/results")).unwrap().count(), 0);
    let tally = work(&config, &fleet, &AtomicBool::new(false), &say).unwrap();
    assert_eq!(tally, Tally::default());
}

/// A server that is not a fleet: it answers every request with a page.
fn no_fleet(status: &'static str) -> Fleet {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut bytes = vec![0; 1 << 16];
            while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
            let answer = "content-length: 8\r\nconnection: close\r\n\r\n<p>no<p>";
            let _gone = write!(stream, "HTTP/1.1 {status}\r\n{answer}");
        }
    });
    Fleet::new(&format!("http://{address}"), "wpf_x", None).unwrap()
}

#[test]
fn a_result_is_kept_until_the_server_has_said_yes_or_no() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    let directory = stand.dir.path().join("worker");
    let mut config = config(&directory, "exit 1");
    config.until_idle = true;
    let job = fleet.claim(&claim("w", 1, 600)).unwrap().jobs.remove(0);
    let kept = directory.join(format!("results/{}-{}.json", job.job, job.token));
    fs::create_dir_all(directory.join("results")).unwrap();
    fs::write(&kept, serde_json::to_vec(&outcome(&job, Verdict::Provisional)).unwrap()).unwrap();
    // Neither an unknown token nor a page of a proxy is a decision about the result.
    let unknown = stand.fleet_as(&format!("wpf_{:064x}", 7));
    let others = [unknown, no_fleet("200 OK"), no_fleet("403 Forbidden"), no_fleet("404 Not Found")];
    for other in others {
        assert!(work(&config, &other, &AtomicBool::new(false), &|_| {}).is_err());
        assert!(kept.exists());
    }
    let tally = work(&config, &fleet, &AtomicBool::new(false), &|_| {}).unwrap();
    assert_eq!((tally.accepted, tally.lost), (1, 0));
    assert!(!kept.exists());
}

#[test]
fn a_worker_sends_a_result_when_the_server_is_back() {
    let mut stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    let left = stand.dir.path().join("left behind");
    let job = fleet.claim(&claim("elsewhere", 1, 600)).unwrap().jobs.remove(0);
    fleet.release(job.job, job.token).unwrap();
    let ledger = Ledger::create(&left).unwrap();
    let (object, bytes) = write_result(&ledger, &job, Verdict::Provisional);
    fleet.put_object(&object, bytes.as_bytes()).unwrap();
    let begun = stand.dir.path().join("begun");
    let gone = stand.dir.path().join("gone");
    // The evaluation ends after the server has ended.
    let script = format!(
        "touch '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; cp -r '{}' \"$0/ledger\"",
        begun.display(),
        gone.display(),
        left.display()
    );
    let config = config(&stand.dir.path().join("worker"), &script);
    let (stop, said) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let tally = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let say = |text: &str| said.lock().unwrap().push(text.to_owned());
            work(&config, &fleet.clone().with_patience(Duration::from_millis(100)), &stop, &say)
        });
        // Whether this becomes true before the worker ends.
        let until = |what: &dyn Fn() -> bool| loop {
            if what() || worker.is_finished() {
                break what();
            }
            thread::sleep(Duration::from_millis(5));
        };
        let ended = until(&|| begun.exists()).then(|| {
            let old = stand.server.take().unwrap();
            stand.config.listen = old.address();
            old.stop().unwrap();
            fs::write(&gone, "").unwrap();
            // Sending was tried and postponed.
            let kept =
                || said.lock().unwrap().iter().any(|text: &String| text.contains("its result is kept"));
            let waited = until(&kept);
            stand.server = Some(Server::start(&stand.config).unwrap());
            waited && until(&|| fleet.run(&run_name(1), 0).unwrap().open == 0)
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(ended, Some(true), "{said:?}");
        worker.join().unwrap().unwrap()
    });
    assert_eq!((tally.accepted, tally.lost, tally.failed), (1, 0, 0), "{said:?}");
}
