// Pinned memory is freed twice.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaHostAlloc(&data, 64, cudaHostAllocDefault));
    OK(cudaFreeHost(data));
    return 0;
}
