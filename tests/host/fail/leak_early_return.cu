// A function returns before it frees its memory.
#include "../runtime.h"

static int sum(int count) {
    int *data;
    OK(cudaMalloc(&data, 64)); //~ memory-leak
    if (count > 16) {
        return -1;
    }
    OK(cudaMemset(data, 0, 64));
    OK(cudaFree(data));
    return 0;
}

int main() {
    printf("%d %d\n", sum(16), sum(17));
    return 0;
}
