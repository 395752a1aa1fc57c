//! Programs of the CUDA runtime run unchanged.
mod bench;

use bench::{compile, libraries, nvcc, run, run_on, succeeds, succeeds_on_both_versions, text};
use std::process::Command;

#[test]
fn a_program_that_registers_its_own_kernel_runs_on_both_versions() {
    let libraries = libraries();
    for major in [12, 13] {
        let output = run(&compile("registered.c", major, &libraries), &libraries);
        assert_eq!(text(&output.stdout), "ok\n", "{major}");
        assert!(output.status.success());
        // It copies more than a variable has, frees memory twice, and does not read the error of a launch that fails.
        let found = text(&output.stderr);
        let classes = found.lines().filter_map(|line| line.strip_prefix("warpproof: ")?.split_once(": "));
        let classes: Vec<&str> = classes.map(|(class, _)| class).collect();
        assert_eq!(classes, ["copy-bounds", "double-free", "unread-error"], "{found}");
    }
}

#[test]
fn a_function_that_is_not_supported_names_itself_once() {
    let libraries = libraries();
    let output = run(&compile("unsupported.c", 13, &libraries), &libraries);
    assert_eq!(text(&output.stdout), "801 801\n");
    assert_eq!(text(&output.stderr).matches("cudaIpcGetMemHandle").count(), 1, "{}", text(&output.stderr));
}

#[test]
fn toolchain_launches_and_their_errors() {
    succeeds("vector_add.cu", &[]);
}

#[test]
fn toolchain_memory_of_all_kinds() {
    succeeds("memory.cu", &[]);
}

#[test]
fn toolchain_managed_variables() {
    succeeds("managed.cu", &[]);
}

#[test]
fn toolchain_translation_units_that_nvcc_links() {
    let part = bench::source("separate_part.cu");
    succeeds("separate.cu", &["-rdc=true", &part.display().to_string()]);
}

#[test]
fn toolchain_kernels_that_launch_kernels_are_unsupported_by_name() {
    let libraries = libraries();
    let program = nvcc("device_launch.cu", &["-rdc=true"], &libraries);
    let output = run(&program, &libraries);
    let reported = text(&output.stderr);
    assert_eq!(text(&output.stdout), "ok\n", "{reported}");
    assert!(reported.contains("dynamic parallelism is not supported"), "{reported}");
}

#[test]
fn toolchain_destructors_of_global_variables() {
    succeeds("at_exit.cu", &[]);
}

#[test]
fn toolchain_streams_events_and_occupancy() {
    succeeds("streams.cu", &[]);
}

#[test]
fn toolchain_the_default_stream_of_each_thread() {
    succeeds("streams.cu", &["-default-stream", "per-thread"]);
    succeeds("memory.cu", &["-default-stream", "per-thread"]);
}

#[test]
fn toolchain_kernels_of_eight_threads_have_the_results_and_findings_of_one() {
    let libraries = libraries();
    let program = nvcc("threads.cu", &[], &libraries);
    let run = |threads: &str| {
        let findings = libraries.path().join(format!("findings.{threads}"));
        let mut command = Command::new(&program);
        command.arg(threads).env("LD_LIBRARY_PATH", libraries.path()).env_remove("WARPPROOF_REPORT");
        command.env("WARPPROOF_FINDINGS", "json").env("WARPPROOF_FINDINGS_FILE", &findings);
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found = std::fs::read_to_string(&findings).expect("findings");
        let mut found: Vec<serde_json::Value> =
            found.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for finding in &mut found {
            // Which launch of the process it was, and from where the thread was started.
            finding["launch"] = 0.into();
            finding["site"].as_array_mut().expect("frames").truncate(1);
        }
        (text(&output.stdout), found)
    };
    let one = run("1");
    assert_eq!((one.0.len(), one.1.len()), (17, 1), "{one:?}");
    assert_eq!((&one.1[0]["class"], &one.1[0]["severity"]), (&"shared-race".into(), &"error".into()));
    assert_eq!(run("8"), one);
}

#[test]
fn toolchain_two_devices() {
    let libraries = libraries();
    let program = nvcc("devices.cu", &[], &libraries);
    let output = run_on("l4,l4", &program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()));
}

#[test]
fn toolchain_settings_of_devices_kernels_and_streams() {
    succeeds_on_both_versions("settings.cu");
}

#[test]
fn toolchain_execution_contexts_and_the_log() {
    succeeds("contexts.cu", &[]);
}

#[test]
fn toolchain_copies_of_every_shape() {
    succeeds_on_both_versions("copies.cu");
}

#[test]
fn toolchain_pools_and_advice_about_memory() {
    succeeds_on_both_versions("pools.cu");
}

#[test]
fn toolchain_libraries_on_one_device_and_on_two() {
    succeeds("libraries.cu", &[]);
    let libraries = libraries();
    let program = nvcc("libraries.cu", &[], &libraries);
    let output = run_on("l4,l4", &program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()));
}

/// Not a deadlock of the kernel: on a device, the host continues and writes the flag.
#[test]
fn toolchain_a_kernel_that_waits_for_the_host_is_unsupported() {
    let libraries = libraries();
    let program = nvcc("waits_for_host.cu", &[], &libraries);
    let output = run(&program, &libraries);
    assert_eq!(text(&output.stdout), "ok\n");
    let found = text(&output.stderr);
    assert!(found.contains("the kernel waits until the host writes to memory"), "{found}");
    assert!(!found.contains("deadlock"), "{found}");
}

#[test]
fn toolchain_clusters_on_hopper() {
    let libraries = libraries();
    let program = nvcc("clusters.cu", &["-arch=sm_90", "-std=c++17"], &libraries);
    let output = run_on("h100", &program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()));
}

#[test]
fn toolchain_dependent_launches_on_hopper() {
    let libraries = libraries();
    let program = nvcc("dependent.cu", &["-arch=sm_90", "-std=c++17"], &libraries);
    let output = run_on("h100", &program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()));
    // The values of a program with a missing wait are the old ones, with checks and without.
    for checks in ["all", "none"] {
        let mut command = std::process::Command::new(&program);
        command.arg("careless").env("LD_LIBRARY_PATH", libraries.path()).env_remove("WARPPROOF_REPORT");
        let output =
            command.env("WARPPROOF_DEVICE", "h100").env("WARPPROOF_CHECKS", checks).output().unwrap();
        let found = text(&output.stderr);
        assert_eq!(text(&output.stdout), "ok\n", "{found}");
        assert_eq!(
            found.matches("warpproof: stream-race:").count(),
            if checks == "all" { 3 } else { 0 },
            "{found}"
        );
        if checks == "all" {
            assert!(found.contains("kernel `_Z8carelessPKiPi` reads them at"), "{found}");
        }
    }
}

#[test]
fn toolchain_tensor_maps_on_hopper() {
    let libraries = libraries();
    let program = nvcc("tensor_maps.cu", &["-arch=sm_90a", "-std=c++17", "-g"], &libraries);
    let output = run_on("h100", &program, &libraries);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ok\n".to_owned(), String::new()));
}

#[test]
fn toolchain_cub_and_thrust() {
    succeeds("thrust.cu", &[]);
}

#[test]
fn toolchain_a_fault_is_sticky_and_a_race_is_found() {
    let libraries = libraries();
    let program = nvcc("faults.cu", &[], &libraries);
    let output = run(&program, &libraries);
    assert_eq!(text(&output.stdout), "ok\n", "{}", text(&output.stderr));
    let found = text(&output.stderr);
    assert!(found.contains("shared-race") && found.contains("faults.cu:7"), "{found}");
    assert!(found.contains("bounds") && found.contains("faults.cu:9"), "{found}");
}
