// Streams, events, callbacks, occupancy, properties and cooperative launches.
#include "check.h"
#include <cooperative_groups.h>
#include <cstring>
#include <thread>

namespace cg = cooperative_groups;

__global__ void increment(int *p, int by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += by;
}
__global__ void __launch_bounds__(256) tuned(int *p) {
    extern __shared__ int scratch[];
    scratch[threadIdx.x] = threadIdx.x;
    __syncthreads();
    p[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}
__global__ void whole_grid(int *p) {
    cg::grid_group grid = cg::this_grid();
    p[grid.thread_rank()] = 1;
    grid.sync();
    if (grid.thread_rank() == 0) {
        int sum = 0;
        for (unsigned i = 0; i < grid.size(); i++) sum += p[i];
        p[0] = sum;
    }
}
__global__ void fault(int *p) { *p = 1; }

static void CUDART_CB host_function(void *data) { *(int *)data += 1; }
static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *data) {
    if (status == cudaSuccess) *(int *)data += 10;
}

int main() {
    int count = 0, device = -1;
    OK(cudaGetDeviceCount(&count));
    IS(count == 1);
    OK(cudaSetDevice(0));
    IS(cudaSetDevice(7) == cudaErrorInvalidDevice);
    (void)cudaGetLastError();
    OK(cudaGetDevice(&device));
    IS(device == 0);
    cudaDeviceProp prop;
    OK(cudaGetDeviceProperties(&prop, 0));
    int value;
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    IS(prop.multiProcessorCount == value && prop.warpSize == 32 && prop.maxThreadsPerBlock == 1024);
    IS(prop.major == 8 && prop.minor == 9 && strstr(prop.name, "L4"));
    IS(prop.totalGlobalMem > (size_t)20 << 30 && prop.maxGridSize[0] == 0x7fffffff && prop.maxThreadsDim[2] == 64);
    IS(prop.sharedMemPerBlock == 49152 && prop.unifiedAddressing == 1);
    int runtime = 0, driver = 0;
    OK(cudaRuntimeGetVersion(&runtime));
    OK(cudaDriverGetVersion(&driver));
    IS(runtime / 1000 == CUDART_VERSION / 1000 && driver >= runtime);

    const int n = 1 << 12;
    int *pinned, *p;
    OK(cudaMallocHost(&pinned, n * 4));
    OK(cudaMalloc(&p, n * 4));
    memset(pinned, 0, n * 4);
    cudaStream_t streams[4];
    for (auto &stream : streams) OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaEvent_t start, stop;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&stop, cudaEventBlockingSync));
    OK(cudaEventRecord(start, streams[0]));
    for (int i = 0; i < 4; i++) {
        int part = n / 4;
        OK(cudaMemcpyAsync(p + i * part, pinned + i * part, part * 4, cudaMemcpyHostToDevice, streams[i]));
        increment<<<part / 128, 128, 0, streams[i]>>>(p + i * part, i + 1, part);
        OK(cudaMemcpyAsync(pinned + i * part, p + i * part, part * 4, cudaMemcpyDeviceToHost, streams[i]));
    }
    OK(cudaEventRecord(stop, streams[0]));
    OK(cudaStreamWaitEvent(streams[1], stop, 0));
    while (cudaEventQuery(stop) == cudaErrorNotReady) {
    }
    OK(cudaEventSynchronize(stop));
    OK(cudaDeviceSynchronize());
    float ms = -1;
    OK(cudaEventElapsedTime(&ms, start, stop));
    IS(ms > 0);
    for (int i = 0; i < n; i++) IS(pinned[i] == i / (n / 4) + 1);
    int called = 0;
    OK(cudaLaunchHostFunc(streams[0], host_function, &called));
    OK(cudaStreamAddCallback(streams[0], callback, &called, 0));
    OK(cudaStreamSynchronize(streams[0]));
    IS(called == 11);
    OK(cudaStreamQuery(streams[0]));
    int least, greatest;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    IS(least >= greatest);

    // Another thread has its own device and last error.
    IS(cudaMalloc((void **)nullptr, 4) == cudaErrorInvalidValue);
    std::thread([&] {
        IS(cudaGetLastError() == cudaSuccess);
        increment<<<1, 32>>>(p, 1, 32);
        OK(cudaGetLastError());
        OK(cudaDeviceSynchronize());
    }).join();
    IS(cudaGetLastError() == cudaErrorInvalidValue);

    // Functions and occupancy
    cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, tuned));
    IS(attributes.maxThreadsPerBlock == 256 && attributes.ptxVersion == 89 && attributes.numRegs > 0);
    OK(cudaFuncSetAttribute(tuned, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    tuned<<<1, 256, 65536>>>(p);
    OK(cudaGetLastError());
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    IS(value == 255);
    tuned<<<1, 256, 200000>>>(p);
    IS(cudaGetLastError() == cudaErrorInvalidValue);
    OK(cudaFuncSetCacheConfig(tuned, cudaFuncCachePreferShared));
    int blocks, grid_size, block_size;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, increment, 128, 0));
    IS(blocks > 0);
    OK(cudaOccupancyMaxPotentialBlockSize(&grid_size, &block_size, increment, 0, 0));
    IS(block_size >= 32 && grid_size > 0);
    size_t bytes;
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, increment, 1, 128));
    IS(bytes > 0);
    const char *name;
    OK(cudaFuncGetName(&name, (const void *)increment));
    IS(strstr(name, "increment"));

    // Launches with attributes, and of the whole grid
    int *target = p, by = 5, all = 32;
    void *args[] = {&target, &by, &all};
    OK(cudaMemset(p, 0, 128));
    // The memset may still run, and the stream does not wait for the default stream.
    OK(cudaDeviceSynchronize());
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    config.stream = streams[2];
    OK(cudaLaunchKernelExC(&config, (const void *)increment, args));
    OK(cudaLaunchKernelEx(&config, increment, p, 6, 32));
    cudaFunction_t function;
    OK(cudaGetFuncBySymbol(&function, (const void *)increment));
    IS(function != nullptr);
    OK(cudaStreamSynchronize(streams[2]));
    OK(cudaMemcpy(&value, p + 31, 4, cudaMemcpyDeviceToHost));
    IS(value == 11);
    void *whole[] = {&target};
    OK(cudaLaunchCooperativeKernel((const void *)whole_grid, dim3(4), dim3(64), whole, 0, 0));
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    IS(value == 256);
    IS(cudaLaunchCooperativeKernel((const void *)whole_grid, dim3(100000), dim3(64), whole, 0, 0) == cudaErrorCooperativeLaunchTooLarge);
    (void)cudaGetLastError();

    OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 24));
    OK(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
    IS(bytes == 1 << 24);
    char bus[32];
    OK(cudaDeviceGetPCIBusId(bus, 32, 0));
    OK(cudaDeviceGetByPCIBusId(&value, bus));
    IS(value == 0);
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 13000
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &entry, 12000, cudaEnableDefault, &status));
#else
    OK(cudaGetDriverEntryPoint("cuMemAlloc", &entry, cudaEnableDefault, &status));
#endif
    IS(entry && status == cudaDriverEntryPointSuccess);
    for (auto &stream : streams) OK(cudaStreamDestroy(stream));
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(stop));
    OK(cudaFreeHost(pinned));
    OK(cudaFree(p));
    puts("ok");
}
