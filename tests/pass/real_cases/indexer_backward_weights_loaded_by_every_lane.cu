// After NVIDIA/cudnn-frontend#426, as it was fixed: the barrier expects 32 arrivals, and every lane arrives for its own stores.
//@arch: 90a
//@launch: kernel=indexer_backward grid=2 block=192 arg=grad:in:f32[2x8x128]=randn(seed=3) arg=weights:in:f32[2x64]=randn(seed=4) arg=out:out:f32[2x128] arg=blocks:i32=8
#include "hopper.cuh"

constexpr unsigned HEADS = 64, STAGES = 2;

extern "C" __global__ void __launch_bounds__(192) indexer_backward(const float *grad, const float *weights, float *out, int blocks)
{
    __shared__ float weight[HEADS];
    __shared__ __align__(128) float keys[STAGES][128];
    __shared__ __align__(8) unsigned long long weights_loaded, key_loaded[STAGES], key_consumed[STAGES];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    grad += blockIdx.x * blocks * 128;
    if (threadIdx.x == 0) {
        INIT(&weights_loaded, 32);
        for (unsigned stage = 0; stage < STAGES; stage++) {
            INIT(&key_loaded[stage], 1);
            INIT(&key_consumed[stage], 128);
        }
        FENCE_INIT();
    }
    __syncthreads();
    if (warp == 4) { // Weights.
        for (unsigned head = lane; head < HEADS; head += 32)
            weight[head] = weights[blockIdx.x * HEADS + head];
        ARRIVE(&weights_loaded);
        return;
    }
    if (warp == 5) { // Keys.
        if (elected()) {
            for (int block = 0; block < blocks; block++) {
                unsigned stage = block % STAGES;
                WAIT(&key_consumed[stage], (block / STAGES & 1) ^ 1);
                ARRIVE_EXPECT(&key_loaded[stage], 512);
                BULK_LOAD(keys[stage], grad + block * 128, 512, &key_loaded[stage]);
            }
        }
        return;
    }
    WAIT(&weights_loaded, 0);
    float by = 0, sum = 0;
    for (unsigned head = 0; head < HEADS; head++)
        by += weight[head];
    for (int block = 0; block < blocks; block++) {
        unsigned stage = block % STAGES;
        WAIT(&key_loaded[stage], block / STAGES & 1);
        sum += by * keys[stage][threadIdx.x];
        ARRIVE(&key_consumed[stage]);
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
