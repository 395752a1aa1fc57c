//! Runs one request from plan to verdict.

#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

use std::sync::OnceLock;

use warpproof_kernels::attention::Attention;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::Lengths;
use warpproof_launch::Checking;
use warpproof_toolchain::{Options, Toolchain, WITHOUT_TOOLCHAIN};

pub(crate) fn l4() -> &'static warpproof_model::Device {
    warpproof_model::Device::named("L4").unwrap()
}

/// An L4 with `count` multiprocessors: with few of them, few rows fill the device.
pub(crate) fn multiprocessors(count: u32) -> warpproof_model::Device {
    let mut device = *l4();
    device.multiprocessors.value = count;
    device
}

pub(crate) fn one_multiprocessor() -> warpproof_model::Device {
    multiprocessors(1)
}

pub(crate) fn lengths(queries: usize, keys: usize) -> Lengths {
    Lengths { queries, keys }
}

/// NVIDIA's compiler. Names of tests that need it begin with `toolchain_`.
pub(crate) fn toolchain() -> &'static Toolchain {
    static FOUND: OnceLock<Toolchain> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found = Toolchain::find(&Options::from_env().with_cuda(12));
        found.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"))
    })
}

/// PTX without comments and source locations.
pub(crate) fn code(ptx: &str) -> String {
    let kept = |line: &&str| {
        let line = line.trim_start();
        !(line.starts_with("//") || line.starts_with(".loc") || line.starts_with(".file"))
    };
    ptx.lines().filter(kept).collect::<Vec<_>>().join("\n")
}

pub(crate) struct Case {
    request: Request,
    device: warpproof_model::Device,
}

impl Case {
    pub(crate) fn of(request: Request) -> Case {
        Case { request, device: *l4() }
    }

    /// The case on another device.
    pub(crate) fn on(self, device: warpproof_model::Device) -> Case {
        Case { device, ..self }
    }

    /// Runs the case under two schedules with every check enabled, for two distributions.
    pub(crate) fn run(&self) {
        let toolchain = toolchain();
        let plan = Plan::new(&self.request, &self.device).unwrap();
        let ptx = plan.compile(toolchain).unwrap_or_else(|error| panic!("{:?}: {error}", plan.defines));
        let mut gpu = Checking::new(warpproof_sim::Device::new(), 2);
        let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
        for (seed, distribution) in [Distribution::VMeanOne, Distribution::Outliers].into_iter().enumerate() {
            let seed = u64::try_from(seed).unwrap();
            let inputs = generate(&self.request.shape, distribution, seed, self.request.spec());
            let answer = attention.run_inputs(&mut gpu, &inputs).unwrap();
            let what = format!(
                "{} {} {distribution:?} {:?}",
                attention.plan().rung.name,
                self.request.shape,
                attention.plan().defines
            );
            let findings: Vec<String> = gpu.findings.iter().map(ToString::to_string).collect();
            assert!(findings.is_empty(), "{what}: {findings:#?}");
            let verdict = attention.plan().oracles(&inputs).unwrap().judge(&answer);
            assert!(verdict.passed(), "{what}: {verdict:#?}");
        }
    }
}
