// Clusters of blocks: launch attributes, occupancy, and sums over distributed shared memory.
#include "check.h"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Each block sums its part; block 0 of a cluster adds the sums of the others.
__global__ void sum(const int *in, int *out) {
    __shared__ int part;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) part = 0;
    __syncthreads();
    atomicAdd(&part, in[blockIdx.x * blockDim.x + threadIdx.x]);
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x < cluster.num_blocks())
        atomicAdd(&out[blockIdx.x / cluster.num_blocks()], *cluster.map_shared_rank(&part, threadIdx.x));
    cluster.sync();
}

__global__ void __cluster_dims__(2, 1, 1) fixed(unsigned *ranks) {
    if (threadIdx.x == 0) ranks[blockIdx.x] = cg::this_cluster().block_rank();
}

extern __shared__ int reserved[];
__global__ void wide(int *out) {
    if (threadIdx.x == 0) out[blockIdx.x] = cg::this_cluster().block_rank();
}

// Occupancy as an H100 SXM has it: a cluster stays within a GPC, and sizes beyond 8 must be allowed.
void sizes(int *out, cudaLaunchConfig_t config, cudaLaunchAttribute &attribute) {
    int most = 0, active = 0;
    config.gridDim = 32;
    // One block for each of 132 multiprocessors.
    config.dynamicSmemBytes = 200 << 10;
    OK(cudaFuncSetAttribute(wide, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    const int sizes[] = {1, 2, 4, 8}, expected[] = {132, 66, 31, 15};
    for (int i = 0; i < 4; i++) {
        attribute.val.clusterDim.x = sizes[i];
        OK(cudaOccupancyMaxActiveClusters(&active, wide, &config));
        IS(active == expected[i]);
    }
    OK(cudaOccupancyMaxPotentialClusterSize(&most, wide, &config));
    IS(most == 8);
    attribute.val.clusterDim.x = 16;
    IS(cudaOccupancyMaxActiveClusters(&active, wide, &config) == cudaErrorInvalidClusterSize);
    IS(cudaLaunchKernelEx(&config, wide, out) == cudaErrorInvalidClusterSize);
    IS(cudaGetLastError() == cudaErrorInvalidClusterSize);
    // The launch decides instead of the kernel.
    cudaLaunchAttribute both[2] = {attribute};
    both[1].id = cudaLaunchAttributePortableClusterSizeMode;
    both[1].val.portableClusterSizeMode = cudaLaunchPortableClusterModeAllowNonPortable;
    config.attrs = both;
    config.numAttrs = 2;
    OK(cudaOccupancyMaxActiveClusters(&active, wide, &config));
    IS(active == 7);
    OK(cudaLaunchKernelEx(&config, wide, out));
    OK(cudaDeviceSynchronize());
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaFuncSetAttribute(wide, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    OK(cudaOccupancyMaxActiveClusters(&active, wide, &config));
    IS(active == 7);
    OK(cudaOccupancyMaxPotentialClusterSize(&most, wide, &config));
    IS(most == 16);
    OK(cudaLaunchKernelEx(&config, wide, out));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 32; i++) IS(out[i] == i % 16);
    attribute.val.clusterDim.x = 32;
    IS(cudaLaunchKernelEx(&config, wide, out) == cudaErrorInvalidClusterSize);
    (void)cudaGetLastError();
    // Without a size, and with one that the kernel was not compiled for.
    config.numAttrs = 0;
    IS(cudaOccupancyMaxActiveClusters(&active, wide, &config) == cudaErrorInvalidClusterSize);
    config.dynamicSmemBytes = 0;
    OK(cudaOccupancyMaxActiveClusters(&active, fixed, &config));
    OK(cudaOccupancyMaxPotentialClusterSize(&most, fixed, &config));
    IS(most == 2);
    config.numAttrs = 1;
    attribute.val.clusterDim.x = 4;
    IS(cudaOccupancyMaxActiveClusters(&active, fixed, &config) == cudaErrorInvalidClusterSize);
    cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, fixed));
    IS(attributes.requiredClusterWidth == 2 && attributes.requiredClusterHeight == 1);
    IS(attributes.requiredClusterDepth == 1 && !attributes.nonPortableClusterSizeAllowed);
    IS(cudaFuncSetAttribute(fixed, cudaFuncAttributeRequiredClusterWidth, 4) == cudaErrorNotPermitted);
    // A size that is set for all launches of the kernel.
    OK(cudaFuncSetAttribute(wide, cudaFuncAttributeRequiredClusterWidth, 4));
    OK(cudaFuncSetAttribute(wide, cudaFuncAttributeRequiredClusterHeight, 1));
    OK(cudaFuncSetAttribute(wide, cudaFuncAttributeRequiredClusterDepth, 1));
    wide<<<8, 32>>>(out);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 8; i++) IS(out[i] == i % 4);
    (void)cudaGetLastError();
}

int main() {
    const int blocks = 8, threads = 64;
    int *in, *out;
    OK(cudaMallocManaged(&in, blocks * threads * sizeof(int)));
    OK(cudaMallocManaged(&out, 32 * sizeof(int)));
    for (int i = 0; i < blocks * threads; i++) in[i] = i;

    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.attrs = &attribute;
    config.numAttrs = 1;

    int most = 0, active = 0, one = 0;
    OK(cudaOccupancyMaxPotentialClusterSize(&most, sum, &config));
    IS(most == 8);
    attribute.val.clusterDim.x = 1;
    OK(cudaOccupancyMaxActiveClusters(&one, sum, &config));
    for (unsigned size = 1; size <= 8; size *= 2) {
        attribute.val.clusterDim.x = size;
        OK(cudaOccupancyMaxActiveClusters(&active, sum, &config));
        IS(active == one / (int)size);
        for (int i = 0; i < blocks; i++) out[i] = 0;
        OK(cudaLaunchKernelEx(&config, sum, (const int *)in, out));
        OK(cudaDeviceSynchronize());
        for (int i = 0; i < blocks / (int)size; i++) {
            int n = size * threads, first = i * n;
            IS(out[i] == n * first + n * (n - 1) / 2);
        }
    }
    // The grid is not a multiple of the cluster.
    attribute.val.clusterDim.x = 3;
    IS(cudaLaunchKernelEx(&config, sum, (const int *)in, out) == cudaErrorInvalidClusterSize);
    (void)cudaGetLastError();
    sizes(out, config, attribute);

    fixed<<<4, 32>>>((unsigned *)out);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) IS(out[i] == i % 2);
    OK(cudaFree(in));
    OK(cudaFree(out));
    puts("ok");
}
