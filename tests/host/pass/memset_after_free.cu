// A memset writes memory that was freed.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    OK(cudaFree(data));
    return 0;
}
