// A kernel writes after the end of its memory, and no call returns the error.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaMemset(data, 0, 64));
    add<<<1, 32>>>(data, 1); //~ bounds unread-error
    return 0;
}
