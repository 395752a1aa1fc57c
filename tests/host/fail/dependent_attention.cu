// Attention of one query per head with the keys split over blocks: the kernel that combines the parts reads their sums before it waits.
//@device: h100
#include "../dependent.h"

constexpr int HEADS = 8, KEYS = 256, SPLITS = 4, WIDTH = 64;

static __device__ float over_warp(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}

// One warp for each part of a head: its keys, the sum of their weights, and the weighted sum of their values.
static __global__ void split(const float *query, const float *keys, const float *values, float *part, float *weight) {
    int head = blockIdx.x, split = blockIdx.y, lane = threadIdx.x;
    float q[2], out[2] = {0, 0}, sum = 0;
    for (int i = 0; i < 2; i++) q[i] = query[head * WIDTH + lane + 32 * i];
    for (int key = split * (KEYS / SPLITS); key < (split + 1) * (KEYS / SPLITS); key++) {
        const float *k = keys + (head * KEYS + key) * WIDTH, *v = values + (head * KEYS + key) * WIDTH;
        float p = __expf(over_warp(q[0] * k[lane] + q[1] * k[lane + 32]));
        for (int i = 0; i < 2; i++) out[i] += p * v[lane + 32 * i];
        sum += p;
    }
    cudaTriggerProgrammaticLaunchCompletion();
    for (int i = 0; i < 2; i++) part[(head * SPLITS + split) * WIDTH + lane + 32 * i] = out[i];
    if (lane == 0) weight[head * SPLITS + split] = sum;
}

static __global__ void combine(const float *part, const float *weight, float *out) {
    int head = blockIdx.x, column = threadIdx.x;
    float total = 0, sum = 0;
    for (int split = 0; split < SPLITS; split++) total += weight[head * SPLITS + split];
    cudaGridDependencySynchronize();
    for (int split = 0; split < SPLITS; split++) sum += part[(head * SPLITS + split) * WIDTH + column];
    out[head * WIDTH + column] = sum / total;
}

int main() {
    float *query, *keys, *values, *part, *weight, *out;
    OK(cudaMalloc(&query, HEADS * WIDTH * 4));
    OK(cudaMalloc(&keys, HEADS * KEYS * WIDTH * 4));
    OK(cudaMalloc(&values, HEADS * KEYS * WIDTH * 4));
    OK(cudaMalloc(&part, HEADS * SPLITS * WIDTH * 4));
    OK(cudaMalloc(&weight, HEADS * SPLITS * 4));
    OK(cudaMalloc(&out, HEADS * WIDTH * 4));
    OK(cudaMemset(query, 0, HEADS * WIDTH * 4));
    OK(cudaMemset(keys, 0, HEADS * KEYS * WIDTH * 4));
    OK(cudaMemset(values, 0, HEADS * KEYS * WIDTH * 4));
    split<<<dim3(HEADS, SPLITS), 32>>>(query, keys, values, part, weight);
    DEPENDENT(combine, HEADS, WIDTH, 0, part, weight, out); //~ stream-race
    OK(cudaDeviceSynchronize());
    for (float *memory : {query, keys, values, part, weight, out}) OK(cudaFree(memory));
    return 0;
}
