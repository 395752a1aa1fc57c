//! The machine around the instructions: turns of diverged lanes, the stack, and values of special registers.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod barriers;
mod faults;
mod meeting;
mod refusals;
mod reserved;
mod stack;
mod turns;

use warpproof_sim::schedule::Schedule;
use warpproof_sim::{Device, Outcome};

/// Runs `body` in a kernel with one parameter, the address of `count` words (`%out`), and returns them and the outcome.
fn run(
    body: &str,
    functions: &str,
    block: u32,
    shared: u32,
    count: usize,
    schedule: Schedule,
) -> (Vec<u32>, Outcome) {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n{functions}\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %to; .reg .b32 %t; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<8>;\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %to, %t, 4; add.u64 %to, %out, %to;\n\
         {body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    device.schedule = schedule;
    device.limits.instructions = 10_000_000;
    let module = device.load(&ptx).unwrap();
    let out = device.alloc::<u32>(count).unwrap();
    let launch = module.kernel("k").unwrap().launch().block(block).shared(shared).arg(out);
    let outcome = device.run(&launch);
    (device.read(&out).unwrap(), outcome)
}
