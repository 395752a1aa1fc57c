//! Whether a device accepts the clusters of a launch.

use warpproof_model::{Device, PORTABLE_CLUSTER, clusters};
use warpproof_sim::Kernel;

use super::Plan;
use crate::report::{Kind, Report};

/// Blocks of a cluster: those of the launch, or those that the kernel was compiled for.
pub(super) fn size(kernel: &Kernel, plan: &Plan) -> u32 {
    let cluster = plan.cluster.or(kernel.program().bounds.cluster).unwrap_or([1; 3]);
    cluster.iter().fold(1, |blocks, extent| blocks.saturating_mul(*extent))
}

/// Refuses a size that CUDA rejects. What does not depend on the device is checked by the launch itself.
pub(super) fn fit(kernel: &Kernel, plan: &Plan, arch: &str) -> Result<(), Box<Report>> {
    let size = size(kernel, plan);
    let refused = |sentence: String, note: String| {
        let note = format!("{note}; CUDA rejects it with CUDA_ERROR_INVALID_CLUSTER_SIZE");
        Report::error(Kind::Usage, sentence).note(note, None)
    };
    if size > PORTABLE_CLUSTER && !plan.nonportable {
        let sentence = format!("a cluster of {size} blocks");
        let note = format!("clusters of more than {PORTABLE_CLUSTER} blocks do not run on every device");
        let help = "add nonportable=true to the launch line, and set cudaFuncAttributeNonPortableClusterSizeAllowed in the program";
        return Err(Box::new(refused(sentence, note).help(help)));
    }
    let Some(device) = Device::of_arch(arch).filter(|_| size > 1) else { return Ok(()) };
    if clusters(device, size, 1).active > 0 {
        return Ok(());
    }
    let most = device.capability.max_cluster.value;
    let note = format!("the largest cluster has {most} {}", if most == 1 { "block" } else { "blocks" });
    Err(Box::new(refused(format!("an {} holds no cluster of {size} blocks", device.name), note)))
}
