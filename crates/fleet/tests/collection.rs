//! Unreferenced objects are collected; objects that are referenced, or about to be, are kept.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stand::{Stand, claim, outcome, run_name, status, submission, submit};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::Verdict;
use warpproof_fleet::client::FleetError;
use warpproof_fleet::server::{Server, migrate};

fn of(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}

/// Makes all objects and strays two days old.
fn age(stand: &Stand) {
    stand.sql("UPDATE objects SET touched_at = now() - interval '2 days'");
    stand.sql("UPDATE strays SET since = now() - interval '2 days'");
}

/// Number of objects in the store, which is a directory.
fn stored(stand: &Stand) -> usize {
    let directories = fs::read_dir(stand.dir.path().join("objects/objects")).unwrap().flatten();
    directories.map(|directory| fs::read_dir(directory.path()).unwrap().count()).sum()
}

fn has(stand: &Stand, hash: &Hash) -> bool {
    match stand.fleet().object(hash) {
        Ok(bytes) => Hash::of(&bytes) == *hash,
        Err(error) => {
            assert_eq!(status(&error), 404);
            false
        }
    }
}

#[test]
fn what_nobody_names_goes_a_day_after_it_was_touched_and_nothing_else() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    // Objects of a bundle, of a segment, and unreferenced ones.
    submit(&fleet, 1, "task", 1);
    let job = fleet.claim(&claim("w", 1, 600)).unwrap().jobs.remove(0);
    let result = outcome(&job, Verdict::Provisional);
    let ptx: Hash = result.objects.keys().next().unwrap().parse().unwrap();
    fleet.finish(job.job, &result).unwrap();
    for text in ["stray", "asked for", "again"] {
        fleet.put_object(&of(text), text.as_bytes()).unwrap();
    }
    assert_eq!((stored(&stand), fleet.retain(30).unwrap().objects), (5, 0));
    age(&stand);
    // Uploading an existing object, or a submission that is rejected because of another missing file, makes the object young.
    fleet.put_object(&of("again"), b"again").unwrap();
    let mut lacking = submission(2, "asked for", 1);
    lacking.bundle.files.insert("kernel.cu".to_owned(), of("kernel").to_string());
    let error = fleet.submit(&lacking).unwrap_err();
    assert_eq!(error.word(), Some("missing_objects"));
    assert_eq!(fleet.retain(30).unwrap().objects, 1);
    assert!(!has(&stand, &of("stray")) && has(&stand, &of("asked for")) && has(&stand, &of("again")));
    fleet.put_object(&of("kernel"), b"kernel").unwrap();
    fleet.submit(&lacking).unwrap();
    // Referenced by a task and by a record, they stay however old they are.
    age(&stand);
    assert_eq!(fleet.retain(30).unwrap().objects, 1);
    assert!(!has(&stand, &of("again")));
    for kept in [of("task"), ptx, of("asked for"), of("kernel")] {
        assert!(has(&stand, &kept));
    }
    // A collected object can be uploaded again.
    fleet.put_object(&of("stray"), b"stray").unwrap();
    assert!(has(&stand, &of("stray")));
    // A server that was killed between storing the bytes and inserting the row leaves bytes that are known only as a stray.
    stand.sql("INSERT INTO strays SELECT hash, now() FROM objects WHERE hash NOT IN (SELECT hash FROM bundle_objects UNION SELECT hash FROM segment_objects)");
    stand.sql("DELETE FROM objects WHERE hash IN (SELECT hash FROM strays)");
    assert_eq!(fleet.retain(30).unwrap().objects, 0, "the upload may still be running");
    age(&stand);
    assert_eq!(fleet.retain(30).unwrap().objects, 1);
    assert_eq!(stored(&stand), 4);
    assert_eq!(stand.sql("SELECT count(*) FROM strays"), "0");
}

#[test]
fn what_a_dropped_stretch_named_goes_with_it() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 2);
    for job in fleet.claim(&claim("w", 2, 600)).unwrap().jobs {
        fleet.finish(job.job, &outcome(&job, Verdict::Provisional)).unwrap();
    }
    assert_eq!(stored(&stand), 3);
    // Everything is old, and later partitions have begun.
    stand.sql("UPDATE jobs SET ended_at = now() - interval '90 days'");
    stand.sql("UPDATE runs SET made_at = now() - interval '90 days'");
    stand.sql("UPDATE segments SET made_at = now() - interval '90 days'");
    stand.sql("ALTER TABLE jobs ALTER COLUMN job RESTART WITH 1000001");
    stand.sql("ALTER TABLE segments ALTER COLUMN number RESTART WITH 100001");
    submit(&fleet, 2, "another task", 1);
    let job = fleet.claim(&claim("w", 2, 600)).unwrap().jobs.remove(0);
    fleet.finish(job.job, &outcome(&job, Verdict::Provisional)).unwrap();
    age(&stand);
    let retained = fleet.retain(30).unwrap();
    assert_eq!((retained.jobs, retained.segments, retained.runs), (2, 2, 1));
    // The task, and the program of `c1`; a recent run also refers to that of `c0`.
    assert_eq!(retained.objects, 2);
    assert!(!has(&stand, &of("task")) && has(&stand, &of("another task")));
    assert!(!has(&stand, &of("ptx of c1")) && has(&stand, &of("ptx of c0")));
    assert_eq!(stand.sql("SELECT count(*) FROM bundles"), "1");
    // When it is requested again, everything is uploaded and evaluated once more.
    let error = fleet.submit(&submission(3, "task", 2)).unwrap_err();
    assert_eq!(error.word(), Some("missing_objects"));
    assert_eq!(submit(&fleet, 3, "task", 2).open, 2);
}

/// A database from before these tables existed gets them from its contents.
#[test]
fn what_names_objects_is_found_in_a_database_of_before() {
    let mut stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 3);
    fleet.put_object(&of("kernel"), b"kernel").unwrap();
    let mut wish = submission(2, "task", 1);
    wish.bundle.files.insert("kernel.cu".to_owned(), of("kernel").to_string());
    fleet.submit(&wish).unwrap();
    for job in fleet.claim(&claim("w", 2, 600)).unwrap().jobs {
        fleet.finish(job.job, &outcome(&job, Verdict::Provisional)).unwrap();
    }
    let named = |stand: &Stand| {
        let of_bundles =
            "SELECT string_agg(encode(bundle || hash, 'hex'), ' ' ORDER BY bundle, hash) FROM bundle_objects";
        let of_segments = "SELECT string_agg(segment || encode(hash, 'hex'), ' ' ORDER BY segment, hash) FROM segment_objects";
        (stand.sql(of_bundles), stand.sql(of_segments))
    };
    let before = named(&stand);
    assert_eq!((before.0.split(' ').count(), before.1.split(' ').count()), (3, 2));
    stand.server.take().unwrap().stop().unwrap();
    stand.sql("DROP TABLE bundle_objects, segment_objects, strays");
    stand.sql("DROP INDEX jobs_by_bundle");
    stand.sql("ALTER TABLE objects DROP COLUMN touched_at");
    stand.sql("ALTER TABLE tokens DROP COLUMN expires_at");
    stand.sql("ALTER TABLE runs DROP COLUMN task_name, DROP COLUMN task_version");
    stand.sql("ALTER TABLE workers DROP COLUMN left_at");
    stand.sql("ALTER TABLE jobs DROP COLUMN lost");
    stand.sql("DROP TABLE lost_leases");
    stand.sql("DELETE FROM _sqlx_migrations WHERE version >= 3");
    assert!(Server::start(&stand.config).is_err(), "the tables have an older version");
    migrate(&stand.config).unwrap();
    stand.server = Some(Server::start(&stand.config).unwrap());
    let after = named(&stand);
    assert_eq!(after.0, before.0);
    // The migration finds rather too many references in the lines: also the task that a run refers to.
    let found: Vec<&str> = after.1.split(' ').collect();
    assert!(before.1.split(' ').all(|one| found.contains(&one)) && found.len() == 4, "{after:?}");
    assert_eq!(stand.fleet().retain(30).unwrap().objects, 0);
}

/// Four clients upload and submit tasks, and their objects are made old before the submission, while another client collects
/// without a pause. After the server confirms that an object exists, or that a run was created, its bytes must be available.
#[test]
fn collecting_never_takes_what_somebody_was_told_is_there() {
    const ROUNDS: u64 = 25;
    let stand = Stand::new();
    let (over, collected, again) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let make_old = |hash: &Hash| {
        let day = "UPDATE objects SET touched_at = now() - interval '2 days'";
        stand.sql(&format!("{day} WHERE hash = decode('{hash}', 'hex')"));
    };
    let ask = |asker: u64| {
        let fleet = stand.fleet();
        for round in 0..ROUNDS {
            let task = format!("task {round} of {asker}");
            let hash = of(&task);
            let put = || {
                fleet.put_object(&hash, task.as_bytes()).unwrap();
                assert_eq!(fleet.object(&hash).unwrap(), task.as_bytes(), "uploaded: {task}");
            };
            put();
            make_old(&hash);
            // It may be collected at any moment, and is uploaded again.
            put();
            make_old(&hash);
            let wish = submission(1 + asker * ROUNDS + round, &task, 1);
            loop {
                match fleet.submit(&wish) {
                    Ok(_) => break,
                    Err(FleetError::Refused(422, refusal)) if refusal.error == "missing_objects" => {
                        again.fetch_add(1, Ordering::Relaxed);
                        put();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            make_old(&hash);
            assert_eq!(fleet.object(&hash).unwrap(), task.as_bytes(), "submitted: {task}");
        }
    };
    thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let fleet = stand.fleet();
            while !over.load(Ordering::Relaxed) {
                collected.fetch_add(fleet.retain(30).unwrap().objects, Ordering::Relaxed);
            }
        });
        let askers: Vec<_> = (0..4)
            .map(|asker| {
                let ask = &ask;
                scope.spawn(move || ask(asker))
            })
            .collect();
        let ended: Vec<bool> = askers.into_iter().map(|asker| asker.join().is_ok()).collect();
        over.store(true, Ordering::Relaxed);
        collector.join().unwrap();
        assert_eq!(ended, [true; 4]);
    });
    let (collected, again) = (collected.into_inner(), again.into_inner());
    assert!(collected > 0, "nothing was collected, so the test proves nothing");
    // Exactly the submitted objects exist.
    let rows = stand.sql("SELECT count(*) FROM objects");
    assert_eq!(
        (rows.as_str(), stored(&stand)),
        ("100", 100),
        "{collected} collected, {again} uploaded again"
    );
    for number in 1..=4 * ROUNDS {
        assert_eq!(stand.fleet().run(&run_name(number), 0).unwrap().jobs.len(), 1);
    }
    for (asker, round) in (0..4).flat_map(|asker| (0..ROUNDS).map(move |round| (asker, round))) {
        assert!(has(&stand, &of(&format!("task {round} of {asker}"))));
    }
}
