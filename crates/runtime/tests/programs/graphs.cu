// Graphs of kernels, built and captured, as in NVIDIA's simpleCudaGraphs and graphMemoryNodes.
#include <cstring>
#include <vector>

#include "check.h"

static const int count = 1 << 12, blocks = 8, threads = 128;

__device__ int offset;

__global__ void reduce(const int *in, long long *out) {
    __shared__ long long sums[threads];
    long long sum = 0;
    for (int i = blockIdx.x * threads + threadIdx.x; i < count; i += blocks * threads)
        sum += in[i];
    sums[threadIdx.x] = sum;
    for (int step = threads / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = sums[0];
}

__global__ void finish(const long long *in, long long *out, long long scale) {
    long long sum = 0;
    for (int i = 0; i < blocks; i++)
        sum += in[i];
    *out = sum * scale + offset;
}

__global__ void fill(int *out, int value) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

static int runs;
static long long last;

static void note(void *data) {
    runs++;
    last = *(long long *)data;
}

static void built(const std::vector<int> &numbers, long long sum) {
    int *in, add = 5;
    long long *part, *out, result = 0, scale = 2;
    OK(cudaMalloc(&in, count * sizeof(int)));
    OK(cudaMalloc(&part, blocks * sizeof(long long)));
    OK(cudaMalloc(&out, sizeof(long long)));
    cudaGraph_t graph;
    OK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t copy, clear, variable, first, second, back, host, from;
    cudaMemcpy3DParms copied = {};
    copied.srcPtr = make_cudaPitchedPtr((void *)numbers.data(), count * sizeof(int), count, 1);
    copied.dstPtr = make_cudaPitchedPtr(in, count * sizeof(int), count, 1);
    copied.extent = make_cudaExtent(count * sizeof(int), 1, 1);
    copied.kind = cudaMemcpyHostToDevice;
    OK(cudaGraphAddMemcpyNode(&copy, graph, nullptr, 0, &copied));
    cudaMemsetParams cleared = {};
    cleared.dst = part;
    cleared.elementSize = 4;
    cleared.width = blocks * 2;
    cleared.height = 1;
    OK(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &cleared));
    OK(cudaGraphAddMemcpyNodeToSymbol(&variable, graph, nullptr, 0, offset, &add, sizeof add, 0, cudaMemcpyHostToDevice));
    cudaKernelNodeParams launch = {};
    void *arguments[] = {&in, &part};
    launch.func = (void *)reduce;
    launch.gridDim = dim3(blocks);
    launch.blockDim = dim3(threads);
    launch.kernelParams = arguments;
    cudaGraphNode_t before[] = {copy, clear};
    OK(cudaGraphAddKernelNode(&first, graph, before, 2, &launch));
    void *others[] = {&part, &out, &scale};
    launch.func = (void *)finish;
    launch.gridDim = launch.blockDim = dim3(1);
    launch.kernelParams = others;
    cudaGraphNode_t both[] = {first, variable};
    OK(cudaGraphAddKernelNode(&second, graph, both, 2, &launch));
    OK(cudaGraphAddMemcpyNode1D(&back, graph, &second, 1, &result, out, sizeof result, cudaMemcpyDeviceToHost));
    cudaHostNodeParams called = {note, &result};
    OK(cudaGraphAddHostNode(&host, graph, &back, 1, &called));
    int seen = 0;
    OK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &second, 1, &seen, offset, sizeof seen, 0, cudaMemcpyDeviceToHost));

    // What the nodes show.
    size_t number = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &number));
    IS(number == 8);
    cudaKernelNodeParams shown = {};
    OK(cudaGraphKernelNodeGetParams(second, &shown));
    IS(shown.func == (void *)finish && shown.gridDim.x == 1 && *(long long *)shown.kernelParams[2] == 2);
    cudaMemcpy3DParms moved = {};
    OK(cudaGraphMemcpyNodeGetParams(copy, &moved));
    IS(moved.srcPtr.ptr == numbers.data() && moved.dstPtr.ptr == in && moved.extent.width == count * sizeof(int));
    IS(moved.kind == cudaMemcpyHostToDevice && moved.dstArray == nullptr);

    cudaGraphExec_t executable;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    for (int i = 1; i <= 3; i++) {
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
        IS(runs == i && last == sum * 2 + 5 && seen == 5);
    }
    // Another argument.
    scale = 3;
    launch.func = shown.func;
    OK(cudaGraphExecKernelNodeSetParams(executable, second, &launch));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    IS(last == sum * 3 + 5);
    // A copy with its own life.
    cudaGraph_t clone;
    cudaGraphExec_t other;
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphInstantiate(&other, clone, 0));
    OK(cudaGraphLaunch(other, stream));
    OK(cudaStreamSynchronize(stream));
    IS(last == sum * 2 + 5 && runs == 5);
    // Grids that no device accepts.
    cudaGraphNode_t none;
    launch.blockDim = dim3(2048);
    IS(cudaGraphAddKernelNode(&none, clone, nullptr, 0, &launch) == cudaErrorInvalidConfiguration);
    IS(cudaGetLastError() == cudaErrorInvalidConfiguration);
    OK(cudaGraphExecDestroy(other));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(clone));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(in));
    OK(cudaFree(part));
    OK(cudaFree(out));
}

static void captured(const std::vector<int> &numbers, long long sum) {
    int *in;
    long long *part, *out, result = 0;
    OK(cudaMalloc(&in, count * sizeof(int)));
    OK(cudaMalloc(&part, blocks * sizeof(long long)));
    OK(cudaMalloc(&out, sizeof(long long)));
    cudaStream_t stream, side;
    cudaEvent_t fork, join;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreate(&side));
    OK(cudaEventCreate(&fork));
    OK(cudaEventCreate(&join));
    cudaGraph_t graph;
    cudaStreamCaptureStatus status;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(side, fork, 0));
    OK(cudaMemcpyAsync(in, numbers.data(), count * sizeof(int), cudaMemcpyHostToDevice, stream));
    OK(cudaMemsetAsync(part, 0, blocks * sizeof(long long), side));
    OK(cudaEventRecord(join, side));
    OK(cudaStreamWaitEvent(stream, join, 0));
    reduce<<<blocks, threads, 0, stream>>>(in, part);
    finish<<<1, 1, 0, stream>>>(part, out, 7);
    OK(cudaMemcpyAsync(&result, out, sizeof result, cudaMemcpyDefault, stream));
    OK(cudaLaunchHostFunc(stream, note, &result));
    OK(cudaStreamIsCapturing(stream, &status));
    IS(status == cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(stream, &graph));
    IS(result == 0);
    size_t number = 0, edges = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &number));
#if CUDART_VERSION >= 13000
    OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
#else
    OK(cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
#endif
    IS(number == 6 && edges == 5);
    cudaGraphExec_t executable;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    int zero = 0;
    OK(cudaMemcpyToSymbol(offset, &zero, sizeof zero));
    int before = runs;
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    IS(result == sum * 7 && runs == before + 1 && last == result);

    // The same work with other parameters.
    cudaGraph_t again;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(side, fork, 0));
    OK(cudaMemcpyAsync(in, numbers.data(), count * sizeof(int), cudaMemcpyHostToDevice, stream));
    OK(cudaMemsetAsync(part, 0, blocks * sizeof(long long), side));
    OK(cudaEventRecord(join, side));
    OK(cudaStreamWaitEvent(stream, join, 0));
    reduce<<<blocks, threads, 0, stream>>>(in, part);
    finish<<<1, 1, 0, stream>>>(part, out, 11);
    OK(cudaMemcpyAsync(&result, out, sizeof result, cudaMemcpyDefault, stream));
    OK(cudaLaunchHostFunc(stream, note, &result));
    OK(cudaStreamEndCapture(stream, &again));
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphExecUpdate(executable, again, &info));
    IS(info.result == cudaGraphExecUpdateSuccess);
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    IS(result == sum * 11);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphDestroy(again));

    // Work that waits for a capture is an error, which ends the capture.
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    fill<<<1, 32, 0, stream>>>(in, 1);
    IS(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    IS(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && graph == nullptr);
    cudaGetLastError();
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
    OK(cudaStreamDestroy(side));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(in));
    OK(cudaFree(part));
    OK(cudaFree(out));
}

// Memory that the graph allocates and frees, through nodes and through capture.
static void allocated() {
    cudaGraph_t graph;
    cudaGraphNode_t allocation, kernel, back, release;
    OK(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams asked = {};
    asked.poolProps.allocType = cudaMemAllocationTypePinned;
    asked.poolProps.location.type = cudaMemLocationTypeDevice;
    asked.poolProps.location.id = 0;
    asked.bytesize = 256;
    OK(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &asked));
    IS(asked.dptr != nullptr);
    int value = 42;
    std::vector<int> result(64);
    cudaGraphNodeParams launch = {};
    void *arguments[] = {&asked.dptr, &value};
    launch.type = cudaGraphNodeTypeKernel;
    launch.kernel.func = (void *)fill;
    launch.kernel.gridDim = dim3(2);
    launch.kernel.blockDim = dim3(32);
    launch.kernel.kernelParams = arguments;
#if CUDART_VERSION >= 13000
    OK(cudaGraphAddNode(&kernel, graph, &allocation, nullptr, 1, &launch));
#else
    OK(cudaGraphAddNode(&kernel, graph, &allocation, 1, &launch));
#endif
    OK(cudaGraphAddMemcpyNode1D(&back, graph, &kernel, 1, result.data(), asked.dptr, 256, cudaMemcpyDeviceToHost));
    OK(cudaGraphAddMemFreeNode(&release, graph, &back, 1, asked.dptr));
    void *released = nullptr;
    OK(cudaGraphMemFreeNodeGetParams(release, &released));
    IS(released == asked.dptr);
    cudaGraphExec_t executable;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, 0));
    OK(cudaDeviceSynchronize());
    IS(result[0] == 42 && result[63] == 42);
    value = 43;
    OK(cudaGraphExecNodeSetParams(executable, kernel, &launch));
    OK(cudaGraphLaunch(executable, 0));
    OK(cudaDeviceSynchronize());
    IS(result[0] == 43 && result[63] == 43);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));

    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    int *memory;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync(&memory, 256, stream));
    fill<<<2, 32, 0, stream>>>(memory, 44);
    OK(cudaMemcpyAsync(result.data(), memory, 256, cudaMemcpyDeviceToHost, stream));
    OK(cudaFreeAsync(memory, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < 2; i++) {
        result[0] = 0;
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
        IS(result[0] == 44 && result[63] == 44);
    }
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
}

// Events in graphs, and copies of arrays.
static void events_and_arrays() {
    cudaGraph_t graph;
    cudaGraphNode_t in, out, record;
    cudaEvent_t first, second, seen;
    OK(cudaEventCreate(&first));
    OK(cudaEventCreate(&second));
    cudaChannelFormatDesc channels = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    OK(cudaMallocArray(&array, &channels, 8, 4));
    std::vector<int> numbers(32), back(32);
    for (int i = 0; i < 32; i++)
        numbers[i] = i * i;
    OK(cudaGraphCreate(&graph, 0));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(numbers.data(), 32, 8, 4);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(8, 4, 1);
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaGraphAddMemcpyNode(&in, graph, nullptr, 0, &copy));
    memset(&copy, 0, sizeof copy);
    copy.srcArray = array;
    copy.srcPos = make_cudaPos(2, 1, 0);
    copy.dstPtr = make_cudaPitchedPtr(back.data(), 16, 4, 3);
    copy.extent = make_cudaExtent(4, 3, 1);
    copy.kind = cudaMemcpyDeviceToHost;
    OK(cudaGraphAddMemcpyNode(&out, graph, &in, 1, &copy));
    cudaMemcpy3DParms shown = {};
    OK(cudaGraphMemcpyNodeGetParams(out, &shown));
    IS(shown.srcArray == array && shown.srcPos.x == 2 && shown.srcPos.y == 1 && shown.extent.width == 4);
    IS(shown.dstPtr.ptr == back.data() && shown.srcPtr.ptr == nullptr && shown.kind == cudaMemcpyDeviceToHost);
    OK(cudaGraphAddEventRecordNode(&record, graph, &out, 1, first));
    OK(cudaGraphEventRecordNodeSetEvent(record, second));
    OK(cudaGraphEventRecordNodeGetEvent(record, &seen));
    IS(seen == second);
    cudaGraphExec_t executable;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphExecEventRecordNodeSetEvent(executable, record, first));
    OK(cudaGraphLaunch(executable, 0));
    OK(cudaEventSynchronize(first));
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 4; x++)
            IS(back[4 * y + x] == numbers[8 * (y + 1) + x + 2]);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaFreeArray(array));
    OK(cudaEventDestroy(first));
    OK(cudaEventDestroy(second));
}

int main() {
    std::vector<int> numbers(count);
    long long sum = 0;
    for (int i = 0; i < count; i++)
        sum += numbers[i] = i % 255;
    built(numbers, sum);
    captured(numbers, sum);
    allocated();
    events_and_arrays();
    puts("ok");
}
