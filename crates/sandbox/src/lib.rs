//! What a process that works on untrusted input may read, write, call and use.
//!
//! Three kinds of processes are confined, all by the same rules: an evaluation of the fleet ([`confine`]), a program that is
//! started on untrusted input, such as ptxas or a Python reference ([`start`]), and a copy of this process that compiles
//! ([`confine_copy`]). On Linux, Landlock decides which files, and seccomp which system calls; root loses its capabilities.
//! Elsewhere only limits apply, and [`Confinement`] reports it. [`Roots`] decides which paths an untrusted name may lead to;
//! it needs no support of the kernel.
#![forbid(unsafe_code)]

mod roots;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

pub use roots::{Outside, Roots};

/// How much an evaluation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Bytes of address space of each process; `u64::MAX` is no limit.
    pub memory_bytes: u64,
    /// Seconds until it is ended.
    pub seconds: u64,
    /// Bytes of the largest file it writes.
    pub file_bytes: u64,
    /// Processes at a time, each with [`THREADS`] threads on average. The worker sees to this and to what follows.
    pub processes: usize,
    /// Bytes that all of its processes have in memory.
    pub total_memory_bytes: u64,
    /// Bytes of all its files.
    pub disk_bytes: u64,
}

/// Threads of a process, on average over those of an evaluation: libraries start one for each core.
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

/// How much of what was asked for the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Nothing.
    No,
    /// A part: an older kernel restricts opening files, but not truncating them or sending signals.
    Partly,
    /// All of it.
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

    /// Whether files and calls are restricted at all, if only as far as this kernel can.
    pub fn is_any(self) -> bool {
        self.files > Held::No && self.calls
    }
}

/// What a process may reach.
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

/// Confines this process for good. Threads that exist already are not confined: call it first.
pub fn confine(limits: &Limits, reach: &Reach) -> Result<Confinement, String> {
    limit(limits)?;
    kernel::confine(reach, limits.memory_bytes != u64::MAX)
}

/// Confines this thread for good, and everything it starts. For a forked copy of a process, which has one thread.
pub fn confine_copy(reach: &Reach) -> Result<Confinement, String> {
    kernel::confine(reach, true)
}

/// Starts a program that can reach only what is named. This process stays as it is.
pub fn start(command: &mut Command, reach: &Reach) -> io::Result<(Child, Confinement)> {
    // Landlock and seccomp confine a thread and what it starts: this thread ends when the program runs.
    let starter = || {
        let held = kernel::confine(reach, true).map_err(io::Error::other)?;
        Ok((command.spawn()?, held))
    };
    std::thread::scope(|scope| scope.spawn(starter).join())
        .unwrap_or_else(|_| Err(io::Error::other("the thread that starts a program panicked")))
}

/// What this machine's kernel enforces for a process that may reach nothing.
pub fn available() -> Confinement {
    static FOUND: OnceLock<Confinement> = OnceLock::new();
    let none = Confinement { files: Held::No, calls: false };
    *FOUND.get_or_init(|| probe(&Reach::default()).unwrap_or(none))
}

/// The variable that makes Warpproof refuse to work unconfined.
pub const REQUIRED: &str = "WARPPROOF_REQUIRE_SANDBOX";

/// Whether the user wants an error, and not a note, where the kernel cannot confine compilers and references.
pub fn is_required() -> bool {
    std::env::var_os(REQUIRED).is_some_and(|value| !value.is_empty() && value != "0")
}

/// What this machine's kernel enforces, and whether a process so confined can still open what it needs: root without its
/// capabilities cannot enter another user's directory. A thread that ends at once is confined to find out.
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
                    "an evaluation could not open {path}: {error}; it runs without root's capabilities, so this must belong \
                     to the worker's own user or be readable by all"
                )
            })?;
        }
        Ok(held)
    });
    bound.join().unwrap_or_else(|_| Err("the sandbox panicked".to_owned()))
}

/// Sets limits of a process that was started: seconds of processor time, and bytes of address space. Where this process may not
/// do that, as inside an evaluation of the fleet, limits that it inherited stay.
#[cfg(target_os = "linux")]
pub fn limit_started(child: &Child, seconds: u64, address_space: u64) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    // At the first limit of time a signal tells why it ends, at the second it is killed.
    for (resource, most, last) in [
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
        (Resource::As, address_space, address_space),
        (Resource::Core, 0, 0),
    ] {
        let _ = prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(last) });
    }
}

/// Elsewhere a process cannot be limited from outside.
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
        // What this process was given is never passed.
        let most = getrlimit(resource).maximum.map_or(most, |given| given.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| format!("the limit {resource:?} is refused: {error}"))?;
    }
    Ok(())
}

/// A user's threads at most, should the worker not look in time. Other evaluations of the same user count too, so that it is
/// more than one may have, beside what the machine has now. Root is bound by none.
#[cfg(unix)]
fn most_threads(limits: &Limits) -> u64 {
    // `0.02 0.03 0.00 1/523 4711`: one of 523 runs.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let now = load.split_whitespace().nth(3).and_then(|field| field.split_once('/')?.1.parse::<u64>().ok());
    let own = u64::try_from(limits.processes).unwrap_or(u64::MAX).saturating_mul(THREADS);
    // Where the system does not say how many there are, a limit would hit others.
    now.map_or(u64::MAX, |now| now.saturating_add(own.saturating_mul(2)))
}

#[cfg(not(unix))]
fn limit(_: &Limits) -> Result<(), String> {
    Ok(())
}

/// The system's libraries, and what the dynamic loader reads.
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

/// The system's programs, and the few files that they ask for.
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

/// Devices that hold no data of others.
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

/// What a GPU's driver reads: the directories in which its library is looked for, and what the system says of the device.
pub fn gpu_files() -> Vec<PathBuf> {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    // An empty name would be the working directory.
    let directories = std::env::split_paths(&named).filter(|path| path.is_absolute());
    // A library that lies elsewhere and is linked to is reached by its own name alone.
    let libraries =
        directories.flat_map(|path| [path.join("libcuda.so.1"), path.join("libnvidia-ml.so.1"), path]);
    let system = ["/proc/driver/nvidia", "/proc/devices", "/sys/bus/pci/devices", "/sys/module/nvidia"];
    libraries.chain(system.map(PathBuf::from)).collect()
}

/// The devices of NVIDIA's GPUs, where there are any.
pub fn gpu_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new("/dev")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().starts_with("/dev/nvidia"))
        .collect();
    found.sort_unstable();
    found
}
