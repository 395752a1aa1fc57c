// The function for device memory gets pinned memory.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMallocHost(&data, 64));
    OK(cudaFreeHost(data));
    return 0;
}
