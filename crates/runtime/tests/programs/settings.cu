// Settings of devices, kernels and streams.
#include "check.h"
#include <cstring>

// The wheels have no header of the profiler.
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);

__global__ void add(int *p, int by) { *p += by; }

static int called;
static void call(void *data) { called += *(int *)data; }

static void of_devices() {
    int device = 7, value = -1;
    IS(cudaSetDeviceFlags(cudaDeviceScheduleYield) == cudaSuccess);
    unsigned flags = 0;
    OK(cudaGetDeviceFlags(&flags));
    IS((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleYield);
    IS(cudaGetDeviceFlags(nullptr) == cudaErrorInvalidValue);
    OK(cudaInitDevice(0, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid));
    IS(cudaInitDevice(99, 0, 0) == cudaErrorInvalidDevice);
    int valid[] = {0};
    OK(cudaSetValidDevices(valid, 1));
    valid[0] = 99;
    IS(cudaSetValidDevices(valid, 1) == cudaErrorInvalidDevice);
    cudaDeviceProp wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.major = 8;
    wanted.totalGlobalMem = 1 << 20;
    OK(cudaChooseDevice(&device, &wanted));
    IS(device == 0);
    IS(cudaChooseDevice(nullptr, &wanted) == cudaErrorInvalidValue);
    IS(cudaChooseDevice(&device, nullptr) == cudaErrorInvalidValue);

    cudaFuncCache cache;
    OK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    OK(cudaDeviceGetCacheConfig(&cache));
    IS(cache == cudaFuncCachePreferL1 || cache == cudaFuncCachePreferNone);
    OK(cudaCtxResetPersistingL2Cache());
#if CUDART_VERSION < 13000
    cudaSharedMemConfig banks;
    OK(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeFourByte));
    OK(cudaDeviceGetSharedMemConfig(&banks));
    IS(banks == cudaSharedMemBankSizeFourByte || banks == cudaSharedMemBankSizeDefault);
    OK(cudaFuncSetSharedMemConfig((const void *)add, cudaSharedMemBankSizeFourByte));
    cudaDeviceProp found;
    OK(cudaGetDeviceProperties_v2(&found, 0));
    IS(found.major >= 8 && found.clockRate > 0);
#endif
    cudaChannelFormatDesc channels = cudaCreateChannelDesc<float>();
    size_t width = 0;
    OK(cudaDeviceGetTexture1DLinearMaxWidth(&width, &channels, 0));
    IS(width >= 1 << 27);
    IS(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 99) == cudaErrorInvalidDevice);
    OK(cudaProfilerStart());
    OK(cudaProfilerStop());
    (void)cudaGetLastError();
}

static void of_kernels() {
    size_t count = 0, offset = 0, size = 0;
    OK(cudaFuncGetParamInfo((const void *)add, 1, &offset, &size));
    IS(offset == 8 && size == 4);
    IS(cudaFuncGetParamInfo((const void *)add, 2, &offset, &size) == cudaErrorInvalidValue);
#if CUDART_VERSION >= 13000
    OK(cudaFuncGetParamCount((const void *)add, &count));
    IS(count == 2);
#endif
    (void)count;
    int blocks = 0, fewer = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, 0));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&fewer, add, 128, 0, cudaOccupancyDisableCachingOverride));
    IS(blocks > 0 && blocks == fewer);
    (void)cudaGetLastError();
}

static void of_streams() {
    int least = 0, greatest = 0, priority = 0, device = -1;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t high, other;
    OK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
    OK(cudaStreamCreate(&other));
    OK(cudaStreamGetPriority(high, &priority));
    IS(priority == greatest);
    unsigned flags = 0;
    OK(cudaStreamGetFlags(high, &flags));
    IS(flags == cudaStreamNonBlocking);
    unsigned long long id = 0, other_id = 0;
    OK(cudaStreamGetId(high, &id));
    OK(cudaStreamGetId(other, &other_id));
    IS(id != other_id);
    OK(cudaStreamGetDevice(high, &device));
    IS(device == 0);

    cudaStreamAttrValue value, found;
    memset(&value, 0, sizeof value);
    value.syncPolicy = cudaSyncPolicyYield;
    OK(cudaStreamSetAttribute(high, cudaStreamAttributeSynchronizationPolicy, &value));
    OK(cudaStreamGetAttribute(high, cudaStreamAttributeSynchronizationPolicy, &found));
    IS(found.syncPolicy == cudaSyncPolicyYield);
    OK(cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, &found));
    IS(found.syncPolicy == cudaSyncPolicyAuto);
    OK(cudaStreamGetAttribute(high, cudaStreamAttributePriority, &found));
    IS(found.priority == greatest);
    OK(cudaStreamCopyAttributes(other, high));
    OK(cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, &found));
    IS(found.syncPolicy == cudaSyncPolicyYield);
    value.accessPolicyWindow.base_ptr = &called;
    value.accessPolicyWindow.num_bytes = 4096;
    value.accessPolicyWindow.hitRatio = 0.5f;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    OK(cudaStreamSetAttribute(other, cudaStreamAttributeAccessPolicyWindow, &value));
    OK(cudaStreamGetAttribute(other, cudaStreamAttributeAccessPolicyWindow, &found));
    IS(found.accessPolicyWindow.num_bytes == 4096 && found.accessPolicyWindow.hitRatio == 0.5f);
    IS(cudaStreamGetAttribute(other, cudaLaunchAttributeCooperative, &found) == cudaErrorInvalidValue);
    IS(cudaStreamSetAttribute(other, cudaStreamAttributePriority, nullptr) == cudaErrorInvalidValue);

    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    OK(cudaEventRecordWithFlags(event, other, cudaEventRecordDefault));
    OK(cudaEventSynchronize(event));
    IS(cudaEventRecordWithFlags(event, other, 99) == cudaErrorInvalidValue);
    OK(cudaEventDestroy(event));

    int seven = 7;
#if CUDART_VERSION >= 13020
    OK(cudaLaunchHostFunc_v2(other, call, &seven, 0));
#else
    OK(cudaLaunchHostFunc(other, call, &seven));
#endif
    OK(cudaStreamSynchronize(other));
    IS(called == 7);

    int *managed;
    OK(cudaMallocManaged(&managed, 4));
    *managed = 1;
    OK(cudaStreamAttachMemAsync(other, managed, 0, cudaMemAttachSingle));
    add<<<1, 1, 0, other>>>(managed, 4);
    OK(cudaStreamSynchronize(other));
    IS(*managed == 5);
    IS(cudaStreamAttachMemAsync(other, managed, 0, 99) == cudaErrorInvalidValue);
    OK(cudaFree(managed));
    OK(cudaStreamDestroy(high));
    OK(cudaStreamDestroy(other));
    (void)cudaGetLastError();
}

static void of_captures() {
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    IS(mode == cudaStreamCaptureModeGlobal);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    IS(mode == cudaStreamCaptureModeRelaxed);
    int *p, value = 0;
    OK(cudaMalloc(&p, 4));
    OK(cudaMemset(p, 0, 4));
    cudaGraph_t graph, same;
    cudaGraphNode_t first;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEmptyNode(&first, graph, nullptr, 0));
    OK(cudaStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, cudaStreamCaptureModeGlobal));
    add<<<1, 1, 0, stream>>>(p, 3);
#if CUDART_VERSION < 13000
    cudaStreamCaptureStatus status;
    unsigned long long id;
    const cudaGraphNode_t *last;
    size_t count = 0;
    OK(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &same, &last, &count));
    IS(status == cudaStreamCaptureStatusActive && same == graph && count == 1);
#endif
    OK(cudaStreamEndCapture(stream, &same));
    IS(same == graph);
    size_t nodes = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    IS(nodes == 2);
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    IS(value == 3);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(p));
    OK(cudaStreamDestroy(stream));
}

int main() {
    of_devices();
    of_kernels();
    of_streams();
    of_captures();
    puts("ok");
}
