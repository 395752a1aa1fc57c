//! The example runs.

#[path = "../examples/run.rs"]
mod run;

#[test]
fn a_kernel_runs() {
    run::main().unwrap();
}
