// Memory pools, and advice about managed memory.
#include "check.h"

__global__ void add(int *p, int by) { *p += by; }

static cudaStream_t stream;

static void pools() {
    cudaMemPool_t pool, current, usual;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    OK(cudaMemPoolCreate(&pool, &props));
    IS(cudaMemPoolCreate(nullptr, &props) == cudaErrorInvalidValue);
    OK(cudaDeviceGetDefaultMemPool(&usual, 0));
    OK(cudaDeviceGetMemPool(&current, 0));
    IS(current == usual && current != pool);
    OK(cudaDeviceSetMemPool(0, pool));
    OK(cudaDeviceGetMemPool(&current, 0));
    IS(current == pool);
#if CUDART_VERSION >= 13000
    cudaMemLocation here = props.location;
    OK(cudaMemGetDefaultMemPool(&current, &here, cudaMemAllocationTypePinned));
    IS(current == usual);
    OK(cudaMemSetMemPool(&here, cudaMemAllocationTypePinned, usual));
    OK(cudaMemGetMemPool(&current, &here, cudaMemAllocationTypePinned));
    IS(current == usual);
#endif
    OK(cudaDeviceSetMemPool(0, usual));
    int *p, value = 0;
    OK(cudaMallocFromPoolAsync(&p, 64, pool, stream));
    OK(cudaMemsetAsync(p, 0, 64, stream));
    add<<<1, 1, 0, stream>>>(p, 9);
    OK(cudaMemcpyAsync(&value, p, 4, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    IS(value == 9);
    unsigned long long used = 0;
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    IS(used >= 64);
    OK(cudaFreeAsync(p, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &used));
    IS(used == 0);
    cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
    cudaMemAccessDesc access = {};
    access.location = props.location;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    OK(cudaMemPoolSetAccess(pool, &access, 1));
    OK(cudaMemPoolGetAccess(&flags, pool, &access.location));
    IS(flags == cudaMemAccessFlagsProtReadWrite);
    OK(cudaMemPoolDestroy(pool));
    IS(cudaMemPoolDestroy(usual) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void advice() {
    char *p;
    size_t size = 1 << 16;
    OK(cudaMallocManaged(&p, size));
    int value = 7, both[2];
#if CUDART_VERSION >= 13000
    cudaMemLocation gpu = {}, cpu = {};
    gpu.type = cudaMemLocationTypeDevice;
    cpu.type = cudaMemLocationTypeHost;
    cudaMemLocation none = gpu;
    none.id = 99;
    OK(cudaMemAdvise(p, size, cudaMemAdviseSetReadMostly, gpu));
    OK(cudaMemAdvise(p, size / 2, cudaMemAdviseSetPreferredLocation, cpu));
    OK(cudaMemAdvise(p, size, cudaMemAdviseSetAccessedBy, gpu));
    OK(cudaMemPrefetchAsync(p, size, gpu, 0, stream));
    IS(cudaMemPrefetchAsync(p, size, none, 0, stream) == cudaErrorInvalidDevice);
    IS(cudaMemAdvise(p, size, (cudaMemoryAdvise)99, gpu) == cudaErrorInvalidValue);
    IS(cudaMemAdvise(p, size + 1, cudaMemAdviseSetReadMostly, gpu) == cudaErrorInvalidValue);
#else
    OK(cudaMemAdvise(p, size, cudaMemAdviseSetReadMostly, 0));
    OK(cudaMemAdvise(p, size / 2, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
    OK(cudaMemAdvise(p, size, cudaMemAdviseSetAccessedBy, 0));
    OK(cudaMemPrefetchAsync(p, size, 0, stream));
    IS(cudaMemPrefetchAsync(p, size, 99, stream) == cudaErrorInvalidDevice);
    IS(cudaMemAdvise(p, size, (cudaMemoryAdvise)99, 0) == cudaErrorInvalidValue);
#endif
    OK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, size));
    IS(value == 1);
    OK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributePreferredLocation, p, size / 2));
    IS(value == cudaCpuDeviceId);
    OK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributePreferredLocation, p, size));
    IS(value == cudaInvalidDeviceId);
    OK(cudaMemRangeGetAttribute(both, 8, cudaMemRangeAttributeAccessedBy, p, size));
    IS(both[0] == 0 && both[1] == cudaInvalidDeviceId);
    int prefetched = 7, type = 7;
    void *data[] = {&prefetched, &type};
    size_t sizes[] = {4, 4};
    cudaMemRangeAttribute attributes[] = {cudaMemRangeAttributeLastPrefetchLocation, cudaMemRangeAttributeLastPrefetchLocationType};
    OK(cudaMemRangeGetAttributes(data, sizes, attributes, 2, p + 16, 4096));
    IS(prefetched == 0 && type == cudaMemLocationTypeDevice);
    IS(cudaMemRangeGetAttribute(&value, 8, cudaMemRangeAttributeReadMostly, p, size) == cudaErrorInvalidValue);
    IS(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, size + 1) == cudaErrorInvalidValue);
    IS(cudaMemRangeGetAttribute(nullptr, 4, cudaMemRangeAttributeReadMostly, p, size) == cudaErrorInvalidValue);
#if CUDART_VERSION >= 13000
    void *ranges[] = {p, p + size / 2};
    size_t halves[] = {size / 2, size / 2}, first[] = {0, 1};
    cudaMemLocation both_places[] = {cpu, gpu};
    OK(cudaMemPrefetchBatchAsync(ranges, halves, 2, both_places, first, 2, 0, stream));
    OK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeLastPrefetchLocation, p, size / 2));
    IS(value == cudaCpuDeviceId);
    OK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeLastPrefetchLocation, p + size / 2, size / 2));
    IS(value == 0);
    OK(cudaMemDiscardBatchAsync(ranges, halves, 2, 0, stream));
    OK(cudaMemDiscardAndPrefetchBatchAsync(ranges, halves, 2, both_places, first, 1, 0, stream));
    OK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeLastPrefetchLocation, p, size));
    IS(value == cudaCpuDeviceId);
    first[0] = 1;
    IS(cudaMemPrefetchBatchAsync(ranges, halves, 2, both_places, first, 1, 0, stream) == cudaErrorInvalidValue);
    IS(cudaMemDiscardBatchAsync(ranges, halves, 2, 1, stream) == cudaErrorInvalidValue);
    unsigned none_native[2] = {9, 9};
    cudaAtomicOperation operations[] = {cudaAtomicOperationIntegerAdd, cudaAtomicOperationCAS};
    OK(cudaDeviceGetHostAtomicCapabilities(none_native, operations, 2, 0));
    IS(none_native[0] == 0 && none_native[1] == 0);
    IS(cudaDeviceGetHostAtomicCapabilities(none_native, operations, 0, 0) == cudaErrorInvalidValue);
    IS(cudaDeviceGetP2PAtomicCapabilities(none_native, operations, 2, 0, 0) == cudaErrorInvalidDevice);
#else
    double number = 1.5;
    OK(cudaSetDoubleForDevice(&number));
    IS(number == 1.5 && cudaSetDoubleForDevice(nullptr) == cudaErrorInvalidValue);
#endif
    OK(cudaStreamSynchronize(stream));
    OK(cudaFree(p));
    (void)cudaGetLastError();
}

int main() {
    OK(cudaStreamCreate(&stream));
    pools();
    advice();
    OK(cudaStreamDestroy(stream));
    puts("ok");
}
