//! Whether the blocks of a cooperative launch can all be resident at the same time.

use warpproof_model::{Device, Usage, clusters, occupancy};
use warpproof_sim::Kernel;

use super::Plan;
use crate::report::{Kind, Report};

/// Refuses a grid that the device of the module's architecture cannot hold at once. Registers are not counted, because only
/// ptxas knows them: a launch that passes here may still be refused by a device.
pub(super) fn fits(kernel: &Kernel, plan: &Plan, block: [u32; 3], arch: &str) -> Result<(), Box<Report>> {
    let Some(device) = Device::of_arch(arch) else { return Ok(()) };
    let program = kernel.program();
    let usage = Usage {
        registers: 1,
        static_shared: program.static_shared,
        dynamic_shared: plan.shared,
        barriers: 1,
    };
    let threads = block.iter().fold(1u32, |threads, extent| threads.saturating_mul(*extent));
    let per_multiprocessor = occupancy(device.capability, &usage, threads).blocks_per_sm;
    let multiprocessors = device.multiprocessors.value;
    let size = super::clusters::size(kernel, plan);
    let most = u64::from(clusters(device, size, per_multiprocessor).blocks());
    let blocks = plan.grid.iter().fold(1u64, |blocks, extent| blocks.saturating_mul(u64::from(*extent)));
    if blocks <= most {
        return Ok(());
    }
    let sentence = format!(
        "a cooperative launch of {blocks} blocks: at most {most} blocks of {threads} threads can be resident on an {}",
        device.name
    );
    let note = format!(
        "{multiprocessors} multiprocessors, {per_multiprocessor} blocks on each{}; CUDA rejects it with \
         CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        if size > 1 { format!(", in clusters of {size}") } else { String::new() }
    );
    let help = "launch fewer blocks and loop over the rest: all blocks of a cooperative launch must be resident at the same time";
    Err(Box::new(Report::error(Kind::Usage, sentence).note(note, None).help(help)))
}
