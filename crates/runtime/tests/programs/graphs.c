/* Graphs without kernels, with the ABI of each version. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;
typedef void *Node;
typedef struct {
    void *dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} Set;
typedef struct {
    void (*function)(void *);
    void *data;
} Host;
typedef struct {
    int kind, reserved[3];
    union {
        long long room[29];
        Set set;
        Host host;
        void *pointer;
    } of;
    long long last;
} Params;
typedef struct {
    int result;
    Node node, from;
} Update;

extern cudaError_t cudaGraphCreate(void **, unsigned);
extern cudaError_t cudaGraphDestroy(void *);
extern cudaError_t cudaGraphClone(void **, void *);
extern cudaError_t cudaGraphNodeFindInClone(Node *, Node, void *);
extern cudaError_t cudaGraphAddMemsetNode(Node *, void *, const Node *, size_t, const Set *);
extern cudaError_t cudaGraphMemsetNodeGetParams(Node, Set *);
extern cudaError_t cudaGraphMemsetNodeSetParams(Node, const Set *);
extern cudaError_t cudaGraphExecMemsetNodeSetParams(void *, Node, const Set *);
extern cudaError_t cudaGraphAddMemcpyNode1D(Node *, void *, const Node *, size_t, void *, const void *, size_t, int);
extern cudaError_t cudaGraphExecMemcpyNodeSetParams1D(void *, Node, void *, const void *, size_t, int);
extern cudaError_t cudaGraphAddHostNode(Node *, void *, const Node *, size_t, const Host *);
extern cudaError_t cudaGraphAddEmptyNode(Node *, void *, const Node *, size_t);
extern cudaError_t cudaGraphAddChildGraphNode(Node *, void *, const Node *, size_t, void *);
extern cudaError_t cudaGraphNodeGetType(Node, int *);
extern cudaError_t cudaGraphGetNodes(void *, Node *, size_t *);
extern cudaError_t cudaGraphGetRootNodes(void *, Node *, size_t *);
extern cudaError_t cudaGraphDestroyNode(Node);
extern cudaError_t cudaGraphInstantiate(void **, void *, unsigned long long);
extern cudaError_t cudaGraphLaunch(void *, void *);
extern cudaError_t cudaGraphExecUpdate(void *, void *, Update *);
extern cudaError_t cudaGraphNodeSetEnabled(void *, Node, unsigned);
extern cudaError_t cudaGraphNodeGetEnabled(void *, Node, unsigned *);
extern cudaError_t cudaGraphExecDestroy(void *);
extern cudaError_t cudaGraphExecNodeSetParams(void *, Node, Params *);
extern cudaError_t cudaGraphDebugDotPrint(void *, const char *, unsigned);
extern cudaError_t cudaUserObjectCreate(void **, void *, void (*)(void *), unsigned, unsigned);
extern cudaError_t cudaGraphRetainUserObject(void *, void *, unsigned, unsigned);
extern cudaError_t cudaStreamCreate(void **);
extern cudaError_t cudaStreamDestroy(void *);
extern cudaError_t cudaStreamSynchronize(void *);
extern cudaError_t cudaStreamBeginCapture(void *, int);
extern cudaError_t cudaStreamEndCapture(void *, void **);
extern cudaError_t cudaMemsetAsync(void *, int, size_t, void *);
extern cudaError_t cudaMalloc(void **, size_t);
extern cudaError_t cudaFree(void *);
extern cudaError_t cudaMemcpy(void *, const void *, size_t, int);
/* The data of edges is an argument since version 13. */
#if MAJOR == 13
extern cudaError_t cudaGraphAddDependencies(void *, const Node *, const Node *, const void *, size_t);
extern cudaError_t cudaGraphRemoveDependencies(void *, const Node *, const Node *, const void *, size_t);
extern cudaError_t cudaGraphGetEdges(void *, Node *, Node *, unsigned long long *, size_t *);
extern cudaError_t cudaGraphNodeGetDependencies(Node, Node *, unsigned long long *, size_t *);
extern cudaError_t cudaGraphNodeGetDependentNodes(Node, Node *, unsigned long long *, size_t *);
extern cudaError_t cudaGraphAddNode(Node *, void *, const Node *, const void *, size_t, Params *);
extern cudaError_t cudaGraphNodeGetParams(Node, Params *);
extern cudaError_t cudaStreamGetCaptureInfo(void *, int *, unsigned long long *, void **, const Node **, const void **, size_t *);
extern cudaError_t cudaStreamUpdateCaptureDependencies(void *, Node *, const void *, size_t, unsigned);
#define DATA NULL,
#define INFO(stream, status, id, graph, nodes, count) cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, NULL, count)
#else
extern cudaError_t cudaGraphAddDependencies(void *, const Node *, const Node *, size_t);
extern cudaError_t cudaGraphRemoveDependencies(void *, const Node *, const Node *, size_t);
extern cudaError_t cudaGraphGetEdges(void *, Node *, Node *, size_t *);
extern cudaError_t cudaGraphGetEdges_v2(void *, Node *, Node *, unsigned long long *, size_t *);
extern cudaError_t cudaGraphNodeGetDependencies(Node, Node *, size_t *);
extern cudaError_t cudaGraphNodeGetDependentNodes(Node, Node *, size_t *);
extern cudaError_t cudaGraphAddNode(Node *, void *, const Node *, size_t, Params *);
extern cudaError_t cudaStreamGetCaptureInfo(void *, int *, unsigned long long *);
extern cudaError_t cudaStreamGetCaptureInfo_v2(void *, int *, unsigned long long *, void **, const Node **, size_t *);
extern cudaError_t cudaStreamUpdateCaptureDependencies(void *, Node *, size_t, unsigned);
#define DATA
#define INFO cudaStreamGetCaptureInfo_v2
#endif

static void is(int condition, int line) {
    if (!condition) {
        fprintf(stderr, "line %d\n", line);
        exit(1);
    }
}
#define IS(condition) is((condition), __LINE__)
#define OK(call) is((call) == 0, __LINE__)

static unsigned numbers[64], more[64];
static int calls, destroyed;

static void call(void *data) {
    /* The copy before it is complete. */
    IS(numbers[0] == numbers[63] && numbers[0] != 0);
    calls += *(int *)data;
}

static void destroy(void *data) {
    destroyed += *(int *)data;
}

static void built(unsigned *memory) {
    void *graph, *executable, *object;
    Node set, copy, host, empty, found[8], to[8];
    int step = 3, kind;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaUserObjectCreate(&object, &step, destroy, 1, 1));
    OK(cudaGraphRetainUserObject(graph, object, 1, 1));
    Set parameters = {memory, 0, 7, 4, 64, 1}, seen;
    Host function = {call, &step};
    OK(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &parameters));
    OK(cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, numbers, memory, sizeof numbers, 2));
    OK(cudaGraphAddHostNode(&host, graph, NULL, 0, &function));
    OK(cudaGraphAddEmptyNode(&empty, graph, NULL, 0));
    OK(cudaGraphAddDependencies(graph, &copy, &host, DATA 1));
    OK(cudaGraphAddDependencies(graph, &empty, &set, DATA 1));
    IS(cudaGraphAddDependencies(graph, &copy, &copy, DATA 1) == 1);
    size_t count = 0;
    OK(cudaGraphGetNodes(graph, NULL, &count));
    IS(count == 4);
    count = 8;
    OK(cudaGraphGetRootNodes(graph, found, &count));
    IS(count == 1 && found[0] == empty);
    count = 8;
#if MAJOR == 13
    unsigned long long data[8];
    memset(data, 0xff, sizeof data);
    OK(cudaGraphGetEdges(graph, found, to, data, &count));
    IS(data[0] == 0 && data[2] == 0 && data[3] == ~0ull);
    IS(count == 3);
    count = 8;
    OK(cudaGraphNodeGetDependencies(host, found, NULL, &count));
    IS(count == 1 && found[0] == copy);
    count = 8;
    OK(cudaGraphNodeGetDependentNodes(set, found, NULL, &count));
#else
    OK(cudaGraphGetEdges(graph, found, to, &count));
    IS(count == 3);
    count = 8;
    OK(cudaGraphNodeGetDependencies(host, found, &count));
    IS(count == 1 && found[0] == copy);
    count = 8;
    OK(cudaGraphNodeGetDependentNodes(set, found, &count));
#endif
    IS(count == 1 && found[0] == copy);
    OK(cudaGraphRemoveDependencies(graph, &empty, &set, DATA 1));
    OK(cudaGraphDestroyNode(empty));
    OK(cudaGraphNodeGetType(host, &kind));
    IS(kind == 3);
    OK(cudaGraphMemsetNodeGetParams(set, &seen));
    IS(seen.dst == memory && seen.value == 7 && seen.element == 4 && seen.width == 64 && seen.height == 1);

    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, NULL));
    IS(calls == 3 && numbers[0] == 7 && numbers[63] == 7);
    /* Other parameters: in the executable graph, and in the graph. */
    parameters.value = 8;
    OK(cudaGraphExecMemsetNodeSetParams(executable, set, &parameters));
    OK(cudaGraphLaunch(executable, NULL));
    IS(calls == 6 && numbers[5] == 8);
    OK(cudaGraphExecMemcpyNodeSetParams1D(executable, copy, more, memory, sizeof more, 2));
    Params any = {.kind = 2, .of.set = parameters};
    any.of.set.value = 9;
    OK(cudaGraphExecNodeSetParams(executable, set, &any));
    OK(cudaGraphLaunch(executable, NULL));
    IS(calls == 9 && numbers[5] == 8 && more[5] == 9);
    parameters.value = 10;
    OK(cudaGraphMemsetNodeSetParams(set, &parameters));
    Update update;
    OK(cudaGraphExecUpdate(executable, graph, &update));
    IS(update.result == 0);
    OK(cudaGraphLaunch(executable, NULL));
    IS(numbers[5] == 10 && more[5] == 9);
    /* A node that does not run. */
    unsigned enabled = 7;
    OK(cudaGraphNodeSetEnabled(executable, copy, 0));
    OK(cudaGraphNodeGetEnabled(executable, copy, &enabled));
    IS(enabled == 0 && cudaGraphNodeSetEnabled(executable, host, 0) == 1);
    parameters.value = 11;
    OK(cudaGraphExecMemsetNodeSetParams(executable, set, &parameters));
    OK(cudaGraphLaunch(executable, NULL));
    IS(numbers[5] == 10);
    OK(cudaGraphNodeSetEnabled(executable, copy, 1));
    OK(cudaGraphLaunch(executable, NULL));
    IS(numbers[5] == 11);

    /* A copy of the graph, and a graph in a graph. */
    void *clone, *outer, *other;
    Node of_clone;
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphNodeFindInClone(&of_clone, set, clone));
    parameters.value = 12;
    OK(cudaGraphMemsetNodeSetParams(of_clone, &parameters));
    OK(cudaGraphCreate(&outer, 0));
    OK(cudaGraphAddChildGraphNode(&empty, outer, NULL, 0, clone));
    OK(cudaGraphInstantiate(&other, outer, 0));
    OK(cudaGraphLaunch(other, NULL));
    IS(numbers[5] == 12);
    IS(cudaGraphExecUpdate(executable, outer, &update) == 910 && update.result != 0);
    OK(cudaGraphExecDestroy(other));
    OK(cudaGraphDestroy(outer));
    OK(cudaGraphDestroy(clone));

    OK(cudaGraphDestroy(graph));
    IS(destroyed == 0);
    OK(cudaGraphExecDestroy(executable));
    IS(destroyed == 3);
    IS(cudaGraphLaunch(executable, NULL) != 0);
}

static void any_kind(unsigned *memory) {
    void *graph, *executable;
    Node set, copy;
    Params parameters = {.kind = 2, .of.set = {memory, 0, 0x1111, 2, 64, 1}};
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddNode(&set, graph, NULL, DATA 0, &parameters));
    OK(cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, numbers, memory, 128, 4));
    parameters.kind = 8;
    Node none;
    IS(cudaGraphAddNode(&none, graph, NULL, DATA 0, &parameters) == 801);
#if MAJOR == 13
    memset(&parameters, 0xff, sizeof parameters);
    OK(cudaGraphNodeGetParams(set, &parameters));
    IS(parameters.kind == 2 && parameters.of.set.dst == memory && parameters.of.set.value == 0x1111 && parameters.last == 0);
#endif
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, NULL));
    IS(numbers[31] == 0x11111111);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
}

static void captured(unsigned *memory) {
    void *stream, *graph, *seen, *executable;
    int status;
    unsigned long long id;
    size_t count;
    const Node *nodes;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, 0));
    OK(cudaMemsetAsync(memory, 1, 256, stream));
    OK(INFO(stream, &status, &id, &seen, &nodes, &count));
    IS(status == 1 && id != 0 && count == 1);
    Node first = nodes[0];
    OK(cudaMemsetAsync(memory, 2, 128, stream));
    /* The next node depends on the first one only. */
    OK(cudaStreamUpdateCaptureDependencies(stream, &first, DATA 1, 1));
    OK(cudaMemsetAsync(memory + 32, 3, 128, stream));
    OK(cudaStreamUpdateCaptureDependencies(stream, NULL, DATA 0, 0));
    IS(cudaStreamSynchronize(stream) == 900);
    IS(cudaStreamEndCapture(stream, &graph) == 901);

    OK(cudaStreamBeginCapture(stream, 0));
    OK(cudaMemsetAsync(memory, 1, 256, stream));
    OK(INFO(stream, &status, &id, &seen, &nodes, &count));
    first = nodes[0];
    OK(cudaMemsetAsync(memory, 2, 128, stream));
    Node second;
    OK(INFO(stream, &status, &id, &seen, &nodes, &count));
    second = nodes[0];
    OK(cudaStreamUpdateCaptureDependencies(stream, &first, DATA 1, 1));
    OK(cudaMemsetAsync(memory + 32, 3, 128, stream));
    OK(cudaStreamUpdateCaptureDependencies(stream, &second, DATA 1, 0));
    OK(cudaStreamEndCapture(stream, &graph));
    IS(graph == seen);
    count = 0;
    OK(cudaGraphGetNodes(graph, NULL, &count));
    IS(count == 3);
#if MAJOR == 12
    OK(cudaStreamGetCaptureInfo(stream, &status, &id));
    IS(status == 0);
    unsigned long long data[4];
    Node from[4], to[4];
    count = 4;
    OK(cudaGraphGetEdges_v2(graph, from, to, data, &count));
    IS(count == 2 && from[0] == first && from[1] == first && data[1] == 0);
#endif
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(numbers, memory, 256, 2));
    IS(numbers[0] == 0x02020202 && numbers[31] == 0x02020202 && numbers[32] == 0x03030303 && numbers[63] == 0x03030303);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
}

int main(void) {
    unsigned *memory;
    OK(cudaMalloc((void **)&memory, 256));
    built(memory);
    any_kind(memory);
    captured(memory);
    OK(cudaFree(memory));
    puts("ok");
    return 0;
}
