// 100 kernels, launched from as many host threads as the first argument asks for. Each thread has its own stream. Prints a hash of
// all results, which does not depend on the number of threads.
#include "check.h"
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

constexpr int KERNELS = 100, BLOCKS = 3, WIDTH = 64, REPEATS = 3;

/// Each block replaces its part by sums over shared memory; the total of all blocks goes to the last element.
template <int K> __global__ void mix(uint32_t *data) {
    __shared__ uint32_t tile[WIDTH];
    uint32_t *mine = data + blockIdx.x * WIDTH;
    tile[threadIdx.x] = mine[threadIdx.x] * (2 * K + 1) + threadIdx.x;
    // One kernel lacks this barrier: its race must be found from any thread.
    if (K != 13)
        __syncthreads();
    uint32_t sum = 0;
    for (int i = 0; i <= K % 7; i++)
        sum += tile[(threadIdx.x + i * (K + 1)) % WIDTH] << (i % 3);
    mine[threadIdx.x] = sum;
    atomicAdd(data + BLOCKS * WIDTH, sum);
}

using Kernel = void (*)(uint32_t *);
template <size_t... K> static std::vector<Kernel> table(std::index_sequence<K...>) { return {mix<int(K)>...}; }

static void work(int first, int step, std::vector<uint32_t> *results) {
    const auto kernels = table(std::make_index_sequence<KERNELS>{});
    const size_t count = BLOCKS * WIDTH + 1, bytes = count * sizeof(uint32_t);
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int k = first; k < KERNELS; k += step) {
        std::vector<uint32_t> host(count);
        for (size_t i = 0; i < count; i++)
            host[i] = uint32_t(k * 1000 + i);
        uint32_t *data;
        OK(cudaMallocAsync(&data, bytes, stream));
        OK(cudaMemcpyAsync(data, host.data(), bytes, cudaMemcpyHostToDevice, stream));
        for (int i = 0; i < REPEATS; i++) {
            kernels[k]<<<BLOCKS, WIDTH, 0, stream>>>(data);
            OK(cudaGetLastError());
        }
        OK(cudaMemcpyAsync(host.data(), data, bytes, cudaMemcpyDeviceToHost, stream));
        OK(cudaFreeAsync(data, stream));
        OK(cudaStreamSynchronize(stream));
        results[k] = host;
    }
    OK(cudaStreamDestroy(stream));
}

int main(int, char **arguments) {
    const int count = atoi(arguments[1]);
    std::vector<std::vector<uint32_t>> results(KERNELS);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++)
        threads.emplace_back(work, i, count, results.data());
    for (auto &thread : threads)
        thread.join();
    uint64_t hash = 0xcbf29ce484222325;
    for (const auto &result : results)
        for (uint32_t value : result)
            hash = (hash ^ value) * 0x100000001b3;
    printf("%016llx\n", (unsigned long long)hash);
}
