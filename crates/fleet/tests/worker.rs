//! A worker in trouble: what its machine lacks is not held against jobs, and what a task leaves does not stop it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stand::{Stand, run_name, submit};
use warpproof_fleet::sandbox::Limits;
use warpproof_fleet::wire::State;
use warpproof_fleet::worker::{Config, work};

/// A worker whose evaluations are a script of the shell, which gets the directory as `$0`.
fn config(directory: &Path, script: &str) -> Config {
    Config {
        name: "w".to_owned(),
        slots: 2,
        lease_seconds: 60,
        device: None,
        directory: directory.to_owned(),
        program: ("/bin/sh".into(), vec!["-c".to_owned(), script.to_owned()]),
        limits: Limits::default(),
        // Nothing here is of a task.
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
    // Where the files of tasks are to be kept, nothing can be kept.
    fs::write(directory.join("objects"), "no directory").unwrap();
    let (stop, said) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let tally = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let say = |text: &str| said.lock().unwrap().push(text.to_owned());
            work(&config(&directory, "exit 1"), &fleet, &stop, &say)
        });
        let rests = || said.lock().unwrap().iter().any(|text: &String| text.contains("rests"));
        for _ in 0..600 {
            if rests() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap().unwrap()
    });
    assert!(said.lock().unwrap().iter().any(|text| text.contains("rests")), "{said:?}");
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
    // There is no other worker: after three tries they are given up, and nothing was waited for.
    assert_eq!((tally.accepted, tally.failed), (0, 6));
    let run = fleet.run(&run_name(1), 0).unwrap();
    for job in &run.jobs {
        assert_eq!(job.state, State::Failed);
        assert!(job.reason.as_ref().unwrap().contains("what is no file of one"), "{:?}", job.reason);
    }
    assert_eq!(fs::read_dir(directory.join("jobs")).unwrap().count(), 0);
    assert!(!directory.join("left").exists());
    // Neither does what was left by a worker that was killed.
    fs::create_dir_all(directory.join("jobs/1-1/locked/inner")).unwrap();
    for locked in ["jobs/1-1/locked", "jobs/1-1"] {
        fs::set_permissions(directory.join(locked), std::os::unix::fs::PermissionsExt::from_mode(0o000))
            .unwrap();
    }
    work(&config, &fleet, &AtomicBool::new(false), &|_| {}).unwrap();
    assert_eq!(fs::read_dir(directory.join("jobs")).unwrap().count(), 0);
}
