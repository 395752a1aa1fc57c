/* Prints the layout of the structures of arrays, textures, surfaces and graphs: the offset of each field, and the size of each
   structure. Compiled against CUDA's headers. */
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdio.h>

#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(struct type, field))
#define SIZE(type) printf("%s %zu\n", #type, sizeof(struct type))

int main(void) {
    printf("major %d\n", CUDART_VERSION / 1000);
    SIZE(cudaChannelFormatDesc);
    FIELD(cudaChannelFormatDesc, x);
    FIELD(cudaChannelFormatDesc, f);
    SIZE(cudaResourceDesc);
    FIELD(cudaResourceDesc, resType);
    FIELD(cudaResourceDesc, res.array.array);
    FIELD(cudaResourceDesc, res.mipmap.mipmap);
    FIELD(cudaResourceDesc, res.linear.devPtr);
    FIELD(cudaResourceDesc, res.linear.desc);
    FIELD(cudaResourceDesc, res.linear.sizeInBytes);
    FIELD(cudaResourceDesc, res.pitch2D.devPtr);
    FIELD(cudaResourceDesc, res.pitch2D.desc);
    FIELD(cudaResourceDesc, res.pitch2D.width);
    FIELD(cudaResourceDesc, res.pitch2D.height);
    FIELD(cudaResourceDesc, res.pitch2D.pitchInBytes);
#if CUDART_VERSION >= 13000
    FIELD(cudaResourceDesc, flags);
#endif
    SIZE(cudaResourceViewDesc);
    FIELD(cudaResourceViewDesc, format);
    FIELD(cudaResourceViewDesc, width);
    FIELD(cudaResourceViewDesc, height);
    FIELD(cudaResourceViewDesc, depth);
    FIELD(cudaResourceViewDesc, firstMipmapLevel);
    FIELD(cudaResourceViewDesc, lastMipmapLevel);
    FIELD(cudaResourceViewDesc, firstLayer);
    FIELD(cudaResourceViewDesc, lastLayer);
    SIZE(cudaTextureDesc);
    FIELD(cudaTextureDesc, addressMode);
    FIELD(cudaTextureDesc, filterMode);
    FIELD(cudaTextureDesc, readMode);
    FIELD(cudaTextureDesc, sRGB);
    FIELD(cudaTextureDesc, borderColor);
    FIELD(cudaTextureDesc, normalizedCoords);
    FIELD(cudaTextureDesc, maxAnisotropy);
    FIELD(cudaTextureDesc, mipmapFilterMode);
    FIELD(cudaTextureDesc, mipmapLevelBias);
    FIELD(cudaTextureDesc, minMipmapLevelClamp);
    FIELD(cudaTextureDesc, maxMipmapLevelClamp);
    FIELD(cudaTextureDesc, disableTrilinearOptimization);
    FIELD(cudaTextureDesc, seamlessCubemap);
    SIZE(cudaKernelNodeParams);
    FIELD(cudaKernelNodeParams, func);
    FIELD(cudaKernelNodeParams, gridDim);
    FIELD(cudaKernelNodeParams, blockDim);
    FIELD(cudaKernelNodeParams, sharedMemBytes);
    FIELD(cudaKernelNodeParams, kernelParams);
    FIELD(cudaKernelNodeParams, extra);
    SIZE(cudaKernelNodeParamsV2);
    FIELD(cudaKernelNodeParamsV2, func);
    FIELD(cudaKernelNodeParamsV2, gridDim);
    FIELD(cudaKernelNodeParamsV2, blockDim);
    FIELD(cudaKernelNodeParamsV2, sharedMemBytes);
    FIELD(cudaKernelNodeParamsV2, kernelParams);
    FIELD(cudaKernelNodeParamsV2, extra);
#if CUDART_VERSION >= 13000
    FIELD(cudaKernelNodeParamsV2, ctx);
    FIELD(cudaKernelNodeParamsV2, functionType);
#endif
    SIZE(cudaMemsetParams);
    FIELD(cudaMemsetParams, dst);
    FIELD(cudaMemsetParams, pitch);
    FIELD(cudaMemsetParams, value);
    FIELD(cudaMemsetParams, elementSize);
    FIELD(cudaMemsetParams, width);
    FIELD(cudaMemsetParams, height);
    FIELD(cudaMemsetParamsV2, dst);
    FIELD(cudaMemsetParamsV2, height);
    SIZE(cudaHostNodeParams);
    FIELD(cudaHostNodeParams, fn);
    FIELD(cudaHostNodeParams, userData);
    FIELD(cudaHostNodeParamsV2, userData);
    SIZE(cudaMemcpyNodeParams);
    FIELD(cudaMemcpyNodeParams, flags);
    FIELD(cudaMemcpyNodeParams, copyParams);
    SIZE(cudaMemAllocNodeParams);
    FIELD(cudaMemAllocNodeParams, poolProps.allocType);
    FIELD(cudaMemAllocNodeParams, poolProps.handleTypes);
    FIELD(cudaMemAllocNodeParams, poolProps.location.type);
    FIELD(cudaMemAllocNodeParams, poolProps.location.id);
    FIELD(cudaMemAllocNodeParams, accessDescs);
    FIELD(cudaMemAllocNodeParams, accessDescCount);
    FIELD(cudaMemAllocNodeParams, bytesize);
    FIELD(cudaMemAllocNodeParams, dptr);
    SIZE(cudaMemAllocNodeParamsV2);
    FIELD(cudaMemAllocNodeParamsV2, dptr);
    SIZE(cudaChildGraphNodeParams);
    FIELD(cudaChildGraphNodeParams, graph);
    FIELD(cudaChildGraphNodeParams, ownership);
    SIZE(cudaGraphNodeParams);
    FIELD(cudaGraphNodeParams, type);
    FIELD(cudaGraphNodeParams, kernel);
    FIELD(cudaGraphNodeParams, memcpy);
    FIELD(cudaGraphNodeParams, free);
    FIELD(cudaGraphNodeParams, reserved2);
    SIZE(cudaGraphEdgeData_st);
    SIZE(cudaGraphInstantiateParams_st);
    FIELD(cudaGraphInstantiateParams_st, result_out);
    SIZE(cudaGraphExecUpdateResultInfo_st);
    FIELD(cudaGraphExecUpdateResultInfo_st, errorNode);
    return 0;
}
