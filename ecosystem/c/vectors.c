/* Vector addition, a reduction in shared memory, and errors, through CUDA's driver API alone.
 *
 * The kernels are in vectors.cu. They are loaded as PTX, so that the program needs nothing but the driver. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 10000
#define BLOCK 256

static void expect(CUresult got, CUresult want, const char *what)
{
    if (got == want)
        return;
    const char *name = "?";
    cuGetErrorName(got, &name);
    fprintf(stderr, "FAILED %s: %s (%d), not %d\n", what, name, (int)got, (int)want);
    exit(1);
}

#define OK(call) expect((call), CUDA_SUCCESS, #call)

static void *ptx(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
        exit(2);
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction add, sum, stray;
    CUstream stream;
    CUevent start, end;
    CUdeviceptr x, y, out, total;
    int major, minor, count;
    char name[100];
    float milliseconds;

    expect(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED, "a call before cuInit");
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    expect(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE, "a device that does not exist");
    OK(cuDeviceGet(&device, 0));
    OK(cuDeviceGetName(name, sizeof name, device));
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    expect(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT, "a call without a context");
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));

    expect(cuModuleLoadData(&module, ".version 8.0\n.target sm_75\n.address_size 64\nnonsense;\n"), CUDA_ERROR_INVALID_PTX,
           "PTX with a mistake");
    OK(cuModuleLoadData(&module, ptx(argc > 1 ? argv[1] : "vectors.ptx")));
    expect(cuModuleGetFunction(&add, module, "subtract"), CUDA_ERROR_NOT_FOUND, "a kernel that does not exist");
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&sum, module, "sum"));
    OK(cuModuleGetFunction(&stray, module, "stray"));

    static float hx[COUNT], hy[COUNT], hout[COUNT];
    for (int i = 0; i < COUNT; i++) {
        hx[i] = (float)i * 0.5f;
        hy[i] = (float)(i % 7);
    }
    OK(cuMemAlloc(&x, sizeof hx));
    OK(cuMemAlloc(&y, sizeof hy));
    OK(cuMemAlloc(&out, sizeof hout));
    expect(cuMemAlloc(&total, 0), CUDA_ERROR_INVALID_VALUE, "an allocation of nothing");
    expect(cuMemAlloc(&total, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY, "an allocation of a pebibyte");
    OK(cuMemAlloc(&total, sizeof(int)));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&end, CU_EVENT_DEFAULT));

    int n = COUNT;
    unsigned blocks = (COUNT + BLOCK - 1) / BLOCK;
    void *add_arguments[] = {&x, &y, &out, &n};
    OK(cuMemcpyHtoDAsync(x, hx, sizeof hx, stream));
    OK(cuMemcpyHtoDAsync(y, hy, sizeof hy, stream));
    OK(cuEventRecord(start, stream));
    OK(cuLaunchKernel(add, blocks, 1, 1, BLOCK, 1, 1, 0, stream, add_arguments, NULL));
    OK(cuEventRecord(end, stream));
    OK(cuMemcpyDtoHAsync(hout, out, sizeof hout, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    for (int i = 0; i < COUNT; i++) {
        if (hout[i] != hx[i] + hy[i]) {
            fprintf(stderr, "FAILED add: element %d is %g, not %g\n", i, hout[i], hx[i] + hy[i]);
            return 1;
        }
    }
    printf("add: %d elements in %u blocks on %s (sm_%d%d)\n", COUNT, blocks, name, major, minor);

    /* The sum of y, whose elements are whole numbers: exact in any order. */
    int want = 0, got = -1;
    for (int i = 0; i < COUNT; i++)
        want += (int)hy[i];
    void *sum_arguments[] = {&y, &total, &n};
    OK(cuMemsetD32(total, 0, 1));
    OK(cuLaunchKernel(sum, blocks, 1, 1, BLOCK, 1, 1, BLOCK * sizeof(int), NULL, sum_arguments, NULL));
    OK(cuMemcpyDtoH(&got, total, sizeof got));
    if (got != want) {
        fprintf(stderr, "FAILED sum: %d, not %d\n", got, want);
        return 1;
    }
    printf("sum: %d\n", got);

    expect(cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, NULL, add_arguments, NULL), CUDA_ERROR_INVALID_VALUE,
           "a block of 2048 threads");

    /* An address outside of all allocations. The error is sticky until the context is destroyed. */
    CUdeviceptr nowhere = (CUdeviceptr)1 << 46;
    void *stray_arguments[] = {&nowhere};
    CUresult result = cuLaunchKernel(stray, 1, 1, 1, 1, 1, 1, 0, NULL, stray_arguments, NULL);
    if (result == CUDA_SUCCESS)
        result = cuCtxSynchronize();
    expect(result, CUDA_ERROR_ILLEGAL_ADDRESS, "a store to nowhere");
    expect(cuMemcpyDtoH(&got, total, sizeof got), CUDA_ERROR_ILLEGAL_ADDRESS, "a copy after the fault");
    OK(cuDevicePrimaryCtxReset(device));
    puts("errors: as documented");
    return 0;
}
