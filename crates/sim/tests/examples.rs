//! The examples run.

#[path = "../examples/check.rs"]
mod check;
#[path = "../examples/count.rs"]
mod count;
#[path = "../examples/run.rs"]
mod run;

#[test]
fn a_kernel_runs() {
    run::main().unwrap();
}

#[test]
fn a_race_is_found() {
    check::main().unwrap();
}

#[test]
fn traffic_is_counted() {
    count::main().unwrap();
}
