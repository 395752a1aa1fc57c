//! A process of its own for each compilation. NVRTC remembers: after one with `-G` the next source gives another program
//! than it gave before, and so does one that is compiled beside it. In a copy of this process, in which the library was
//! opened and never used, every compilation is the first; it can also be given limits, and fail alone.
#![expect(unsafe_code, reason = "no crate and no part of the standard library forks")]

use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{self, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

/// Held alone by who opens a library, and by all who fork: a copy of a loader that is at work could not load.
pub(crate) static LOADER: RwLock<()> = RwLock::new(());

/// What a child may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of a processor; of the clock on the wall six times as much.
    pub(crate) time: Duration,
    /// Of memory, beyond what this process has.
    pub(crate) bytes: u64,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It took more time than it was given.
    Time,
    /// A signal ended it.
    Signal(i32),
    /// It could not be started, or ended without an answer.
    Other(String),
}

/// What `work` gives in a copy of this process, which ends with it.
pub(crate) fn in_child(limits: Limits, work: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Failure> {
    let failed = |what: &str, cause: io::Error| Failure::Other(format!("cannot {what}: {cause}"));
    let (mut read, write) = io::pipe().map_err(|cause| failed("make a pipe for NVRTC", cause))?;
    let (parent, size) = (process::getpid(), mapped());
    let loader = LOADER.read().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: only this thread goes on in the child, which never returns from here. Other threads may hold locks there for
    // ever: those of the C library's allocator, streams and loader it sets right itself, a loader at work is kept away above,
    // and `work` takes no lock of Rust's. A child that waits for one that was overlooked is ended by its alarm.
    let child = unsafe { libc::fork() };
    if child == 0 {
        run(limits, parent, size, write, work);
    }
    // Before anything else is asked of the system.
    let cause = io::Error::last_os_error();
    drop(loader);
    drop(write);
    let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
        return Err(failed("start a process for NVRTC", cause));
    };
    let mut answer = Vec::new();
    let read = read.read_to_end(&mut answer);
    let ended = wait(child).map_err(|cause| failed("wait for NVRTC's process", cause))?;
    read.map_err(|cause| failed("read NVRTC's answer", cause))?;
    match (ended.exit_status(), ended.terminating_signal()) {
        (Some(0), _) => Ok(answer),
        (_, Some(libc::SIGXCPU | libc::SIGALRM)) => Err(Failure::Time),
        (_, Some(signal)) => Err(Failure::Signal(signal)),
        (status, None) => {
            Err(Failure::Other(format!("NVRTC's process ended with status {}", status.unwrap_or(-1))))
        }
    }
}

fn wait(child: Pid) -> io::Result<WaitStatus> {
    loop {
        match process::waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

/// The child, from its first step to its last. What of the preparation fails leaves it with descriptors or without
/// limits until it ends.
fn run(
    limits: Limits,
    parent: Pid,
    size: Option<u64>,
    mut pipe: PipeWriter,
    work: impl FnOnce() -> Vec<u8>,
) -> ! {
    // Who asks the parent to stop lets it end what is under way; this process ends with it in any case.
    let asked =
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].map(|signal| (signal, libc::SIG_IGN));
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGXCPU, libc::SIGALRM];
    for (signal, action) in asked.into_iter().chain(faults.map(|signal| (signal, libc::SIG_DFL))) {
        // SAFETY: no handler of this process's own is installed.
        unsafe { libc::signal(signal, action) };
    }
    let _ = process::set_parent_process_death_signal(Some(Signal::KILL));
    if process::getppid() != Some(parent) {
        // SAFETY: it ends this process at once.
        unsafe { libc::_exit(1) };
    }
    // A copy of the parent's pipes, sockets and locked files would keep them open. 0 to 2 are everybody's.
    let answer = pipe.as_raw_fd();
    for (first, last) in [(3, answer - 1), (answer + 1, i32::MAX)] {
        // SAFETY: what owns these descriptors is in the parent, and never dropped in this process.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
    let seconds = limits.time.as_secs();
    // SAFETY: it only sets a timer of this process.
    unsafe { libc::alarm(u32::try_from(seconds.saturating_mul(6)).unwrap_or(u32::MAX)) };
    lower(Resource::Cpu, seconds);
    if let Some(size) = size {
        lower(Resource::As, size.saturating_add(limits.bytes));
    }
    lower(Resource::Core, 0);
    let done = catch_unwind(AssertUnwindSafe(|| pipe.write_all(&work())));
    // SAFETY: it ends this process at once; nothing that the parent does at its own end is done here.
    unsafe { libc::_exit(i32::from(!matches!(done, Ok(Ok(()))))) }
}

fn lower(resource: Resource, to: u64) {
    let limit = process::getrlimit(resource);
    let current = Some(limit.current.map_or(to, |now| now.min(to)));
    let _ = process::setrlimit(resource, Rlimit { current, ..limit });
}

/// The bytes of this process's address space. `None` where that cannot be read, as in an evaluation of the fleet, which
/// has limits of its own.
fn mapped() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { time: Duration::from_mins(1), bytes: 1 << 30 };

    #[test]
    fn an_answer_of_any_size_comes_back() {
        for size in [0, 1, 1 << 20] {
            let answer = in_child(LIMITS, || vec![7; size]).unwrap();
            assert!(answer.len() == size && answer.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn what_happens_in_the_child_stays_there() {
        let mut count = 0;
        let answer = in_child(LIMITS, || {
            count += 1;
            vec![count]
        });
        assert_eq!((answer.unwrap(), count), (vec![1], 0));
    }

    #[test]
    fn who_stops_the_parent_does_not_stop_the_child() {
        // SAFETY: it sends this process's copy a signal.
        let answer = in_child(LIMITS, || vec![u8::from(unsafe { libc::raise(libc::SIGINT) } == 0)]);
        assert_eq!(answer.unwrap(), [1]);
    }

    #[test]
    fn a_child_that_fails_says_how() {
        // SAFETY: it sends this process's copy a signal.
        let signal = in_child(LIMITS, || vec![u8::from(unsafe { libc::raise(libc::SIGKILL) } == 0)]);
        assert!(matches!(signal, Err(Failure::Signal(libc::SIGKILL))), "{signal:?}");
        let panicked = in_child(LIMITS, || panic!("as it must"));
        assert!(matches!(panicked, Err(Failure::Other(_))), "{panicked:?}");
        let endless = in_child(Limits { time: Duration::from_secs(1), ..LIMITS }, || {
            loop {
                std::hint::spin_loop();
            }
        });
        assert!(matches!(endless, Err(Failure::Time)), "{endless:?}");
        // A wait takes no time of a processor.
        let asleep = in_child(Limits { time: Duration::from_secs(1), ..LIMITS }, || {
            std::thread::sleep(Duration::from_mins(1));
            Vec::new()
        });
        assert!(matches!(asleep, Err(Failure::Time)), "{asleep:?}");
        // Rust ends a process that cannot allocate.
        let large = in_child(Limits { bytes: 64 << 20, ..LIMITS }, || vec![1; 1 << 30]);
        assert!(matches!(large, Err(Failure::Signal(libc::SIGABRT))), "{large:?}");
    }

    #[test]
    fn a_child_holds_nothing_open() {
        let pipe = io::pipe().unwrap();
        let answer = in_child(LIMITS, || {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let named = open.filter(|entry| entry.file_name().to_str().is_some_and(|name| name > "2"));
            let pipes = named.filter_map(|entry| entry.path().read_link().ok());
            vec![u8::try_from(pipes.filter(|to| to.to_string_lossy().starts_with("pipe:")).count()).unwrap()]
        });
        // The one that the answer takes.
        assert_eq!(answer.unwrap(), [1]);
        drop(pipe);
    }
}
