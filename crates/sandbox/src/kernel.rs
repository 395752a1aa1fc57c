//! What Linux enforces: Landlock for files, seccomp for calls, no capabilities.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

use super::{Confinement, DEVICES, Held, LIBRARIES, PROGRAMS, Path, Reach};

/// The rights that are wanted, all of them. An older kernel lets files be cut short that are not an evaluation's own,
/// or signals reach processes that are not.
const NEWEST: ABI = ABI::V6;

/// Takes all from this thread, and from those it starts, that is not named.
pub(super) fn confine(reach: &Reach, memory_is_limited: bool) -> Result<Confinement, String> {
    let files = files(reach)?;
    // After Landlock, which lets no program give more rights than its starter had: else root's would come back.
    drop_capabilities(reach.files_of_others)?;
    Ok(Confinement { files, calls: calls(memory_is_limited, reach.programs)? })
}

/// What root may beyond other users: raise its limits, become another user, read files of other users.
fn drop_capabilities(keep_files: bool) -> Result<(), String> {
    let failed = |error| format!("cannot drop capabilities: {error}");
    let mut kept = CapabilitySet::empty();
    if keep_files {
        kept = capabilities(None).map_err(failed)?.effective
            & (CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
        .map_err(failed)
}

/// Files that are there.
fn there<'p>(paths: impl Iterator<Item = &'p Path>) -> impl Iterator<Item = (PathFd, bool)> {
    paths.filter_map(|path| Some((PathFd::new(path).ok()?, path.is_dir())))
}

fn files(reach: &Reach) -> Result<Held, String> {
    let refused = |error: landlock::RulesetError| format!("Landlock refuses: {error}");
    let read = AccessFs::from_read(NEWEST);
    let read = if reach.programs { read } else { read & !AccessFs::Execute };
    let handled = AccessFs::from_all(NEWEST);
    let all = handled & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let all = if reach.programs { all } else { all & !AccessFs::Execute };
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
    let programs = if reach.programs { &PROGRAMS[..] } else { &[] };
    let system = LIBRARIES.iter().chain(programs).map(Path::new);
    let system = system.chain(reach.read.iter().map(AsRef::as_ref));
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
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Held::Wholly,
        RulesetStatus::PartiallyEnforced => Held::Partly,
        RulesetStatus::NotEnforced => Held::No,
    })
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
const OLDER: &[libc::c_long] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_mknod];
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
fn calls(memory_is_limited: bool, programs: bool) -> Result<bool, String> {
    // A machine whose calls have other numbers is not confined so.
    let Ok(target) = std::env::consts::ARCH.try_into() else { return Ok(false) };
    let wrong = |error: BackendError| format!("seccomp: {error}");
    let refusing = |rules, error: libc::c_int| {
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error.cast_unsigned()), target)
            .and_then(BpfProgram::try_from)
            .map_err(wrong)
    };
    // What flags `clone3` has is in memory, where a filter cannot look: without it, libraries take `clone`.
    let mut refused = rules().map_err(wrong)?;
    if memory_is_limited {
        refused.extend([libc::SYS_memfd_create, libc::SYS_memfd_secret].map(|call| (call, Vec::new())));
    }
    if !programs {
        refused.extend([libc::SYS_execve, libc::SYS_execveat].map(|call| (call, Vec::new())));
    }
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for filter in [of_x32(), refusing(newer, libc::ENOSYS)?, refusing(refused, libc::EPERM)?] {
        apply_filter(&filter).map_err(|error| format!("seccomp refuses: {error}"))?;
    }
    Ok(true)
}
