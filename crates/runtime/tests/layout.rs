//! Our structures have the layout of CUDA's headers. `data/layout.c` printed `data/layout-12.txt` and `data/layout-13.txt`.

mod bench;

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use bench::data;
use warpproof_cuda::abi::{
    BatchCopy3d, Copy3dParms, CopyOperand, Dim3, Extent, FunctionAttributes, PeerCopy3dParms, PitchedPointer,
    PointerAttributes, Position,
};
use warpproof_cuda::api::{
    ChildNode, ConditionalNode, Config, CopyNode, KernelNode13, NodeParams, property_fields,
};
use warpproof_cuda::descriptor::{ChannelDescriptor, Resource, Resource13, TextureReading, View, View13};
use warpproof_driver::abi::{AllocationNode, HostNode, KernelNode, LaunchAttribute, SetNode};
use warpproof_driver::api::{Instantiation, UpdateResult};

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
    // Arrays, rows and positions are in one list of numbers.
    layout!(found, "cudaMemcpy3DOperand", CopyOperand { "type" = kind, "op.ptr.ptr" = values, "op.array.array" = values });
    layout!(found, "cudaMemcpy3DBatchOp", BatchCopy3d {
        "src" = source, "dst" = target, "extent" = extent, "srcAccessOrder" = order, "flags" = flags,
    });
    layout!(found, "cudaConditionalNodeParams", ConditionalNode {
        "handle" = variable, "type" = kind, "size" = size, "phGraph_out" = bodies,
    });
    found
}

type Layout = Vec<(&'static str, usize)>;

/// The layout of images that both versions have.
fn images() -> Layout {
    let size = size_of::<usize>();
    vec![
        ("cudaChannelFormatDesc", size_of::<ChannelDescriptor>()),
        ("cudaChannelFormatDesc.x", offset_of!(ChannelDescriptor, bits)),
        ("cudaChannelFormatDesc.f", offset_of!(ChannelDescriptor, kind)),
        ("cudaResourceDesc.resType", offset_of!(Resource, kind)),
        ("cudaResourceDesc.res.array.array", offset_of!(Resource, pointer)),
        ("cudaResourceDesc.res.mipmap.mipmap", offset_of!(Resource, pointer)),
        ("cudaResourceDesc.res.linear.devPtr", offset_of!(Resource, pointer)),
        ("cudaResourceDesc.res.linear.desc", offset_of!(Resource, channels)),
        ("cudaResourceDesc.res.linear.sizeInBytes", offset_of!(Resource, sizes)),
        ("cudaResourceDesc.res.pitch2D.devPtr", offset_of!(Resource, pointer)),
        ("cudaResourceDesc.res.pitch2D.desc", offset_of!(Resource, channels)),
        ("cudaResourceDesc.res.pitch2D.width", offset_of!(Resource, sizes)),
        ("cudaResourceDesc.res.pitch2D.height", offset_of!(Resource, sizes) + size),
        ("cudaResourceDesc.res.pitch2D.pitchInBytes", offset_of!(Resource, sizes) + 2 * size),
        ("cudaResourceViewDesc.format", offset_of!(View, format)),
        ("cudaResourceViewDesc.width", offset_of!(View, width)),
        ("cudaResourceViewDesc.height", offset_of!(View, height)),
        ("cudaResourceViewDesc.depth", offset_of!(View, depth)),
        ("cudaResourceViewDesc.firstMipmapLevel", offset_of!(View, first_level)),
        ("cudaResourceViewDesc.lastMipmapLevel", offset_of!(View, last_level)),
        ("cudaResourceViewDesc.firstLayer", offset_of!(View, first_layer)),
        ("cudaResourceViewDesc.lastLayer", offset_of!(View, last_layer)),
        ("cudaTextureDesc", size_of::<TextureReading>()),
        ("cudaTextureDesc.addressMode", offset_of!(TextureReading, address)),
        ("cudaTextureDesc.filterMode", offset_of!(TextureReading, filter)),
        ("cudaTextureDesc.readMode", offset_of!(TextureReading, reading)),
        ("cudaTextureDesc.sRGB", offset_of!(TextureReading, srgb)),
        ("cudaTextureDesc.borderColor", offset_of!(TextureReading, border)),
        ("cudaTextureDesc.normalizedCoords", offset_of!(TextureReading, normalized)),
        ("cudaTextureDesc.maxAnisotropy", offset_of!(TextureReading, anisotropy)),
        ("cudaTextureDesc.mipmapFilterMode", offset_of!(TextureReading, level_filter)),
        ("cudaTextureDesc.mipmapLevelBias", offset_of!(TextureReading, level_bias)),
        ("cudaTextureDesc.minMipmapLevelClamp", offset_of!(TextureReading, level_low)),
        ("cudaTextureDesc.maxMipmapLevelClamp", offset_of!(TextureReading, level_high)),
        (
            "cudaTextureDesc.disableTrilinearOptimization",
            offset_of!(TextureReading, no_trilinear_optimization),
        ),
        ("cudaTextureDesc.seamlessCubemap", offset_of!(TextureReading, seamless)),
    ]
}

/// The layout of nodes that both versions have.
fn nodes() -> Layout {
    vec![
        ("cudaKernelNodeParams", size_of::<KernelNode>()),
        ("cudaKernelNodeParams.func", offset_of!(KernelNode, function)),
        ("cudaKernelNodeParams.gridDim", offset_of!(KernelNode, grid)),
        ("cudaKernelNodeParams.blockDim", offset_of!(KernelNode, block)),
        ("cudaKernelNodeParams.sharedMemBytes", offset_of!(KernelNode, shared)),
        ("cudaKernelNodeParams.kernelParams", offset_of!(KernelNode, arguments)),
        ("cudaKernelNodeParams.extra", offset_of!(KernelNode, extra)),
        ("cudaKernelNodeParamsV2.func", offset_of!(KernelNode, function)),
        ("cudaKernelNodeParamsV2.gridDim", offset_of!(KernelNode, grid)),
        ("cudaKernelNodeParamsV2.blockDim", offset_of!(KernelNode, block)),
        ("cudaKernelNodeParamsV2.sharedMemBytes", offset_of!(KernelNode, shared)),
        ("cudaKernelNodeParamsV2.kernelParams", offset_of!(KernelNode, arguments)),
        ("cudaKernelNodeParamsV2.extra", offset_of!(KernelNode, extra)),
        ("cudaMemsetParams", size_of::<SetNode>()),
        ("cudaMemsetParams.dst", offset_of!(SetNode, target)),
        ("cudaMemsetParams.pitch", offset_of!(SetNode, pitch)),
        ("cudaMemsetParams.value", offset_of!(SetNode, value)),
        ("cudaMemsetParams.elementSize", offset_of!(SetNode, element)),
        ("cudaMemsetParams.width", offset_of!(SetNode, width)),
        ("cudaMemsetParams.height", offset_of!(SetNode, height)),
        ("cudaMemsetParamsV2.dst", offset_of!(SetNode, target)),
        ("cudaMemsetParamsV2.height", offset_of!(SetNode, height)),
        ("cudaHostNodeParams", size_of::<HostNode>()),
        ("cudaHostNodeParams.fn", offset_of!(HostNode, function)),
        ("cudaHostNodeParams.userData", offset_of!(HostNode, data)),
        ("cudaHostNodeParamsV2.userData", offset_of!(HostNode, data)),
        ("cudaMemcpyNodeParams", size_of::<CopyNode>()),
        ("cudaMemcpyNodeParams.flags", offset_of!(CopyNode, flags)),
        ("cudaMemcpyNodeParams.copyParams", offset_of!(CopyNode, copy)),
        ("cudaMemAllocNodeParams", size_of::<AllocationNode>()),
        ("cudaMemAllocNodeParams.poolProps.allocType", offset_of!(AllocationNode, kind)),
        ("cudaMemAllocNodeParams.poolProps.handleTypes", offset_of!(AllocationNode, handles)),
        ("cudaMemAllocNodeParams.poolProps.location.type", offset_of!(AllocationNode, location)),
        ("cudaMemAllocNodeParams.poolProps.location.id", offset_of!(AllocationNode, device)),
        ("cudaMemAllocNodeParams.accessDescs", offset_of!(AllocationNode, access)),
        ("cudaMemAllocNodeParams.accessDescCount", offset_of!(AllocationNode, access_count)),
        ("cudaMemAllocNodeParams.bytesize", offset_of!(AllocationNode, size)),
        ("cudaMemAllocNodeParams.dptr", offset_of!(AllocationNode, address)),
        ("cudaMemAllocNodeParamsV2", size_of::<AllocationNode>()),
        ("cudaMemAllocNodeParamsV2.dptr", offset_of!(AllocationNode, address)),
        ("cudaChildGraphNodeParams", size_of::<ChildNode>()),
        ("cudaChildGraphNodeParams.graph", offset_of!(ChildNode, graph)),
        ("cudaChildGraphNodeParams.ownership", offset_of!(ChildNode, ownership)),
        ("cudaGraphNodeParams", size_of::<NodeParams>()),
        ("cudaGraphNodeParams.type", offset_of!(NodeParams, kind)),
        ("cudaGraphNodeParams.kernel", offset_of!(NodeParams, values)),
        ("cudaGraphNodeParams.memcpy", offset_of!(NodeParams, values)),
        ("cudaGraphNodeParams.free", offset_of!(NodeParams, values)),
        ("cudaGraphNodeParams.reserved2", offset_of!(NodeParams, last)),
        // An edge is one number of 64 bits.
        ("cudaGraphEdgeData_st", size_of::<u64>()),
        ("cudaGraphInstantiateParams_st", size_of::<Instantiation>()),
        ("cudaGraphInstantiateParams_st.result_out", offset_of!(Instantiation, result)),
        ("cudaGraphExecUpdateResultInfo_st", size_of::<UpdateResult>()),
        ("cudaGraphExecUpdateResultInfo_st.errorNode", offset_of!(UpdateResult, node)),
    ]
}

/// The layout that only one version has.
fn own(major: u32) -> Layout {
    if major == 12 {
        return vec![
            ("cudaResourceDesc", size_of::<Resource>()),
            ("cudaResourceViewDesc", size_of::<View>()),
            ("cudaKernelNodeParamsV2", size_of::<KernelNode>()),
        ];
    }
    assert_eq!((offset_of!(Resource13, resource), offset_of!(View13, view)), (0, 0));
    assert_eq!(offset_of!(KernelNode13, kernel), 0);
    vec![
        ("cudaResourceDesc", size_of::<Resource13>()),
        ("cudaResourceDesc.flags", offset_of!(Resource13, flags)),
        ("cudaResourceViewDesc", size_of::<View13>()),
        ("cudaKernelNodeParamsV2", size_of::<KernelNode13>()),
        ("cudaKernelNodeParamsV2.ctx", offset_of!(KernelNode13, context)),
        ("cudaKernelNodeParamsV2.functionType", offset_of!(KernelNode13, function)),
    ]
}

#[test]
fn structures_have_the_layout_of_the_headers() {
    for major in [12, 13] {
        let text = std::fs::read_to_string(data(&format!("layout-{major}.txt"))).expect("the file");
        let theirs = read(&text);
        assert_eq!(theirs["major"][0], usize::try_from(major).expect("small"));
        let images = images().into_iter().chain(nodes()).chain(own(major));
        for (name, number) in ours().into_iter().chain(images.map(|(name, number)| (name.to_owned(), number)))
        {
            // The context is a field of CUDA 13.
            let known = if name == "cudaConditionalNodeParams" && major == 13 { number + 8 } else { number };
            assert_eq!(theirs[&name][0], known, "{name} of {major}");
        }
        // The list of an operand, in which each number has 8 bytes.
        let values = offset_of!(CopyOperand, values);
        assert_eq!(theirs["cudaMemcpy3DOperand.op.ptr.rowLength"][0], values + 8);
        assert_eq!(theirs["cudaMemcpy3DOperand.op.ptr.layerHeight"][0], values + 16);
        assert_eq!(theirs["cudaMemcpy3DOperand.op.array.offset"][0], values + 8);
        // A location is one number of 64 bits.
        assert_eq!(theirs["cudaMemLocation"], [size_of::<u64>()]);
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
fn toolchain_the_files_are_those_of_the_headers() {
    for printed in bench::printed_with_headers("layout.c") {
        let theirs = read(&printed);
        let major = theirs["major"][0];
        let text = std::fs::read_to_string(data(&format!("layout-{major}.txt"))).expect("the file");
        assert_eq!(theirs, read(&text), "version {major}");
    }
}
