// Attention with the structure of FlashAttention 3: one thread copies Q, K and V, and two warpgroups with 64 queries each take turns
// on the tensor core. Each multiplies Q with the next keys and its weights with the current values while it computes the softmax.

#include "hopper.cuh"

constexpr unsigned DIM = 64, QUERIES = 128, KEYS = 64, STAGES = 2;
// Named barriers: the turns of the two warpgroups, and the threads of each.
constexpr unsigned TURN = 1, GROUP = 3;

struct Shared {
    Half q[2][64 * DIM];
    Half k[STAGES][KEYS * DIM];
    Half v[STAGES][KEYS * DIM];
    Half o[2][64 * DIM];
    Barrier q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
};

// Scores of 64 queries and 64 keys.
__device__ inline void multiply_keys(float (&scores)[32], const Half *q, const Half *k)
{
#pragma unroll
    for (unsigned part = 0; part < DIM / 16; part++)
        wgmma_m64n64(scores, descriptor(q + part * 16), descriptor(k + part * 16), part > 0);
}

// Adds the values of 64 keys, weighted.
__device__ inline void multiply_values(float (&output)[32], const unsigned (&weights)[16], const Half *v)
{
#pragma unroll
    for (unsigned part = 0; part < KEYS / 16; part++)
        wgmma_m64n64_registers(output, weights + part * 4, descriptor(v + part * 16 * DIM));
}

// Two rows of a thread: the largest score so far and the sum of the weights in this thread's columns.
struct Softmax {
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
};

// Turns scores into weights; returns the factors for what was summed before.
__device__ inline void soften(Softmax &softmax, float (&scores)[32], float scale, float (&factor)[2])
{
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        float largest = softmax.largest[half];
#pragma unroll
        for (unsigned i = 0; i < 32; i++)
            if (i / 2 % 2 == half)
                largest = fmaxf(largest, scores[i]);
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 2));
        // A row of which every key is masked so far.
        float base = largest == -INFINITY ? 0 : largest * scale;
        factor[half] = exp2f(softmax.largest[half] * scale - base);
        softmax.largest[half] = largest;
        softmax.sum[half] *= factor[half];
#pragma unroll
        for (unsigned i = 0; i < 32; i++) {
            if (i / 2 % 2 == half) {
                scores[i] = exp2f(scores[i] * scale - base);
                softmax.sum[half] += scores[i];
            }
        }
    }
}

// Keys after a query get no weight. `ahead` is the first query of the thread minus the first key of the tile.
__device__ inline void mask(float (&scores)[32], int ahead)
{
#pragma unroll
    for (unsigned i = 0; i < 32; i++) {
        int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, row = i / 2 % 2 * 8;
        if (column > ahead + row)
            scores[i] = -INFINITY;
    }
}

__device__ inline void weigh(unsigned (&weights)[16], const float (&scores)[32])
{
#pragma unroll
    for (unsigned i = 0; i < 16; i++)
        weights[i] = pack(scores[2 * i], scores[2 * i + 1]);
}

// One block has 128 queries of one head. Scores are multiplied by `scale`, which contains log2(e).
extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
          const __grid_constant__ TensorMap o, int queries, int keys, float scale, int causal)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    unsigned group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    int first = blockIdx.x * QUERIES;
    // A causal block does not need the keys after its last query.
    int tiles = (causal ? min(keys, first + (int)QUERIES) : keys) / (int)KEYS;

    if (threadIdx.x == 0) {
        mbarrier_init(&shared.q_full, 1);
        for (unsigned i = 0; i < STAGES; i++) {
            mbarrier_init(&shared.k_full[i], 1);
            mbarrier_init(&shared.v_full[i], 1);
            // Every warp of the consumers.
            mbarrier_init(&shared.k_empty[i], 8);
            mbarrier_init(&shared.v_empty[i], 8);
        }
        fence_mbarrier_init();
    }
    __syncthreads();

    unsigned stage = 0, phase = 0;
    if (group == 0) {
        setmaxnreg_dec<24>();
        if (warp == 0 && elect()) {
            mbarrier_expect(&shared.q_full, sizeof shared.q);
            tma_load(shared.q[0], &q, &shared.q_full, 0, blockIdx.y * queries + first);
            tma_load(shared.q[1], &q, &shared.q_full, 0, blockIdx.y * queries + first + 64);
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
        return;
    }

    setmaxnreg_inc<240>();
    unsigned consumer = group - 1;
    int ahead = first + consumer * 64 + warp * 16 + lane / 4;
    Softmax softmax;
    float scores[32], output[32] = {}, factor[2];
    unsigned weights[16];
    // The first warpgroup has the first turn.
    if (consumer == 1)
        named_barrier_arrive(TURN, 256);
    mbarrier_wait(&shared.q_full, 0);
    mbarrier_wait(&shared.k_full[0], 0);
    named_barrier_sync(TURN + consumer, 256);
    wgmma_fence();
    multiply_keys(scores, shared.q[consumer], shared.k[0]);
    wgmma_commit();
    named_barrier_arrive(TURN + 1 - consumer, 256);
    wgmma_wait<0>();
    hold(scores);
    if (lane == 0)
        mbarrier_arrive(&shared.k_empty[0]);
    if (causal)
        mask(scores, ahead - (tiles - 1) * (int)KEYS);
    soften(softmax, scores, scale, factor);
    weigh(weights, scores);

    for (int tile = tiles - 2; tile >= 0; tile--) {
        // The keys of this tile, and the values of the previous one.
        unsigned next = stage + 1 == STAGES ? 0 : stage + 1, next_phase = next ? phase : phase ^ 1;
        mbarrier_wait(&shared.k_full[next], next_phase);
        named_barrier_sync(TURN + consumer, 256);
        wgmma_fence();
        multiply_keys(scores, shared.q[consumer], shared.k[next]);
        wgmma_commit();
        mbarrier_wait(&shared.v_full[stage], phase);
        multiply_values(output, weights, shared.v[stage]);
        wgmma_commit();
        named_barrier_arrive(TURN + 1 - consumer, 256);
        wgmma_wait<1>();
        hold(scores);
        if (lane == 0)
            mbarrier_arrive(&shared.k_empty[next]);
        if (causal)
            mask(scores, ahead - tile * (int)KEYS);
        soften(softmax, scores, scale, factor);
        wgmma_wait<0>();
        hold(output);
        if (lane == 0)
            mbarrier_arrive(&shared.v_empty[stage]);
#pragma unroll
        for (unsigned i = 0; i < 32; i++)
            output[i] *= factor[i / 2 % 2];
        weigh(weights, scores);
        stage = next;
        phase = next_phase;
    }
    mbarrier_wait(&shared.v_full[stage], phase);
    wgmma_fence();
    multiply_values(output, weights, shared.v[stage]);
    wgmma_commit();
    wgmma_wait<0>();
    hold(output);

#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        softmax.sum[half] += __shfl_xor_sync(0xffffffff, softmax.sum[half], 1);
        softmax.sum[half] += __shfl_xor_sync(0xffffffff, softmax.sum[half], 2);
    }
#pragma unroll
    for (unsigned i = 0; i < 32; i++)
        output[i] /= softmax.sum[i / 2 % 2];
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        store_matrix(shared.o[consumer], warp, i * 2, output + 8 * i);
    fence_proxy_async();
    named_barrier_sync(GROUP + consumer, 128);
    if (warp == 0 && elect()) {
        tma_store(&o, shared.o[consumer], 0, blockIdx.y * queries + first + consumer * 64);
        bulk_commit();
        bulk_wait_read<0>();
    }
}
