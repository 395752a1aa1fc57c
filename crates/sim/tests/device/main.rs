//! The device around its instructions: buffers, limits, observers, coverage, and which instructions it knows.

mod architectures;
mod buffers;
mod cover;
#[path = "../../examples/run.rs"]
mod example;
mod forms;
mod limits;
mod listeners;
mod waiting;

#[test]
fn the_example_runs() {
    example::main().unwrap();
}
