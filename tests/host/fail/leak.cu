// Memory is never freed.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 1024)); //~ memory-leak
    OK(cudaMemset(data, 0, 1024));
    add<<<1, 256>>>(data, 1);
    OK(cudaDeviceSynchronize());
    return 0;
}
