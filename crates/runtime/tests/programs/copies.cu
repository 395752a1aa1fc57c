// Copies and memsets of every shape, in stream order.
#include "check.h"
#include <cstring>

__device__ int numbers[4];

static cudaStream_t stream;

static void rows() {
    char from[64], back[64];
    for (int i = 0; i < 64; i++) from[i] = (char)i;
    char *p, *q;
    size_t pitch;
    OK(cudaMallocPitch(&p, &pitch, 8, 8));
    OK(cudaMemcpy2DAsync(p, pitch, from, 8, 8, 8, cudaMemcpyHostToDevice, stream));
    OK(cudaMemset2DAsync(p + pitch, pitch, 9, 2, 3, stream));
    OK(cudaMemcpy2DAsync(back, 8, p, pitch, 8, 8, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 64; i++) IS(back[i] == (i / 8 >= 1 && i / 8 < 4 && i % 8 < 2 ? 9 : i));
    IS(cudaMemcpy2DAsync(p, 4, from, 8, 8, 8, cudaMemcpyHostToDevice, stream) == cudaErrorInvalidPitchValue);
    (void)cudaGetLastError();

    cudaPitchedPtr cube;
    cudaExtent extent = make_cudaExtent(4, 4, 4);
    OK(cudaMalloc3D(&cube, extent));
    OK(cudaMemset3DAsync(cube, 5, extent, stream));
    cudaMemcpy3DParms part = {};
    part.srcPtr = make_cudaPitchedPtr(from, 4, 4, 4);
    part.dstPtr = cube;
    part.dstPos = make_cudaPos(0, 0, 1);
    part.extent = make_cudaExtent(4, 4, 2);
    part.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3DAsync(&part, stream));
    cudaMemcpy3DParms all = {};
    all.srcPtr = cube;
    all.dstPtr = make_cudaPitchedPtr(back, 4, 4, 4);
    all.extent = extent;
    all.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3DAsync(&all, stream));
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 64; i++) IS(back[i] == (i >= 16 && i < 48 ? i - 16 : 5));

    // The same device on both sides.
    OK(cudaMalloc(&q, 64));
    cudaMemcpy3DPeerParms peer = {};
    peer.srcPtr = cube;
    peer.dstPtr = make_cudaPitchedPtr(q, 4, 4, 4);
    peer.extent = extent;
    OK(cudaMemcpy3DPeer(&peer));
    OK(cudaMemcpy(back, q, 64, cudaMemcpyDeviceToHost));
    IS(back[0] == 5 && back[16] == 0 && back[47] == 31);
    OK(cudaMemset(q, 0, 64));
    OK(cudaMemcpy3DPeerAsync(&peer, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpyPeerAsync(q, 0, q + 16, 0, 16, stream));
    OK(cudaMemcpyAsync(back, q, 64, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    IS(back[0] == 0 && back[15] == 15 && back[47] == 31);
    OK(cudaFree(q));
    OK(cudaFree(cube.ptr));
    OK(cudaFree(p));
}

static void arrays() {
    int from[16], back[16];
    for (int i = 0; i < 16; i++) from[i] = 100 + i;
    cudaChannelFormatDesc channels = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    OK(cudaMallocArray(&array, &channels, 4, 4));
    OK(cudaMemcpy2DToArrayAsync(array, 0, 0, from, 16, 16, 4, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpy2DFromArrayAsync(back, 16, array, 0, 0, 16, 4, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    IS(memcmp(from, back, sizeof back) == 0);
    OK(cudaMemcpyToArrayAsync(array, 0, 1, from, 16, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyFromArrayAsync(back, array, 4, 1, 12, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    IS(back[0] == 101 && back[2] == 103);
    OK(cudaFreeArray(array));
}

static void symbols() {
    int from[] = {1, 2, 3, 4}, back[4] = {};
    OK(cudaMemcpyToSymbolAsync(numbers, from, 12, 4, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyFromSymbolAsync(back, numbers, 16, 0, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    IS(back[0] == 0 && back[1] == 1 && back[3] == 3);
}

static void batches() {
    int from[8], back[8] = {}, *p;
    for (int i = 0; i < 8; i++) from[i] = i * i;
    OK(cudaMalloc(&p, sizeof from));
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t sizes[] = {16, 16}, first[] = {0};
    cudaMemcpy3DBatchOp ops[2] = {};
    for (int i = 0; i < 2; i++) {
        ops[i].src.type = ops[i].dst.type = cudaMemcpyOperandTypePointer;
        ops[i].src.op.ptr.ptr = p + 4 * i;
        ops[i].dst.op.ptr.ptr = back + 4 - 4 * i;
        ops[i].extent = make_cudaExtent(16, 1, 1);
        ops[i].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    }
#if CUDART_VERSION >= 13000
    void *to[] = {p, p + 4};
    const void *sources[] = {from, from + 4};
    OK(cudaMemcpyBatchAsync((const void **)to, sources, sizes, 2, &attributes, first, 1, stream));
    OK(cudaMemcpy3DBatchAsync(2, ops, 0, stream));
#else
    void *to[] = {p, p + 4}, *sources[] = {from, from + 4};
    size_t failed = 7;
    OK(cudaMemcpyBatchAsync(to, sources, sizes, 2, &attributes, first, 1, &failed, stream));
    OK(cudaMemcpy3DBatchAsync(2, ops, &failed, 0, stream));
    ops[1].src.op.ptr.ptr = nullptr;
    IS(cudaMemcpy3DBatchAsync(2, ops, &failed, 0, stream) == cudaErrorInvalidValue && failed == 1);
    ops[1].src.op.ptr.ptr = p + 4;
    (void)cudaGetLastError();
#endif
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 8; i++) IS(back[i] == from[i < 4 ? i + 4 : i - 4]);

    // Into an array, from an offset.
    cudaArray_t array;
    cudaChannelFormatDesc channels = cudaCreateChannelDesc<int>();
    OK(cudaMallocArray(&array, &channels, 4, 2));
    ops[0].dst.type = cudaMemcpyOperandTypeArray;
    ops[0].dst.op.array.array = array;
    ops[0].dst.op.array.offset = {0, 0, 0};
    ops[0].src.op.ptr.ptr = p;
    ops[0].src.op.ptr.rowLength = 4;
    ops[0].src.op.ptr.layerHeight = 2;
    ops[0].extent = make_cudaExtent(4, 2, 1);
#if CUDART_VERSION >= 13000
    OK(cudaMemcpy3DBatchAsync(1, ops, 0, stream));
#else
    OK(cudaMemcpy3DBatchAsync(1, ops, nullptr, 0, stream));
#endif
    OK(cudaMemcpy2DFromArrayAsync(back, 16, array, 0, 0, 16, 2, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    IS(memcmp(from, back, sizeof back) == 0);
    OK(cudaFreeArray(array));
#if CUDART_VERSION >= 13020
    memset(back, 0, sizeof back);
    OK(cudaMemcpyWithAttributesAsync(back, p, sizeof back, &attributes, stream));
    OK(cudaStreamSynchronize(stream));
    IS(memcmp(from, back, sizeof back) == 0);
    IS(cudaMemcpy3DWithAttributesAsync(nullptr, 0, stream) == cudaErrorInvalidValue);
    OK(cudaMemcpy3DWithAttributesAsync(&ops[1], 0, stream));
    OK(cudaStreamSynchronize(stream));
    IS(back[0] == 16 && back[3] == 49);
    (void)cudaGetLastError();
#endif
    OK(cudaFree(p));
}

int main() {
    OK(cudaStreamCreate(&stream));
    rows();
    arrays();
    symbols();
    batches();
    OK(cudaStreamDestroy(stream));
    puts("ok");
}
