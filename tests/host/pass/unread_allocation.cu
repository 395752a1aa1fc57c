// An allocation fails, and a kernel uses the pointer that was not set.
#include "../runtime.h"

int main() {
    int *data = nullptr;
    if (cudaMalloc(&data, size_t(1) << 50) == cudaSuccess)
        add<<<1, 16>>>(data, 1);
    return 0;
}
