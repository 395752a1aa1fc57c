/* Streams, events, host functions and blocking calls keep their order when work runs as late as possible. */
#include "../driver.h"

static int *seen;
static int *source;

static void look(void *data)
{
    *(int *)data = seen[0];
}

int main(void)
{
    start();
    CUdeviceptr a, b;
    CUstream s, t;
    CUevent e;
    CUfunction add = kernel("add");
    unsigned n = 5;
    void *first[] = {&a, &n}, *second[] = {&b, &n};
    int looked = -1, result[16];
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuMemAlloc(&a, 64));
    OK(cuMemAlloc(&b, 64));
    OK(cuMemAllocHost((void **)&seen, 64));
    OK(cuMemAllocHost((void **)&source, 64));
    OK(cuMemsetD32Async(a, 1, 16, s));
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, s, first, NULL));
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(cuMemcpyDtoDAsync(b, a, 64, t));
    OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, t, second, NULL));
    OK(cuMemcpyDtoHAsync(seen, b, 64, t));
    OK(cuLaunchHostFunc(t, look, &looked));
    /* The wait for one stream runs what the stream waits for. */
    if (cuStreamSynchronize(t) != CUDA_SUCCESS)
        return 1;
    if (seen[15] != 11 || looked != 11)
        return 2;
    /* A blocking copy of the default stream waits for a blocking stream. */
    CUstream u;
    OK(cuStreamCreate(&u, CU_STREAM_DEFAULT));
    OK(cuMemsetD32Async(a, 9, 16, u));
    OK(cuMemcpyDtoH(result, a, 64));
    if (result[3] != 9)
        return 3;
    /* The call copies pageable memory before it returns. */
    for (int i = 0; i < 16; i++)
        result[i] = i;
    OK(cuMemcpyHtoDAsync(b, result, 64, s));
    result[7] = 100;
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(result, b, 64));
    if (result[7] != 7)
        return 4;
    OK(cuMemFreeHost(seen));
    OK(cuMemFreeHost(source));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    return 0;
}
