// Attention with the structure of FlashAttention 4: one thread copies Q, K and V, one multiplies, two warpgroups with 128 queries each
// compute weights, one warpgroup corrects the sums when a larger score comes and ends them, and one thread stores. Scores, weights and sums
// are in tensor memory; weights take the place of scores.

#include "blackwell.cuh"

constexpr unsigned DIM = 64, QUERIES = 256, KEYS = 64, STAGES = 2;
// Columns of tensor memory: scores of both groups, then sums.
constexpr unsigned SCORES = 0, SUMS = 2 * KEYS, ALL = 2 * KEYS + 2 * DIM;

struct Shared {
    Half q[2][128 * DIM];
    Half k[STAGES][KEYS * DIM];
    Half v[STAGES][KEYS * DIM];
    Half o[2][128 * DIM];
    float factor[2][128];
    Barrier q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    // By group: scores are in tensor memory, weights are, the factors of a tile are in shared memory, they have been read, sums are
    // corrected, the values of a tile are added, results are in shared memory.
    Barrier scored[2], weighed[2], factored[2], taken[2], corrected[2], added[2], ended[2];
    unsigned tensor;
};

// Weights of one row in place of its scores; returns the factor for what was summed before.
__device__ inline float soften(float (&scores)[KEYS], float &largest, float &sum, float scale)
{
    float before = largest;
#pragma unroll
    for (unsigned i = 0; i < KEYS; i++)
        largest = fmaxf(largest, scores[i]);
    // A row of which every key is masked so far.
    float base = largest == -INFINITY ? 0 : largest * scale, factor = exp2f(before * scale - base);
    sum *= factor;
#pragma unroll
    for (unsigned i = 0; i < KEYS; i++) {
        scores[i] = exp2f(scores[i] * scale - base);
        sum += scores[i];
    }
    return factor;
}

// One block has 256 queries of one head. Scores are multiplied by `scale`, which contains log2(e).
extern "C" __global__ void __launch_bounds__(512, 1)
attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
          const __grid_constant__ TensorMap o, int queries, int keys, float scale, int causal)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    unsigned warp = threadIdx.x / 32, row = threadIdx.x % 128, lanes = warp % 4 * 32 << 16;
    int first = blockIdx.x * QUERIES;
    // A causal block does not need the keys after its last query.
    int tiles = (causal ? min(keys, first + (int)QUERIES) : keys) / (int)KEYS;

    if (threadIdx.x == 0) {
        mbarrier_init(&shared.q_full, 1);
        for (unsigned i = 0; i < STAGES; i++) {
            mbarrier_init(&shared.k_full[i], 1);
            mbarrier_init(&shared.k_empty[i], 1);
            mbarrier_init(&shared.v_full[i], 1);
            mbarrier_init(&shared.v_empty[i], 1);
        }
        for (unsigned group = 0; group < 2; group++) {
            mbarrier_init(&shared.scored[group], 1);
            // Every warp.
            mbarrier_init(&shared.weighed[group], 4);
            mbarrier_init(&shared.factored[group], 128);
            mbarrier_init(&shared.taken[group], 128);
            mbarrier_init(&shared.corrected[group], 4);
            mbarrier_init(&shared.added[group], 1);
            mbarrier_init(&shared.ended[group], 128);
        }
        fence_mbarrier_init();
    }
    if (warp == 12) {
        tensor_alloc(&shared.tensor, ALL);
        tensor_relinquish();
    }
    fence_before_sync();
    __syncthreads();
    fence_after_sync();
    unsigned tensor = shared.tensor;

    if (warp < 8) {
        // Weights: a thread has one row.
        unsigned group = warp / 4, phase = 0;
        float largest = -INFINITY, sum = 0;
        for (int tile = tiles - 1; tile >= 0; tile--) {
            mbarrier_wait(&shared.scored[group], phase);
            fence_after_sync();
            float scores[KEYS];
#pragma unroll
            for (unsigned i = 0; i < KEYS; i += 16)
                tensor_load(scores + i, tensor + lanes + SCORES + group * KEYS + i);
            tensor_wait_loads();
            int query = first + group * 128 + row;
            if (causal) {
#pragma unroll
                for (unsigned i = 0; i < KEYS; i++)
                    if (tile * (int)KEYS + (int)i > query)
                        scores[i] = -INFINITY;
            }
            float factor = soften(scores, largest, sum, scale);
            mbarrier_wait(&shared.taken[group], phase ^ 1);
            shared.factor[group][row] = factor;
            mbarrier_arrive(&shared.factored[group]);
            unsigned weights[KEYS / 2];
#pragma unroll
            for (unsigned i = 0; i < KEYS / 2; i++)
                weights[i] = pack(scores[2 * i], scores[2 * i + 1]);
#pragma unroll
            for (unsigned i = 0; i < KEYS / 2; i += 16)
                tensor_store(tensor + lanes + SCORES + group * KEYS + i, weights + i);
            tensor_wait_stores();
            fence_before_sync();
            if (elect())
                mbarrier_arrive(&shared.weighed[group]);
            phase ^= 1;
        }
        mbarrier_wait(&shared.taken[group], phase ^ 1);
        shared.factor[group][row] = 1 / sum;
        mbarrier_arrive(&shared.factored[group]);
    } else if (warp < 12) {
        // Corrections, of both groups in turn.
        unsigned phase = 0;
        for (int tile = tiles - 1; tile >= 0; tile--) {
            for (unsigned group = 0; group < 2; group++) {
                mbarrier_wait(&shared.factored[group], phase);
                float factor = shared.factor[group][row];
                mbarrier_arrive(&shared.taken[group]);
                if (tile < tiles - 1) {
                    mbarrier_wait(&shared.added[group], phase ^ 1);
                    fence_after_sync();
                    // Most tiles have no larger score in any row of the warp.
                    if (__any_sync(0xffffffff, factor != 1)) {
#pragma unroll
                        for (unsigned i = 0; i < DIM; i += 16) {
                            float sums[16];
                            tensor_load(sums, tensor + lanes + SUMS + group * DIM + i);
                            tensor_wait_loads();
#pragma unroll
                            for (unsigned j = 0; j < 16; j++)
                                sums[j] *= factor;
                            tensor_store(tensor + lanes + SUMS + group * DIM + i, sums);
                        }
                        tensor_wait_stores();
                    }
                    fence_before_sync();
                }
                if (elect())
                    mbarrier_arrive(&shared.corrected[group]);
            }
            phase ^= 1;
        }
        for (unsigned group = 0; group < 2; group++) {
            mbarrier_wait(&shared.factored[group], phase);
            float factor = shared.factor[group][row];
            mbarrier_wait(&shared.added[group], phase ^ 1);
            fence_after_sync();
            float sums[DIM];
#pragma unroll
            for (unsigned i = 0; i < DIM; i += 16)
                tensor_load(sums + i, tensor + lanes + SUMS + group * DIM + i);
            tensor_wait_loads();
#pragma unroll
            for (unsigned chunk = 0; chunk < DIM / 8; chunk++) {
                unsigned halves[4];
                for (unsigned i = 0; i < 4; i++)
                    halves[i] = pack(sums[chunk * 8 + 2 * i] * factor, sums[chunk * 8 + 2 * i + 1] * factor);
                store_chunk(shared.o[group], row, chunk, halves);
            }
            fence_proxy_async();
            mbarrier_arrive(&shared.ended[group]);
        }
    } else if (warp == 12) {
        // Multiplications: scores of the next tile before the values of this one.
        if (elect()) {
            unsigned stage = 0, phase = 0, next = 0, next_phase = 0, turn = 0;
            mbarrier_wait(&shared.q_full, 0);
            for (int tile = tiles; tile >= 0; tile--) {
                for (unsigned group = 0; group < 2; group++) {
                    if (tile < tiles) {
                        // The scores of this group are weights now, and the sums fit them.
                        mbarrier_wait(&shared.weighed[group], turn);
                        mbarrier_wait(&shared.corrected[group], turn);
                        if (group == 0)
                            mbarrier_wait(&shared.v_full[stage], phase);
                        fence_after_sync();
                        for (unsigned part = 0; part < KEYS / 16; part++)
                            mma_tensor(tensor + SUMS + group * DIM, tensor + SCORES + group * KEYS + part * 8,
                                       tile_descriptor(shared.v[stage] + part * 16 * DIM), format(DIM, true), tile < tiles - 1 || part > 0);
                        mma_commit(&shared.added[group]);
                    }
                    if (tile > 0) {
                        if (group == 0)
                            mbarrier_wait(&shared.k_full[next], next_phase);
                        fence_after_sync();
                        for (unsigned part = 0; part < DIM / 16; part++)
                            mma(tensor + SCORES + group * KEYS, tile_descriptor(shared.q[group] + part * 16),
                                tile_descriptor(shared.k[next] + part * 16), format(KEYS, false), part > 0);
                        mma_commit(&shared.scored[group]);
                    }
                }
                if (tile < tiles) {
                    mma_commit(&shared.v_empty[stage]);
                    turn ^= 1;
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
                if (tile > 0) {
                    mma_commit(&shared.k_empty[next]);
                    if (++next == STAGES) {
                        next = 0;
                        next_phase ^= 1;
                    }
                }
            }
        }
    } else if (warp == 13) {
        if (elect()) {
            unsigned stage = 0, phase = 0;
            mbarrier_expect(&shared.q_full, sizeof shared.q);
            tma_load(shared.q[0], &q, &shared.q_full, 0, blockIdx.y * queries + first);
            tma_load(shared.q[1], &q, &shared.q_full, 0, blockIdx.y * queries + first + 128);
            for (int tile = tiles - 1; tile >= 0; tile--) {
                int row = blockIdx.y * keys + tile * KEYS;
                mbarrier_wait(&shared.k_empty[stage], phase ^ 1);
                mbarrier_expect(&shared.k_full[stage], sizeof shared.k[0]);
                tma_load(shared.k[stage], &k, &shared.k_full[stage], 0, row);
                mbarrier_wait(&shared.v_empty[stage], phase ^ 1);
                mbarrier_expect(&shared.v_full[stage], sizeof shared.v[0]);
                tma_load(shared.v[stage], &v, &shared.v_full[stage], 0, row);
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
        }
    } else if (warp == 14) {
        if (elect()) {
            for (unsigned group = 0; group < 2; group++) {
                mbarrier_wait(&shared.ended[group], 0);
                tma_store(&o, shared.o[group], 0, blockIdx.y * queries + first + group * 128);
                bulk_commit();
            }
            bulk_wait_read<0>();
        }
    }
    fence_before_sync();
    __syncthreads();
    fence_after_sync();
    if (warp == 12)
        tensor_free(tensor, ALL);
}
