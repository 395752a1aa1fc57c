// Rows of memory are never freed.
#include "../runtime.h"

int main() {
    int *data;
    size_t pitch;
    OK(cudaMallocPitch(&data, &pitch, 100, 10)); //~ memory-leak
    OK(cudaMemset2D(data, pitch, 0, 100, 10));
    return 0;
}
