// D = A · Bᵀ with the structure of CUTLASS 3's warp-specialized persistent GEMM: one thread copies tiles into a ring of stages, two
// warpgroups multiply them, and the results leave through shared memory. In `gemm_multicast`, the two blocks of a cluster have the
// same columns, and each copies half of B for both. `gemm_e4m3` has elements of one byte, and twice as many in a tile.

#include "hopper.cuh"

constexpr unsigned STAGES = 3, ROWS = 128, COLUMNS = 128, DEPTH = 64, CONSUMERS = 2;

struct Shared {
    Half a[STAGES][ROWS * DEPTH];
    Half b[STAGES][COLUMNS * DEPTH];
    // Two tiles of 64 columns for each consumer.
    Half d[CONSUMERS][2][64 * 64];
    Barrier full[STAGES], empty[STAGES];
};

template <unsigned CLUSTER, bool E4M3>
__device__ void gemm_tiles(const TensorMap &a, const TensorMap &b, const TensorMap &d, int tiles_down, int tiles, int steps)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    unsigned group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    unsigned rank = CLUSTER > 1 ? cluster_rank() : 0;

    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < STAGES; i++) {
            mbarrier_init(&shared.full[i], 1);
            // Every warp of the consumers, in each block of the cluster.
            mbarrier_init(&shared.empty[i], CLUSTER * CONSUMERS * 4);
        }
        fence_mbarrier_init();
    }
    if (CLUSTER > 1) {
        cluster_arrive();
        cluster_wait();
    } else {
        __syncthreads();
    }

    unsigned stage = 0, phase = 0;
    if (group == 0) {
        setmaxnreg_dec<40>();
        if (warp == 0 && elect()) {
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                int row = tile % tiles_down * ROWS, column = tile / tiles_down * COLUMNS;
                for (int step = 0; step < steps; step++) {
                    int depth = step * DEPTH * (E4M3 ? 2 : 1);
                    if (CLUSTER > 1)
                        mbarrier_wait_cluster(&shared.empty[stage], phase ^ 1);
                    else
                        mbarrier_wait(&shared.empty[stage], phase ^ 1);
                    mbarrier_expect(&shared.full[stage], sizeof shared.a[0] + sizeof shared.b[0]);
                    tma_load(shared.a[stage], &a, &shared.full[stage], depth, row);
                    if (CLUSTER > 1) {
                        unsigned half = rank * COLUMNS / 2;
                        tma_load_multicast(shared.b[stage] + half * DEPTH, &b, &shared.full[stage], depth, column + half, 3);
                    } else {
                        tma_load(shared.b[stage], &b, &shared.full[stage], depth, column);
                    }
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        unsigned consumer = group - 1;
        bool leader = threadIdx.x % 128 == 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int row = tile % tiles_down * ROWS, column = tile / tiles_down * COLUMNS;
            float c[64];
            unsigned previous = stage;
            for (int step = 0; step < steps; step++) {
                mbarrier_wait(&shared.full[stage], phase);
                wgmma_fence();
#pragma unroll
                for (unsigned part = 0; part < 4; part++) {
                    u64 left = descriptor(shared.a[stage] + consumer * 64 * DEPTH + part * 16);
                    u64 right = descriptor(shared.b[stage] + part * 16);
                    if (E4M3)
                        wgmma_m64n128_e4m3(c, left, right, step > 0 || part > 0);
                    else
                        wgmma_m64n128(c, left, right, step > 0 || part > 0);
                }
                wgmma_commit();
                // The multiplication of the previous step is complete, and its stage can be filled again.
                wgmma_wait<1>();
                if (step > 0 && lane < CLUSTER) {
                    if (CLUSTER > 1)
                        mbarrier_arrive_remote(&shared.empty[previous], lane);
                    else
                        mbarrier_arrive(&shared.empty[previous]);
                }
                previous = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
            wgmma_wait<0>();
            hold(c);
            if (lane < CLUSTER) {
                if (CLUSTER > 1)
                    mbarrier_arrive_remote(&shared.empty[previous], lane);
                else
                    mbarrier_arrive(&shared.empty[previous]);
            }

            // The stores of the previous tile have read the buffer.
            if (leader)
                bulk_wait_read<0>();
            named_barrier_sync(1 + consumer, 128);
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
                store_matrix(shared.d[consumer][i / 4], warp, i % 4 * 2, c + 8 * i);
            fence_proxy_async();
            named_barrier_sync(1 + consumer, 128);
            if (leader) {
                tma_store(&d, shared.d[consumer][0], column, row + consumer * 64);
                tma_store(&d, shared.d[consumer][1], column + 64, row + consumer * 64);
                bulk_commit();
            }
        }
        if (leader)
            bulk_wait_read<0>();
    }
    // A block must not exit while the other one copies into its memory or arrives at its barriers.
    if (CLUSTER > 1) {
        cluster_arrive();
        cluster_wait();
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap d, int tiles_down,
     int tiles, int steps)
{
    gemm_tiles<1, false>(a, b, d, tiles_down, tiles, steps);
}

extern "C" __global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
gemm_multicast(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap d,
               int tiles_down, int tiles, int steps)
{
    gemm_tiles<2, false>(a, b, d, tiles_down, tiles, steps);
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm_e4m3(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap d, int tiles_down,
          int tiles, int steps)
{
    gemm_tiles<1, true>(a, b, d, tiles_down, tiles, steps);
}
