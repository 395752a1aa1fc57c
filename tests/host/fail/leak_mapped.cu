// Pinned memory that the device can access is never freed.
#include "../runtime.h"

int main() {
    int *data, *mapped;
    OK(cudaHostAlloc(&data, 64, cudaHostAllocMapped)); //~ memory-leak
    memset(data, 0, 64);
    OK(cudaHostGetDevicePointer(&mapped, data, 0));
    add<<<1, 16>>>(mapped, 1);
    OK(cudaDeviceSynchronize());
    return 0;
}
