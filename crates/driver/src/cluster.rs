//! Clusters of a launch: their size, what the device accepts, and how many are active at a time.

use warpproof_model::{PORTABLE_CLUSTER, clusters, largest_cluster};

use crate::abi::{Answer, Error};
use crate::driver::Driver;
use crate::module::Function;
use crate::work::LaunchCall;

/// `CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET`.
pub const MUST_BE_SET: u32 = 10;
/// `CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH`, `…_HEIGHT` and `…_DEPTH`.
pub const REQUIRED: [u32; 3] = [11, 12, 13];
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
pub const NONPORTABLE: u32 = 14;

/// A value of `CUlaunchAttributePortableClusterMode`.
pub fn portable_mode(value: u32) -> Answer<Option<bool>> {
    match value {
        0 => Ok(None),
        1 => Ok(Some(false)),
        2 => Ok(Some(true)),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Blocks of a cluster.
fn size(cluster: [u32; 3]) -> u32 {
    cluster.iter().fold(1, |blocks, extent| blocks.saturating_mul(*extent))
}

impl Function {
    fn set(&self, attribute: u32) -> u32 {
        self.attributes.get(&attribute).and_then(|value| u32::try_from(*value).ok()).unwrap_or(0)
    }

    /// The cluster that every launch must have: from `__cluster_dims__`, or from attributes.
    pub fn required_cluster(&self) -> Option<[u32; 3]> {
        let set = REQUIRED.map(|attribute| self.set(attribute));
        self.kernel.program().bounds.cluster.or((set != [0; 3]).then_some(set))
    }

    /// Whether a launch must have clusters.
    pub fn needs_cluster(&self) -> bool {
        self.kernel.program().bounds.explicit_cluster || self.set(MUST_BE_SET) != 0
    }

    /// Whether clusters may have a size that not every device supports.
    fn allows_nonportable(&self) -> bool {
        self.set(NONPORTABLE) != 0
    }
}

impl Driver {
    /// The cluster of a launch, if it has one.
    pub fn cluster(&self, call: &LaunchCall) -> Answer<Option<[u32; 3]>> {
        Ok(call.cluster.or(self.function(call.function)?.required_cluster()))
    }

    /// Checks the size of a cluster against the kernel and the device.
    fn admit_size(
        &self,
        device: usize,
        function: &Function,
        cluster: [u32; 3],
        nonportable: Option<bool>,
    ) -> Answer {
        let bounds = function.kernel.program().bounds;
        let model = self.devices[device].model;
        let most =
            if nonportable.unwrap_or(function.allows_nonportable()) { u32::MAX } else { PORTABLE_CLUSTER };
        let most = most.min(bounds.max_cluster.unwrap_or(u32::MAX)).min(model.capability.max_cluster.value);
        let size = size(cluster);
        let fixed = function.required_cluster().is_none_or(|required| required == cluster);
        // A device of this table may have no GPC for it.
        let held = clusters(model, size, 1).active > 0;
        if size == 0 || size > most || !fixed || !held {
            return Err(Error::INVALID_CLUSTER_SIZE);
        }
        Ok(())
    }

    /// Whether the device accepts the clusters of a launch.
    pub fn admit_cluster(&self, device: usize, call: &LaunchCall) -> Answer {
        let function = self.function(call.function)?;
        let Some(cluster) = self.cluster(call)? else {
            return if function.needs_cluster() { Err(Error::INVALID_CLUSTER_SIZE) } else { Ok(()) };
        };
        self.admit_size(device, function, cluster, call.nonportable)?;
        let divides = (0..3).all(|axis| call.grid[axis].is_multiple_of(cluster[axis]));
        if divides { Ok(()) } else { Err(Error::INVALID_CLUSTER_SIZE) }
    }

    /// Blocks of a launch that are active at a time.
    pub fn active_blocks(&self, device: usize, call: &LaunchCall, threads: u32) -> Answer<u64> {
        let each = self.blocks_per_multiprocessor(call.function, threads, call.shared)?;
        let size = self.cluster(call)?.map_or(1, size);
        Ok(u64::from(clusters(self.devices[device].model, size, each).blocks()))
    }

    /// `cuOccupancyMaxActiveClusters`.
    pub fn max_active_clusters(
        &self,
        function: u64,
        (given, nonportable): (Option<[u32; 3]>, Option<bool>),
        threads: u32,
        shared: u32,
    ) -> Answer<u32> {
        let kernel = self.function(function)?;
        let (device, _) = self.current()?;
        let cluster = given.or(kernel.required_cluster()).ok_or(Error::INVALID_CLUSTER_SIZE)?;
        self.admit_size(device, kernel, cluster, nonportable)?;
        let each = self.blocks_per_multiprocessor(function, threads, shared)?;
        Ok(clusters(self.devices[device].model, size(cluster), each).active)
    }

    /// `cuOccupancyMaxPotentialClusterSize`.
    pub fn max_cluster_size(&self, function: u64, threads: u32, shared: u32) -> Answer<u32> {
        let kernel = self.function(function)?;
        if let Some(cluster) = kernel.required_cluster() {
            return Ok(size(cluster));
        }
        let (device, _) = self.current()?;
        let each = self.blocks_per_multiprocessor(function, threads, shared)?;
        let largest = largest_cluster(self.devices[device].model, kernel.allows_nonportable(), each);
        Ok(largest.min(kernel.kernel.program().bounds.max_cluster.unwrap_or(u32::MAX)))
    }
}
