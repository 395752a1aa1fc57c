//! A fleet for a test: its own PostgreSQL, a server and workers, all started as a user starts them.
#![allow(dead_code, reason = "each test uses only a part of it")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use warpproof_fleet::postgres::Postgres;

use crate::bench::{Bench, Run};

/// A server and a database that end with the test.
pub(crate) struct Fleet {
    _postgres: Postgres,
    server: Child,
    pub(crate) url: String,
    pub(crate) token: String,
}

impl Fleet {
    pub(crate) fn start(bench: &Bench) -> Self {
        let postgres = Postgres::start(&[]).unwrap();
        let mut server = bench
            .fleet_command()
            .args([
                "serve",
                "--dev",
                "--quiet",
                "--listen",
                "127.0.0.1:0",
                "--objects",
                "objects",
                "--database",
            ])
            .arg(postgres.url())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let url = lines.next().unwrap().unwrap().strip_prefix("serving ").unwrap().to_owned();
        let token = lines.next().unwrap().unwrap().strip_prefix("WARPPROOF_FLEET_TOKEN=").unwrap().to_owned();
        Self { _postgres: postgres, server, url, token }
    }

    pub(crate) fn command(&self, bench: &Bench, arguments: &[&str]) -> Command {
        let administers = ["worker", "token", "tokens", "revoke"].contains(&arguments[0]);
        let mut command = if administers { bench.fleet_command() } else { bench.command() };
        command.args(arguments).env("WARPPROOF_FLEET_TOKEN", &self.token);
        command
    }

    /// A worker that runs until it is stopped.
    pub(crate) fn worker(&self, bench: &Bench, number: usize) -> Child {
        let directory = format!("worker-{number}");
        let arguments =
            ["worker", "--fleet", &self.url, "--jobs", "1", "--directory", &directory, "--lease", "20"];
        self.command(bench, &arguments).stderr(Stdio::inherit()).spawn().unwrap()
    }

    pub(crate) fn run(&self, bench: &Bench, arguments: &[&str]) -> Run {
        Run::of(&self.command(bench, arguments).output().unwrap())
    }
}

/// Stops a worker with a signal, and waits for its end.
pub(crate) fn stop(mut child: Child) {
    let pid = i32::try_from(child.id()).unwrap();
    assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success(), "a worker stopped by a signal exits successfully");
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.server.kill().and_then(|()| self.server.wait());
    }
}
