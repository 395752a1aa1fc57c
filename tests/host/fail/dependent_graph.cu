// A captured graph keeps the programmatic dependence.
//@device: h100
#include "../dependent.h"

static __global__ void produce(int *values) {
    cudaTriggerProgrammaticLaunchCompletion();
    values[threadIdx.x] = threadIdx.x;
}

static __global__ void consume(const int *values, int *out) {
    out[threadIdx.x] = values[threadIdx.x];
}

int main() {
    int *values, *out;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&values, 256));
    OK(cudaMalloc(&out, 256));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    produce<<<1, 64, 0, stream>>>(values);
    DEPENDENT(consume, 1, 64, stream, values, out);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream)); //~ stream-race
    OK(cudaStreamSynchronize(stream));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(values));
    OK(cudaFree(out));
    OK(cudaStreamDestroy(stream));
    return 0;
}
