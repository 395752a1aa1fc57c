// All kinds of memory and copies.
#include "check.h"
#include <cstring>
#include <vector>

__device__ int counter;
__device__ float table[16];
__constant__ int scale;

__global__ void twice(int *p, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) p[i] *= 2;
}
__global__ void use(int *out) {
    atomicAdd(&counter, 1);
    table[threadIdx.x] = threadIdx.x * scale;
    if (threadIdx.x == 0) *out = scale;
}
__global__ void mark(char *base, size_t pitch, int w, int h, int d) {
    for (int z = 0; z < d; z++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) base[(z * h + y) * pitch + x] = (char)(x + 10 * y + 50 * z);
}

int main() {
    // Symbols
    int s = 3, c = 0;
    OK(cudaMemcpyToSymbol(scale, &s, 4));
    OK(cudaMemcpyToSymbol(counter, &c, 4));
    int *out;
    OK(cudaMalloc(&out, 4));
    use<<<1, 16>>>(out);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpyFromSymbol(&c, counter, 4));
    IS(c == 16);
    float t[4];
    OK(cudaMemcpyFromSymbol(t, table, 16, 12 * 4));
    IS(t[0] == 36 && t[3] == 45);
    void *address;
    size_t size;
    OK(cudaGetSymbolAddress(&address, table));
    OK(cudaGetSymbolSize(&size, table));
    IS(size == 64);
    OK(cudaMemcpy(t, (char *)address + 4, 4, cudaMemcpyDeviceToHost));
    IS(t[0] == 3);
    IS(cudaGetSymbolSize(&size, &s) == cudaErrorInvalidSymbol);
    (void)cudaGetLastError();
    OK(cudaFree(out));

    // Pinned, registered, managed
    int *pinned, *device_view, *managed;
    OK(cudaMallocHost(&pinned, 400));
    for (int i = 0; i < 100; i++) pinned[i] = i;
    OK(cudaHostGetDevicePointer(&device_view, pinned, 0));
    twice<<<1, 128>>>(device_view, 100);
    OK(cudaDeviceSynchronize());
    IS(pinned[99] == 198);
    OK(cudaMallocManaged(&managed, 400));
    for (int i = 0; i < 100; i++) managed[i] = i;
    twice<<<1, 128>>>(managed, 100);
    OK(cudaDeviceSynchronize());
    IS(managed[50] == 100);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, managed));
    IS(attributes.type == cudaMemoryTypeManaged && attributes.device == 0);
    OK(cudaPointerGetAttributes(&attributes, pinned));
    IS(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    OK(cudaPointerGetAttributes(&attributes, &s));
    IS(attributes.type == cudaMemoryTypeUnregistered);
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
    std::vector<int> own(4096, 1);
    OK(cudaHostRegister(own.data(), own.size() * 4, cudaHostRegisterDefault));
    OK(cudaHostGetDevicePointer(&device_view, own.data(), 0));
    twice<<<16, 256>>>(device_view, 4096);
    OK(cudaDeviceSynchronize());
    IS(own[4095] == 2);
    OK(cudaHostUnregister(own.data()));
    unsigned flags;
    OK(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped | cudaHostAllocPortable));
    OK(cudaHostGetFlags(&flags, pinned));
    IS(flags & cudaHostAllocMapped);
    OK(cudaFreeHost(pinned));

    // 2D and 3D
    char *rows;
    size_t pitch;
    OK(cudaMallocPitch(&rows, &pitch, 5, 4));
    IS(pitch >= 5);
    OK(cudaMemset2D(rows, pitch, 0, 5, 4));
    mark<<<1, 1>>>(rows, pitch, 5, 4, 1);
    char packed[20];
    OK(cudaMemcpy2D(packed, 5, rows, pitch, 5, 4, cudaMemcpyDeviceToHost));
    IS(packed[0] == 0 && packed[4] == 4 && packed[5] == 10 && packed[19] == 34);
    IS(cudaMemcpy2D(packed, 4, rows, pitch, 5, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidPitchValue);
    (void)cudaGetLastError();
    OK(cudaFree(rows));
    cudaPitchedPtr cube;
    cudaExtent extent = make_cudaExtent(6, 4, 3);
    OK(cudaMalloc3D(&cube, extent));
    IS(cube.xsize == 6 && cube.ysize == 4);
    OK(cudaMemset3D(cube, 1, extent));
    char all[72];
    cudaMemcpy3DParms parms = {};
    parms.srcPtr = cube;
    parms.dstPtr = make_cudaPitchedPtr(all, 6, 6, 4);
    parms.extent = extent;
    parms.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&parms));
    for (char value : all) IS(value == 1);
    mark<<<1, 1>>>((char *)cube.ptr, cube.pitch, 6, 4, 3);
    parms.srcPos = make_cudaPos(1, 1, 2);
    parms.extent = make_cudaExtent(2, 2, 1);
    OK(cudaMemcpy3D(&parms));
    IS(all[0] == 111 && all[1] == 112 && all[6] == 121);
    OK(cudaFree(cube.ptr));

    // Pools
    int *async;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocAsync(&async, 400, stream));
    OK(cudaMemsetAsync(async, 0, 400, stream));
    twice<<<1, 100, 0, stream>>>(async, 100);
    OK(cudaFreeAsync(async, stream));
    OK(cudaStreamSynchronize(stream));
    cudaMemPool_t pool;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long threshold = 1 << 20, read = 0;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read));
    IS(read == threshold);
    OK(cudaStreamDestroy(stream));

    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    IS(free_bytes <= total && total > 0);
    void *none = &s;
    OK(cudaMalloc(&none, 0));
    IS(none == nullptr);
    IS(cudaMalloc(&none, total * 2) == cudaErrorMemoryAllocation);
    IS(cudaGetLastError() == cudaErrorMemoryAllocation);
    puts("ok");
}
