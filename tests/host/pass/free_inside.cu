// The free gets an address inside of a block.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaFree(data));
    return 0;
}
