// A graph and a kernel of another stream change the same memory.
#include "../runtime.h"

int main() {
    int *data;
    cudaStream_t one, two;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
    add<<<1, 16, 0, one>>>(data, 1);
    add<<<1, 16, 0, one>>>(data, 2);
    OK(cudaStreamEndCapture(one, &graph));
    OK(cudaGraphInstantiate(&ready, graph, 0));
    OK(cudaDeviceSynchronize());
    OK(cudaGraphLaunch(ready, one));
    add<<<1, 16, 0, two>>>(data, 1); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaGraphExecDestroy(ready));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(data));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    return 0;
}
