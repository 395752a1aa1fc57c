//! Our structures have the layout of CUDA's headers. `data/layout.c` printed `data/layout-12.txt` and `data/layout-13.txt`.

mod bench;

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use bench::data;
use warpproof_cuda::abi::{
    Copy3dParms, Dim3, Extent, FunctionAttributes, PeerCopy3dParms, PitchedPointer, PointerAttributes,
    Position,
};
use warpproof_cuda::api::{Config, property_fields};
use warpproof_driver::abi::LaunchAttribute;

/// The numbers of each line: offset and size of a field, or the size of a structure.
fn read(text: &str) -> BTreeMap<String, Vec<usize>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        Some((name, words.filter_map(|word| word.parse().ok()).collect()))
    };
    text.lines().filter_map(line).collect()
}

macro_rules! layout {
    ($found:ident, $name:literal, $type:ty { $($theirs:literal = $ours:ident),* $(,)? }) => {
        $found.push(($name.to_owned(), size_of::<$type>()));
        $($found.push((concat!($name, ".", $theirs).to_owned(), offset_of!($type, $ours)));)*
    };
}

/// The sizes of our structures, and the offsets of their fields under CUDA's names.
fn ours() -> Vec<(String, usize)> {
    let mut found = Vec::new();
    layout!(found, "dim3", Dim3 { "x" = x, "y" = y, "z" = z });
    layout!(found, "cudaPitchedPtr", PitchedPointer { "ptr" = address, "pitch" = pitch, "xsize" = width, "ysize" = height });
    layout!(found, "cudaExtent", Extent { "width" = width, "height" = height, "depth" = depth });
    layout!(found, "cudaPos", Position { "x" = x, "y" = y, "z" = z });
    layout!(found, "cudaMemcpy3DParms", Copy3dParms {
        "srcArray" = source_array, "srcPos" = source_position, "srcPtr" = source, "dstArray" = target_array,
        "dstPos" = target_position, "dstPtr" = target, "extent" = extent, "kind" = kind,
    });
    layout!(found, "cudaMemcpy3DPeerParms", PeerCopy3dParms {
        "srcArray" = source_array, "srcPos" = source_position, "srcPtr" = source, "srcDevice" = source_device,
        "dstArray" = target_array, "dstPos" = target_position, "dstPtr" = target, "dstDevice" = target_device,
        "extent" = extent,
    });
    layout!(found, "cudaFuncAttributes", FunctionAttributes {
        "sharedSizeBytes" = shared, "constSizeBytes" = constant, "localSizeBytes" = local, "maxThreadsPerBlock" = threads,
        "numRegs" = registers, "ptxVersion" = ptx, "binaryVersion" = binary, "cacheModeCA" = cache,
        "maxDynamicSharedSizeBytes" = dynamic, "preferredShmemCarveout" = carveout, "clusterDimMustBeSet" = cluster_required,
        "requiredClusterWidth" = cluster, "clusterSchedulingPolicyPreference" = cluster_policy,
        "nonPortableClusterSizeAllowed" = cluster_nonportable,
    });
    layout!(found, "cudaLaunchConfig_st", Config {
        "gridDim" = grid, "blockDim" = block, "dynamicSmemBytes" = shared, "stream" = stream, "attrs" = attributes,
        "numAttrs" = count,
    });
    layout!(found, "cudaLaunchAttribute_st", LaunchAttribute { "id" = id, "val" = value });
    found
}

#[test]
fn structures_have_the_layout_of_the_headers() {
    for major in [12, 13] {
        let text = std::fs::read_to_string(data(&format!("layout-{major}.txt"))).expect("the file");
        let theirs = read(&text);
        for (name, number) in ours() {
            assert_eq!(theirs[&name][0], number, "{name} of {major}");
        }
        let (fields, size) = property_fields(major);
        assert_eq!(theirs["cudaDeviceProp"], [size], "cudaDeviceProp of {major}");
        for (name, offset, _) in &fields {
            assert_eq!(
                theirs[&format!("cudaDeviceProp.{name}")][0],
                *offset,
                "cudaDeviceProp.{name} of {major}"
            );
        }
        let all = theirs.keys().filter(|name| name.starts_with("cudaDeviceProp.")).count();
        assert_eq!(fields.len(), all, "fields of cudaDeviceProp of {major}");
        // CUDA 13 reserves 64 more bytes in it.
        let reserved = if major == 12 { 0 } else { 64 };
        assert_eq!(theirs["cudaPointerAttributes"], [size_of::<PointerAttributes>() + reserved]);
    }
}

#[test]
fn the_files_are_those_of_the_headers() {
    for printed in bench::printed_with_headers("layout.c") {
        let theirs = read(&printed);
        let major = if theirs.contains_key("cudaDeviceProp.clockRate") { 12 } else { 13 };
        let text = std::fs::read_to_string(data(&format!("layout-{major}.txt"))).expect("the file");
        assert_eq!(theirs, read(&text), "version {major}");
    }
}
