// Pinned memory is never freed.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMallocHost(&data, 64)); //~ memory-leak
    memset(data, 0, 64);
    return 0;
}
