// Memory is freed twice.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaFree(data));
    OK(cudaFree(data)); //~ double-free
    return 0;
}
