//! Restricts what a process that works on untrusted input may read, write, call and use.
//!
//! Three kinds of processes are sandboxed, all by the same rules: an evaluation of the fleet ([`confine`]), a program that runs on
//! untrusted input, such as ptxas or a Python reference ([`start`]), and a forked copy of this process that compiles
//! ([`confine_copy`]). On Linux, Landlock restricts files, seccomp restricts system calls, and root loses its capabilities. On
//! other systems only limits apply, and [`Confinement`] reports it. [`Roots`] restricts the paths that untrusted names may refer
//! to; it needs no support of the kernel.
#![forbid(unsafe_code)]

mod roots;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

pub use roots::{Outside, Roots};

/// Resource limits of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Bytes of address space per process; `u64::MAX` means no limit.
    pub memory_bytes: u64,
    /// Seconds until it is killed.
    pub seconds: u64,
    /// Bytes of the largest file it writes.
    pub file_bytes: u64,
    /// Concurrent processes, each with [`THREADS`] threads on average. The worker enforces this and the following limits.
    pub processes: usize,
    /// Resident memory of all its processes, in bytes.
    pub total_memory_bytes: u64,
    /// Total size of its files, in bytes.
    pub disk_bytes: u64,
}

/// Average number of threads per process of an evaluation: libraries start one for each core.
pub const THREADS: u64 = 32;

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 8 << 30,
            seconds: 1_800,
            file_bytes: 1 << 30,
            processes: 512,
            total_memory_bytes: 16 << 30,
            disk_bytes: 8 << 30,
        }
    }
}

/// How much of the request the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Nothing.
    No,
    /// A part: an older kernel restricts opening files, but not truncating them or sending signals.
    Partly,
    /// Everything.
    Wholly,
}

/// What the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Access to files, the network and other processes, by Landlock.
    pub files: Held,
    /// Refusal of system calls, by seccomp.
    pub calls: bool,
}

impl Confinement {
    /// Whether everything is enforced.
    pub fn is_whole(self) -> bool {
        self.files == Held::Wholly && self.calls
    }

    /// Whether files and calls are restricted as far as this kernel can.
    pub fn is_any(self) -> bool {
        self.files > Held::No && self.calls
    }
}

/// The files and programs that a process may access.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Files and directories to read, in addition to the system's libraries; to execute, too, if `programs` is set.
    pub read: Vec<PathBuf>,
    /// Files and directories to read, write and execute.
    pub write: Vec<PathBuf>,
    /// Whether it may start programs, and read those of the system.
    pub programs: bool,
    /// Whether root keeps access to files of other users. Landlock still decides which files. A worker of a fleet gives it up;
    /// on a developer's machine, as in a container, the files to compile may belong to another user.
    pub files_of_others: bool,
}

/// Sandboxes this process permanently. Existing threads are not affected: call it before starting threads.
pub fn confine(limits: &Limits, reach: &Reach) -> Result<Confinement, String> {
    limit(limits)?;
    kernel::confine(reach, limits.memory_bytes != u64::MAX)
}

/// Sandboxes this thread, and everything it starts, permanently. For a forked copy of a process, which has one thread.
pub fn confine_copy(reach: &Reach) -> Result<Confinement, String> {
    kernel::confine(reach, true)
}

/// Starts a sandboxed program. This process is not affected.
pub fn start(command: &mut Command, reach: &Reach) -> io::Result<(Child, Confinement)> {
    // Landlock and seccomp restrict a thread and what it starts: this thread ends once the program runs.
    let starter = || {
        let held = kernel::confine(reach, true).map_err(io::Error::other)?;
        Ok((command.spawn()?, held))
    };
    std::thread::scope(|scope| scope.spawn(starter).join())
        .unwrap_or_else(|_| Err(io::Error::other("the thread that starts a program panicked")))
}

/// What this machine's kernel enforces.
pub fn available() -> Confinement {
    static FOUND: OnceLock<Confinement> = OnceLock::new();
    let none = Confinement { files: Held::No, calls: false };
    *FOUND.get_or_init(|| probe(&Reach::default()).unwrap_or(none))
}

/// The environment variable that makes Warpproof fail without a sandbox.
pub const REQUIRED: &str = "WARPPROOF_REQUIRE_SANDBOX";

/// Whether a kernel without sandbox support is an error instead of a note.
pub fn is_required() -> bool {
    std::env::var_os(REQUIRED).is_some_and(|value| !value.is_empty() && value != "0")
}

/// What this machine's kernel enforces, and whether a sandboxed process can still open the given paths: root without its
/// capabilities cannot enter another user's directory. The test runs in a temporary thread.
pub fn probe(reach: &Reach) -> Result<Confinement, String> {
    let there = |path: &&PathBuf| path.try_exists().unwrap_or(false);
    let needed: Vec<PathBuf> = reach.read.iter().chain(&reach.write).filter(there).cloned().collect();
    let reach = reach.clone();
    let bound = std::thread::spawn(move || {
        let held = kernel::confine(&reach, true)?;
        for path in needed {
            std::fs::File::open(&path).map_err(|error| {
                let path = path.display();
                format!(
                    "an evaluation could not open {path}: {error}; it runs without root's capabilities, so the path must belong \
                     to the worker's own user or be readable by all"
                )
            })?;
        }
        Ok(held)
    });
    bound.join().unwrap_or_else(|_| Err("the sandbox panicked".to_owned()))
}

/// Limits processor time and address space of a started process. If this process may not do that, as inside an evaluation of the
/// fleet, the inherited limits stay.
#[cfg(target_os = "linux")]
pub fn limit_started(child: &Child, seconds: u64, address_space: u64) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    // At the first time limit the process gets a signal that identifies the reason, at the second it is killed.
    for (resource, most, last) in [
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
        (Resource::As, address_space, address_space),
        (Resource::Core, 0, 0),
    ] {
        let _ = prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(last) });
    }
}

/// On other systems a process cannot be limited from outside.
#[cfg(not(target_os = "linux"))]
pub fn limit_started(_: &Child, _: u64, _: u64) {}

#[cfg(unix)]
fn limit(limits: &Limits) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let cores =
        std::thread::available_parallelism().map_or(1, |cores| u64::try_from(cores.get()).unwrap_or(1));
    for (resource, most) in [
        (Resource::As, limits.memory_bytes),
        (Resource::Cpu, limits.seconds.saturating_mul(cores).saturating_add(1)),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, 1_024),
        (Resource::Core, 0),
        (Resource::Nproc, most_threads(limits)),
    ] {
        if most == u64::MAX {
            continue;
        }
        // A limit cannot exceed the one that this process has.
        let most = getrlimit(resource).maximum.map_or(most, |given| given.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| format!("cannot set the limit {resource:?}: {error}"))?;
    }
    Ok(())
}

/// Maximum number of threads of the user, in case the worker does not check in time. Other evaluations of the same user count too,
/// so the limit is higher than that of one evaluation plus the current threads of the machine. It does not apply to root.
#[cfg(unix)]
fn most_threads(limits: &Limits) -> u64 {
    // `0.02 0.03 0.00 1/523 4711`: one of 523 threads runs.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let now = load.split_whitespace().nth(3).and_then(|field| field.split_once('/')?.1.parse::<u64>().ok());
    let own = u64::try_from(limits.processes).unwrap_or(u64::MAX).saturating_mul(THREADS);
    // If the system does not report the number of threads, a limit could affect other processes.
    now.map_or(u64::MAX, |now| now.saturating_add(own.saturating_mul(2)))
}

#[cfg(not(unix))]
fn limit(_: &Limits) -> Result<(), String> {
    Ok(())
}

/// The system's libraries, and files that the dynamic loader reads.
#[cfg(target_os = "linux")]
const LIBRARIES: [&str; 9] = [
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
];

/// The system's programs, and the few files that they need.
#[cfg(target_os = "linux")]
const PROGRAMS: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/opt",
    "/etc/alternatives",
    "/etc/localtime",
    "/sys/devices/system/cpu",
    "/proc/cpuinfo",
    "/proc/meminfo",
];

/// Devices that contain no data of others.
#[cfg(target_os = "linux")]
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

#[cfg(target_os = "linux")]
mod kernel;

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::{Confinement, Held, Reach};

    pub(super) fn confine(_: &Reach, _: bool) -> Result<Confinement, String> {
        Ok(Confinement { files: Held::No, calls: false })
    }
}

/// Files that a GPU's driver reads: the directories of its library, and the system's information about the device.
pub fn gpu_files() -> Vec<PathBuf> {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    // An empty name would mean the working directory.
    let directories = std::env::split_paths(&named).filter(|path| path.is_absolute());
    // A library that is a link to another directory is accessible only under its own name.
    let libraries =
        directories.flat_map(|path| [path.join("libcuda.so.1"), path.join("libnvidia-ml.so.1"), path]);
    let system = ["/proc/driver/nvidia", "/proc/devices", "/sys/bus/pci/devices", "/sys/module/nvidia"];
    libraries.chain(system.map(PathBuf::from)).collect()
}

/// The device files of NVIDIA's GPUs, if there are any.
pub fn gpu_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new("/dev")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().starts_with("/dev/nvidia"))
        .collect();
    found.sort_unstable();
    found
}
