/* Attention of two sequences through the C interface, on the first CUDA device.
 *
 *     cc -I include -I "$CUDA_HOME/include" examples/first_call.c -o first_call -lwarpproof_attention -lcuda
 *
 * Without a GPU: `warpproof exec -- ./first_call`. examples/first_call.rs and python/sample/attention.py compute the same and
 * print the same line. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "warpproof_attention.h"

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, ROWS = 192, DIM = 64 };

static void check(CUresult code, const char *what)
{
    const char *name = "unknown error";
    if (code == CUDA_SUCCESS)
        return;
    cuGetErrorName(code, &name);
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

/* The next code: a sign, and a magnitude between 2^-4 and 1.75. */
static unsigned char next_code(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (unsigned char)((*state >> 24 & 0x80) | (0x18 + (*state >> 16 & 0x1f)));
}

/* A tensor of codes [batch][row][head][element] in device memory. */
static wpa_tensor tensor(unsigned heads, uint32_t seed)
{
    const size_t bytes = (size_t)BATCH * ROWS * heads * DIM;
    unsigned char *codes = malloc(bytes);
    wpa_tensor tensor = {0, (uint64_t)ROWS * heads * DIM, DIM, (uint64_t)heads * DIM};
    CUdeviceptr data;
    if (codes == NULL)
        exit(1);
    for (size_t i = 0; i < bytes; i++)
        codes[i] = next_code(&seed);
    check(cuMemAlloc(&data, bytes), "cuMemAlloc");
    check(cuMemcpyHtoD(data, codes, bytes), "cuMemcpyHtoD");
    free(codes);
    tensor.data = data;
    return tensor;
}

/* Scales of heads: 0.5, 0.75, 1, 1.25, and again. */
static CUdeviceptr scales(unsigned heads)
{
    float values[BATCH * HEADS];
    CUdeviceptr data;
    for (unsigned i = 0; i < BATCH * heads; i++)
        values[i] = 0.5f + 0.25f * (i % 4);
    check(cuMemAlloc(&data, BATCH * heads * sizeof *values), "cuMemAlloc");
    check(cuMemcpyHtoD(data, values, BATCH * heads * sizeof *values), "cuMemcpyHtoD");
    return data;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");

    wpa_request request = {0};
    request.size = sizeof request;
    request.batch = BATCH;
    request.heads = HEADS;
    request.kv_heads = KV_HEADS;
    request.head_dim = DIM;
    request.queries = request.keys = ROWS;
    request.input = WPA_E4M3;
    request.causal = 1;
    wpa_attention *attention;
    if (wpa_create(&request, &attention) != WPA_OK) {
        fprintf(stderr, "wpa_create: %s\n", wpa_last_error());
        return 1;
    }

    wpa_arguments arguments = {0};
    arguments.size = sizeof arguments;
    arguments.q = tensor(HEADS, 1);
    arguments.k = tensor(KV_HEADS, 2);
    arguments.v = tensor(KV_HEADS, 3);
    arguments.q_scales = scales(HEADS);
    arguments.k_scales = scales(KV_HEADS);
    arguments.v_scales = scales(KV_HEADS);
    arguments.o = arguments.q; /* the same strides */
    const size_t elements = (size_t)BATCH * ROWS * HEADS * DIM;
    CUdeviceptr output, workspace = 0;
    check(cuMemAlloc(&output, elements * 2), "cuMemAlloc");
    arguments.o.data = output;
    arguments.workspace_bytes = wpa_workspace_bytes(attention);
    if (arguments.workspace_bytes > 0)
        check(cuMemAlloc(&workspace, arguments.workspace_bytes), "cuMemAlloc");
    arguments.workspace = workspace;

    if (wpa_run(attention, &arguments, stream) != WPA_OK) {
        fprintf(stderr, "wpa_run: %s\n", wpa_last_error());
        return 1;
    }
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    unsigned char *bytes = malloc(elements * 2);
    if (bytes == NULL)
        return 1;
    check(cuMemcpyDtoH(bytes, output, elements * 2), "cuMemcpyDtoH");

    /* FNV-1a of the output. */
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < elements * 2; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    printf("B2 H4/2 S192 D64 causal: %016llx\n", (unsigned long long)hash);

    wpa_destroy(attention);
    free(bytes);
    cuMemFree(arguments.q.data), cuMemFree(arguments.k.data), cuMemFree(arguments.v.data);
    cuMemFree(arguments.q_scales), cuMemFree(arguments.k_scales), cuMemFree(arguments.v_scales);
    cuMemFree(output);
    if (workspace != 0)
        cuMemFree(workspace);
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(device);
    return 0;
}
