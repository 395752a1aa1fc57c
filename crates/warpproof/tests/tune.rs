//! Runs `warpproof tune` like a user: a search finds the best of the whole space, a fast but wrong variant
//! does not win, and a killed search gives the same table when it is run again.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod tasks;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use bench::{Bench, Run};
use serde_json::Value;
use tasks::{steps_in, table, write_sgemm};

fn write_task(bench: &Bench) {
    write_sgemm(bench, "BM = [32, 64]\nTM = [2, 4]", &[]);
}

#[test]
fn toolchain_a_search_finds_the_best_that_is_right_and_is_resumed_after_a_kill() {
    let bench = Bench::new();
    write_task(&bench);
    let whole =
        bench.run(["tune", "task.toml", "--search", "grid", "--ledger", "grid", "--json"]).exits(0).json();
    let count = whole["combinations"].as_u64().unwrap();
    assert_eq!(whole["evaluations"].as_array().unwrap().len(), usize::try_from(count).unwrap());
    // Variants that skip a tile are faster; the stage correct rejects them.
    let winner = &whole["winner"];
    assert_eq!(winner["settings"]["CHEAT"], "0", "{winner}");
    assert_eq!(winner["verdict"], "PROVISIONAL", "{winner}");
    assert_eq!(winner["basis"], "schedule", "{winner}");
    let refusals: Vec<&Value> =
        whole["refusals"].as_array().unwrap().iter().map(|one| &one["stage"]).collect();
    assert_eq!(refusals, ["budget", "correct"], "{whole}");
    assert!(whole["dead"].as_array().unwrap().iter().any(|dead| dead[0] == "IDLE"), "{}", whole["dead"]);

    // The same seed gives the same search, also in another ledger.
    let evolve = |ledger: &str, seed: &str| {
        let mut command = bench.command();
        command.args(["tune", "task.toml", "--seed", seed, "--budget", "16", "--ledger", ledger, "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let once = Run::of(&evolve("one", "7").output().unwrap()).exits(0).json();
    let again = Run::of(&evolve("two", "7").output().unwrap()).exits(0).json();
    assert_eq!(table(&once), table(&again));
    assert_eq!(once["evaluations"].as_array().unwrap().len(), 16);
    assert_eq!(once["winner"]["settings"]["CHEAT"], "0");

    // Killed three times, each time when more steps are in the ledger, then run to the end.
    let steps = |ledger: &str| steps_in(&bench.dir.path().join(ledger));
    let whole = steps("one");
    for part in 1..=3 {
        let mut child = evolve("four", "7").spawn().unwrap();
        while steps("four") < whole * part / 5 {
            assert!(child.try_wait().unwrap().is_none(), "the search ended before it was killed");
            thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "the search ended before it was killed");
    }
    let resumed = Run::of(&evolve("four", "7").output().unwrap()).exits(0).json();
    assert_eq!(table(&resumed), table(&once));
    bench.run(["verify", "--ledger", "four"]).exits(0);

    // Known results are not computed again.
    let known =
        bench.run(["tune", "task.toml", "--seed", "7", "--budget", "16", "--ledger", "four"]).exits(0);
    assert!(known.err.contains("0 evaluated now, 16 cached"), "{}", known.err);
    assert!(known.out.contains("predicted") && known.out.contains("IDLE has no effect"), "{}", known.out);

    // The printed command runs the winner.
    let name = resumed["winner"]["candidate"].as_str().unwrap();
    assert!(known.out.contains(&format!("warpproof gate task.toml '{name}'")), "{}", known.out);
    let gated = bench.run(["gate", "task.toml", name, "--ledger", "four", "--json"]).exits(0).json();
    assert_eq!(gated["candidates"][0]["candidate"], name);
    assert_eq!(gated["steps_done"], 0, "{gated}");
}

#[test]
fn toolchain_what_cannot_be_searched_is_said() {
    let bench = Bench::new();
    write_task(&bench);
    let path = bench.dir.path().join("task.toml");
    let text = fs::read_to_string(&path).unwrap();
    let told = |text: String, code: i32| {
        fs::write(&path, text).unwrap();
        bench.run(["tune", "task.toml"]).exits(code).err
    };
    let said = told(text.split_once("[[space]]").unwrap().0.to_owned(), 2);
    assert!(said.contains("declares no [[space]]"), "{said}");
    let said = told(text.replace("PAD = [0, 4]", "PADDING = [0, 4]"), 2);
    assert!(said.contains("`PADDING` is neither a toggle nor a define"), "{said}");
    let said = told(text.replace("\"BM / TM * (BN / TN) >= 32\"", "\"BM < 0\""), 2);
    assert!(said.contains("exclude every combination"), "{said}");
    let said = told(text.replace(">= 32\"", "> BQ\""), 2);
    assert!(said.contains("`BQ` is not known here"), "{said}");
    // Every variant skips a tile, so no variant wins.
    let said = told(text.replace("CHEAT = [0, 1]", "CHEAT = [1]").replace("CHEAT = 0", "CHEAT = 1"), 1);
    assert!(!said.contains("error"), "{said}");
    fs::write(&path, text).unwrap();
    let said = bench.run(["gate", "task.toml", "tiled[BM=64,NO=1]"]).exits(2).err;
    assert!(said.contains("`NO` is neither a toggle nor a define"), "{said}");
}

#[test]
fn help() {
    let run = Bench::bare().run(["tune", "--help"]).exits(0);
    insta::assert_snapshot!("help_tune", run.out);
}
