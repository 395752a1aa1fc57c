//! The process that drives a device: started, queried, and killed when it does not answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::RunnerError;
use super::protocol::{Answer, Request};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a process may take to exit after its input is closed, and after it was killed. A process that waits for a
/// hung device may never exit.
const GOING: Duration = Duration::from_secs(2);

/// Bytes kept from the end of a process's standard error: a panic, or an error of the driver.
const LAST_WORDS: usize = 2048;

/// The subcommand of `warpproof` that serves.
pub const SUBCOMMAND: &str = "device-runner";

/// The process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    /// The last bytes of its standard error, available once it has exited.
    listener: Option<JoinHandle<Vec<u8>>>,
    last_words: String,
    patience: Duration,
    /// A request failed: a damaged context stays damaged, and later answers may belong to earlier requests.
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

    /// Starts it, in its own process group if requested.
    pub(super) fn start(mut command: Command, own_group: bool) -> Result<Process, RunnerError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if own_group {
            apart(&mut command);
        }
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
        let listener = child.stderr.take().map(|said| std::thread::spawn(move || last_of(said)));
        let input = child.stdin.take();
        let last_words = String::new();
        Process {
            child,
            input,
            answers,
            listener,
            last_words,
            patience: PATIENCE,
            spoiled: false,
            pinned: None,
        }
    }

    /// Records that it pinned clocks, so that another process can release them if it is killed.
    pub(super) fn pinned(&mut self, program: &Path, device: u32) {
        self.pinned = Some((program.to_path_buf(), device));
    }

    /// Whether a new process must be started before the next request.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Closes its input and waits for it to exit; returns its status.
    pub(super) fn finish(&mut self, patience: Duration) -> Option<ExitStatus> {
        self.input = None;
        let mut ended = None;
        wait(patience, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        });
        ended
    }

    /// Ends the process; no request may follow.
    pub(super) fn end(&mut self) {
        let ended = self.finish(GOING);
        if ended.is_none() {
            let _gone = self.child.kill();
            self.finish(GOING);
        }
        self.listen();
        // Only a process that exited normally has released its clocks.
        if ended.is_some_and(|status| status.success()) {
            return;
        }
        if let Some((program, device)) = self.pinned.take()
            && let Ok(mut other) = Process::start(Process::command(&program), true)
        {
            // The result does not matter: nothing else can release the clocks.
            let _opened = other.ask(&Request::Open { device, pin_mhz: None });
            let _released = other.ask(&Request::Release);
        }
    }

    /// Reads the last of its standard error. A child of the process may still hold the pipe open; then the reader
    /// thread is abandoned.
    fn listen(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        if wait(GOING, || listener.is_finished())
            && let Ok(said) = listener.join()
        {
            String::from_utf8_lossy(&said).trim().clone_into(&mut self.last_words);
        }
    }

    /// Sends a request and waits for the answer. A refusal by the device is an ordinary error. After a late or
    /// malformed answer, answers can no longer be matched to requests, so the process is killed.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let answer = self.exchange(request).map_err(|error| {
            self.end();
            match self.last_words.as_str() {
                "" => error,
                said => RunnerError(format!("{error}; last output: {said}")),
            }
        });
        let answer = answer.and_then(|answer| match answer {
            Answer::Error { error } => Err(RunnerError(error)),
            answer => Ok(answer),
        });
        self.spoiled |= answer.is_err();
        answer
    }

    /// One request and the line that answers it. Every error is a protocol error.
    fn exchange(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let gone = || RunnerError("the device process has exited".to_owned());
        let text = serde_json::to_string(request).map_err(|error| RunnerError(error.to_string()))?;
        let input = self.input.as_mut().ok_or_else(gone)?;
        let written = writeln!(input, "{text}").and_then(|()| input.flush());
        written.map_err(|_| gone())?;
        let line = self.answers.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                RunnerError(format!("the device did not reply within {} s", self.patience.as_secs()))
            }
            RecvTimeoutError::Disconnected => gone(),
        })?;
        serde_json::from_str(&line).map_err(|error| RunnerError(format!("invalid reply: {error}")))
    }
}

/// Starts it in its own process group: a keyboard interrupt is meant for the process that waits for its answers.
#[cfg(unix)]
pub(crate) fn apart(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Other systems send an interrupt to every process that shares the console.
#[cfg(not(unix))]
pub(crate) fn apart(_: &mut Command) {}

/// Waits until a condition holds or the time is up.
fn wait(patience: Duration, mut so: impl FnMut() -> bool) -> bool {
    let step = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while waited < patience {
        if so() {
            return true;
        }
        std::thread::sleep(step);
        waited += step;
    }
    false
}

/// The last bytes of a standard error stream.
fn last_of(mut said: ChildStderr) -> Vec<u8> {
    let mut last = Vec::new();
    let mut some = [0; LAST_WORDS];
    while let Ok(count @ 1..) = said.read(&mut some) {
        last.extend(some.iter().take(count));
        last.drain(..last.len().saturating_sub(LAST_WORDS));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that runs a shell script, whose answers do not depend on the requests.
    fn answering(script: &str) -> Option<Process> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, true).ok()
    }

    #[test]
    fn after_an_answer_that_is_not_understood_nothing_is_asked() {
        let script = r#"read a; echo nonsense; read b; echo '{"answer": "done"}'; cat"#;
        let Some(mut process) = answering(script) else { return };
        let said = process.ask(&Request::Release).map_err(|error| error.0);
        assert!(said.is_err_and(|said| said.contains("invalid reply")));
        assert!(matches!(process.child.try_wait(), Ok(Some(_))));
        let said = process.ask(&Request::Release).map_err(|error| error.0);
        assert_eq!(said, Err("the device process has exited".to_owned()));
    }

    #[test]
    fn what_a_process_said_last_is_told() {
        let script = "read a; yes filling | head -n 1000 >&2; echo 'thread main panicked' >&2; exit 101";
        let Some(mut process) = answering(script) else { return };
        let said = process.ask(&Request::Release).err().map(|error| error.0).unwrap_or_default();
        assert!(
            said.contains("has exited; last output: ") && said.ends_with("thread main panicked"),
            "{said}"
        );
        assert!(said.len() < LAST_WORDS + 200, "{}", said.len());
    }

    #[test]
    fn an_interrupt_of_the_group_does_not_reach_it() {
        let Some(process) = answering("read a") else { return };
        // The fifth field of `/proc/<pid>/stat` is the process group.
        let path = format!("/proc/{}/stat", process.child.id());
        let Ok(told) = std::fs::read_to_string(path) else { return };
        assert_eq!(told.split(' ').nth(4), Some(process.child.id().to_string().as_str()), "{told}");
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next() {
        // It answers when its input is closed, which is after the time.
        let late = r#"{"answer": "done"}"#;
        let Some(mut process) = answering(&format!("cat > /dev/null; echo '{late}'")) else { return };
        process.patience = Duration::from_millis(50);
        assert!(process.ask(&Request::Release).is_err_and(|error| error.0.contains("did not reply")));
        assert!(process.ask(&Request::Release).is_err_and(|error| error.0.contains("has exited")));
        assert_eq!(process.answers.recv().as_deref(), Ok(late));
    }

    #[test]
    fn what_the_device_refuses_ends_nothing() {
        let script =
            r#"read a; echo '{"answer": "error", "error": "no"}'; read b; echo '{"answer": "done"}'; cat"#;
        let Some(mut process) = answering(script) else { return };
        assert!(process.ask(&Request::Release).is_err_and(|error| error.0 == "no"));
        assert!(process.ask(&Request::Release).is_ok());
        // Later requests may still be affected: a damaged context stays damaged.
        assert!(process.is_spoiled());
    }

    /// The requests that a stand-in receives after a process that pinned clocks has ended.
    fn asked_after(script: &str, patience: Duration) -> Option<String> {
        let folder = tempfile::tempdir().ok()?;
        let (program, asked) = (folder.path().join("program"), folder.path().join("asked"));
        // A stand-in for the program: records its requests, and answers.
        let stand_in = format!(
            "#!/bin/sh\nwhile read line; do echo \"$line\" >> '{}'; echo '{{\"answer\": \"done\"}}'; done\n",
            asked.display()
        );
        std::fs::write(&program, stand_in).ok()?;
        let mut shell = Command::new("chmod");
        assert!(shell.arg("+x").arg(&program).status().is_ok_and(|status| status.success()));
        let mut process = answering(script)?;
        process.patience = patience;
        process.pinned(&program, 3);
        assert!(process.ask(&Request::Release).is_err());
        Some(std::fs::read_to_string(&asked).unwrap_or_default())
    }

    #[test]
    fn clocks_that_a_killed_process_pinned_are_let_go_by_another() {
        // One process neither answers nor exits when its input ends; the other exits with a failure.
        let endless = ("trap '' HUP; while :; do sleep 1; done", Duration::from_millis(50));
        for (script, patience) in [endless, ("exit 101", PATIENCE)] {
            let Some(told) = asked_after(script, patience) else { return };
            assert!(
                told.contains(r#"{"op":"open","device":3}"#) && told.contains(r#"{"op":"release"}"#),
                "{told}"
            );
        }
        // A process that exited normally has released them itself.
        assert_eq!(asked_after("read a; exit 0", PATIENCE).unwrap_or_default(), "");
    }
}
