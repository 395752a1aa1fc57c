//! The process that drives a device: started, asked, and ended when it does not answer.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::RunnerError;
use super::protocol::{Answer, Request};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a process may take to go once its input is closed, and once it was killed. One that waits for a device that hangs may
/// never.
const GOING: Duration = Duration::from_secs(2);

/// The subcommand of `warpproof` that serves.
pub const SUBCOMMAND: &str = "device-runner";

/// The process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    patience: Duration,
    /// Something went wrong: a context that was harmed stays so, and answers may be another's.
    spoiled: bool,
    /// The program and the device whose clocks it pinned.
    pinned: Option<(PathBuf, u32)>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Process {
    /// The command that starts the program as a runner.
    pub(super) fn command(program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg(SUBCOMMAND);
        command
    }

    pub(super) fn start(mut command: Command) -> Result<Process, RunnerError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let program = Path::new(command.get_program()).display().to_string();
        let failed = |cause: std::io::Error| RunnerError(format!("cannot run {program}: {cause}"));
        let child = command.spawn().map_err(failed)?;
        Ok(Process::of(child))
    }

    /// A process whose input and output are pipes.
    fn of(mut child: Child) -> Process {
        let (to, answers) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines() {
                    let Ok(line) = line else { break };
                    if to.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let input = child.stdin.take();
        Process { child, input, answers, patience: PATIENCE, spoiled: false, pinned: None }
    }

    /// Remembers that it pinned clocks: should it have to be killed, they are let go by another.
    pub(super) fn pinned(&mut self, program: &Path, device: u32) {
        self.pinned = Some((program.to_path_buf(), device));
    }

    /// Whether another should be started before anything is asked.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Closes its input and waits for its end.
    pub(super) fn finish(&mut self, patience: Duration) -> bool {
        self.input = None;
        let step = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        while waited < patience {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(step);
            waited += step;
        }
        false
    }

    /// Ends the process; no more is asked of it.
    fn end(&mut self) {
        if self.finish(GOING) {
            return;
        }
        let _gone = self.child.kill();
        self.finish(GOING);
        if let Some((program, device)) = self.pinned.take()
            && let Ok(mut other) = Process::start(Process::command(&program))
        {
            // Whether it can is no matter: there is nobody else to ask.
            let _opened = other.ask(&Request::Open { device, pin_mhz: None });
            let _released = other.ask(&Request::Release);
        }
    }

    /// Asks, and waits for the answer. What the device refuses is an error like others; but once an answer is late or not
    /// understood, nobody knows any more which answer is whose, and the process is ended.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let answer = self.exchange(request);
        if answer.is_err() {
            self.end();
        }
        let answer = answer.and_then(|answer| match answer {
            Answer::Error { error } => Err(RunnerError(error)),
            answer => Ok(answer),
        });
        self.spoiled |= answer.is_err();
        answer
    }

    /// One request and the line that answers it. Every error is one of the protocol.
    fn exchange(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let gone = || RunnerError("the process that drives the device has ended".to_owned());
        let text = serde_json::to_string(request).map_err(|error| RunnerError(error.to_string()))?;
        let input = self.input.as_mut().ok_or_else(gone)?;
        let written = writeln!(input, "{text}").and_then(|()| input.flush());
        written.map_err(|_| gone())?;
        let line = self.answers.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                RunnerError(format!("the device gave no answer for {} s", self.patience.as_secs()))
            }
            RecvTimeoutError::Disconnected => gone(),
        })?;
        serde_json::from_str(&line)
            .map_err(|error| RunnerError(format!("an answer is not understood: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that answers with what is given to it, whatever is asked.
    fn answering(script: &str) -> Option<Process> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command).ok()
    }

    #[test]
    fn after_an_answer_that_is_not_understood_nothing_is_asked() {
        let script = r#"read a; echo nonsense; read b; echo '{"answer": "done"}'; cat"#;
        let Some(mut process) = answering(script) else { return };
        let said = process.ask(&Request::Release).map_err(|error| error.0);
        assert!(said.is_err_and(|said| said.contains("an answer is not understood")));
        assert!(matches!(process.child.try_wait(), Ok(Some(_))));
        let said = process.ask(&Request::Release).map_err(|error| error.0);
        assert_eq!(said, Err("the process that drives the device has ended".to_owned()));
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next() {
        let script = r#"read a; sleep 1; echo '{"answer": "done"}'; read b; echo '{"answer": "done"}'; cat"#;
        let Some(mut process) = answering(script) else { return };
        process.patience = Duration::from_millis(50);
        assert!(process.ask(&Request::Release).is_err_and(|error| error.0.contains("no answer")));
        std::thread::sleep(Duration::from_millis(1200));
        assert!(process.ask(&Request::Release).is_err_and(|error| error.0.contains("has ended")));
    }

    #[test]
    fn what_the_device_refuses_ends_nothing() {
        let script =
            r#"read a; echo '{"answer": "error", "error": "no"}'; read b; echo '{"answer": "done"}'; cat"#;
        let Some(mut process) = answering(script) else { return };
        assert!(process.ask(&Request::Release).is_err_and(|error| error.0 == "no"));
        assert!(process.ask(&Request::Release).is_ok());
        // What comes after may be spoiled all the same: a context that was harmed stays so.
        assert!(process.is_spoiled());
    }

    #[test]
    fn clocks_that_a_killed_process_pinned_are_let_go_by_another() {
        let Ok(folder) = tempfile::tempdir() else { return };
        let (program, asked) = (folder.path().join("program"), folder.path().join("asked"));
        // Stands for the program: writes down what it is asked, and answers.
        let script = format!(
            "#!/bin/sh\nwhile read line; do echo \"$line\" >> '{}'; echo '{{\"answer\": \"done\"}}'; done\n",
            asked.display()
        );
        if std::fs::write(&program, script).is_err() {
            return;
        }
        let mut shell = Command::new("chmod");
        assert!(shell.arg("+x").arg(&program).status().is_ok_and(|status| status.success()));
        // Neither answers nor goes when its input ends.
        let Some(mut process) = answering("trap '' HUP; while :; do sleep 1; done") else { return };
        process.patience = Duration::from_millis(50);
        process.pinned(&program, 3);
        assert!(process.ask(&Request::Release).is_err());
        let told = std::fs::read_to_string(&asked).unwrap_or_default();
        assert!(
            told.contains(r#"{"op":"open","device":3}"#) && told.contains(r#"{"op":"release"}"#),
            "{told}"
        );
    }
}
