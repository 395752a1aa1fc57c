//! A fleet under faults: workers and servers that are killed, a database that restarts, a network that drops, delays and
//! says things twice. CI does a part; `cargo xtask fleet-faults` does all of it.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it did"
)]

mod bench;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bench::Bench;
use warpproof_fleet::client::Fleet;
use warpproof_fleet::exchange;
use warpproof_fleet::postgres::Postgres;
use warpproof_fleet::wire::{Bundle, RunView, SOFTWARE_GPU, State, Submission};
use warpproof_gate::hash::Hash;
use warpproof_gate::ledger::Ledger;
use warpproof_gate::record::{Body, Finite, StepRecord};

const TASK: &str = r#"
name = "doubled"
version = 1
description = "DESCRIPTION"
operator = "custom"
dtypes = ["f32"]
seeds = [1]
distributions = ["normal"]

[[shape]]
name = "main"
axes = { n = 6 }

[[input]]
name = "x"
dtype = "each"
dims = ["n"]

[[output]]
name = "y"
dtype = "each"
dims = ["n"]

[reference]

[[reference.case]]
shape = "main"
inputs = { x = "x.npy" }
outputs = { y = "y.npy" }

[tolerance]
policy = "stated"
absolute = 0.0
relative = 1e-6
rmse = 1e-6
bias = 1e-6
non_finite = "refuse"
derivation = "doubling is exact"

[target]
architectures = ["sm_89"]
devices = ["l4"]

[[gate]]
stage = "build"

[[gate]]
stage = "correct"

[[gate]]
stage = "checks"

[[candidate]]
name = "doubled"
ptx = "doubled.ptx"

[[candidate.launch]]
kernel = "doubled"
grid = 1
block = 32
arguments = ["x", "y", { value = "n", dtype = "i32" }]
"#;

const PTX: &str = ".version 8.0\n.target sm_89\n.address_size 64\n
.visible .entry doubled(.param .u64 px, .param .u64 py, .param .u32 pn)
{
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<4>; .reg .f32 %f<2>;
    ld.param.u64 %d0, [px];
    ld.param.u64 %d1, [py];
    ld.param.u32 %r0, [pn];
    mov.u32 %r1, %tid.x;
    setp.ge.s32 %p, %r1, %r0;
    @%p bra DONE;
    cvta.to.global.u64 %d0, %d0;
    cvta.to.global.u64 %d1, %d1;
    mul.wide.s32 %d2, %r1, 4;
    add.s64 %d3, %d0, %d2;
    ld.global.f32 %f0, [%d3];
    mul.f32 %f1, %f0, 0fFACTOR;
    add.s64 %d3, %d1, %d2;
    st.global.f32 [%d3], %f1;
DONE:
    ret;
}
";

fn npy(values: &[f32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", values.len());
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// The files of evaluation number so and so: a task of its own, every third with a kernel that is wrong.
fn files(number: usize) -> BTreeMap<&'static str, Vec<u8>> {
    let x = [1.0, -2.0, 3.5, 0.0, 100.0, -0.25];
    let factor = if number % 3 == 2 { "40400000" } else { "40000000" };
    BTreeMap::from([
        ("task.toml", TASK.replace("DESCRIPTION", &format!("evaluation {number}")).into_bytes()),
        ("doubled.ptx", PTX.replace("FACTOR", factor).into_bytes()),
        ("x.npy", npy(&x)),
        ("y.npy", npy(&x.map(|value| 2.0 * value))),
    ])
}

fn submission(number: usize) -> (Submission, BTreeMap<Hash, Vec<u8>>) {
    let files = files(number);
    let named = files.iter().map(|(path, bytes)| ((*path).to_owned(), Hash::of(bytes).to_string()));
    let bundle =
        Bundle { task: "task.toml".to_owned(), files: named.collect(), secret: Some("5".to_owned()) };
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

fn submit(fleet: &Fleet, number: usize) -> RunView {
    let (submission, objects) = submission(number);
    for (hash, bytes) in &objects {
        fleet.put_object(hash, bytes).unwrap();
    }
    fleet.submit(&submission).unwrap()
}

/// A number for each call, the same in every run.
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, sides: u64) -> u64 {
        let next =
            |state: u64| Some(state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        let state = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap();
        (state >> 33) % sides
    }
}

/// What stands between those who dial in and the server: it drops, delays and repeats connections.
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
    // How much of what comes back is let through.
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
        // All that was asked is asked once more, and nobody hears the answers.
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

    /// As a power cut ends it, and another in its place.
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
            ["work", "--fleet", address, "--jobs", "1", "--directory", &directory, "--lease", lease];
        let mut command = self.bench.command();
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
    let mut command = bench.command();
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
        // The database may just be restarting.
        server.wait().unwrap();
        assert!(Instant::now() < deadline, "the server does not start");
    }
}

/// The steps of a run, without what two runs of the same cannot share.
fn steps(ledger: &Ledger, only: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for record in ledger.records().unwrap() {
        if let Body::Step(step) = record.unwrap().body
            && only.is_none_or(|run| step.run == run)
        {
            found.push(format!("{:?}", StepRecord { run: String::new(), seconds: Finite::ZERO, ..step }));
        }
    }
    found
}

/// What a run must leave, whatever happened: one result for each evaluation, and evidence that verifies and is what this
/// machine comes to by itself.
fn look(machines: &Machines<'_>, fleet: &Fleet, evaluations: usize) {
    let count = |sql: &str| machines.postgres.psql("postgres", sql).unwrap();
    assert_eq!(count("SELECT count(*) FROM results"), evaluations.to_string());
    assert_eq!(count("SELECT count(*) FROM jobs WHERE state <> 'done'"), "0");
    assert_eq!(count("SELECT count(*) FROM segments"), evaluations.to_string());
    // The token of a result is the newest that was given for its job: none came from a lease that was over.
    let stale =
        "SELECT count(*) FROM results JOIN jobs USING (job) WHERE results.lease_token <> jobs.lease_token";
    assert_eq!(count(stale), "0");
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path().join("all")).unwrap();
    assert_eq!(exchange::export(fleet, &ledger).unwrap(), evaluations);
    let report = ledger.verify().unwrap();
    assert!(report.is_sound(), "{report}");
    // The steps of each, against this machine's own.
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
    let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in ledger.records().unwrap() {
        if let Body::Step(step) = record.unwrap().body {
            let run = step.run.clone();
            let step = StepRecord { run: String::new(), seconds: Finite::ZERO, ..step };
            runs.entry(run).or_default().push(format!("{step:?}"));
        }
    }
    assert_eq!(runs.len(), evaluations);
    for steps in runs.values() {
        assert!(own.values().any(|own| own == steps), "{steps:#?}\nis none of\n{own:#?}");
    }
}

fn number(name: &str, otherwise: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn every_job_completes_once_whatever_is_killed() {
    let Some(bench) = Bench::new() else { return };
    let evaluations = number("WARPPROOF_TEST_FLEET_EVALUATIONS", 110);
    let mut left = [
        number("WARPPROOF_TEST_FLEET_WORKER_KILLS", 6),
        number("WARPPROOF_TEST_FLEET_SERVER_KILLS", 3),
        number("WARPPROOF_TEST_FLEET_RESTARTS", 2),
    ];
    let mut machines = Machines::start(&bench);
    let proxy = Proxy::start(machines.listen.clone());
    let fleet = machines.fleet(&proxy.address);
    // Some before each fault, so that there is always something to lose.
    let each = evaluations.div_ceil(left.iter().sum::<usize>().max(1));
    let mut submitted = 0;
    let mut workers: Vec<Child> = (0..4).map(|number| machines.worker(&proxy.address, number, "4")).collect();
    let dice = Dice(AtomicU64::new(3));
    // What the server has said yes to, as those see it who ask.
    let acknowledged: Mutex<BTreeMap<i64, String>> = Mutex::new(BTreeMap::new());
    let done = |fleet: &Fleet| {
        let mut open = 0;
        for number in 0..evaluations {
            let run = fleet.run(&format!("{:032x}", number + 1), 0).unwrap();
            for job in &run.jobs {
                if let (State::Done, Some(record)) = (job.state, &job.record) {
                    let known = acknowledged.lock().unwrap().insert(job.job, record.clone());
                    assert!(known.is_none_or(|known| known == *record), "an acknowledged result changed");
                } else {
                    let lost = acknowledged.lock().unwrap().contains_key(&job.job);
                    assert!(!lost, "an acknowledged result is lost");
                    assert_ne!(job.state, State::Failed, "{job:?}");
                    open += 1;
                }
            }
        }
        open
    };
    while left.iter().sum::<usize>() > 0 {
        let next = (submitted + each).min(evaluations);
        for number in submitted..next {
            submit(&fleet, number);
        }
        submitted = next;
        thread::sleep(Duration::from_millis(dice.roll(400)));
        let all: usize = left.iter().sum();
        let mut chosen = usize::try_from(dice.roll(u64::try_from(all).unwrap())).unwrap();
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
    }
    for number in submitted..evaluations {
        submit(&fleet, number);
    }
    let deadline = Instant::now() + Duration::from_mins(30);
    while done(&fleet) > 0 {
        assert!(Instant::now() < deadline, "jobs are left");
        thread::sleep(Duration::from_millis(500));
    }
    for mut worker in workers {
        worker.kill().and_then(|()| worker.wait()).unwrap();
    }
    proxy.kind.store(true, Ordering::Relaxed);
    let harm: Vec<u64> = proxy.harm.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    eprintln!("connections dropped, delayed, repeated: {harm:?}");
    assert!(harm.iter().sum::<u64>() > 0, "the proxy did nothing");
    look(&machines, &fleet, evaluations);
}

#[test]
fn eight_workers_take_each_evaluation_once() {
    let Some(bench) = Bench::new() else { return };
    let evaluations = number("WARPPROOF_TEST_FLEET_THROUGHPUT", 48);
    let machines = Machines::start(&bench);
    let address = format!("http://{}", machines.listen);
    let fleet = machines.fleet(&address);
    for number in 0..evaluations {
        submit(&fleet, number);
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
