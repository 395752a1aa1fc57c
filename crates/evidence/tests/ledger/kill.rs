//! Kills processes while they append, each after a number of its acknowledged records. No acknowledged record may
//! be lost, and the ledger verifies every time.

use crate::sample::{note, step};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Index, Ledger, Verification};
use warpproof_evidence::record::{Body, Stage};

/// Set in the writing processes: the ledger's directory.
const VARIABLE: &str = "WARPPROOF_TEST_LEDGER";
const ACKNOWLEDGED: &str = "acknowledged ";
const WRITERS: usize = 4;
const KILLS: usize = 300;
/// Kills of one ledger.
const KILLS_OF_EACH: usize = 10;

/// Not a test of its own: the process that is killed. It prints the name of each record after it was
/// acknowledged.
#[test]
fn child_that_appends() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let ledger = Ledger::create(path).expect("a ledger");
    let mut writer = ledger.writer();
    let mut last = Vec::new();
    for count in 0_u64.. {
        let body = if count % 8 == 3 {
            let name = format!("{} {count}", std::process::id());
            let mut timed = step(&name, "fused", Stage::Speed);
            timed.objects.insert("samples".to_owned(), writer.put_object(name.as_bytes()).expect("kept"));
            Body::Step(timed)
        } else {
            // Lines of many lengths, some longer than a page.
            let words = if count % 32 == 0 { 2000 } else { count * 37 % 100 + 1 };
            note(&"word ".repeat(usize::try_from(words).expect("small")), last.clone())
        };
        let hash = writer.append(&body).expect("written");
        let mut out = std::io::stdout().lock();
        writeln!(out, "{ACKNOWLEDGED}{hash}").and_then(|()| out.flush()).expect("the reader is running");
        last = vec![hash];
        if count % 50 == 49 {
            writer = ledger.writer();
        }
    }
}

struct Running {
    child: Child,
    acknowledged: Receiver<Hash>,
}

fn start(path: &Path) -> Running {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "kill::child_that_appends", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let output = child.stdout.take().expect("piped");
    let (sender, acknowledged) = channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        // A line without a newline was not printed completely.
        while output.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
            let hash = line.trim_end().split(ACKNOWLEDGED).nth(1).map(|text| text.parse().expect("a hash"));
            if hash.is_some_and(|hash| sender.send(hash).is_err()) {
                break;
            }
            line.clear();
        }
    });
    Running { child, acknowledged }
}

impl Running {
    /// Kills it once it has acknowledged this number of records. Its acknowledgments are complete once its end of the
    /// pipe is closed.
    fn kill_after(mut self, records: usize) -> Vec<Hash> {
        let mut all: Vec<Hash> = self.acknowledged.iter().take(records).collect();
        assert_eq!(all.len(), records, "the process ended before it was killed");
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        all.extend(&self.acknowledged);
        all
    }
}

/// Whether the ledger is valid and holds all of these.
fn check(path: &Path, acknowledged: &[Hash], kills: usize) -> Option<Verification> {
    let Ok(ledger) = Ledger::open(path) else {
        assert!(acknowledged.is_empty(), "killed before the ledger existed");
        return None;
    };
    let report = ledger.verify().expect("readable");
    assert!(report.is_sound(), "after kill {kills}: {report}");
    let index = Index::new(&ledger).expect("sound");
    let lost: Vec<&Hash> = acknowledged.iter().filter(|hash| index.place(hash).is_none()).collect();
    assert!(lost.is_empty(), "after kill {kills}: {lost:?}");
    Some(report)
}

#[test]
fn nothing_acknowledged_is_lost_by_kill() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut kills, mut said, mut unfinished, mut records) = (0, 0, 0, 0);
    // A new ledger from time to time keeps each verification short and makes processes create it
    // concurrently.
    while kills < KILLS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ledger");
        let mut running: Vec<Running> = (0..WRITERS).map(|_| start(&path)).collect();
        let mut acknowledged = Vec::new();
        let mut report = None;
        for kill in 0..KILLS_OF_EACH {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = |from: u32| usize::try_from(random >> from).expect("64 bits");
            let victim = running.swap_remove(draw(20) % running.len());
            // One in sixteen is killed while it starts, before any record.
            acknowledged.extend(victim.kill_after(draw(40) % 16));
            kills += 1;
            // All except the last have a successor, so that four write until the end; they write while this
            // is checked.
            if kill + WRITERS < KILLS_OF_EACH {
                running.push(start(&path));
            }
            report = check(&path, &acknowledged, kills);
        }
        let report = report.expect("a ledger");
        said += acknowledged.len();
        unfinished += report.notices.len();
        records += report.tally.records;
        // The next writer joins all ends.
        let ledger = Ledger::open(&path).expect("a ledger");
        ledger.writer().append(&note("after", Vec::new())).expect("written");
        assert_eq!(ledger.heads().expect("readable").len(), 1);
    }
    assert!(said > KILLS, "the writers wrote too few records: {said}");
    println!("{kills} kills, {said} acknowledged, {records} records, {unfinished} left unfinished");
}
