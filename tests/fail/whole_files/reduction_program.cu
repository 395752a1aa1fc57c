// A whole program: it sums an array, block by block, and forgets a barrier between two steps of the tree. Everything but the
// kernel is host code, as people write it.
//@launch: kernel=block_sums grid=2 block=128 arg=in:in:f32[256]=ones arg=sums:out:f32[2] arg=n:i32=256

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <iostream>
#include <numeric>
#include <vector>

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t status = (call);                                           \
        if (status != cudaSuccess) {                                           \
            std::cerr << cudaGetErrorString(status) << std::endl;              \
            std::exit(EXIT_FAILURE);                                           \
        }                                                                      \
    } while (0)

constexpr int THREADS = 128;

static float expected(const std::vector<float> &values) {
    return std::accumulate(values.begin(), values.end(), 0.0f);
}

__global__ void block_sums(const float *in, float *sums, int n) {
    __shared__ float partial[THREADS];
    const int i = blockIdx.x * THREADS + threadIdx.x;
    partial[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            partial[threadIdx.x] += partial[threadIdx.x + step]; //~ shared-race
        }
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = partial[0];
    }
}

class Buffer {
public:
    explicit Buffer(size_t count) : count_{count} { CHECK(cudaMalloc(&data_, count * sizeof(float))); }
    ~Buffer() { cudaFree(data_); }
    float *data() const { return data_; }

private:
    float *data_ = nullptr;
    size_t count_;
};

int main(int argc, char **argv) {
    const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 16;
    const int blocks = (n + THREADS - 1) / THREADS;
    std::vector<float> values(n, 1.0f), sums(blocks);
    Buffer in(n), out(blocks);
    CHECK(cudaMemcpy(in.data(), values.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    const auto start = std::chrono::steady_clock::now();
    block_sums<<<blocks, THREADS>>>(in.data(), out.data(), n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sums.data(), out.data(), blocks * sizeof(float), cudaMemcpyDeviceToHost));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%s in %f s\n", expected(sums) == expected(values) ? "ok" : "WRONG", took.count());
    return 0;
}
