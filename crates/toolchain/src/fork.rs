//! Runs each compilation in its own process. NVRTC keeps state: after a compilation with `-G`, later or concurrent compilations of
//! the same source produce different code. A forked copy of this process, in which the library was opened but never used, makes
//! every compilation the first one; it can also be limited and sandboxed, and a crash stays in the child.
#![expect(unsafe_code, reason = "no crate and no part of the standard library provides fork")]

use std::io::{self, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{PoisonError, RwLock};

use rustix::process::{self, Pid, Resource, Rlimit, Signal};
use warpproof_sandbox::Reach;

use crate::limits::{CompileLimits, WALL};
use crate::program::UNCONFINED;

/// Write-locked while a library is opened, read-locked while forking: if another thread is inside the dynamic loader during a fork,
/// the child cannot load libraries.
pub(crate) static LOADER: RwLock<()> = RwLock::new(());

/// Why a child returned no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It exceeded its time limit.
    Time,
    /// It exceeded its memory limit.
    Memory,
    /// A signal terminated it.
    Signal(i32),
    /// It could not be started, or ended without a result.
    Other(String),
}

/// Exit status of a child that could not be sandboxed. Its output contains the reason.
const NOT_CONFINED: i32 = 3;

/// Runs `work` in a forked child, which can access only the given paths and ends with this process, and returns its output.
pub(crate) fn in_child(
    limits: CompileLimits,
    reach: &Reach,
    work: impl FnOnce() -> Vec<u8>,
) -> Result<Vec<u8>, Failure> {
    let failed = |what: &str, cause: io::Error| Failure::Other(format!("cannot {what}: {cause}"));
    let (mut read, write) = io::pipe().map_err(|cause| failed("create a pipe for NVRTC", cause))?;
    let (parent, size) = (process::getpid(), Size::of_this_process());
    // Read before the fork: the environment has a lock, which another thread may hold.
    let required = warpproof_sandbox::is_required();
    let loader = LOADER.read().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: only this thread continues in the child, which never returns from here. Other threads may hold locks there forever:
    // the C library resets those of its allocator, streams and loader itself, the lock above excludes a thread inside the loader,
    // and `work` takes no Rust lock. An alarm ends a child that waits for a lock overlooked here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        run(limits, (reach, required), parent, size, write, work);
    }
    // Before any other system call overwrites it.
    let cause = io::Error::last_os_error();
    drop(loader);
    drop(write);
    let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
        return Err(failed("start a process for NVRTC", cause));
    };
    let mut answer = Vec::new();
    let read = read.read_to_end(&mut answer);
    let (status, peak) = wait(child).map_err(|cause| failed("wait for NVRTC's process", cause))?;
    read.map_err(|cause| failed("read NVRTC's result", cause))?;
    if libc::WIFEXITED(status) {
        return match libc::WEXITSTATUS(status) {
            0 => Ok(answer),
            NOT_CONFINED => Err(Failure::Other(String::from_utf8_lossy(&answer).into_owned())),
            other => Err(Failure::Other(format!("NVRTC's process ended with status {other}"))),
        };
    }
    match libc::WTERMSIG(status) {
        libc::SIGXCPU | libc::SIGALRM => Err(Failure::Time),
        // A process that cannot allocate aborts, or accesses memory it did not get. In that case it has used most of its limit.
        libc::SIGABRT | libc::SIGSEGV | libc::SIGBUS | libc::SIGKILL
            if peak >= size.resident.saturating_add(limits.bytes / 4 * 3) =>
        {
            Err(Failure::Memory)
        }
        signal => Err(Failure::Signal(signal)),
    }
}

/// The exit status of a child, and its peak resident memory in bytes.
fn wait(child: Pid) -> io::Result<(i32, u64)> {
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    loop {
        // SAFETY: both pointers refer to live memory of the types that the call writes.
        let waited =
            unsafe { libc::wait4(child.as_raw_nonzero().get(), &raw mut status, 0, usage.as_mut_ptr()) };
        if waited >= 0 {
            // SAFETY: all-zero bits are a valid value, and the call has overwritten it.
            let usage = unsafe { usage.assume_init() };
            return Ok((status, u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024)));
        }
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(cause);
        }
    }
}

/// The whole life of the child. If a preparation step fails, the child keeps its descriptors or has no limits until it ends.
fn run(
    limits: CompileLimits,
    (reach, required): (&Reach, bool),
    parent: Pid,
    size: Size,
    mut pipe: PipeWriter,
    work: impl FnOnce() -> Vec<u8>,
) -> ! {
    // A signal that asks the parent to stop must not interrupt the running compilation; the child ends with the parent in any case.
    let asked =
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].map(|signal| (signal, libc::SIG_IGN));
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGXCPU, libc::SIGALRM];
    for (signal, action) in asked.into_iter().chain(faults.map(|signal| (signal, libc::SIG_DFL))) {
        // SAFETY: no handler of this process is installed.
        unsafe { libc::signal(signal, action) };
    }
    let _ = process::set_parent_process_death_signal(Some(Signal::KILL));
    if process::getppid() != Some(parent) {
        // SAFETY: it ends this process immediately.
        unsafe { libc::_exit(1) };
    }
    // The child must not keep copies of the parent's pipes, sockets and locked files open. 0 to 2 are the standard streams.
    let answer = pipe.as_raw_fd();
    for (first, last) in [(3, answer - 1), (answer + 1, i32::MAX)] {
        // SAFETY: the owners of these descriptors are in the parent and are never dropped in this process.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
    // SAFETY: it only sets a timer of this process.
    unsafe { libc::alarm(u32::try_from(limits.seconds.saturating_mul(WALL)).unwrap_or(u32::MAX)) };
    lower(Resource::Cpu, limits.seconds);
    if size.mapped > 0 {
        lower(Resource::As, size.mapped.saturating_add(limits.bytes));
    }
    lower(Resource::Core, 0);
    let unconfined = match warpproof_sandbox::confine_copy(reach) {
        Ok(held) if held.is_any() || !required => None,
        Ok(_) => Some(UNCONFINED.to_owned()),
        Err(why) => Some(format!("cannot sandbox the compiler: {why}")),
    };
    if let Some(why) = unconfined {
        let _ = pipe.write_all(why.as_bytes());
        // SAFETY: it ends this process immediately.
        unsafe { libc::_exit(NOT_CONFINED) };
    }
    let done = catch_unwind(AssertUnwindSafe(|| pipe.write_all(&work())));
    // SAFETY: it ends this process immediately, without the parent's exit handlers.
    unsafe { libc::_exit(i32::from(!matches!(done, Ok(Ok(()))))) }
}

fn lower(resource: Resource, to: u64) {
    let limit = process::getrlimit(resource);
    let current = Some(limit.current.map_or(to, |now| now.min(to)));
    let _ = process::setrlimit(resource, Rlimit { current, ..limit });
}

/// Size of this process in bytes. 0 if it cannot be read, as in an evaluation of the fleet, which has its own limits.
#[derive(Clone, Copy, Debug)]
struct Size {
    mapped: u64,
    resident: u64,
}

impl Size {
    fn of_this_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Self { mapped: field("VmSize:").unwrap_or(0), resident: field("VmRSS:").unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CompileLimits = CompileLimits { seconds: 60, bytes: 1 << 30 };

    fn in_child(limits: CompileLimits, work: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Failure> {
        super::in_child(limits, &Reach { read: vec!["/proc".into()], ..Reach::default() }, work)
    }

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
        // SAFETY: it sends a signal to the forked child only.
        let answer = in_child(LIMITS, || vec![u8::from(unsafe { libc::raise(libc::SIGINT) } == 0)]);
        assert_eq!(answer.unwrap(), [1]);
    }

    #[test]
    fn a_child_that_fails_says_how() {
        // SAFETY: it sends a signal to the forked child only.
        let signal = in_child(LIMITS, || vec![u8::from(unsafe { libc::raise(libc::SIGKILL) } == 0)]);
        assert!(matches!(signal, Err(Failure::Signal(libc::SIGKILL))), "{signal:?}");
        let panicked = in_child(LIMITS, || panic!("expected panic"));
        assert!(matches!(panicked, Err(Failure::Other(_))), "{panicked:?}");
        let endless = in_child(CompileLimits { seconds: 1, ..LIMITS }, || {
            loop {
                std::hint::spin_loop();
            }
        });
        assert!(matches!(endless, Err(Failure::Time)), "{endless:?}");
        // Sleeping uses no processor time.
        let asleep = in_child(CompileLimits { seconds: 1, ..LIMITS }, || {
            std::thread::sleep(std::time::Duration::from_mins(1));
            Vec::new()
        });
        assert!(matches!(asleep, Err(Failure::Time)), "{asleep:?}");
        // Rust aborts a process that cannot allocate. A process that has used little of its memory limit did not fail because of
        // it.
        let large = in_child(CompileLimits { bytes: 64 << 20, ..LIMITS }, || vec![1; 1 << 30]);
        assert!(matches!(large, Err(Failure::Signal(libc::SIGABRT))), "{large:?}");
        let growing = in_child(CompileLimits { bytes: 256 << 20, ..LIMITS }, || {
            let mut all: Vec<Vec<u8>> = Vec::new();
            loop {
                all.push(vec![1; 1 << 20]);
                std::hint::black_box(&all);
            }
        });
        assert!(matches!(growing, Err(Failure::Memory)), "{growing:?}");
    }

    #[test]
    fn a_child_reaches_nothing_that_is_not_named() {
        if !warpproof_sandbox::available().is_whole() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (file, made) = (directory.path().join("file"), directory.path().join("made"));
        std::fs::write(&file, "text").unwrap();
        let attempts = || {
            vec![
                u8::from(std::fs::read(&file).is_ok()),
                u8::from(std::fs::write(&made, "").is_ok()),
                u8::from(std::fs::write(&file, "").is_ok()),
                u8::from(std::process::Command::new("/bin/true").status().is_ok()),
                u8::from(std::net::UdpSocket::bind("127.0.0.1:0").is_ok()),
            ]
        };
        assert_eq!(super::in_child(LIMITS, &Reach::default(), attempts).unwrap(), [0, 0, 0, 0, 0]);
        let reach = Reach { read: vec![directory.path().to_owned()], ..Reach::default() };
        assert_eq!(super::in_child(LIMITS, &reach, attempts).unwrap(), [1, 0, 0, 0, 0]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
        // Without the sandbox every attempt succeeds.
        assert_eq!(attempts(), [1, 1, 1, 1, 1]);
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
        // Only the result pipe stays open.
        assert_eq!(answer.unwrap(), [1]);
        drop(pipe);
    }
}
