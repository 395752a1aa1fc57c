//! Programs with arrays, textures, surfaces and graphs run unchanged.
mod bench;

use bench::{compile, libraries, run, succeeds, succeeds_on_both_versions, text};

/// Compiles a C program against the runtime of each major version, runs it, and returns what it wrote to stderr.
fn c_succeeds_on_both_versions(name: &str) -> Vec<String> {
    let libraries = libraries();
    let run_on = |major: u32| {
        let program = compile(name, major, &libraries);
        let output = run(&program, &libraries);
        assert_eq!(text(&output.stdout), "ok\n", "{name} of {major}: {}", text(&output.stderr));
        assert!(output.status.success());
        text(&output.stderr)
    };
    [12, 13].map(run_on).into()
}

#[test]
fn arrays_textures_and_surfaces_on_both_versions() {
    for reported in c_succeeds_on_both_versions("images.c") {
        // The program tries one copy that ends after its array.
        let found: Vec<&str> = reported.lines().filter(|line| line.starts_with("warpproof: ")).collect();
        assert!(matches!(found[..], [one] if one.starts_with("warpproof: copy-bounds: ")), "{reported}");
    }
}

#[test]
fn graphs_on_both_versions() {
    for reported in c_succeeds_on_both_versions("graphs.c") {
        // The program adds a node with an external semaphore.
        assert!(reported.contains("a graph node of type 8"), "{reported}");
        assert_eq!(reported.lines().count(), 1, "{reported}");
    }
}

#[test]
fn toolchain_kernels_read_textures_and_write_surfaces() {
    succeeds("textures.cu", &[]);
}

#[test]
fn toolchain_kernels_in_graphs() {
    succeeds("graphs.cu", &[]);
    succeeds("graphs.cu", &["-default-stream", "per-thread"]);
}

#[test]
fn toolchain_parameters_of_nodes() {
    succeeds_on_both_versions("nodes.cu");
}

#[test]
fn toolchain_conditional_nodes() {
    succeeds_on_both_versions("conditional.cu");
}
