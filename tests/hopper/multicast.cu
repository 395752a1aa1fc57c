// One block of a cluster copies tiles for all its blocks, which multiply them with a weight each. A stage is filled again when the
// consumers of all blocks have arrived at the mbarrier of the first.

#include "hopper.cuh"

constexpr unsigned STAGES = 2, TILE = 256, THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS + 32)
multicast(const __grid_constant__ TensorMap x, const float *weights, float *y, int tiles)
{
    __shared__ __align__(128) float ring[STAGES][TILE];
    __shared__ Barrier full[STAGES], empty[STAGES];
    unsigned rank = cluster_rank(), size = cluster_size();
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < STAGES; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], size);
        }
        fence_mbarrier_init();
        for (unsigned i = 0; i < STAGES; i++)
            mbarrier_expect(&full[i], sizeof ring[0]);
    }
    cluster_arrive();
    cluster_wait();

    unsigned stage = 0, phase = 0;
    if (threadIdx.x >= THREADS) {
        if (rank == 0 && elect()) {
            for (int tile = 0; tile < tiles; tile++) {
                mbarrier_wait_cluster(&empty[stage], phase ^ 1);
                tma_load_multicast(ring[stage], &x, &full[stage], 0, tile * 8, (1 << size) - 1);
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
        }
    } else {
        float weight = weights[blockIdx.x];
        for (int tile = 0; tile < tiles; tile++) {
            mbarrier_wait(&full[stage], phase);
            for (unsigned i = threadIdx.x; i < TILE; i += THREADS)
                y[(blockIdx.x * tiles + tile) * TILE + i] = ring[stage][i] * weight;
            named_barrier_sync(1, THREADS);
            if (threadIdx.x == 0) {
                // Before the arrival, so that the next copy finds the phase open.
                if (tile + (int)STAGES < tiles)
                    mbarrier_expect(&full[stage], sizeof ring[0]);
                mbarrier_arrive_remote(&empty[stage], 0);
            }
            if (++stage == STAGES) {
                stage = 0;
                phase ^= 1;
            }
        }
    }
    // The first block must not exit before the others have arrived, nor they while it copies.
    cluster_arrive();
    cluster_wait();
}
