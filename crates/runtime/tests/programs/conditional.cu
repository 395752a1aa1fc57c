// Conditional nodes of graphs, and numbers of graphs and nodes.
#include "check.h"

__global__ void countdown(cudaGraphConditionalHandle handle, int *n) {
    if (threadIdx.x == 0) {
        *n -= 1;
        cudaGraphSetConditional(handle, *n != 0);
    }
}
__global__ void set(cudaGraphConditionalHandle handle, int *value) { cudaGraphSetConditional(handle, *value); }
__global__ void add(int *p, int by) { *p += by; }

#if CUDART_VERSION >= 13000
#define ADD_NODE(node, graph, after, count, params) cudaGraphAddNode(node, graph, after, nullptr, count, params)
#else
#define ADD_NODE(node, graph, after, count, params) cudaGraphAddNode(node, graph, after, count, params)
#endif

template <typename... Arguments> static cudaGraphNode_t kernel(cudaGraph_t graph, cudaGraphNode_t *after, void (*f)(Arguments...), Arguments... arguments) {
    void *list[] = {&arguments...};
    cudaKernelNodeParams params = {};
    params.func = (void *)f;
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = list;
    cudaGraphNode_t node;
    OK(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &params));
    return node;
}

static cudaGraphNodeParams conditional(cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type, unsigned size) {
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    return params;
}

static int *p;
static int at(int i) {
    int value;
    OK(cudaMemcpy(&value, p + i, 4, cudaMemcpyDeviceToHost));
    return value;
}
static void put(int i, int value) { OK(cudaMemcpy(p + i, &value, 4, cudaMemcpyHostToDevice)); }
static void launch(cudaGraphExec_t exec) {
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
}

static void loop() {
    cudaGraph_t graph;
    OK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    IS(cudaGraphConditionalHandleCreate(nullptr, graph, 1, 0) == cudaErrorInvalidValue);
    IS(cudaGraphConditionalHandleCreate(&handle, graph, 1, 8) == cudaErrorInvalidValue);
    cudaGraphNodeParams params = conditional(handle, cudaGraphCondTypeWhile, 2);
    cudaGraphNode_t node;
    IS(ADD_NODE(&node, graph, nullptr, 0, &params) == cudaErrorInvalidValue);
    params.conditional.size = 1;
    OK(ADD_NODE(&node, graph, nullptr, 0, &params));
    cudaGraph_t body = params.conditional.phGraph_out[0];
    cudaGraphNode_t first = kernel(body, nullptr, add, p + 1, 10);
    kernel(body, &first, countdown, handle, p);
    cudaGraphNodeType type;
    OK(cudaGraphNodeGetType(node, &type));
    IS(type == cudaGraphNodeTypeConditional);
    cudaGraph_t clone;
    IS(cudaGraphClone(&clone, graph) == cudaErrorNotSupported);
    IS(cudaGraphDestroy(body) == cudaErrorInvalidValue);
#if CUDART_VERSION >= 13000
    cudaGraphNodeParams found = {};
    OK(cudaGraphNodeGetParams(node, &found));
    IS(found.conditional.handle == handle && found.conditional.phGraph_out[0] == body);
    cudaGraph_t containing;
    OK(cudaGraphNodeGetContainingGraph(first, &containing));
    IS(containing == body);
    unsigned one, two, of_exec;
    unsigned long long tools;
    OK(cudaGraphGetId(graph, &one));
    OK(cudaGraphGetId(body, &two));
    IS(one != two);
    OK(cudaGraphNodeGetLocalId(node, &one));
    OK(cudaGraphNodeGetLocalId(first, &two));
    IS(one != two);
    OK(cudaGraphNodeGetToolsId(node, &tools));
    IS(cudaGraphGetId(graph, nullptr) == cudaErrorInvalidValue);
#endif
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
#if CUDART_VERSION >= 13000
    OK(cudaGraphExecGetId(exec, &of_exec));
    OK(cudaGraphGetId(graph, &one));
    IS(of_exec != one);
#endif
    OK(cudaGraphDestroy(graph));
    // The default value is assigned at each launch.
    for (int round = 0; round < 2; round++) {
        put(0, 5);
        put(1, 0);
        launch(exec);
        IS(at(0) == 0 && at(1) == 50);
    }
    OK(cudaGraphExecDestroy(exec));
    (void)cudaGetLastError();
}

static void branches() {
    cudaGraph_t graph;
    OK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle chosen, which;
#if CUDART_VERSION >= 13000
    OK(cudaGraphConditionalHandleCreate_v2(&chosen, graph, nullptr, 0, 0));
#else
    OK(cudaGraphConditionalHandleCreate(&chosen, graph, 0, 0));
#endif
    OK(cudaGraphConditionalHandleCreate(&which, graph, 7, cudaGraphCondAssignDefault));
    cudaGraphNode_t setter = kernel(graph, nullptr, set, chosen, p), either, node;
    cudaGraphNodeParams params = conditional(chosen, cudaGraphCondTypeIf, 2);
    OK(ADD_NODE(&either, graph, &setter, 1, &params));
    kernel(params.conditional.phGraph_out[0], nullptr, add, p + 1, 1);
    // The body of the other branch is captured.
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCaptureToGraph(stream, params.conditional.phGraph_out[1], nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    add<<<1, 1, 0, stream>>>(p + 1, 100);
    // The graph is known, so it need not be asked for.
    OK(cudaStreamEndCapture(stream, nullptr));
    OK(cudaStreamDestroy(stream));
    cudaGraphNode_t second = kernel(graph, &either, set, which, p + 2);
    cudaGraphNodeParams cases = conditional(which, cudaGraphCondTypeSwitch, 3);
    OK(ADD_NODE(&node, graph, &second, 1, &cases));
    for (int i = 0; i < 3; i++) kernel(cases.conditional.phGraph_out[i], nullptr, add, p + 3, 1000 * (i + 1));
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    int total = 0;
    for (int i = 0; i < 5; i++) {
        put(0, i % 2), put(1, 0), put(2, i), put(3, 0);
        launch(exec);
        IS(at(1) == (i % 2 ? 1 : 100));
        IS(at(3) == (i < 3 ? 1000 * (i + 1) : 0));
        total++;
    }
    IS(total == 5);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

// A child graph that its node takes over.
static void moved() {
    cudaGraph_t graph, child, owned;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphCreate(&child, 0));
    kernel(child, nullptr, add, p + 1, 2);
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeGraph;
    params.graph.graph = child;
    params.graph.ownership = cudaGraphChildGraphOwnershipMove;
    cudaGraphNode_t node;
    OK(ADD_NODE(&node, graph, nullptr, 0, &params));
    OK(cudaGraphChildGraphNodeGetGraph(node, &owned));
    IS(owned == child);
    // It belongs to the node now, and cannot contain its own graph.
    IS(ADD_NODE(&node, graph, nullptr, 0, &params) == cudaErrorInvalidValue);
    IS(cudaGraphDestroy(child) == cudaErrorInvalidValue);
    params.graph.graph = graph;
    IS(ADD_NODE(&node, child, nullptr, 0, &params) == cudaErrorInvalidValue);
    kernel(child, nullptr, add, p + 2, 3);
    put(1, 0), put(2, 0);
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    launch(exec);
    IS(at(1) == 2 && at(2) == 3);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

static void nothing(void *) {}

// Bodies cannot call the host.
static void refused() {
    cudaGraph_t graph;
    OK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams params = conditional(handle, cudaGraphCondTypeIf, 1);
    cudaGraphNode_t node, inner;
    OK(ADD_NODE(&node, graph, nullptr, 0, &params));
    cudaHostNodeParams host = {nothing, nullptr};
    OK(cudaGraphAddHostNode(&inner, params.conditional.phGraph_out[0], nullptr, 0, &host));
    cudaGraphExec_t exec;
    IS(cudaGraphInstantiate(&exec, graph, 0) == cudaErrorInvalidValue);
    OK(cudaGraphDestroyNode(node));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

int main() {
    OK(cudaMalloc(&p, 16));
    OK(cudaMemset(p, 0, 16));
    loop();
    branches();
    moved();
    refused();
    OK(cudaFree(p));
    puts("ok");
}
