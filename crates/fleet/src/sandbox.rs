//! What an evaluation's process may use and reach.
//!
//! A process gives its rights up itself, before it reads anything of a task, and all it starts are bound by it: compilers,
//! and a reference in Python, which gives up more by [`become_confined`]. On Linux the kernel holds it: Landlock says which
//! files, seccomp which calls, and root has none of its capabilities. Elsewhere only the limits hold, and
//! [`Confinement::files`] says so.

use std::path::{Path, PathBuf};

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

/// What is held, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Whether the kernel keeps files and processes from it that are not its own: all that is asked for, not a part.
    pub files: bool,
    /// Whether the kernel refuses calls it does not need: the network, other processes, the system itself.
    pub calls: bool,
}

/// Where it may read and execute, beside the system's programs and libraries, and where it may write.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Read and execute: the compiler.
    pub read: Vec<PathBuf>,
    /// All: its own directory, and a GPU's devices where it is to time.
    pub write: Vec<PathBuf>,
}

impl Confinement {
    /// Whether all of it is held.
    pub fn is_whole(self) -> bool {
        self.files && self.calls
    }
}

/// Binds this process, for good. Threads that exist already are not bound: it comes first of all.
pub fn confine(limits: &Limits, reach: &Reach) -> Result<Confinement, String> {
    limit(limits)?;
    kernel::confine(reach, limits.memory_bytes != u64::MAX)
}

/// Takes from this process what is not named, beside what it has lost already, and becomes another program. It returns only
/// where that is refused, and says why. Processes that it was started by, it can neither signal nor look into: they are outside
/// of what binds it.
#[cfg(unix)]
pub fn become_confined(reach: &Reach, unconfined: bool, command: &[std::ffi::OsString]) -> String {
    use std::os::unix::process::CommandExt;
    let Some((program, arguments)) = command.split_first() else {
        return "there is no program to become".to_owned();
    };
    match kernel::confine(reach, true) {
        Err(why) => return why,
        Ok(held) if !held.is_whole() && !unconfined => return crate::evaluate::UNCONFINED.to_owned(),
        Ok(_) => {}
    }
    let refused = std::process::Command::new(program).args(arguments).exec();
    format!("cannot run {}: {refused}", Path::new(program).display())
}

/// Elsewhere no program becomes another.
#[cfg(not(unix))]
pub fn become_confined(_: &Reach, _: bool, _: &[std::ffi::OsString]) -> String {
    crate::evaluate::UNCONFINED.to_owned()
}

/// What this machine's kernel can hold, and whether who is held so still gets at what he needs: root without its capabilities
/// does not get into another user's directory. A thread that ends at once is bound to find out.
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
                    "an evaluation would not get at {path}: {error}; it has none of root's capabilities, so that this \
                     has to be the worker's own user's, or open to all"
                )
            })?;
        }
        Ok(held)
    });
    bound.join().unwrap_or_else(|_| Err("the sandbox panicked".to_owned()))
}

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

/// The system's own programs and libraries, and the few files that they ask for.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/opt",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/sys/devices/system/cpu",
];

/// Devices that give or take bytes and know nobody.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

#[cfg(target_os = "linux")]
mod kernel {
    use std::collections::BTreeMap;

    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetStatus, Scope,
    };
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule, apply_filter, sock_filter,
    };

    use super::{Confinement, DEVICES, Path, Reach, SYSTEM};

    /// The rights that are wanted, all of them. An older kernel lets files be cut short that are not an evaluation's own,
    /// or signals reach processes that are not.
    const NEWEST: ABI = ABI::V6;

    /// Takes all from this thread, and from those it starts, that is not named.
    pub(super) fn confine(reach: &Reach, memory_is_limited: bool) -> Result<Confinement, String> {
        let files = files(reach)?;
        // After Landlock, which lets no program give more rights than its starter had: else root's would come back.
        capabilities()?;
        Ok(Confinement { files, calls: calls(memory_is_limited)? })
    }

    /// What root may beyond other users: to raise its limits, to become anybody, to read what is not its own.
    fn capabilities() -> Result<(), String> {
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .map_err(|error| format!("capabilities cannot be given up: {error}"))
    }

    /// Files that are there.
    fn there<'p>(paths: impl Iterator<Item = &'p Path>) -> impl Iterator<Item = (PathFd, bool)> {
        paths.filter_map(|path| Some((PathFd::new(path).ok()?, path.is_dir())))
    }

    fn files(reach: &Reach) -> Result<bool, String> {
        let refused = |error: landlock::RulesetError| format!("Landlock refuses: {error}");
        let read = AccessFs::from_read(NEWEST);
        let handled = AccessFs::from_all(NEWEST);
        let all = handled & !(AccessFs::MakeChar | AccessFs::MakeBlock);
        let of_file = AccessFs::from_file(NEWEST);
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(handled)
            .map_err(refused)?
            .handle_access(AccessNet::from_all(NEWEST))
            .map_err(refused)?
            .scope(Scope::from_all(NEWEST))
            .map_err(refused)?
            .create()
            .map_err(refused)?;
        let system = SYSTEM.iter().map(Path::new).chain(reach.read.iter().map(AsRef::as_ref));
        for (path, directory) in there(system) {
            let rights = if directory { read } else { read & of_file };
            rules = rules.add_rule(PathBeneath::new(path, rights)).map_err(refused)?;
        }
        let own = DEVICES.iter().map(Path::new).chain(reach.write.iter().map(AsRef::as_ref));
        for (path, directory) in there(own) {
            let rights = if directory { all } else { all & of_file };
            rules = rules.add_rule(PathBeneath::new(path, rights)).map_err(refused)?;
        }
        let status = rules.restrict_self().map_err(refused)?;
        Ok(status.ruleset == RulesetStatus::FullyEnforced)
    }

    /// Calls that no compiler, interpreter or judge needs: the network, other processes, the kernel's workshop.
    const REFUSED: &[libc::c_long] = &[
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_process_madvise,
        libc::SYS_kcmp,
        libc::SYS_setsid,
        libc::SYS_setpgid,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_quotactl,
        libc::SYS_acct,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        libc::SYS_kexec_file_load,
        libc::SYS_fanotify_init,
        libc::SYS_adjtimex,
        libc::SYS_clock_adjtime,
        libc::SYS_syslog,
        libc::SYS_vhangup,
        // A device that somebody makes for himself is any device of the machine.
        libc::SYS_mknodat,
        // Landlock does not know of modes, owners and attributes.
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        // Memory and queues that have names of their own, and outlive their process.
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_semctl,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
        // fchmodat2, setxattrat, removexattrat, open_tree_attr, file_setattr: the same numbers on every machine.
        452,
        463,
        466,
        467,
        469,
    ];

    /// Calls of before there were those with `at`.
    #[cfg(target_arch = "x86_64")]
    const OLDER: &[libc::c_long] = &[
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_mknod,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLDER: &[libc::c_long] = &[];

    /// Flags of `clone` that make a world of its own, in which a process has rights that it has not here.
    const WORLDS: [libc::c_int; 7] = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];

    /// A rule that holds when the lower half of an argument is so.
    fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
        SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
    }

    fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
        use SeccompCmpOp::{MaskedEq, Ne};
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            REFUSED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
        // Of itself, which is process 0, it may change what it likes.
        for call in [
            libc::SYS_prlimit64,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
        ] {
            rules.insert(call, vec![when(0, Ne, 0)?]);
        }
        // The first argument is of which kind the second is: a process, and not a group or all of a user.
        for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
            rules.insert(call, vec![when(0, Ne, process)?, when(1, Ne, 0)?]);
        }
        let worlds = WORLDS.iter().map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            when(0, MaskedEq(flag), flag)
        });
        rules.insert(libc::SYS_clone, worlds.collect::<Result<_, _>>()?);
        Ok(rules)
    }

    /// Calls with the numbers of x32, which no list names, are not there.
    fn of_x32() -> BpfProgram {
        let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
        vec![
            // The number of the call, which comes first in what a filter sees.
            instruction(0x20, 0, 0, 0),
            // At least 2^30: the next, else the one after it.
            instruction(0x35, 0, 1, 0x4000_0000),
            instruction(0x06, 0, 0, 0x0005_0000 | libc::ENOSYS.cast_unsigned()),
            instruction(0x06, 0, 0, 0x7fff_0000),
        ]
    }

    /// Refuses calls. Where memory has a limit, no memory can be had in files that no process has mapped.
    fn calls(memory_is_limited: bool) -> Result<bool, String> {
        // A machine whose calls have other numbers is not confined so.
        let Ok(target) = std::env::consts::ARCH.try_into() else { return Ok(false) };
        let wrong = |error: BackendError| format!("seccomp: {error}");
        let refusing = |rules, error: libc::c_int| {
            SeccompFilter::new(
                rules,
                SeccompAction::Allow,
                SeccompAction::Errno(error.cast_unsigned()),
                target,
            )
            .and_then(BpfProgram::try_from)
            .map_err(wrong)
        };
        // What flags `clone3` has is in memory, where a filter cannot look: without it, libraries take `clone`.
        let mut refused = rules().map_err(wrong)?;
        if memory_is_limited {
            refused.extend([libc::SYS_memfd_create, libc::SYS_memfd_secret].map(|call| (call, Vec::new())));
        }
        let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        for filter in [of_x32(), refusing(newer, libc::ENOSYS)?, refusing(refused, libc::EPERM)?] {
            apply_filter(&filter).map_err(|error| format!("seccomp refuses: {error}"))?;
        }
        Ok(true)
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::{Confinement, Reach};

    pub(super) fn confine(_: &Reach, _: bool) -> Result<Confinement, String> {
        Ok(Confinement { files: false, calls: false })
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
