//! A fleet under faults: killed workers and servers, a database that restarts, a network that drops, delays and repeats
//! connections. CI runs a part; `cargo xtask fleet-faults` runs everything.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and prints its progress")]

mod bench;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::Bench;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::Ledger;
use warpproof_evidence::record::{Body, Finite, StepRecord};
use warpproof_fleet::client::Fleet;
use warpproof_fleet::exchange;
use warpproof_fleet::postgres::Postgres;
use warpproof_fleet::submit;
use warpproof_fleet::wire::{Bundle, RunView, SOFTWARE_GPU, State, Submission};

/// The smallest task that can be evaluated, as a user would write it.
const FILES: [(&str, &[u8]); 4] = [
    ("task.toml", include_bytes!("../examples/doubled/task.toml")),
    ("doubled.ptx", include_bytes!("../examples/doubled/doubled.ptx")),
    ("x.npy", include_bytes!("../examples/doubled/x.npy")),
    ("y.npy", include_bytes!("../examples/doubled/y.npy")),
];

/// The files of one evaluation: each has its own task, and every third a wrong kernel.
fn files(number: usize) -> BTreeMap<&'static str, Vec<u8>> {
    let mut files: BTreeMap<_, _> = FILES.iter().map(|(path, bytes)| (*path, bytes.to_vec())).collect();
    let replaced = |text: &[u8], old: &str, new: &str| {
        let text = str::from_utf8(text).unwrap();
        assert!(text.contains(old), "{text}");
        text.replace(old, new).into_bytes()
    };
    let task = replaced(&files["task.toml"], "y = 2 x", &format!("evaluation {number}: y = 2 x"));
    files.insert("task.toml", task);
    if number % 3 == 2 {
        // Multiplies by three.
        files.insert("doubled.ptx", replaced(&files["doubled.ptx"], "0f40000000", "0f40400000"));
    }
    files
}

fn submission(number: usize) -> (Submission, BTreeMap<Hash, Vec<u8>>) {
    let files = files(number);
    let named = files.iter().map(|(path, bytes)| ((*path).to_owned(), Hash::of(bytes).to_string()));
    let bundle = Bundle {
        task: "task.toml".to_owned(),
        files: named.collect(),
        secret: Some("5".to_owned()),
        stages: None,
    };
    let submission = Submission {
        run: format!("{:032x}", number + 1),
        bundle,
        candidates: vec!["doubled".to_owned()],
        capability: SOFTWARE_GPU.to_owned(),
        fresh: false,
        priority: 0,
    };
    (submission, files.into_values().map(|bytes| (Hash::of(&bytes), bytes)).collect())
}

fn ask(fleet: &Fleet, number: usize) -> RunView {
    let (submission, objects) = submission(number);
    submit::send(fleet, &submission, &objects).unwrap()
}

/// A random number generator with the same sequence in every run.
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, sides: u64) -> u64 {
        let next =
            |state: u64| Some(state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        let state = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap();
        (state >> 33) % sides
    }
}

/// A proxy between the clients and the server: it drops, delays and repeats connections.
struct Proxy {
    address: String,
    kind: Arc<AtomicBool>,
    harm: Arc<[AtomicU64; 3]>,
}

impl Proxy {
    fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (kind, harm) = (Arc::new(AtomicBool::new(false)), Arc::new([const { AtomicU64::new(0) }; 3]));
        let dice = Arc::new(Dice(AtomicU64::new(7)));
        let (gentle, counts) = (kind.clone(), harm.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, dice, counts) = (server.clone(), dice.clone(), counts.clone());
                let fate = if gentle.load(Ordering::Relaxed) { 99 } else { dice.roll(20) };
                thread::spawn(move || carry(&client, &server, fate, &dice, &counts));
            }
        });
        Self { address, kind, harm }
    }
}

fn carry(client: &TcpStream, server: &str, fate: u64, dice: &Dice, counts: &[AtomicU64; 3]) {
    let Ok(upstream) = TcpStream::connect(server) else { return };
    let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    // How many bytes of the response are passed on.
    let most = if fate == 0 || fate == 1 { usize::try_from(dice.roll(300)).unwrap() } else { usize::MAX };
    if fate == 2 || fate == 3 {
        counts[1].fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(dice.roll(400)));
    }
    let twice = fate == 4 || fate == 5;
    let server = server.to_owned();
    let up = thread::spawn(move || {
        let mut said = Vec::new();
        let mut buffer = [0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if twice && said.len() < 1 << 20 {
                said.extend_from_slice(&buffer[..read]);
            }
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        said
    });
    let (mut back, mut out, mut passed) = (upstream.try_clone().unwrap(), client.try_clone().unwrap(), 0);
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = back.read(&mut buffer) {
        passed += read;
        if passed > most {
            counts[0].fetch_add(1, Ordering::Relaxed);
            break;
        }
        if out.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (client.shutdown(Shutdown::Both), upstream.shutdown(Shutdown::Both));
    if let Some(said) = up.join().ok().filter(|said| !said.is_empty()) {
        // The whole request is sent once more, and the responses are discarded.
        if let Ok(mut again) = TcpStream::connect(server) {
            counts[2].fetch_add(1, Ordering::Relaxed);
            let _ = again.write_all(&said).and_then(|()| again.shutdown(Shutdown::Write));
            let _ = again.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = std::io::copy(&mut again, &mut std::io::sink());
        }
    }
}

struct Machines<'b> {
    bench: &'b Bench,
    postgres: Postgres,
    server: Child,
    listen: String,
    token: String,
}

impl<'b> Machines<'b> {
    fn start(bench: &'b Bench) -> Self {
        let postgres = Postgres::start(&[]).unwrap();
        let (server, said) = serve(bench, &postgres, "127.0.0.1:0", true);
        let listen = said[0].strip_prefix("serving http://").unwrap().to_owned();
        let token = said[1].strip_prefix("WARPPROOF_FLEET_TOKEN=").unwrap().to_owned();
        Self { bench, postgres, server, listen, token }
    }

    /// Kills the server like a power failure, and starts another one in its place.
    fn kill_server(&mut self) {
        self.server.kill().and_then(|()| self.server.wait()).unwrap();
        self.server = serve(self.bench, &self.postgres, &self.listen, false).0;
    }

    fn fleet(&self, address: &str) -> Fleet {
        Fleet::new(address, &self.token, None).unwrap().with_patience(Duration::from_mins(5))
    }

    fn worker(&self, address: &str, number: usize, lease: &str) -> Child {
        let directory = format!("worker-{number}");
        let arguments =
            ["worker", "--fleet", address, "--jobs", "1", "--directory", &directory, "--lease", lease];
        let mut command = self.bench.fleet_command();
        command.args(arguments).env("WARPPROOF_FLEET_TOKEN", &self.token);
        command.stderr(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Machines<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill().and_then(|()| self.server.wait());
    }
}

fn serve(bench: &Bench, postgres: &Postgres, listen: &str, dev: bool) -> (Child, Vec<String>) {
    let mut command = bench.fleet_command();
    command.args(["serve", "--quiet", "--listen", listen, "--objects", "objects", "--database"]);
    command.arg(postgres.url()).args(dev.then_some("--dev")).stdout(Stdio::piped()).stderr(Stdio::null());
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        let mut server = command.spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said: Vec<String> = lines.take(if dev { 2 } else { 1 }).collect();
        if !said.is_empty() {
            return (server, said);
        }
        // The database may be restarting.
        server.wait().unwrap();
        assert!(Instant::now() < deadline, "the server did not start");
    }
}

/// A step without the parts that differ between two runs; the key of a part contains the secret of its run.
fn comparable(step: StepRecord) -> String {
    let key = if step.part.is_some() { Hash::of(b"a part") } else { step.key };
    format!("{:?}", StepRecord { run: String::new(), seconds: Finite::ZERO, key, ..step })
}

/// The steps of a run, without the parts that differ between two runs.
fn steps(ledger: &Ledger, only: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for record in ledger.records().unwrap() {
        if let Body::Step(step) = record.unwrap().body
            && only.is_none_or(|run| step.run == run)
        {
            found.push(comparable(step));
        }
    }
    found
}

/// Checks the result of the whole test: one result per evaluation, and evidence that verifies and equals that of a local run.
fn look(machines: &Machines<'_>, fleet: &Fleet, evaluations: usize) {
    let count = |sql: &str| machines.postgres.psql("postgres", sql).unwrap();
    assert_eq!(count("SELECT count(*) FROM results"), evaluations.to_string());
    assert_eq!(count("SELECT count(*) FROM jobs WHERE state <> 'done'"), "0");
    assert_eq!(count("SELECT count(*) FROM segments"), evaluations.to_string());
    // The fencing token of a result is the newest one of its job.
    let stale =
        "SELECT count(*) FROM results JOIN jobs USING (job) WHERE results.lease_token <> jobs.lease_token";
    assert_eq!(count(stale), "0");
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::passing(dir.path().join("all")).unwrap();
    assert_eq!(exchange::export(fleet, &ledger).unwrap(), evaluations);
    let report = ledger.verify().unwrap();
    assert!(report.is_sound(), "{report}");
    // Compares the steps of each evaluation with a local run.
    let mut own: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for kind in [1, 2] {
        for (path, bytes) in files(kind) {
            std::fs::write(dir.path().join(path), bytes).unwrap();
        }
        let mut gate = machines.bench.command();
        let ledger = format!("own-{kind}");
        gate.current_dir(dir.path()).args(["gate", "task.toml", "--secret", "5", "--ledger", &ledger]);
        assert_eq!(gate.output().unwrap().status.code(), Some(i32::from(kind == 2)));
        own.insert(kind, steps(&Ledger::open(dir.path().join(ledger)).unwrap(), None));
    }
    let numbers: BTreeMap<Hash, usize> =
        (0..evaluations).map(|number| (Hash::of(&files(number)["task.toml"]), number)).collect();
    let mut runs: BTreeMap<String, (Option<usize>, Vec<String>)> = BTreeMap::new();
    for record in ledger.records().unwrap() {
        match record.unwrap().body {
            Body::Run(run) => {
                runs.entry(run.run.clone()).or_default().0 = numbers.get(&run.task_hash).copied();
            }
            Body::Step(step) => {
                let run = step.run.clone();
                runs.entry(run).or_default().1.push(comparable(step));
            }
            _ => {}
        }
    }
    // Each evaluation occurs once, with the steps of its own kernel.
    let all: BTreeSet<usize> = runs.values().filter_map(|(number, _)| *number).collect();
    assert_eq!((runs.len(), all.len()), (evaluations, evaluations));
    for (number, steps) in runs.values() {
        let kind = if number.unwrap() % 3 == 2 { 2 } else { 1 };
        assert_eq!(*steps, own[&kind], "evaluation {number:?}");
    }
}

/// The results that the server has acknowledged, as clients see them: the record of each job.
#[derive(Default)]
struct Acknowledged {
    records: BTreeMap<i64, String>,
}

impl Acknowledged {
    /// Whether an evaluation is done. Once it was seen as done, it must stay so, with the same record.
    fn ask(&mut self, fleet: &Fleet, number: usize) -> bool {
        let run = fleet.run(&format!("{:032x}", number + 1), 0).unwrap();
        let [job] = &run.jobs[..] else { panic!("{run:?}") };
        assert_ne!(job.state, State::Failed, "{job:?}");
        let record = job.record.clone().filter(|_| job.state == State::Done);
        if let Some(known) = self.records.get(&job.job) {
            assert_eq!(record.as_ref(), Some(known), "an acknowledged result is lost, or changed");
        }
        let done = record.is_some();
        self.records.extend(record.map(|record| (job.job, record)));
        done
    }
}

fn number(name: &str, otherwise: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn toolchain_every_job_completes_once_whatever_is_killed() {
    let bench = Bench::new();
    let evaluations = number("WARPPROOF_TEST_FLEET_EVALUATIONS", 110);
    let mut left = [
        number("WARPPROOF_TEST_FLEET_WORKER_KILLS", 6),
        number("WARPPROOF_TEST_FLEET_SERVER_KILLS", 3),
        number("WARPPROOF_TEST_FLEET_RESTARTS", 2),
    ];
    let mut machines = Machines::start(&bench);
    let proxy = Proxy::start(machines.listen.clone());
    let fleet = machines.fleet(&proxy.address);
    // Some submissions before each fault, so that there is always data that could be lost.
    let each = evaluations.div_ceil(left.iter().sum::<usize>().max(1));
    let mut submitted = 0;
    let mut workers: Vec<Child> = (0..4).map(|number| machines.worker(&proxy.address, number, "4")).collect();
    let dice = Dice(AtomicU64::new(3));
    let mut acknowledged = Acknowledged::default();
    let (all, begun) = (left.iter().sum::<usize>(), Instant::now());
    while left.iter().sum::<usize>() > 0 {
        let next = (submitted + each).min(evaluations);
        for number in submitted..next {
            ask(&fleet, number);
        }
        submitted = next;
        thread::sleep(Duration::from_millis(dice.roll(400)));
        let faults: usize = left.iter().sum();
        if faults.is_multiple_of(10) {
            let (done, seconds) = (acknowledged.records.len(), begun.elapsed().as_secs());
            eprintln!("{seconds} s: {} of {all} faults, {submitted} submitted, {done} done", all - faults);
        }
        let mut chosen = usize::try_from(dice.roll(u64::try_from(faults).unwrap())).unwrap();
        let what = left.iter().position(|count| {
            let here = chosen < *count;
            chosen = chosen.saturating_sub(*count);
            here
        });
        let what = what.unwrap();
        left[what] -= 1;
        match what {
            0 => {
                let at = usize::try_from(dice.roll(4)).unwrap();
                workers[at].kill().and_then(|()| workers[at].wait()).unwrap();
                workers[at] = machines.worker(&proxy.address, at, "4");
            }
            1 => machines.kill_server(),
            _ => {
                if dice.roll(2) == 0 {
                    machines.postgres.kill();
                } else {
                    machines.postgres.stop();
                }
                machines.postgres.resume().unwrap();
            }
        }
        // Results seen before a fault must still exist after it: checks some finished jobs and some unfinished ones.
        for _ in 0..10 {
            acknowledged.ask(&fleet, usize::try_from(dice.roll(u64::try_from(submitted).unwrap())).unwrap());
        }
    }
    for number in submitted..evaluations {
        ask(&fleet, number);
    }
    let deadline = Instant::now() + Duration::from_mins(30);
    let mut open: Vec<usize> = (0..evaluations).collect();
    while !open.is_empty() {
        assert!(Instant::now() < deadline, "unfinished jobs remain");
        open.retain(|number| !acknowledged.ask(&fleet, *number));
        eprintln!("{} s: {} left", begun.elapsed().as_secs(), open.len());
        thread::sleep(Duration::from_secs(1));
    }
    for number in 0..evaluations {
        assert!(acknowledged.ask(&fleet, number), "an acknowledged result is lost");
    }
    for mut worker in workers {
        worker.kill().and_then(|()| worker.wait()).unwrap();
    }
    proxy.kind.store(true, Ordering::Relaxed);
    let harm: Vec<u64> = proxy.harm.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    eprintln!("connections dropped, delayed, repeated: {harm:?}");
    let (least, most) = (harm.iter().min(), harm.iter().max());
    // With a few hundred connections each kind of fault certainly occurs.
    assert!(if all > 100 { least } else { most } > Some(&0), "the proxy caused too few faults: {harm:?}");
    look(&machines, &fleet, evaluations);
}

#[test]
fn toolchain_eight_workers_take_each_evaluation_once() {
    let bench = Bench::new();
    let evaluations = number("WARPPROOF_TEST_FLEET_THROUGHPUT", 48);
    let machines = Machines::start(&bench);
    let address = format!("http://{}", machines.listen);
    let fleet = machines.fleet(&address);
    for number in 0..evaluations {
        ask(&fleet, number);
    }
    let start = Instant::now();
    let workers: Vec<Child> = (0..8).map(|number| machines.worker(&address, number, "60")).collect();
    for number in 0..evaluations {
        while fleet.run(&format!("{:032x}", number + 1), 20).unwrap().open > 0 {}
    }
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{evaluations} evaluations by 8 workers in {seconds:.1} s");
    for mut worker in workers {
        worker.kill().and_then(|()| worker.wait()).unwrap();
    }
    assert_eq!(machines.postgres.psql("postgres", "SELECT max(attempts) FROM jobs").unwrap(), "1");
    look(&machines, &fleet, evaluations);
}
