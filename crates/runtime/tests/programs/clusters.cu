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

int main() {
    const int blocks = 8, threads = 64;
    int *in, *out;
    OK(cudaMallocManaged(&in, blocks * threads * sizeof(int)));
    OK(cudaMallocManaged(&out, blocks * sizeof(int)));
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
    IS(cudaLaunchKernelEx(&config, sum, (const int *)in, out) != cudaSuccess);
    (void)cudaGetLastError();

    fixed<<<4, 32>>>((unsigned *)out);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) IS(out[i] == i % 2);
    OK(cudaFree(in));
    OK(cudaFree(out));
    puts("ok");
}
