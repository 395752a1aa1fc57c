//! The structures of arrays, textures, surfaces and graphs have the layout of CUDA's headers. `data/layout-images.c` printed
//! `data/layout-images-12.txt` and `data/layout-images-13.txt`.

mod bench;

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use bench::data;
use warpproof_cuda::api::{ChildNode, CopyNode, KernelNode13, NodeParams};
use warpproof_cuda::descriptor::{ChannelDescriptor, Resource, Resource13, TextureReading, View, View13};
use warpproof_driver::abi::{AllocationNode, HostNode, KernelNode, SetNode};
use warpproof_driver::api::{Instantiation, UpdateResult};

fn read(text: &str) -> BTreeMap<String, usize> {
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

type Layout = Vec<(&'static str, usize)>;

/// The layout that both versions have.
fn common() -> Layout {
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
fn images_and_nodes_have_the_layout_of_the_headers() {
    for major in [12, 13] {
        let text = std::fs::read_to_string(data(&format!("layout-images-{major}.txt"))).expect("the file");
        let mut theirs = read(&text);
        assert_eq!(theirs.remove("major"), usize::try_from(major).ok());
        let ours: Layout = common().into_iter().chain(nodes()).chain(own(major)).collect();
        let ours: BTreeMap<String, usize> = ours.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        assert_eq!(ours, theirs, "version {major}");
    }
}

#[test]
fn the_files_are_those_of_the_headers() {
    for printed in bench::printed_with_headers("layout-images.c") {
        let theirs = read(&printed);
        let major = theirs["major"];
        let text = std::fs::read_to_string(data(&format!("layout-images-{major}.txt"))).expect("the file");
        assert_eq!(theirs, read(&text), "version {major}");
    }
}
