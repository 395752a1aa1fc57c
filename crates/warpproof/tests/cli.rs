//! Runs the program as a user does.
//!
//! Tests that need NVIDIA's compiler find it like the program does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and reports what it does not test")]

mod bench;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use bench::{Bench, Run, kernels};
use warpproof_toolchain::{Options, Toolchain};

#[test]
fn help_of_every_command() {
    let bench = Bench::bare();
    for command in
        ["", "build", "doctor", "toolchain", "toolchain install", "toolchain list", "toolchain remove"]
    {
        let run = bench.run(command.split_whitespace().chain(["--help"])).exits(0);
        let name = format!("help {command}");
        insta::with_settings!({ description => &name, omit_expression => true }, {
            insta::assert_snapshot!(name.trim().replace(' ', "_"), run.out);
        });
    }
}

#[test]
fn toolchain_an_attention_kernel_is_limited_by_shared_memory_on_an_l4() {
    let bench = Bench::new();
    let kernel = bench.kernel("attention_like.cu");
    let args = ["build", &kernel, "-DACCUMULATORS=80", "--device", "l4", "--block", "128"];
    let run = bench.run(args).exits(0);
    for expected in [
        "37,120 bytes (37,120 static + 0 dynamic)",
        "16.7 % on an NVIDIA L4: 2 blocks per SM, 8 of 48 warps",
        "limited by      shared memory\n",
        "4,096 bytes of shared memory less → 3 blocks per SM",
    ] {
        assert!(run.out.contains(expected), "{expected}:\n{}", run.out);
    }
    let json = bench.run(args.into_iter().chain(["--json"])).exits(0).json();
    assert_eq!(json["schema"], "warpproof.build/1");
    let kernel = &json["targets"][0]["kernels"][0];
    if json["nvrtc"] == "12.9.86" {
        assert_eq!(kernel["registers"], 96);
    }
    assert_eq!(kernel["static_shared"], 37120);
    assert_eq!(kernel["spill_stores"], 0);
    assert_eq!(kernel["launch_bound"], 128);
    let occupancy = &kernel["occupancy"][0];
    assert_eq!(occupancy["blocks_per_sm"], 2);
    assert_eq!(occupancy["limiters"], serde_json::json!(["shared-memory"]));
}

#[test]
fn toolchain_a_stack_frame_without_spills_is_called_out() {
    let bench = Bench::new();
    let kernel = bench.kernel("dynamic_index.cu");
    let run = bench.run(["build", &kernel]).exits(0);
    let remark = "local memory: stack frame of 128 bytes although nothing spilled: a local array is indexed dynamically";
    assert!(run.out.contains(remark), "{}", run.out);
    assert!(run.out.contains("0 bytes stored, 0 bytes loaded"), "{}", run.out);
    let json = bench.run(["build", &kernel, "--json"]).exits(0).json();
    let kernel = &json["targets"][0]["kernels"][0];
    assert_eq!(kernel["name"], "dynamic_index");
    assert_eq!(kernel["stack_frame"], 128);
    assert_eq!(kernel["spill_loads"], 0);
    assert_eq!(kernel["remarks"][0], remark);
}

#[test]
fn toolchain_compile_errors_show_the_line() {
    let bench = Bench::new();
    let kernel = bench.kernel("compile_error.cu");
    let run = bench.run(["build", &kernel]).exits(1);
    assert_eq!(run.out, "");
    insta::assert_snapshot!(run.err);
    let json = bench.run(["build", &kernel, "--json"]).exits(1).json();
    assert_eq!(json["ok"], false);
    assert_eq!(json["reports"][0]["place"]["line"], 3);
    assert_eq!(json["reports"][0]["place"]["column"], 14);
}

#[test]
fn toolchain_a_missing_header_is_named() {
    let bench = Bench::new();
    let kernel = bench.kernel("missing_include.cu");
    insta::assert_snapshot!(bench.run(["build", &kernel]).exits(1).err);
}

#[test]
fn toolchain_what_ptxas_rejects_is_shown_at_the_cuda_line() {
    let bench = Bench::new();
    let kernel = bench.kernel("bad_asm.cu");
    let json = bench.run(["build", &kernel, "--json"]).exits(1).json();
    let report = &json["reports"][0];
    assert_eq!(report["place"]["file"], "bad_asm.cu");
    assert_eq!(report["place"]["line"], 3);
    assert_eq!(report["notes"][0]["place"]["file"], "bad_asm.sm_89.ptx");
    let run = bench.run(["build", &kernel]).exits(1);
    assert!(run.err.contains("asm(\"frobnicate.u32 %0;\""), "{}", run.err);
}

#[test]
fn toolchain_ptx_is_accepted() {
    let bench = Bench::new();
    let kernel = bench.kernel("add.ptx");
    let json = bench.run(["build", &kernel, "--json"]).exits(0).json();
    assert_eq!(json["targets"][0]["arch"], "sm_80");
    assert_eq!(json["targets"][0]["kernels"][0]["block"], 256);
    assert_eq!(json["targets"][0]["cache"]["nvrtc"], Value::Null);
    let json = bench.run(["build", &kernel, "--arch", "sm_89,sm_90", "--json"]).exits(0).json();
    let targets = json["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 2);
    for target in targets {
        // ptxas prints constant memory up to sm_89; after that it is read from the cubin.
        let constant = &target["kernels"][0]["constant"]["0"];
        assert!(constant.as_u64().is_some_and(|bytes| bytes > 300), "{target:#}");
    }
}

#[test]
fn broken_ptx_gives_every_error() {
    let bench = Bench::bare();
    let kernel = bench.kernel("broken.ptx");
    insta::assert_snapshot!(bench.run(["build", &kernel]).exits(1).err);
}

#[test]
fn toolchain_ptx_newer_than_every_ptxas_says_which_one_it_needs() {
    let bench = Bench::new();
    let text =
        fs::read_to_string(kernels().join("add.ptx")).unwrap().replace(".version 8.0", ".version 99.1");
    fs::write(bench.dir.path().join("new.ptx"), text).unwrap();
    let run = bench.run(["build", "new.ptx"]).exits(2);
    assert!(run.err.contains("the module is PTX 99.1, which needs ptxas 103.1 or newer"), "{}", run.err);
}

#[test]
fn toolchain_files_are_written() {
    let bench = Bench::new();
    let kernel = bench.kernel("dynamic_index.cu");
    bench.run(["build", &kernel, "--emit", "ptx,cubin,sass", "-o", "made/here"]).exits(0);
    let made = bench.dir.path().join("made/here");
    let ptx = fs::read_to_string(made.join("dynamic_index.sm_89.ptx")).unwrap();
    assert!(ptx.contains(".entry _Z13dynamic_index") && ptx.contains(".loc"));
    assert!(fs::read(made.join("dynamic_index.sm_89.cubin")).unwrap().starts_with(b"\x7fELF"));
    assert!(fs::read_to_string(made.join("dynamic_index.sm_89.sass")).unwrap().contains("EXIT"));
}

/// `hit` or `miss`, by NVRTC and by ptxas.
#[track_caller]
fn cache_of(bench: &Bench, args: &[&str]) -> (String, String) {
    let json = bench.run(args.iter().chain(&["--json"])).exits(0).json();
    let cache = &json["targets"][0]["cache"];
    let text = |name: &str| cache[name].as_str().unwrap().to_owned();
    (text("nvrtc"), text("ptxas"))
}

#[test]
fn toolchain_the_build_cache_follows_sources_headers_and_flags() {
    let bench = Bench::new();
    let kernel = bench.kernel("with_header.cu");
    let headers = bench.dir.path().join("include");
    fs::create_dir(&headers).unwrap();
    fs::write(headers.join("scale.h"), "#define SCALE 2.0f\n").unwrap();
    let args = ["build", &kernel, "-Iinclude"];
    let both = |state: &str| (state.to_owned(), state.to_owned());
    assert_eq!(cache_of(&bench, &args), both("miss"));
    assert_eq!(cache_of(&bench, &args), both("hit"));
    assert_eq!(cache_of(&bench, &["build", &kernel, "-Iinclude", "--no-cache"]), both("miss"));
    // A define without effect is compiled again, and the assembly comes from the cache.
    assert_eq!(cache_of(&bench, &["build", &kernel, "-Iinclude", "-DX"]), ("miss".into(), "hit".into()));
    fs::write(headers.join("scale.h"), "#define SCALE 3.0f\n").unwrap();
    assert_eq!(cache_of(&bench, &args), both("miss"));
    // A new header that hides the other one: quoted names are searched next to the source first.
    fs::write(bench.dir.path().join("scale.h"), "#define SCALE 4.0f\n").unwrap();
    assert_eq!(cache_of(&bench, &args), both("miss"));
    assert_eq!(cache_of(&bench, &args), both("hit"));
}

#[test]
fn toolchain_damaged_cache_entries_are_made_anew() {
    let bench = Bench::new();
    let kernel = bench.kernel("dynamic_index.cu");
    let first = bench.run(["build", &kernel, "--no-cache"]).exits(0).out;
    bench.run(["build", &kernel]).exits(0);
    let mut damaged = 0;
    for shard in fs::read_dir(bench.cache().join("build")).unwrap() {
        for entry in fs::read_dir(shard.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x20;
            fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 2);
    assert_eq!(bench.run(["build", &kernel]).exits(0).out, first);
    let both = |state: &str| (state.to_owned(), state.to_owned());
    assert_eq!(cache_of(&bench, &["build", &kernel]), both("hit"));
}

#[test]
fn toolchain_processes_share_a_cache() {
    let bench = Bench::new();
    let kernel = bench.kernel("dynamic_index.cu");
    let start = || {
        let mut command = bench.command();
        command.args(["build", &kernel, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..6).map(|_| start()).collect();
    let kernels: Vec<Value> = children
        .into_iter()
        .map(|child| {
            Run::of(&child.wait_with_output().unwrap()).exits(0).json()["targets"][0]["kernels"].clone()
        })
        .collect();
    assert!(kernels.iter().all(|kernel| *kernel == kernels[0]));
    let both = |state: &str| (state.to_owned(), state.to_owned());
    assert_eq!(cache_of(&bench, &["build", &kernel]), both("hit"));
}

#[test]
fn toolchain_cuda_13_is_used_when_asked_for() {
    let environment = Options::from_env().with_cuda(13);
    if Toolchain::find(&environment).is_err() {
        eprintln!("skipped: no CUDA 13");
        return;
    }
    let bench = Bench::with_cuda(Some(13));
    let kernel = bench.kernel("dynamic_index.cu");
    let json = bench.run(["build", &kernel, "--cuda", "13", "--arch", "sm_120", "--json"]).exits(0).json();
    assert!(json["nvrtc"].as_str().unwrap().starts_with("13."));
    assert!(json["targets"][0]["ptxas"].as_str().unwrap().starts_with("13."));
    assert_eq!(json["targets"][0]["kernels"][0]["occupancy"][0]["max_warps"], 48);
}

#[test]
fn toolchain_a_reader_that_goes_away_is_no_error() {
    let bench = Bench::new();
    let kernel = bench.kernel("dynamic_index.cu");
    let mut child = bench
        .command()
        .args(["build", &kernel])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = Run::of(&child.wait_with_output().unwrap()).exits(0);
    assert_eq!(run.err, "");
}

#[cfg(unix)]
#[test]
fn toolchain_paths_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;

    let bench = Bench::bare();
    let run = bench.run([OsStr::new("build"), OsStr::from_bytes(b"absent\xff.cu")]).exits(2);
    assert!(run.err.contains("cannot read absent\u{fffd}.cu"), "{}", run.err);
    let bench = Bench::new();
    let dir = bench.dir.path().join(OsStr::from_bytes(b"d\xff"));
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("scale.h"), "#define SCALE 2.0f\n").unwrap();
    let kernel = dir.join(OsStr::from_bytes(b"k\xfe.cu"));
    fs::copy(kernels().join("with_header.cu"), &kernel).unwrap();
    let args = [OsStr::new("build"), kernel.as_os_str(), OsStr::new("--json")];
    let json = bench.run(args).exits(0).json();
    assert_eq!(json["targets"][0]["kernels"][0]["name"], "scale");
}

#[test]
fn wrong_usage_ends_with_2() {
    let bench = Bench::bare();
    let kernel = bench.kernel("add.ptx");
    for (args, expected) in [
        (vec!["build", "absent.cu"], "cannot read absent.cu"),
        (vec!["build", &kernel, "--device", "voodoo2"], "known devices: t4, a100"),
        (vec!["build", &kernel, "--arch", "sm_80", "--device", "h100"], "--arch sm_90"),
        (vec!["build", &kernel, "--block", "2000"], "expected at most 1024 threads per block"),
        (vec!["build", &kernel, "--block", "8x8x4x2"], "more than three extents"),
        (vec!["build", &kernel, "--toolchain", "."], "contains no part of a CUDA toolchain"),
        (vec!["build"], "required"),
        (vec!["frobnicate"], "unrecognized subcommand"),
    ] {
        let run = bench.run(&args).exits(2);
        assert!(run.err.contains(expected), "{args:?}: {}", run.err);
    }
}

/// A machine without any NVIDIA software.
fn nothing_here(bench: &Bench, path: &Path) -> Command {
    let mut command = bench.command();
    command.env("PATH", path);
    for variable in ["CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "WARPPROOF_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

#[test]
fn doctor_tells_what_is_missing_and_the_one_command() {
    if Path::new("/usr/local/cuda").exists() {
        eprintln!("skipped: this machine has CUDA in its default location");
        return;
    }
    let bench = Bench::bare();
    let empty = bench.dir.path().join("empty");
    let run = Run::of(&nothing_here(&bench, &empty).arg("doctor").output().unwrap()).exits(2);
    assert!(run.out.contains("NVRTC         missing"), "{}", run.out);
    assert!(run.err.contains("not found"), "{}", run.err);
    let run = Run::of(&nothing_here(&bench, &empty).args(["doctor", "--json"]).output().unwrap()).exits(2);
    let json = run.json();
    assert_eq!(json["schema"], "warpproof.doctor/1");
    assert_eq!(json["ok"], false);
    assert_eq!(json["parts"].as_array().unwrap().len(), 5);
    if cfg!(target_os = "linux") {
        assert_eq!(json["report"]["help"], "run `warpproof toolchain install`");
    }
}

#[test]
fn toolchain_doctor_is_content_with_a_working_toolchain() {
    let bench = Bench::new();
    let run = bench.run(["doctor"]).exits(0);
    assert!(run.out.contains("all tools work"), "{}", run.out);
    let json = bench.run(["doctor", "--json"]).exits(0).json();
    assert_eq!(json["ok"], true);
    assert_eq!(json["report"], Value::Null);
    for part in json["parts"].as_array().unwrap() {
        assert!(part["part"] == "cuobjdump" || part["in_use"]["path"].is_string(), "{part:#}");
    }
}

#[test]
fn an_empty_cache_lists_nothing() {
    let bench = Bench::bare();
    assert!(bench.run(["toolchain", "list"]).exits(0).out.contains("nothing is installed"));
    let json = bench.run(["toolchain", "list", "--json"]).exits(0).json();
    assert_eq!(json["sets"], serde_json::json!([]));
    let run = bench.run(["toolchain", "remove"]).exits(0);
    assert_eq!(run.out, "CUDA 12 is not installed\nCUDA 13 is not installed\nnvcc 13 is not installed\n");
}

/// Installs with a shell script as pip.
#[cfg(target_os = "linux")]
fn install_with(script: &str) -> (Bench, Run) {
    use std::os::unix::fs::PermissionsExt;

    let bench = Bench::bare();
    let bin = bench.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let pip = bin.join("pip");
    fs::write(&pip, format!("#!/bin/sh\ncase \"$1\" in --version) exit 0;; esac\n{script}\n")).unwrap();
    fs::set_permissions(&pip, fs::Permissions::from_mode(0o755)).unwrap();
    let run = Run::of(&nothing_here(&bench, &bin).args(["toolchain", "install"]).output().unwrap());
    (bench, run)
}

#[cfg(target_os = "linux")]
fn left_behind(bench: &Bench) -> Vec<String> {
    let sets = fs::read_dir(bench.cache().join("toolchain")).unwrap();
    sets.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn an_install_without_a_network_says_what_to_do() {
    let (bench, run) = install_with(
        "echo \"WARNING: Retrying after connection broken by 'NewConnectionError('<x>: Failed to establish a new \
         connection: [Errno -3] Temporary failure in name resolution')'\" >&2; exit 1",
    );
    let run = run.exits(2);
    assert!(run.err.contains("cannot reach the package index: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution\n"), "{}", run.err);
    assert!(run.err.contains("WARPPROOF_TOOLCHAIN"), "{}", run.err);
    assert_eq!(left_behind(&bench), [".lock"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_wheel_with_another_hash_is_refused() {
    let (bench, run) = install_with(
        "echo 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.' >&2; exit 1",
    );
    assert!(run.exits(2).err.contains("the hash of a downloaded wheel does not match"));
    assert_eq!(left_behind(&bench), [".lock"]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_install_that_does_not_work_is_not_kept() {
    // It succeeds, but leaves an incomplete compiler.
    let script = "while [ \"$1\" != --target ]; do shift; done\n/bin/mkdir -p \"$2/nvidia/cuda_nvcc/bin\"";
    let (bench, run) = install_with(script);
    let run = run.exits(2);
    assert!(run.err.contains("the installed compiler does not work: NVRTC is missing"), "{}", run.err);
    assert_eq!(left_behind(&bench), [".lock"]);
}

#[test]
fn commands_that_moved_name_the_program_that_has_them() {
    let bench = Bench::bare();
    for (old, new) in [
        (&["serve", "--dev", "--database", "x"][..], "serve"),
        (&["work", "--fleet", "http://127.0.0.1:1"], "worker"),
        (&["fleet", "serve", "--dev"], "serve"),
        (&["fleet", "work"], "worker"),
        (&["fleet", "--fleet", "http://127.0.0.1:1", "token", "me", "--roles", "read"], "token"),
        (&["fleet", "--fleet", "http://127.0.0.1:1", "tokens"], "tokens"),
        (&["fleet", "revoke", "1"], "revoke"),
        (&["fleet", "retain", "--days", "3"], "retain"),
    ] {
        let run = bench.run(old).exits(2);
        assert!(run.err.contains(&format!("expected `warpproof-fleet {new}`")), "{old:?}: {}", run.err);
        assert!(run.err.contains("cargo install warpproof-fleet"), "{old:?}: {}", run.err);
    }
}

#[test]
fn a_build_without_the_client_of_a_fleet_says_how_to_get_it() {
    let bench = Bench::bare();
    let run = bench.run(["fleet", "--fleet", "http://127.0.0.1:1", "status"]).exits(2);
    // With the client, a token is missing.
    let wanted =
        if cfg!(feature = "fleet") { "WARPPROOF_FLEET_TOKEN is not set" } else { "--features fleet" };
    assert!(run.err.contains(wanted), "{}", run.err);
}
