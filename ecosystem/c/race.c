/* Launches `shift` of vectors.cu, which lacks a barrier: whether its results are right depends on the order of the threads. */
#include <cuda.h>
#include <stdio.h>

#define OK(call)                                          \
    do {                                                  \
        CUresult result = (call);                         \
        if (result != CUDA_SUCCESS) {                     \
            fprintf(stderr, "%s: %d\n", #call, (int)result); \
            return 2;                                     \
        }                                                 \
    } while (0)

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction shift;
    CUdeviceptr x, out;
    int numbers[64], shifted[64];

    for (int i = 0; i < 64; i++)
        numbers[i] = i * i;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, argc > 1 ? argv[1] : "vectors.ptx"));
    OK(cuModuleGetFunction(&shift, module, "shift"));
    OK(cuMemAlloc(&x, sizeof numbers));
    OK(cuMemAlloc(&out, sizeof shifted));
    OK(cuMemcpyHtoD(x, numbers, sizeof numbers));
    void *arguments[] = {&x, &out};
    OK(cuLaunchKernel(shift, 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(shifted, out, sizeof shifted));
    int right = 0;
    for (int i = 0; i < 64; i++)
        right += shifted[i] == numbers[(i + 1) % 64];
    printf("%d of 64 are right\n", right);
    OK(cuMemFree(x));
    OK(cuMemFree(out));
    return 0;
}
