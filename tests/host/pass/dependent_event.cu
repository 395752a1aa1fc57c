// A programmatic event lets a kernel of another stream start; the kernel does not wait.
//@device: h100
#include "../dependent.h"

static __global__ void produce(int *values) {
    cudaTriggerProgrammaticLaunchCompletion();
    values[threadIdx.x] = threadIdx.x;
}

static __global__ void consume(const int *values, int *out) {
    cudaGridDependencySynchronize();
    out[threadIdx.x] = values[threadIdx.x];
}

int main() {
    int *values, *out;
    cudaStream_t one, two;
    cudaEvent_t event;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaMalloc(&values, 256));
    OK(cudaMalloc(&out, 256));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticEvent;
    attribute.val.programmaticEvent.event = event;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 64;
    config.stream = one;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, produce, values));
    OK(cudaStreamWaitEvent(two, event, 0));
    consume<<<1, 64, 0, two>>>(values, out);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(values));
    OK(cudaFree(out));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return 0;
}
