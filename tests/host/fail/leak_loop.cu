// A function allocates in a loop, and its caller frees the last block only.
#include "../runtime.h"

static int *make() { int *data; OK(cudaMalloc(&data, 64)); return data; } //~ memory-leak

int main() {
    int *data = nullptr;
    for (int i = 0; i < 10; i++) {
        data = make();
    }
    OK(cudaFree(data));
    return 0;
}
