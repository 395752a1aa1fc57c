// Programmatic dependent launch: kernels that wait have the right results, and a kernel that does not wait reads old values. A chain of
// waits, a prologue before the wait, and graphs.
#include "check.h"
#include <cstring>

__global__ void produce(int *values, int number) {
    cudaTriggerProgrammaticLaunchCompletion();
    values[blockIdx.x * blockDim.x + threadIdx.x] = number;
}

// Its own stores before the wait stay, and so do bytes next to those of the first kernel.
__global__ void consume(const int *values, int *sums, int *own) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    own[i] = i;
    __shared__ int scale;
    if (threadIdx.x == 0) scale = 10;
    cudaGridDependencySynchronize();
    __syncthreads();
    sums[i] = values[i] * scale + own[i];
}

__global__ void again(int *sums) {
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
    sums[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

// Adds before and after the wait: both must count.
__global__ void count(int *counter) {
    atomicAdd(counter, 1);
    cudaGridDependencySynchronize();
    atomicAdd(counter, 100);
}

__global__ void careless(const int *values, int *seen) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    seen[i] = values[i];
}

__global__ void half(const int *values, int *seen) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int early = values[i];
    cudaGridDependencySynchronize();
    seen[i] = early * 1000 + values[i];
}

template <typename... P, typename... A>
void dependent(void (*kernel)(P...), int grid, int block, cudaStream_t stream, A... arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

constexpr int BLOCKS = 100, THREADS = 64, COUNT = BLOCKS * THREADS;

int main(int count_, char **arguments) {
    int *values, *sums, *own, *counter, *host = new int[COUNT];
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    for (int **memory : {&values, &sums, &own, &counter}) OK(cudaMalloc(memory, COUNT * sizeof(int)));
    OK(cudaMemset(counter, 0, COUNT * sizeof(int)));
    auto copied = [&](const int *from) {
        OK(cudaMemcpy(host, from, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
        return host;
    };
    if (count_ > 1 && !strcmp(arguments[1], "careless")) {
        OK(cudaMemset(values, 0, COUNT * sizeof(int)));
        produce<<<BLOCKS, THREADS, 0, stream>>>(values, 7);
        dependent(careless, BLOCKS, THREADS, stream, values, sums);
        for (int i = 0; i < COUNT; i++) IS(copied(sums)[0] == 0 && host[i] == 0);
        produce<<<BLOCKS, THREADS, 0, stream>>>(values, 8);
        dependent(half, BLOCKS, THREADS, stream, values, sums);
        IS(copied(sums)[COUNT - 1] == 7008);
        // The kernel between them does not wait: the third does not see the first.
        produce<<<BLOCKS, THREADS, 0, stream>>>(values, 9);
        dependent(produce, BLOCKS, THREADS, stream, own, 1);
        dependent(half, BLOCKS, THREADS, stream, values, sums);
        IS(copied(sums)[5] == 8008);
        // Without the attribute it sees everything.
        produce<<<BLOCKS, THREADS, 0, stream>>>(values, 10);
        half<<<BLOCKS, THREADS, 0, stream>>>(values, sums);
        IS(copied(sums)[5] == 10010);
        // The host has waited.
        produce<<<BLOCKS, THREADS, 0, stream>>>(values, 11);
        OK(cudaStreamSynchronize(stream));
        dependent(half, BLOCKS, THREADS, stream, values, sums);
        IS(copied(sums)[5] == 11011);
        printf("ok\n");
        return 0;
    }
    for (int round = 1; round <= 3; round++) {
        produce<<<BLOCKS, THREADS, 0, stream>>>(values, round);
        dependent(consume, BLOCKS, THREADS, stream, (const int *)values, sums, own);
        dependent(again, BLOCKS, THREADS, stream, sums);
        dependent(again, BLOCKS, THREADS, stream, sums);
        OK(cudaStreamSynchronize(stream));
        copied(sums);
        for (int i = 0; i < COUNT; i++) IS(host[i] == round * 10 + i + 2);
    }
    count<<<BLOCKS, THREADS, 0, stream>>>(counter);
    dependent(count, BLOCKS, THREADS, stream, counter);
    OK(cudaStreamSynchronize(stream));
    IS(copied(counter)[0] == 2 * COUNT * 101);

    // In a graph, twice.
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    produce<<<BLOCKS, THREADS, 0, stream>>>(values, 50);
    dependent(consume, BLOCKS, THREADS, stream, (const int *)values, sums, own);
    dependent(again, BLOCKS, THREADS, stream, sums);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 2; i++) OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    IS(copied(sums)[COUNT - 1] == 500 + COUNT);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));

    // A programmatic event must not measure time.
    cudaEvent_t event, timed;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaEventCreate(&timed));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticEvent;
    attribute.val.programmaticEvent.triggerAtBlockStart = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = BLOCKS;
    config.blockDim = THREADS;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.val.programmaticEvent.event = timed;
    IS(cudaLaunchKernelEx(&config, produce, values, 6) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    attribute.val.programmaticEvent.event = event;
    OK(cudaLaunchKernelEx(&config, produce, values, 6));
    cudaStream_t other;
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaStreamWaitEvent(other, event, 0));
    consume<<<BLOCKS, THREADS, 0, other>>>(values, sums, own);
    OK(cudaEventSynchronize(event));
    OK(cudaStreamSynchronize(other));
    IS(copied(sums)[9] == 69);

    OK(cudaEventDestroy(event));
    OK(cudaEventDestroy(timed));
    OK(cudaStreamDestroy(other));
    OK(cudaStreamDestroy(stream));
    for (int *memory : {values, sums, own, counter}) OK(cudaFree(memory));
    delete[] host;
    printf("ok\n");
}
