// Pinned memory is never freed.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMallocHost(&data, 64));
    memset(data, 0, 64);
    OK(cudaFreeHost(data));
    return 0;
}
