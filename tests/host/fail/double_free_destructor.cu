// Two copies of an object free the same memory.
#include "../runtime.h"

struct Buffer {
    int *data;
    Buffer() { OK(cudaMalloc(&data, 64)); }
    ~Buffer() { OK(cudaFree(data)); } //~ double-free
};

int main() {
    Buffer first;
    Buffer second = first;
    OK(cudaMemset(second.data, 0, 64));
    return 0;
}
