// Reductions over the blocks of a cluster through distributed shared memory: sums that each block stores in the memory of the first,
// maxima that the first block loads from the others, and counts that arrive by red.async, with an mbarrier that counts their bytes.

#include "hopper.cuh"

constexpr unsigned THREADS = 128, MOST = 16;

__device__ inline void store_remote(float *place, unsigned rank, float value)
{
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote_address(place, rank)), "f"(value) : "memory");
}

__device__ inline float load_remote(const float *place, unsigned rank)
{
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote_address(place, rank)) : "memory");
    return value;
}

__device__ inline void add_remote(int *place, unsigned rank, int value, Barrier *barrier)
{
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 [%0], %1, [%2];" ::"r"(
                     remote_address(place, rank)),
                 "r"(value), "r"(remote_address(barrier, rank))
                 : "memory");
}

// Each block has `length` elements; a cluster writes one sum, one maximum and one count of negative elements.
extern "C" __global__ void __launch_bounds__(THREADS)
cluster_reduce(const float *x, float *sums, float *maxima, int *counts, int length)
{
    __shared__ float warp_sum[4], warp_largest[4], block_sum[MOST], block_largest;
    __shared__ int warp_count[4], negative;
    __shared__ Barrier counted;
    unsigned rank = cluster_rank(), size = cluster_size(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned cluster = blockIdx.x / size;

    float sum = 0, largest = -INFINITY;
    int count = 0;
    for (int i = threadIdx.x; i < length; i += THREADS) {
        float value = x[blockIdx.x * length + i];
        sum += value;
        largest = fmaxf(largest, value);
        count += value < 0;
    }
    for (unsigned step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, step));
        count += __shfl_xor_sync(0xffffffff, count, step);
    }
    if (lane == 0) {
        warp_sum[warp] = sum;
        warp_largest[warp] = largest;
        warp_count[warp] = count;
    }
    if (threadIdx.x == 0 && rank == 0) {
        negative = 0;
        mbarrier_init(&counted, 1);
        fence_mbarrier_init();
        mbarrier_expect(&counted, 4 * size);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        block_largest = fmaxf(fmaxf(warp_largest[0], warp_largest[1]), fmaxf(warp_largest[2], warp_largest[3]));
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x == 0) {
        store_remote(&block_sum[rank], 0, warp_sum[0] + warp_sum[1] + warp_sum[2] + warp_sum[3]);
        add_remote(&negative, 0, warp_count[0] + warp_count[1] + warp_count[2] + warp_count[3], &counted);
    }
    if (rank == 0 && warp == 1) {
        float value = lane < size ? load_remote(&block_largest, lane) : -INFINITY;
        for (unsigned step = 16; step > 0; step /= 2)
            value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, step));
        if (lane == 0)
            maxima[cluster] = value;
    }
    if (rank == 0 && threadIdx.x == 64) {
        mbarrier_wait_cluster(&counted, 0);
        counts[cluster] = negative;
    }
    // The sums have arrived, and no block exits before its memory was read.
    cluster_arrive();
    cluster_wait();
    if (rank == 0 && threadIdx.x == 0) {
        float total = 0;
        for (unsigned i = 0; i < size; i++)
            total += block_sum[i];
        sums[cluster] = total;
    }
}
