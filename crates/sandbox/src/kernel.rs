//! Enforcement on Linux: Landlock for files, seccomp for system calls, dropped capabilities.

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

/// All requested access rights. An older kernel does not prevent an evaluation from truncating files of others, or from sending
/// signals to other processes.
const NEWEST: ABI = ABI::V6;

/// Removes all rights that are not granted by `reach` from this thread and from the threads and processes it starts.
pub(super) fn confine(reach: &Reach, memory_is_limited: bool) -> Result<Confinement, String> {
    let files = files(reach)?;
    // After Landlock, which sets no_new_privs, so that a started program cannot get more rights than its parent: otherwise root
    // would get its capabilities back.
    drop_capabilities(reach.files_of_others)?;
    Ok(Confinement { files, calls: calls(memory_is_limited, reach.programs)? })
}

/// Drops root's special rights: raising limits, changing the user, reading files of other users.
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

/// Opens the paths that exist.
fn there<'p>(paths: impl Iterator<Item = &'p Path>) -> impl Iterator<Item = (PathFd, bool)> {
    paths.filter_map(|path| Some((PathFd::new(path).ok()?, path.is_dir())))
}

fn files(reach: &Reach) -> Result<Held, String> {
    let refused = |error: landlock::RulesetError| format!("Landlock failed: {error}");
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

/// System calls that no compiler, interpreter or evaluation needs: the network, other processes, kernel administration.
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
    // A device node that a process creates can refer to any device of the machine.
    libc::SYS_mknodat,
    // Landlock does not restrict modes, owners and attributes.
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
    // Shared memory and queues with their own names, which outlive their process.
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
    // fchmodat2, setxattrat, removexattrat, open_tree_attr, file_setattr: the same numbers on every architecture.
    452,
    463,
    466,
    467,
    469,
];

/// Older calls without the `at` suffix.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_mknod];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Flags of `clone` that create a namespace, in which a process has rights that it does not have outside.
const WORLDS: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// A rule that applies if the lower 32 bits of an argument satisfy a condition.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
}

fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    use SeccompCmpOp::{MaskedEq, Ne};
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    // A process may change its own settings, as process 0.
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        rules.insert(call, vec![when(0, Ne, 0)?]);
    }
    // The first argument determines the kind of the second one: a process, not a group or all processes of a user.
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

/// Rejects calls with x32 numbers, which the lists do not contain.
fn of_x32() -> BpfProgram {
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        // Loads the number of the call, the first field of a filter's input.
        instruction(0x20, 0, 0, 0),
        // If at least 2^30: continue, else skip one instruction.
        instruction(0x35, 0, 1, 0x4000_0000),
        instruction(0x06, 0, 0, 0x0005_0000 | libc::ENOSYS.cast_unsigned()),
        instruction(0x06, 0, 0, 0x7fff_0000),
    ]
}

/// Installs the filter of system calls. If memory is limited, it also rejects in-memory files, which no process's limit counts.
fn calls(memory_is_limited: bool, programs: bool) -> Result<bool, String> {
    // On an architecture with other call numbers, no filter is installed.
    let Ok(target) = std::env::consts::ARCH.try_into() else { return Ok(false) };
    let wrong = |error: BackendError| format!("seccomp: {error}");
    let refusing = |rules, error: libc::c_int| {
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error.cast_unsigned()), target)
            .and_then(BpfProgram::try_from)
            .map_err(wrong)
    };
    // The flags of `clone3` are in memory, which a filter cannot read: without `clone3`, libraries use `clone`.
    let mut refused = rules().map_err(wrong)?;
    if memory_is_limited {
        refused.extend([libc::SYS_memfd_create, libc::SYS_memfd_secret].map(|call| (call, Vec::new())));
    }
    if !programs {
        refused.extend([libc::SYS_execve, libc::SYS_execveat].map(|call| (call, Vec::new())));
    }
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for filter in [of_x32(), refusing(newer, libc::ENOSYS)?, refusing(refused, libc::EPERM)?] {
        apply_filter(&filter).map_err(|error| format!("seccomp failed: {error}"))?;
    }
    Ok(true)
}
