// The function for pinned memory gets device memory.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaFree(data));
    return 0;
}
