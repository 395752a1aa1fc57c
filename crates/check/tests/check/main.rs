//! Tests of the checks on small kernels: which findings they report and where, and what they must not report.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod alike;
mod barrier;
mod bulk;
mod cluster;
mod deadlock;
mod dependent;
mod effects;
#[cfg(feature = "serde")]
#[path = "../../examples/check.rs"]
mod example;
mod explore;
#[cfg(feature = "serde")]
mod format;
mod fragment;
mod global_race;
mod init;
mod lanes;
mod mbarrier;
mod multiply;
mod output;
mod plain;
mod reductions;
mod scaled;
mod shared_race;
mod taint;
mod tensor;
mod texture;
mod waiting;

use warpproof_check::{BufferRole, Check, CheckLaunch, Checked, Class, Role, Settings};
use warpproof_sim::schedule::Order;
use warpproof_sim::{Buffer, Device};

#[cfg(feature = "serde")]
#[test]
fn the_example_runs() {
    example::main().unwrap();
}

/// A kernel to check: its PTX, its launch, and its buffers of 32-bit words.
struct Case<'a> {
    /// Declarations before the kernel.
    functions: &'a str,
    /// The kernel's body. `%a0`, `%a1`, … hold the addresses of the buffers, and `%t` the thread's index.
    body: &'a str,
    grid: u32,
    block: u32,
    buffers: &'a [(&'a str, Role, usize)],
    checks: &'a [Check],
}

/// Lines of PTX before the body.
const LINES_BEFORE: u32 = 10;

impl Case<'_> {
    fn check(&self) -> Checked {
        let params: Vec<String> =
            self.buffers.iter().map(|(name, ..)| format!(".param .u64 {name}")).collect();
        let loads: Vec<String> = self
            .buffers
            .iter()
            .enumerate()
            .map(|(i, (name, ..))| format!("ld.param.u64 %a{i}, [{name}];"))
            .collect();
        let head = format!(
            ".version 8.7\n.target sm_89\n.address_size 64\n{}\n.visible .entry k({}) {{\n\
             .reg .b64 %a<8>; .reg .b32 %t;\n\
             .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .f32 %f<16>;\n\
             {}\nmov.u32 %t, %tid.x;\nmul.wide.u32 %d15, %t, 4;\n",
            self.functions.replace('\n', " "),
            params.join(", "),
            loads.join(" ")
        );
        assert_eq!(head.lines().count(), usize::try_from(LINES_BEFORE).unwrap());
        let ptx = format!("{head}{}\nret;\n}}\n", self.body.trim_start_matches('\n'));
        let mut device = Device::new().with_threads(1);
        device.limits.instructions = 1_000_000;
        let module = device.load(&ptx).unwrap();
        let kernel = module.kernel("k").unwrap();
        let mut launch = kernel.launch().grid(self.grid).block(self.block);
        let mut roles = Vec::new();
        for (name, role, words) in self.buffers {
            let words: Buffer<u32> =
                device.upload(&(0..u32::try_from(*words).unwrap()).collect::<Vec<_>>()).unwrap();
            launch = launch.arg(words);
            roles.push(BufferRole {
                name: (*name).to_owned(),
                address: words.address(),
                element: 4,
                extents: vec![u64::try_from(words.len()).unwrap()],
                role: *role,
                initialized: *role != Role::Out,
            });
        }
        let settings = Settings { checks: self.checks.to_vec(), buffers: roles, ..Settings::default() };
        device.check(&launch, &settings)
    }

    /// The findings as classes and lines of the body, counted from 1, in the order of the finding's places.
    fn findings(&self) -> Vec<(Class, Vec<u32>)> {
        let checked = self.check();
        assert!(checked.outcome.stop.is_none(), "{:?}", checked.outcome.stop);
        let lines = |finding: &warpproof_check::Finding| {
            finding.places.iter().map(|label| label.place.ptx_line.saturating_sub(LINES_BEFORE)).collect()
        };
        checked.findings.iter().map(|finding| (finding.class, lines(finding))).collect()
    }
}

/// Checks `body` in a kernel with one parameter, the address of an array of words (`%out`); `%to` is the address of
/// each thread's own word.
fn check(body: &str, grid: u32, block: u32, checks: &[Check]) -> Checked {
    check_in_order(body, grid, block, checks, Order::Forward)
}

/// As [`check`], with an order of the warps.
fn check_in_order(body: &str, grid: u32, block: u32, checks: &[Check], order: Order) -> Checked {
    check_with(body, grid, block, &Settings { checks: checks.to_vec(), ..Settings::default() }, order)
}

/// As [`check`], with settings and an order of the warps.
fn check_with(body: &str, grid: u32, block: u32, settings: &Settings, order: Order) -> Checked {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %to; .reg .b32 %t, %lane, %cta; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<8>;\n\
         .reg .f32 %f<16>; .shared .align 16 .b8 tile[1024];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %to, %t, 4; add.u64 %to, %out, %to;\n\
         mov.u32 %lane, %laneid; mov.u32 %cta, %ctaid.x;\n\
         {body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    device.limits.instructions = 4_000_000;
    device.schedule.order = order;
    let module = device.load(&ptx).unwrap();
    let out = device.alloc::<u32>(4096).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(grid).block(block).arg(out);
    device.check(&launch, settings)
}

/// The class of each finding with the instructions it names.
fn found(checked: &Checked) -> Vec<(&'static str, Vec<&str>)> {
    checked
        .findings
        .iter()
        .map(|finding| {
            let places =
                finding.places.iter().map(|label| label.place.instruction.trim_end_matches([';', ' ']));
            (finding.class.name(), places.collect())
        })
        .collect()
}
