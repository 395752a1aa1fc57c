// A launch has more shared memory than a block can have, and the program does not read the error.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    add<<<1, 16, 1 << 20>>>(data, 1); //~ unread-error
    OK(cudaFree(data));
    return 0;
}
