//! A process of its own for each compilation. NVRTC remembers: after one with `-G` the next source gives another program
//! than it gave before, and so does one that is compiled beside it. In a copy of this process, in which the library was
//! opened and never used, every compilation is the first; it can also be given limits, and fail alone.
#![expect(unsafe_code, reason = "no crate and no part of the standard library forks")]

use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::process::{self, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

/// What a child may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of a processor.
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
    let size = mapped();
    // SAFETY: only this thread goes on in the child. Other threads may hold locks there for ever: those of the C library's
    // allocator, loader and streams it sets right itself, and `work` takes no other. The child never returns from here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        run(limits, size, write, work);
    }
    drop(write);
    let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
        return Err(failed("start a process for NVRTC", io::Error::last_os_error()));
    };
    let mut answer = Vec::new();
    let read = read.read_to_end(&mut answer);
    let ended = wait(child).map_err(|cause| failed("wait for NVRTC's process", cause))?;
    read.map_err(|cause| failed("read NVRTC's answer", cause))?;
    match (ended.exit_status(), ended.terminating_signal()) {
        (Some(0), _) => Ok(answer),
        (_, Some(libc::SIGXCPU)) => Err(Failure::Time),
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
fn run(limits: Limits, size: u64, mut pipe: PipeWriter, work: impl FnOnce() -> Vec<u8>) -> ! {
    // A handler of the parent's would act for the parent.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGSEGV, libc::SIGABRT, libc::SIGXCPU] {
        // SAFETY: no handler of this process's own is installed.
        unsafe {
            if libc::signal(signal, libc::SIG_DFL) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
    // A copy of the parent's pipes, sockets and locked files would keep them open. 0 to 2 are everybody's.
    let answer = pipe.as_raw_fd();
    for (first, last) in [(3, answer - 1), (answer + 1, i32::MAX)] {
        // SAFETY: what owns these descriptors is in the parent, and never dropped in this process.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
    let _ = process::set_parent_process_death_signal(Some(Signal::KILL));
    lower(Resource::Cpu, limits.time.as_secs());
    lower(Resource::As, size.saturating_add(limits.bytes));
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

/// The bytes of this process's address space.
fn mapped() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages: u64 = pages.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0);
    pages.saturating_mul(u64::try_from(rustix::param::page_size()).unwrap_or(4096))
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
