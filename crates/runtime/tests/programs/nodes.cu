// Parameters of graph nodes, in graphs and in executable graphs.
#include "check.h"
#include <cstring>

__device__ int number;
__global__ void add(int *p, int by) { *p += by; }

static cudaStream_t stream;
static int *p;
static int called;
static void call(void *data) { called += *(int *)data; }

static int result() {
    int value;
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    return value;
}

static void clear() {
    OK(cudaMemset(p, 0, 8));
    OK(cudaDeviceSynchronize());
}

static void launch(cudaGraphExec_t exec) {
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
}

static void kernels() {
    cudaGraph_t graph;
    cudaGraphNode_t one, two;
    OK(cudaGraphCreate(&graph, 0));
    int by = 3;
    void *arguments[] = {&p, &by};
    cudaKernelNodeParams params = {};
    params.func = (void *)add;
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    OK(cudaGraphAddKernelNode(&one, graph, nullptr, 0, &params));
    OK(cudaGraphAddKernelNode(&two, graph, &one, 1, &params));
    by = 40;
    OK(cudaGraphKernelNodeSetParams(two, &params));
    IS(cudaGraphKernelNodeSetParams(two, nullptr) == cudaErrorInvalidValue);
    cudaKernelNodeAttrValue value, found;
    memset(&value, 0, sizeof value);
    value.cooperative = 1;
    OK(cudaGraphKernelNodeSetAttribute(one, cudaLaunchAttributeCooperative, &value));
    OK(cudaGraphKernelNodeGetAttribute(two, cudaLaunchAttributeCooperative, &found));
    IS(found.cooperative == 0);
    OK(cudaGraphKernelNodeCopyAttributes(two, one));
    OK(cudaGraphKernelNodeGetAttribute(two, cudaLaunchAttributeCooperative, &found));
    IS(found.cooperative == 1);
    cudaGraphInstantiateParams how = {};
    how.flags = cudaGraphInstantiateFlagUpload;
    how.uploadStream = stream;
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiateWithParams(&exec, graph, &how));
    IS(how.result_out == cudaGraphInstantiateSuccess);
    unsigned long long flags = 99;
    OK(cudaGraphExecGetFlags(exec, &flags));
    IS(flags == cudaGraphInstantiateFlagUpload);
    OK(cudaGraphUpload(exec, stream));
    clear();
    launch(exec);
    IS(result() == 43);
    // Any kind of node has its parameters in one structure.
    cudaGraphNodeParams any = {};
    any.type = cudaGraphNodeTypeKernel;
    any.kernel.func = (void *)add;
    any.kernel.gridDim = any.kernel.blockDim = dim3(1);
    any.kernel.kernelParams = arguments;
    by = 500;
    OK(cudaGraphNodeSetParams(one, &any));
    cudaGraphExec_t again;
    OK(cudaGraphInstantiate(&again, graph, 0));
    clear();
    launch(again);
    IS(result() == 540);
    OK(cudaGraphExecDestroy(again));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

static void copies() {
    cudaGraph_t graph;
    cudaGraphNode_t node, to, from;
    OK(cudaGraphCreate(&graph, 0));
    static int first = 5, second = 6, back;
    cudaMemcpy3DParms parms = {};
    parms.srcPtr = make_cudaPitchedPtr(&first, 4, 4, 1);
    parms.dstPtr = make_cudaPitchedPtr(p, 4, 4, 1);
    parms.extent = make_cudaExtent(4, 1, 1);
    parms.kind = cudaMemcpyHostToDevice;
    OK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &parms));
    parms.srcPtr.ptr = &second;
    OK(cudaGraphMemcpyNodeSetParams(node, &parms));
    OK(cudaGraphAddMemcpyNodeToSymbol(&to, graph, &node, 1, number, &first, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaGraphMemcpyNodeSetParamsToSymbol(to, number, &second, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &to, 1, p, number, 4, 0, cudaMemcpyDeviceToDevice));
    OK(cudaGraphMemcpyNodeSetParamsFromSymbol(from, &back, number, 4, 0, cudaMemcpyDeviceToHost));
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    launch(exec);
    IS(result() == 6 && back == 6);
    parms.srcPtr.ptr = &first;
    OK(cudaGraphExecMemcpyNodeSetParams(exec, node, &parms));
    OK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, to, number, &first, 4, 0, cudaMemcpyHostToDevice));
    static int other;
    OK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, from, &other, number, 4, 0, cudaMemcpyDeviceToHost));
    launch(exec);
    IS(result() == 5 && other == 5 && back == 6);
    OK(cudaGraphMemcpyNodeSetParams1D(node, p, &second, 4, cudaMemcpyHostToDevice));
    cudaGraphExec_t again;
    OK(cudaGraphInstantiate(&again, graph, 0));
    launch(again);
    IS(result() == 6);
    OK(cudaGraphExecDestroy(again));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void hosts_and_children(const char *program) {
    cudaGraph_t graph, child, owned;
    cudaGraphNode_t host, inner, node;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphCreate(&child, 0));
    static int one = 1, ten = 10, hundred = 100;
    cudaHostNodeParams params = {call, &one}, found = {};
    OK(cudaGraphAddHostNode(&host, graph, nullptr, 0, &params));
    params.userData = &ten;
    OK(cudaGraphHostNodeSetParams(host, &params));
    OK(cudaGraphHostNodeGetParams(host, &found));
    IS(found.fn == call && found.userData == &ten);
    cudaMemsetParams set = {};
    set.dst = p;
    set.value = 7;
    set.elementSize = 4;
    set.width = set.height = 1;
    OK(cudaGraphAddMemsetNode(&inner, child, nullptr, 0, &set));
    OK(cudaGraphAddChildGraphNode(&node, graph, &host, 1, child));
    OK(cudaGraphChildGraphNodeGetGraph(node, &owned));
    IS(owned != child);
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    called = 0;
    launch(exec);
    IS(called == 10 && result() == 7);
    params.userData = &hundred;
    OK(cudaGraphExecHostNodeSetParams(exec, host, &params));
    set.value = 8;
    OK(cudaGraphMemsetNodeSetParams(inner, &set));
    OK(cudaGraphExecChildGraphNodeSetParams(exec, node, child));
    launch(exec);
    IS(called == 110 && result() == 8);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(child));
    char path[4096];
    snprintf(path, sizeof path, "%s.dot", program);
    OK(cudaGraphDebugDotPrint(graph, path, 0));
    char text[4096] = {};
    FILE *dot = fopen(path, "r");
    IS(dot && fread(text, 1, sizeof text - 1, dot) > 0);
    fclose(dot);
    remove(path);
    IS(strstr(text, "digraph") && strstr(text, "HOST") && strstr(text, "->"));
#if CUDART_VERSION >= 13000
    unsigned id, graph_id;
    OK(cudaGraphGetId(graph, &graph_id));
    OK(cudaGraphNodeGetLocalId(host, &id));
    char name[64];
    snprintf(name, sizeof name, "graph_%u_node_%u", graph_id, id);
    IS(strstr(text, name));
#endif
    OK(cudaGraphDestroy(graph));
}

static void events() {
    cudaGraph_t graph;
    cudaGraphNode_t wait;
    cudaEvent_t one, two, found;
    OK(cudaEventCreate(&one));
    OK(cudaEventCreate(&two));
    OK(cudaEventRecord(one, stream));
    OK(cudaEventRecord(two, stream));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEventWaitNode(&wait, graph, nullptr, 0, one));
    OK(cudaGraphEventWaitNodeSetEvent(wait, two));
    OK(cudaGraphEventWaitNodeGetEvent(wait, &found));
    IS(found == two);
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphExecEventWaitNodeSetEvent(exec, wait, one));
    launch(exec);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(one));
    OK(cudaEventDestroy(two));
}

static void memory_and_objects() {
    cudaGraph_t graph;
    cudaGraphNode_t allocate, release;
    OK(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams params = {}, found = {};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = 1024;
    OK(cudaGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &params));
    OK(cudaGraphMemAllocNodeGetParams(allocate, &found));
    IS(found.dptr == params.dptr && found.bytesize == 1024);
    OK(cudaGraphAddMemFreeNode(&release, graph, &allocate, 1, params.dptr));
    unsigned long long bytes = 0;
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &bytes));
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    launch(exec);
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &bytes));
    IS(bytes >= 1024);
    bytes = 0;
    OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &bytes));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaDeviceGraphMemTrim(0));

    static int one = 1;
    called = 0;
    cudaUserObject_t object;
    OK(cudaUserObjectCreate(&object, &one, call, 1, cudaUserObjectNoDestructorSync));
    OK(cudaUserObjectRetain(object, 2));
    OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    OK(cudaUserObjectRelease(object, 2));
    IS(called == 0);
    OK(cudaGraphReleaseUserObject(graph, object, 1));
    IS(called == 1);
    IS(cudaUserObjectRetain(object, 1) == cudaErrorInvalidValue);
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

int main(int, char **arguments) {
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&p, 8));
    OK(cudaMemset(p, 0, 8));
    kernels();
    copies();
    hosts_and_children(arguments[0]);
    events();
    memory_and_objects();
    OK(cudaFree(p));
    OK(cudaStreamDestroy(stream));
    puts("ok");
}
