// The host reads managed memory that a kernel writes, and does not wait for the kernel.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMallocManaged(&data, 64));
    memset(data, 0, 64);
    add<<<1, 16>>>(data, 1);
    printf("%d\n", data[3]); //~ stream-race
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
    return 0;
}
