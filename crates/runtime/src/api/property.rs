//! `cudaDeviceProp`, whose fields differ between the major versions.

use std::ffi::{c_char, c_int};

use warpproof_driver::abi::{Answer, Error};
use warpproof_driver::api::{In, Out};
use warpproof_driver::driver::driver;

use super::{init, out};

/// What a field contains.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// The name of the device, 256 bytes.
    Name,
    /// The UUID of the device.
    Uuid,
    /// Bytes of memory.
    Memory,
    /// A `size_t`: an attribute of the device.
    Size(u32),
    /// `int`s: attributes of the device.
    Ints(&'static [u32]),
    /// Bytes that are 0.
    Zeros(usize),
}

impl Value {
    /// Size and alignment.
    fn layout(self) -> (usize, usize) {
        match self {
            Value::Name => (256, 1),
            Value::Uuid => (16, 1),
            Value::Memory | Value::Size(_) => (8, 8),
            Value::Ints(attributes) => (4 * attributes.len(), 4),
            // The locally unique ID is an array of bytes, all others are `int`s; both are at multiples of 4.
            Value::Zeros(bytes) => (bytes, 4),
        }
    }
}

/// The major versions that have a field.
type Majors = &'static [u32];
const BOTH: Majors = &[12, 13];
const ONLY_12: Majors = &[12];
const ONLY_13: Majors = &[13];

/// The last field of the structure before CUDA 12.
const LAST_OF_11: &str = "reservedSharedMemPerBlock";

/// The fields in their order.
#[rustfmt::skip]
const FIELDS: &[(&str, Value, Majors)] = &[
    ("name", Value::Name, BOTH),
    ("uuid", Value::Uuid, BOTH),
    ("luid", Value::Zeros(8), BOTH),
    ("luidDeviceNodeMask", Value::Zeros(4), BOTH),
    ("totalGlobalMem", Value::Memory, BOTH),
    ("sharedMemPerBlock", Value::Size(8), BOTH),
    ("regsPerBlock", Value::Ints(&[12]), BOTH),
    ("warpSize", Value::Ints(&[10]), BOTH),
    ("memPitch", Value::Size(11), BOTH),
    ("maxThreadsPerBlock", Value::Ints(&[1]), BOTH),
    ("maxThreadsDim", Value::Ints(&[2, 3, 4]), BOTH),
    ("maxGridSize", Value::Ints(&[5, 6, 7]), BOTH),
    ("clockRate", Value::Ints(&[13]), ONLY_12),
    ("totalConstMem", Value::Size(9), BOTH),
    ("major", Value::Ints(&[75]), BOTH),
    ("minor", Value::Ints(&[76]), BOTH),
    ("textureAlignment", Value::Size(14), BOTH),
    ("texturePitchAlignment", Value::Size(51), BOTH),
    ("deviceOverlap", Value::Ints(&[15]), ONLY_12),
    ("multiProcessorCount", Value::Ints(&[16]), BOTH),
    ("kernelExecTimeoutEnabled", Value::Ints(&[17]), ONLY_12),
    ("integrated", Value::Ints(&[18]), BOTH),
    ("canMapHostMemory", Value::Ints(&[19]), BOTH),
    ("computeMode", Value::Ints(&[20]), ONLY_12),
    ("maxTexture1D", Value::Ints(&[21]), BOTH),
    ("maxTexture1DMipmap", Value::Ints(&[77]), BOTH),
    ("maxTexture1DLinear", Value::Ints(&[69]), ONLY_12),
    ("maxTexture2D", Value::Ints(&[22, 23]), BOTH),
    ("maxTexture2DMipmap", Value::Ints(&[73, 74]), BOTH),
    ("maxTexture2DLinear", Value::Ints(&[70, 71, 72]), BOTH),
    ("maxTexture2DGather", Value::Ints(&[45, 46]), BOTH),
    ("maxTexture3D", Value::Ints(&[24, 25, 26]), BOTH),
    ("maxTexture3DAlt", Value::Ints(&[47, 48, 49]), BOTH),
    ("maxTextureCubemap", Value::Ints(&[52]), BOTH),
    ("maxTexture1DLayered", Value::Ints(&[42, 43]), BOTH),
    ("maxTexture2DLayered", Value::Ints(&[27, 28, 29]), BOTH),
    ("maxTextureCubemapLayered", Value::Ints(&[53, 54]), BOTH),
    ("maxSurface1D", Value::Ints(&[55]), BOTH),
    ("maxSurface2D", Value::Ints(&[56, 57]), BOTH),
    ("maxSurface3D", Value::Ints(&[58, 59, 60]), BOTH),
    ("maxSurface1DLayered", Value::Ints(&[61, 62]), BOTH),
    ("maxSurface2DLayered", Value::Ints(&[63, 64, 65]), BOTH),
    ("maxSurfaceCubemap", Value::Ints(&[66]), BOTH),
    ("maxSurfaceCubemapLayered", Value::Ints(&[67, 68]), BOTH),
    ("surfaceAlignment", Value::Size(30), BOTH),
    ("concurrentKernels", Value::Ints(&[31]), BOTH),
    ("ECCEnabled", Value::Ints(&[32]), BOTH),
    ("pciBusID", Value::Ints(&[33]), BOTH),
    ("pciDeviceID", Value::Ints(&[34]), BOTH),
    ("pciDomainID", Value::Ints(&[50]), BOTH),
    ("tccDriver", Value::Ints(&[35]), BOTH),
    ("asyncEngineCount", Value::Ints(&[40]), BOTH),
    ("unifiedAddressing", Value::Ints(&[41]), BOTH),
    ("memoryClockRate", Value::Ints(&[36]), ONLY_12),
    ("memoryBusWidth", Value::Ints(&[37]), BOTH),
    ("l2CacheSize", Value::Ints(&[38]), BOTH),
    ("persistingL2CacheMaxSize", Value::Ints(&[108]), BOTH),
    ("maxThreadsPerMultiProcessor", Value::Ints(&[39]), BOTH),
    ("streamPrioritiesSupported", Value::Ints(&[78]), BOTH),
    ("globalL1CacheSupported", Value::Ints(&[79]), BOTH),
    ("localL1CacheSupported", Value::Ints(&[80]), BOTH),
    ("sharedMemPerMultiprocessor", Value::Size(81), BOTH),
    ("regsPerMultiprocessor", Value::Ints(&[82]), BOTH),
    ("managedMemory", Value::Ints(&[83]), BOTH),
    ("isMultiGpuBoard", Value::Ints(&[84]), BOTH),
    ("multiGpuBoardGroupID", Value::Ints(&[85]), BOTH),
    ("hostNativeAtomicSupported", Value::Ints(&[86]), BOTH),
    ("singleToDoublePrecisionPerfRatio", Value::Ints(&[87]), ONLY_12),
    ("pageableMemoryAccess", Value::Ints(&[88]), BOTH),
    ("concurrentManagedAccess", Value::Ints(&[89]), BOTH),
    ("computePreemptionSupported", Value::Ints(&[90]), BOTH),
    ("canUseHostPointerForRegisteredMem", Value::Ints(&[91]), BOTH),
    ("cooperativeLaunch", Value::Ints(&[95]), BOTH),
    ("cooperativeMultiDeviceLaunch", Value::Ints(&[96]), ONLY_12),
    ("sharedMemPerBlockOptin", Value::Size(97), BOTH),
    ("pageableMemoryAccessUsesHostPageTables", Value::Ints(&[100]), BOTH),
    ("directManagedMemAccessFromHost", Value::Ints(&[101]), BOTH),
    ("maxBlocksPerMultiProcessor", Value::Ints(&[106]), BOTH),
    ("accessPolicyMaxWindowSize", Value::Ints(&[109]), BOTH),
    ("reservedSharedMemPerBlock", Value::Size(111), BOTH),
    ("hostRegisterSupported", Value::Ints(&[99]), BOTH),
    ("sparseCudaArraySupported", Value::Ints(&[112]), BOTH),
    ("hostRegisterReadOnlySupported", Value::Ints(&[113]), BOTH),
    ("timelineSemaphoreInteropSupported", Value::Ints(&[114]), BOTH),
    ("memoryPoolsSupported", Value::Ints(&[115]), BOTH),
    ("gpuDirectRDMASupported", Value::Ints(&[116]), BOTH),
    ("gpuDirectRDMAFlushWritesOptions", Value::Ints(&[117]), BOTH),
    ("gpuDirectRDMAWritesOrdering", Value::Ints(&[118]), BOTH),
    ("memoryPoolSupportedHandleTypes", Value::Ints(&[119]), BOTH),
    ("deferredMappingCudaArraySupported", Value::Ints(&[121]), BOTH),
    ("ipcEventSupported", Value::Ints(&[125]), BOTH),
    ("clusterLaunch", Value::Ints(&[120]), BOTH),
    ("unifiedFunctionPointers", Value::Ints(&[129]), BOTH),
    ("deviceNumaConfig", Value::Ints(&[130]), ONLY_13),
    ("deviceNumaId", Value::Ints(&[131]), ONLY_13),
    ("mpsEnabled", Value::Ints(&[133]), ONLY_13),
    ("hostNumaId", Value::Ints(&[134]), ONLY_13),
    ("gpuPciDeviceID", Value::Ints(&[139]), ONLY_13),
    ("gpuPciSubsystemID", Value::Ints(&[140]), ONLY_13),
    ("hostNumaMultinodeIpcSupported", Value::Ints(&[143]), ONLY_13),
    ("reserved", Value::Zeros(252), ONLY_12),
    ("reserved", Value::Zeros(224), ONLY_13),
];

/// A field: its name, offset and value.
pub type Field = (&'static str, usize, Value);

/// The fields of a major version with their offsets, and the size of the structure.
pub fn property_fields(major: u32) -> (Vec<Field>, usize) {
    let mut offset = 0;
    let mut found = Vec::new();
    for (name, value, _) in FIELDS.iter().filter(|(.., majors)| majors.contains(&major)) {
        let (size, align) = value.layout();
        offset = usize::next_multiple_of(offset, align);
        found.push((*name, offset, *value));
        offset += size;
    }
    (found, offset.next_multiple_of(8))
}

/// An attribute of a device. One that the driver does not know is a feature that it does not have.
fn attribute_of(attribute: u32, device: c_int) -> c_int {
    let mut value = 0;
    match cu!(cuDeviceGetAttribute(out(&mut value), attribute, device)) {
        Ok(()) => value,
        Err(_) => 0,
    }
}

/// Writes the structure of a device, up to a field.
fn write(place: Out<u8>, device: c_int, major: u32, last: &str) -> Answer {
    init()?;
    let memory = driver().device(device)?.1.memory();
    let int = |attribute: u32| attribute_of(attribute, device);
    for (name, offset, value) in property_fields(major).0 {
        let place = place.at(offset);
        match value {
            Value::Name => {
                place.cast::<[u8; 256]>().put([0; 256])?;
                cu!(cuDeviceGetName(place.cast::<c_char>(), 256, device))?;
            }
            Value::Uuid => cu!(cuDeviceGetUuid_v2(place.cast(), device))?,
            Value::Memory => place.cast().put(memory)?,
            Value::Size(attribute) => place.cast().put(u64::try_from(int(attribute)).unwrap_or(0))?,
            Value::Ints(attributes) => {
                for (index, attribute) in attributes.iter().enumerate() {
                    place.cast::<c_int>().at(index).put(int(*attribute))?;
                }
            }
            Value::Zeros(bytes) => {
                for index in 0..bytes {
                    place.at(index).put(0)?;
                }
            }
        }
        if name == last {
            break;
        }
    }
    Ok(())
}

api! {
    /// Properties of a device, for programs compiled before CUDA 12: the structure ended earlier.
    fn cudaGetDeviceProperties_in12 => (place: Out<u8>, device: c_int) {
        write(place, device, 12, LAST_OF_11)
    }
}

api! {
    /// Properties of a device.
    fn cudaGetDeviceProperties_v2 => (place: Out<u8>, device: c_int) {
        write(place, device, 12, "")
    }
}

api! {
    /// Properties of a device.
    fn cudaGetDeviceProperties_in13 => (place: Out<u8>, device: c_int) {
        write(place, device, 13, "")
    }
}

/// Properties that a program can wish for; other fields are not compared.
const COMPARED: [&str; 7] = [
    "totalGlobalMem",
    "sharedMemPerBlock",
    "regsPerBlock",
    "maxThreadsPerBlock",
    "major",
    "minor",
    "multiProcessorCount",
];

/// The device that has most of the wished properties, the first one of several. A property that is 0 is not wished.
fn choose(device: Out<c_int>, wanted: In<u8>, major: u32) -> Answer {
    init()?;
    if device.is_null() || wanted.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let mut wishes = Vec::new();
    for (_, offset, value) in
        property_fields(major).0.into_iter().filter(|(name, ..)| COMPARED.contains(name))
    {
        let place = wanted.at(offset);
        let wish = match value {
            Value::Memory | Value::Size(_) => place.cast::<u64>().get()?,
            _ => u64::try_from(place.cast::<c_int>().get()?).unwrap_or(0),
        };
        if wish != 0 {
            wishes.push((value, wish));
        }
    }
    let mut count = 0;
    cu!(cuDeviceGetCount(out(&mut count)))?;
    let mut best = (0, 0);
    for index in 0..count {
        let memory = driver().device(index)?.1.memory();
        let given = |value: Value| match value {
            Value::Memory => memory,
            Value::Size(attribute) | Value::Ints(&[attribute, ..]) => {
                u64::try_from(attribute_of(attribute, index)).unwrap_or(0)
            }
            _ => 0,
        };
        let score = wishes.iter().filter(|(value, wish)| given(*value) >= *wish).count();
        if score > best.0 {
            best = (score, index);
        }
    }
    device.put(best.1)
}

api! {
    /// The device that fits best.
    fn cudaChooseDevice_in12 => (device: Out<c_int>, wanted: In<u8>) {
        choose(device, wanted, 12)
    }
}

api! {
    /// The device that fits best.
    fn cudaChooseDevice_in13 => (device: Out<c_int>, wanted: In<u8>) {
        choose(device, wanted, 13)
    }
}
