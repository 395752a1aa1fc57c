//! System calls that the sandbox rejects: each one is tried with and without the sandbox.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};

use warpproof_sandbox::{Limits, Reach, confine, probe};

/// Calls by their numbers on this machine, with harmless arguments, or arguments that the kernel rejects for reasons other than
/// rights. Each prints its name and the error.
const ATTEMPTS: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
victim = int(sys.argv[1])
def attempt(name, number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(*[ctypes.c_long(one) for one in (number, *arguments)])
    print(name, ctypes.get_errno())
attempt("prlimit64", 302, victim, 7, 0, 0)
attempt("prlimit64-own", 302, 0, 7, 0, 0)
attempt("sched_setaffinity", 203, victim, 0, 0)
attempt("sched_setscheduler", 144, victim, -1, 0)
attempt("sched_setparam", 142, victim, 0)
attempt("sched_setattr", 314, victim, 0, 0)
attempt("setpriority", 141, 0, victim, 19)
attempt("setpriority-user", 141, 2, -7, 0)
attempt("ioprio_set", 251, 1, victim, -1)
attempt("mknod", 133, 0, 0, 0)
attempt("mknodat", 259, -100, 0, 0, 0)
attempt("chmod", 90, 0, 0)
attempt("fchmod", 91, -1, 0)
attempt("fchmodat", 268, -100, 0, 0)
attempt("fchmodat2", 452, -100, 0, 0, 0)
attempt("chown", 92, 0, 0, 0)
attempt("fchown", 93, -1, 0, 0)
attempt("lchown", 94, 0, 0, 0)
attempt("fchownat", 260, -100, 0, 0, 0, 0)
attempt("setxattr", 188, 0, 0, 0, 0, 0)
attempt("lsetxattr", 189, 0, 0, 0, 0, 0)
attempt("fsetxattr", 190, -1, 0, 0, 0, 0)
attempt("removexattr", 197, 0, 0)
attempt("lremovexattr", 198, 0, 0)
attempt("fremovexattr", 199, -1, 0)
attempt("shmget", 29, 0, 0, 0)
attempt("shmat", 30, -1, 0, 0)
attempt("semget", 64, 0, -1, 0)
attempt("msgget", 68, 1934583, 0)
attempt("mq_open", 240, 0, 0, 0, 0)
attempt("fsconfig", 431, -1, 0, 0, 0, 0)
attempt("mount_setattr", 442, -1, 0, -1, 0, 0)
attempt("clone-user", 56, 0x10000000 | 0x800, 0, 0, 0, 0)
attempt("clone-mounts", 56, 0x00020000 | 0x200, 0, 0, 0, 0)
attempt("clone3", 435, 0, 0)
attempt("x32", 0x40000000 + 257, -100, 0, 0)
attempt("socket", 41, -1, 0, 0)
attempt("ptrace", 101, -1, 0, 0, 0)
attempt("process_vm_readv", 310, victim, 0, 0, 0, 0, -1)
attempt("setns", 308, -1, 0)
attempt("kill", 62, victim, 0)
attempt("memfd_create", 319, 0, -1)
attempt("setgroups", 116, 0, 0)
"#;

/// The errors that the sandbox returns.
const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// Not a test of its own: started by the test below, with or without the sandbox.
#[test]
#[ignore = "started by the test that compares"]
fn attempts() {
    let victim = std::env::var("SANDBOX_VICTIM").unwrap();
    if std::env::var_os("SANDBOX_BOUND").is_some() {
        let held = confine(&Limits::default(), &Reach { programs: true, ..Reach::default() }).unwrap();
        assert!(held.is_whole());
    }
    // Started by this thread, which is the sandboxed one.
    let tried = Command::new("python3").args(["-I", "-S", "-c", ATTEMPTS, &victim]).output().unwrap();
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));
    for line in String::from_utf8(tried.stdout).unwrap().lines() {
        println!("\nattempt {line}");
    }
}

fn tried(victim: u32, bound: bool) -> Vec<(String, i32)> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "attempts", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("SANDBOX_VICTIM", victim.to_string()).env_remove("SANDBOX_BOUND");
    if bound {
        command.env("SANDBOX_BOUND", "1");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let attempts = text.lines().filter_map(|line| line.strip_prefix("attempt ")?.split_once(' '));
    attempts.map(|(name, error)| (name.to_owned(), error.parse().unwrap())).collect()
}

#[test]
fn each_call_is_refused_by_the_sandbox_and_by_nothing_else() {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if !cfg!(target_arch = "x86_64") || python.is_err() || !probe(&Reach::default()).unwrap().is_whole() {
        eprintln!("skipped: requires Python, x86-64, and a kernel with full sandbox support");
        return;
    }
    // A process of the same user, which any process outside of the sandbox can access.
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let (free, bound) = (tried(victim.id(), false), tried(victim.id(), true));
    victim.kill().and_then(|()| victim.wait()).unwrap();
    let count = ATTEMPTS.lines().filter(|line| line.starts_with("attempt(")).count();
    assert_eq!((free.len(), bound.len()), (count, count));
    let mut dead = Vec::new();
    for ((name, without), (_, within)) in free.iter().zip(&bound) {
        let wanted = match name.as_str() {
            "prlimit64-own" => 0,
            "clone3" | "x32" => ENOSYS,
            _ => EPERM,
        };
        assert_eq!(*within, wanted, "{name} is not rejected by the sandbox");
        // Attempts that fail without the sandbox prove nothing. Kernels without x32, and containers, reject some of them.
        if name != "prlimit64-own" && *without == wanted {
            dead.push(name.as_str());
        }
    }
    dead.retain(|name| !["x32", "clone-user", "clone-mounts", "fsconfig", "mount_setattr"].contains(name));
    // Allowed only for root.
    dead.retain(|name| *name != "setgroups" || rustix::process::geteuid().is_root());
    assert_eq!(dead, [""; 0], "these attempts fail without the sandbox, too");
}
