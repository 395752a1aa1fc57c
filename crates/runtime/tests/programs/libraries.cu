// Libraries that a program loads itself. With two devices, each has its own variables.
#include "check.h"
#include <cstring>

static const char CODE[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 number = 5;
.visible .entry add(.param .u64 p) {
    .reg .u64 %a;
    .reg .u32 %x, %y;
    ld.param.u64 %a, [p];
    cvta.to.global.u64 %a, %a;
    ld.global.u32 %x, [%a];
    ld.global.u32 %y, [number];
    add.u32 %x, %x, %y;
    st.global.u32 [%a], %x;
    ret;
}
.visible .entry nothing() { ret; }
)";

static int run(cudaKernel_t kernel, int start) {
    int *p, value = start;
    OK(cudaMalloc(&p, 4));
    OK(cudaMemcpy(p, &value, 4, cudaMemcpyHostToDevice));
    void *arguments[] = {&p};
    OK(cudaLaunchKernel((const void *)kernel, 1, 1, arguments, 0, 0));
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    OK(cudaFree(p));
    return value;
}

int main(int count, char **arguments) {
    cudaLibrary_t library;
    OK(cudaLibraryLoadData(&library, CODE, nullptr, nullptr, 0, nullptr, nullptr, 0));
    unsigned kernels = 0;
    OK(cudaLibraryGetKernelCount(&kernels, library));
    IS(kernels == 2);
    cudaKernel_t kernel, all[2] = {}, missing;
    OK(cudaLibraryGetKernel(&kernel, library, "add"));
    IS(cudaLibraryGetKernel(&missing, library, "other") == cudaErrorSymbolNotFound);
    OK(cudaLibraryEnumerateKernels(all, 2, library));
    IS(all[0] == kernel || all[1] == kernel);
    OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 50, 0));
    IS(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 50, 99) == cudaErrorInvalidDevice);
    (void)cudaGetLastError();

    int devices = 0;
    OK(cudaGetDeviceCount(&devices));
    void *addresses[2] = {};
    for (int d = 0; d < devices && d < 2; d++) {
        OK(cudaSetDevice(d));
        size_t bytes = 0;
        OK(cudaLibraryGetGlobal(&addresses[d], &bytes, library, "number"));
        IS(bytes == 4);
        // The initial value, on each device.
        IS(run(kernel, 1) == 6);
        int value = 100 + d;
        OK(cudaMemcpy(addresses[d], &value, 4, cudaMemcpyHostToDevice));
    }
    IS(addresses[0] != addresses[1]);
    for (int d = 0; d < devices && d < 2; d++) {
        OK(cudaSetDevice(d));
        IS(run(kernel, 1) == 101 + d);
    }
    OK(cudaLibraryUnload(library));
    IS(cudaLibraryUnload(library) == cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();

    char path[4096];
    snprintf(path, sizeof path, "%s.ptx", arguments[0]);
    FILE *file = fopen(path, "w");
    IS(file && count == 1);
    fputs(CODE, file);
    fclose(file);
    OK(cudaLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cudaLibraryGetKernel(&kernel, library, "add"));
    IS(run(kernel, 2) == 7);
    OK(cudaLibraryUnload(library));
    remove(path);
    IS(cudaLibraryLoadFromFile(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaErrorFileNotFound);
    (void)cudaGetLastError();
    puts("ok");
}
