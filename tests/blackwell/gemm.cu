// D = A * B^T with the structure of CUTLASS for sm_100: one thread copies tiles, one multiplies into tensor memory, and a warpgroup stores
// the results. Two accumulators: one is multiplied while the other is stored.

#include "blackwell.cuh"

constexpr unsigned ROWS = 128, COLUMNS = 64, DEPTH = 64, STAGES = 3, BUFFERS = 2;

struct Shared {
    Half a[STAGES][ROWS * DEPTH];
    Half b[STAGES][COLUMNS * DEPTH];
    Half d[ROWS * COLUMNS];
    Barrier full[STAGES], empty[STAGES], sum_full[BUFFERS], sum_empty[BUFFERS];
    unsigned tensor;
};

// Each block takes every `gridDim.x`-th tile; tiles that follow each other have the same columns of D.
extern "C" __global__ void __launch_bounds__(192, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap d, int tiles_down, int tiles,
     int steps)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    unsigned warp = threadIdx.x / 32;

    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < STAGES; i++) {
            mbarrier_init(&shared.full[i], 1);
            mbarrier_init(&shared.empty[i], 1);
        }
        for (unsigned i = 0; i < BUFFERS; i++) {
            mbarrier_init(&shared.sum_full[i], 1);
            // Every warp that stores.
            mbarrier_init(&shared.sum_empty[i], 4);
        }
        fence_mbarrier_init();
    }
    if (warp == 5) {
        tensor_alloc(&shared.tensor, BUFFERS * COLUMNS);
        tensor_relinquish();
    }
    fence_before_sync();
    __syncthreads();
    fence_after_sync();
    unsigned tensor = shared.tensor;

    if (warp == 4) {
        if (elect()) {
            unsigned stage = 0, phase = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                for (int step = 0; step < steps; step++) {
                    mbarrier_wait(&shared.empty[stage], phase ^ 1);
                    mbarrier_expect(&shared.full[stage], sizeof shared.a[0] + sizeof shared.b[0]);
                    tma_load(shared.a[stage], &a, &shared.full[stage], step * DEPTH, tile % tiles_down * ROWS);
                    tma_load(shared.b[stage], &b, &shared.full[stage], step * DEPTH, tile / tiles_down * COLUMNS);
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
    } else if (warp == 5) {
        if (elect()) {
            unsigned stage = 0, phase = 0, buffer = 0, use = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                mbarrier_wait(&shared.sum_empty[buffer], use ^ 1);
                fence_after_sync();
                for (int step = 0; step < steps; step++) {
                    mbarrier_wait(&shared.full[stage], phase);
                    fence_after_sync();
                    for (unsigned part = 0; part < DEPTH / 16; part++)
                        mma(tensor + buffer * COLUMNS, tile_descriptor(shared.a[stage] + part * 16), tile_descriptor(shared.b[stage] + part * 16),
                            format(COLUMNS, false), step > 0 || part > 0);
                    mma_commit(&shared.empty[stage]);
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
                mma_commit(&shared.sum_full[buffer]);
                buffer ^= 1;
                use ^= buffer == 0;
            }
        }
    } else {
        unsigned buffer = 0, use = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            mbarrier_wait(&shared.sum_full[buffer], use);
            fence_after_sync();
            float row[COLUMNS];
#pragma unroll
            for (unsigned i = 0; i < COLUMNS; i += 16)
                tensor_load(row + i, tensor + (warp * 32 << 16) + buffer * COLUMNS + i);
            tensor_wait_loads();
            fence_before_sync();
            if (elect())
                mbarrier_arrive(&shared.sum_empty[buffer]);
            // The store before has read the tile.
            if (threadIdx.x == 0)
                bulk_wait_read<0>();
            named_barrier_sync(1, 128);
#pragma unroll
            for (unsigned chunk = 0; chunk < COLUMNS / 8; chunk++) {
                unsigned halves[4];
                for (unsigned i = 0; i < 4; i++)
                    halves[i] = pack(row[chunk * 8 + 2 * i], row[chunk * 8 + 2 * i + 1]);
                store_chunk(shared.d, threadIdx.x, chunk, halves);
            }
            fence_proxy_async();
            named_barrier_sync(2, 128);
            if (threadIdx.x == 0) {
                tma_store(&d, shared.d, tile / tiles_down * COLUMNS, tile % tiles_down * ROWS);
                bulk_commit();
            }
            buffer ^= 1;
            use ^= buffer == 0;
        }
        if (threadIdx.x == 0)
            bulk_wait_read<0>();
    }
    fence_before_sync();
    __syncthreads();
    fence_after_sync();
    if (warp == 5)
        tensor_free(tensor, BUFFERS * COLUMNS);
}
