// Managed memory is never freed.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMallocManaged(&data, 64));
    memset(data, 0, 64);
    add<<<1, 16>>>(data, 1);
    OK(cudaDeviceSynchronize());
    printf("%d\n", data[0]);
    OK(cudaFree(data));
    return 0;
}
