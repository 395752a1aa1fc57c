//! Operator families: kernels that are built in and bring their own inputs, oracles and launches.
//!
//! A task names a family by its operator, and a candidate names one of its kernels. The stages see only [`Planned`]
//! and do not depend on any family.

pub mod attention;

use std::fmt::Debug;
use std::sync::Arc;

use warpproof_count::Counters;
use warpproof_model::Device;
use warpproof_model::bound::Floor;
use warpproof_speed::ClockError;
use warpproof_task::{Candidate, Operator, Reference, Size, Task};
use warpproof_toolchain::{CompileError, Toolchain};

use crate::reference::Unfit;
use crate::runner::Remote;
use crate::stage::{Bench, Ending, Part, Trouble};

/// Kernels for one operator.
pub trait Family: Sync {
    /// Plans a candidate for a size on a device.
    fn plan(
        &self,
        task: &Task,
        candidate: &Candidate,
        size: &Size,
        device: &Device,
    ) -> Result<Arc<dyn Planned>, Unfit>;
}

/// One launch of a planned kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The kernel.
    pub kernel: &'a str,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// A kernel of a family, planned for one size on one device.
pub trait Planned: Debug + Send + Sync {
    /// The architecture it is compiled for.
    fn arch(&self) -> &str;

    /// Its PTX.
    fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError>;

    /// Everything except its PTX that determines its result.
    fn identity(&self) -> String;

    /// Its launches, in order.
    fn steps(&self) -> Vec<Step<'_>>;

    /// The minimum work that the problem requires.
    fn floor(&self) -> Floor;

    /// Compares its outputs with the oracles.
    fn correct(&self, bench: &Bench<'_>, ptx: &str, part: &Part) -> Result<Ending, Trouble>;

    /// Runs it with all checks. The first case is checked under all schedules; every other distribution and seed is
    /// checked under the first schedule on the smallest size, because these kernels run for a long time.
    fn checks(
        &self,
        bench: &Bench<'_>,
        candidate: &Candidate,
        ptx: &str,
        part: &Part,
    ) -> Result<Ending, Trouble>;

    /// Counts each launch on inputs drawn for the run.
    fn count(&self, bench: &Bench<'_>, ptx: &str, part: &Part) -> Result<Vec<Counters>, Trouble>;

    /// Loads and runs it on a device, and compares its output with the oracles. `name` is for messages.
    fn run(&self, held: &mut Remote, bench: &Bench<'_>, ptx: &str, name: &str) -> Result<(), ClockError>;
}

/// The family of a task's operator.
pub fn of(task: &Task) -> Option<&'static dyn Family> {
    match &task.reference {
        Reference::BuiltIn { operator: Operator::Attention(_) } => Some(&attention::Attention),
        _ => None,
    }
}
