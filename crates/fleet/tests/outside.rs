//! Third-party programs against the server: a fuzzer that reads its OpenAPI description, and an S3-compatible store.
//!
//! `cargo xtask fleet-api` installs them and runs these tests; without it, nothing here runs.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stand::{claim, outcome, status, submission, submit};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::Verdict;
use warpproof_fleet::client::Fleet;
use warpproof_fleet::postgres::Postgres;
use warpproof_fleet::server::description;
use warpproof_fleet::wire::{Leased, NewToken, Role, SOFTWARE_GPU};

/// A variable set by `cargo xtask fleet-api`.
fn given(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask fleet-api`"))
}

/// A program installed for these tests.
fn installed(program: &str) -> PathBuf {
    Path::new(&given("WARPPROOF_TEST_OUTSIDE")).join("bin").join(program)
}

/// The server program, started as by an operator; its request log is a file.
struct Served {
    child: Child,
    base: String,
    token: String,
    log: PathBuf,
}

impl Served {
    fn start(
        dir: &Path,
        postgres: &Postgres,
        objects: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        let log = dir.join("requests.jsonl");
        let mut child = Command::new(env!("CARGO_BIN_EXE_warpproof-fleet"))
            .args(["serve", "--dev", "--listen", "127.0.0.1:0", "--max-rate", "1000000"])
            .args(["--objects", objects, "--database", &postgres.url_of("fleet")])
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (Some(base), Some(token)) = (lines.next(), lines.next()) else {
            let _ended = child.wait();
            return Err(fs::read_to_string(&log).unwrap());
        };
        let base = base.strip_prefix("serving ").unwrap().to_owned();
        let token = token.strip_prefix("WARPPROOF_FLEET_TOKEN=").unwrap().to_owned();
        Ok(Self { child, base, token, log })
    }

    fn fleet(&self) -> Fleet {
        Fleet::new(&self.base, &self.token, None).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn database() -> Postgres {
    let postgres = Postgres::start(&[]).unwrap();
    postgres.create("fleet").unwrap();
    postgres
}

/// Creates one of everything in a fleet, and returns the names of existing items and valid request bodies.
fn seed(fleet: &Fleet, round: u64) -> Value {
    let number = |at: u64| round * 1_000 + at;
    let text = |at: u64| format!("task {}", number(at));
    // A finished job, with a segment, records and an object.
    submit(fleet, number(1), &text(1), 1);
    let done: Vec<Leased> = fleet.claim(&claim("seed", 256, 3_600)).unwrap().jobs;
    let mut records = BTreeSet::new();
    let mut segments = Vec::new();
    let mut objects = vec![Hash::of(text(1).as_bytes()).to_string()];
    for job in &done {
        let outcome = outcome(job, Verdict::Provisional);
        for line in outcome.text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            records.extend(line["hash"].as_str().map(ToOwned::to_owned));
        }
        objects.extend(outcome.objects.keys().cloned());
        segments.push(outcome.segment.clone());
        fleet.finish(job.job, &outcome).unwrap();
    }
    // Many leased jobs, half of them with a valid result; and some waiting ones.
    submit(fleet, number(2), &text(2), 200);
    let held = fleet.claim(&claim("seed", 200, 3_600)).unwrap().jobs;
    let results: Vec<Value> = held[..100]
        .iter()
        .map(|job| json!({ "job": job.job, "outcome": outcome(job, Verdict::Reject) }))
        .collect();
    let leases: Vec<Value> =
        held[100..].iter().map(|job| json!({ "job": job.job, "token": job.token })).collect();
    submit(fleet, number(3), &text(3), 50);
    // Segments from elsewhere, whose objects exist on the server.
    let elsewhere = |at: i64| {
        let bundle = submission(number(4), "elsewhere", 1).bundle;
        let capability = SOFTWARE_GPU.to_owned();
        let job = Leased { job: at, token: at, capability, candidate: format!("e{round}-{at}"), bundle };
        let made = outcome(&job, Verdict::Reject);
        let object = format!("ptx of {}", job.candidate);
        fleet.put_object(&Hash::of(object.as_bytes()), object.as_bytes()).unwrap();
        json!({ "id": made.segment, "text": made.text })
    };
    let imports: Vec<Value> = (1..=30).map(elsewhere).collect();
    let wanted = NewToken { name: "to be revoked".to_owned(), roles: vec![Role::Read], quota: 1, days: None };
    let tokens: Vec<i64> = (0..10).map(|_| fleet.make_token(&wanted).unwrap().id).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "runs": (1..=3).map(|at| stand::run_name(number(at))).collect::<Vec<_>>(),
        "submissions": (1..=3).map(|at| submission(0, &text(at), 2)).collect::<Vec<_>>(),
        "segments": segments,
        "objects": objects,
        "records": records,
        "leases": leases,
        "results": results,
        "imports": imports,
        "tokens": tokens,
    })
}

/// Checks of every response. `positive_data_acceptance` is not among them: the server also rejects what a schema cannot express
/// (limits in bytes instead of characters, objects that must have been uploaded).
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      ignored_auth,unsupported_method,allow_header_conformance,missing_required_header";

/// Runs the fuzzer for this many seconds; returns its output if it found an error.
fn fuzz(dir: &Path, base: &str, token: &str, phases: &str, seconds: u64, seed: u64) -> Result<(), String> {
    let output = Command::new(installed("schemathesis"))
        .args(["--no-color", "run", &format!("{base}/openapi.json"), "--phases", phases])
        .args(["--header", &format!("Authorization: Bearer {token}"), "--checks", CHECKS])
        .args(["--max-time", &seconds.to_string(), "--seed", &seed.to_string()])
        // Longer than the longest wait for a run.
        .args([
            "--request-timeout",
            "60",
            "--continue-on-failure",
            "--no-shrink",
            "--generation-database",
            "none",
        ])
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("WARPPROOF_TEST_SEEDS", dir.join("seeds.json"))
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // The summary is at the end of its output; longer lines are not findings.
    let said: Vec<&str> = out.lines().chain(err.lines()).filter(|line| line.len() < 2_000).collect();
    Err(format!(
        "schemathesis gave {}:\n{}",
        output.status,
        said[said.len().saturating_sub(300)..].join("\n")
    ))
}

/// The server's responses: number per status, by method and route.
fn answers(log: &Path) -> BTreeMap<(String, String), BTreeMap<u64, u64>> {
    let mut found: BTreeMap<(String, String), BTreeMap<u64, u64>> = BTreeMap::new();
    for line in BufReader::new(File::open(log).unwrap()).lines() {
        // Log lines of the periodic maintenance have no method.
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(method) = line["method"].as_str() else { continue };
        let route = (method.to_owned(), line["route"].as_str().unwrap().to_owned());
        *found.entry(route).or_default().entry(line["status"].as_u64().unwrap()).or_default() += 1;
    }
    found
}

#[test]
#[ignore = "run by `cargo xtask fleet-api`, which installs its dependencies"]
fn the_description_holds_against_a_fuzzer() {
    let minutes: f64 = given("WARPPROOF_TEST_FLEET_MINUTES").parse().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let postgres = database();
    let served = Served::start(dir.path(), &postgres, &dir.path().join("objects").display().to_string(), &[]);
    let served = served.unwrap();
    // The first tokens may be revoked; those that the fuzzer uses have numbers that it does not generate.
    let fleet = served.fleet();
    let far = "SELECT setval(pg_get_serial_sequence('tokens', 'id'), 5000000000)";
    postgres.psql("fleet", far).unwrap();
    let token = |roles: &[Role]| {
        let wanted =
            NewToken { name: "fuzz".to_owned(), roles: roles.to_vec(), quota: 1_000_000, days: None };
        fleet.make_token(&wanted).unwrap().token
    };
    let all = token(&Role::ALL);
    let each: Vec<(Role, String)> = Role::ALL.into_iter().map(|role| (role, token(&[role]))).collect();
    // A run can be canceled only with the token that submitted it.
    let seeder = Fleet::new(&served.base, &all, None).unwrap();
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut problems = Vec::new();
    let before: u64 = answers(&served.log).values().flat_map(BTreeMap::values).sum();
    for round in 1.. {
        // Items that one round revokes, ends and deletes exist again in the next.
        fs::write(dir.path().join("seeds.json"), seed(&seeder, round).to_string()).unwrap();
        let left = end.saturating_duration_since(Instant::now()).as_secs();
        let seconds = left.clamp(10, 300);
        let phases = "examples,coverage,fuzzing,stateful";
        let mut ask = |name: &str, token: &str, phases: &str, seconds: u64| {
            if let Err(problem) = fuzz(dir.path(), &served.base, token, phases, seconds, round) {
                problems.push(format!("with the token of {name}, round {round}: {problem}"));
            }
        };
        ask("all roles", &all, phases, seconds * 7 / 10);
        for (role, token) in &each {
            ask(role.as_str(), token, "fuzzing", (seconds / 14).max(1));
        }
        if Instant::now() >= end || !problems.is_empty() {
            break;
        }
    }
    let answers = answers(&served.log);
    let total: u64 = answers.values().flat_map(BTreeMap::values).sum();
    let sum = |chosen: &dyn Fn(u64) -> bool| -> u64 {
        let all = answers.values().flatten().filter(|(status, _)| chosen(**status));
        all.map(|(_, count)| count).sum()
    };
    let kinds: Vec<String> = [200, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 503]
        .into_iter()
        .map(|status| format!("{status}: {}", sum(&|own| own == status)))
        .collect();
    eprintln!(
        "counted: {} requests of the fuzzer in {minutes} minutes; {}",
        total - before,
        kinds.join(", ")
    );
    let described: Value = serde_json::from_str(&description().unwrap()).unwrap();
    let (mut routes, mut taken, mut unseen) = (0, 0, Vec::new());
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let route = (method.to_uppercase(), path.clone());
            let counts = answers.get(&route).cloned().unwrap_or_default();
            let some =
                |class: u64| counts.iter().filter(|(s, _)| **s / 100 == class).map(|(_, n)| n).sum::<u64>();
            eprintln!("  {:7}{path}: {} × 2xx, {} × 4xx, {} × 5xx", route.0, some(2), some(4), some(5));
            routes += 1;
            if some(2) > 0 {
                taken += 1;
            } else {
                unseen.push(format!("{} {path}", route.0));
            }
        }
    }
    eprintln!("counted: {taken} of {routes} routes of the description succeeded at least once");
    for line in BufReader::new(File::open(&served.log).unwrap()).lines().map_while(Result::ok) {
        if line.contains("\"level\":\"error\"") {
            problems.push(line);
        }
    }
    if !unseen.is_empty() {
        problems.push(format!("never succeeded: {}", unseen.join(", ")));
    }
    // A fuzzer run whose requests are rejected by access control proves nothing.
    let away = sum(&|status| [401, 403, 429].contains(&status));
    if 2 * away > total {
        problems.push(format!("{away} of {total} requests were rejected by access control"));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // The server is healthy after the test.
    assert!(fleet.queue().is_err_and(|error| status(&error) == 401) || fleet.queue().is_ok());
    seed(&seeder, 1_000_000);
}

/// An S3-compatible store, with a bucket `fleet`.
struct Store {
    child: Child,
    address: String,
}

impl Store {
    fn start() -> Self {
        let mut child = Command::new(installed("moto_server"))
            .args(["--host", "127.0.0.1", "--port", "0"])
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines
            .by_ref()
            .find_map(|line| line.split_once("Running on http://").map(|(_, rest)| rest.trim().to_owned()))
            .unwrap();
        // It continues writing, and must not block on a full pipe.
        thread::spawn(move || lines.for_each(drop));
        let store = Self { child, address };
        assert_eq!(store.ask("PUT", "/fleet").0, 200);
        store
    }

    /// Sends a request directly to the store, bypassing the server.
    fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let request = ureq::http::Request::builder().method(method);
        let request = request.uri(format!("http://{}{path}", self.address)).body(()).unwrap();
        let mut answer = agent.run(request).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }

    fn keys(&self) -> BTreeSet<String> {
        let (status, list) = self.ask("GET", "/fleet?list-type=2&max-keys=1000");
        assert_eq!(status, 200, "{list}");
        let keys = list.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A connection to the store that can be interrupted.
struct Way {
    address: String,
    open: Arc<AtomicBool>,
}

impl Way {
    fn to(store: &Store) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (open, far) = (Arc::new(AtomicBool::new(true)), store.address.clone());
        let own = Arc::clone(&open);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Some(far) = own.load(Ordering::Relaxed).then(|| TcpStream::connect(&far).unwrap()) else {
                    continue;
                };
                for (from, to) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far.try_clone().unwrap(), near.try_clone().unwrap()),
                ] {
                    let open = Arc::clone(&own);
                    thread::spawn(move || carry(from, to, &open));
                }
            }
        });
        Self { address, open }
    }

    fn set(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
        // The forwarding threads check the flag periodically.
        thread::sleep(Duration::from_millis(300));
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, open: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut bytes = vec![0; 64 << 10];
    while open.load(Ordering::Relaxed) {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) if to.write_all(&bytes[..read]).is_ok() => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => break,
        }
    }
    for stream in [from, to] {
        // The other direction may have closed it.
        let _gone = stream.shutdown(Shutdown::Both);
    }
}

#[test]
#[ignore = "run by `cargo xtask fleet-api`, which installs its dependencies"]
fn objects_in_s3() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let postgres = database();
    let store = Store::start();
    let way = Way::to(&store);
    let endpoint = format!("http://{}", way.address);
    let keys = [("AWS_ACCESS_KEY_ID", "fleet"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let place = [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_REGION", "us-east-1")];
    // Configuration errors are reported at the start, before any request is accepted.
    let refused = |objects: &str, environment: &[(&str, &str)]| {
        let environment = [environment, &place].concat();
        Served::start(dir.path(), &postgres, objects, &environment).err().unwrap()
    };
    let said = refused("s3://elsewhere/x", &keys);
    assert!(said.contains("bucket `elsewhere` not found; create it first"), "{said}");
    let said = refused("s3://fleet/x", &[]);
    assert!(said.contains("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"), "{said}");
    let said = refused("s3://fleet/x", &keys[..1]);
    assert!(said.contains("AWS_SECRET_ACCESS_KEY is not set"), "{said}");
    let said = refused("s3:///x", &keys);
    assert!(said.contains("s3://BUCKET/PREFIX"), "{said}");

    let served = Served::start(dir.path(), &postgres, "s3://fleet/some/prefix", &[keys, place].concat());
    let served = served.unwrap();
    let fleet = served.fleet();
    // Upload, check, download.
    let bytes = vec![7; 3 << 20];
    let hash = Hash::of(&bytes);
    assert_eq!(status(&fleet.object(&hash).unwrap_err()), 404);
    fleet.put_object(&hash, &bytes).unwrap();
    fleet.put_object(&hash, &bytes).unwrap();
    assert_eq!(fleet.object(&hash).unwrap(), bytes);
    let name = hash.to_string();
    let key = format!("some/prefix/objects/{}/{}", &name[..2], &name[2..]);
    assert_eq!(store.keys(), BTreeSet::from([key]));
    // A candidate is submitted and evaluated by a worker, and its evidence is fetched.
    let program = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).args(["--fleet", &served.base]).env("WARPPROOF_FLEET_TOKEN", &served.token);
        command.current_dir(dir.path()).stdin(Stdio::null());
        command
    };
    let task = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/softmax.toml");
    let gate = program(
        &given("WARPPROOF_TEST_PROGRAM"),
        &["gate", &task.display().to_string(), "rows", "--ledger", "here"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    while fleet.queue().unwrap().is_empty() {
        thread::sleep(Duration::from_millis(100));
    }
    let worked = program(
        env!("CARGO_BIN_EXE_warpproof-fleet"),
        &["worker", "--until-idle", "--unconfined", "--jobs", "1", "--directory", "worker"],
    );
    let worked = { worked }.output().unwrap();
    assert!(worked.status.success(), "{}", String::from_utf8_lossy(&worked.stderr));
    let gate = gate.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&gate.stdout).into_owned() + &String::from_utf8_lossy(&gate.stderr);
    assert!(said.contains("PROVISIONAL"), "{said}");
    let exported = Ledger::create(at("export")).unwrap();
    assert_eq!(stand::export(&fleet, &exported), 1);
    let report = exported.verify().unwrap();
    assert!(report.is_sound() && report.tally.objects > 0, "{report}");
    assert!(store.keys().len() > usize::try_from(report.tally.objects).unwrap(), "{report}");

    // If the store is unreachable, clients get the error `unavailable`, and nothing is acknowledged that is not stored.
    let hasty = fleet.clone().with_patience(Duration::ZERO);
    let other = Hash::of(b"other");
    way.set(false);
    let refused = [hasty.object(&hash).err(), hasty.put_object(&other, b"other").err()];
    for error in refused {
        let error = error.unwrap();
        assert_eq!((status(&error), error.word()), (503, Some("unavailable")), "{error}");
    }
    assert!(fleet.queue().is_ok(), "requests without objects still succeed");
    let noted = format!("SELECT count(*) FROM objects WHERE hash = '\\x{other}'");
    assert_eq!(postgres.psql("fleet", &noted).unwrap().trim(), "0");
    // A client that retries does not notice.
    let waits = thread::spawn({
        let fleet = fleet.clone();
        move || fleet.put_object(&other, b"other")
    });
    thread::sleep(Duration::from_secs(2));
    way.set(true);
    waits.join().unwrap().unwrap();
    assert_eq!(hasty.object(&other).unwrap(), b"other");
    assert_eq!(hasty.object(&hash).unwrap(), bytes);
    let failures = fs::read_to_string(&served.log).unwrap();
    assert!(!failures.contains("\"status\":500"), "{failures}");
}
