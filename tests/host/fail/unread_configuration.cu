// A launch has more threads than a block can have, and the program does not read the error.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 4 * 2048));
    OK(cudaMemset(data, 0, 4 * 2048));
    add<<<1, 2048>>>(data, 1); //~ unread-error
    OK(cudaFree(data));
    return 0;
}
