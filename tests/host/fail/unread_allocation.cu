// An allocation fails, and a kernel uses the pointer that was not set.
#include "../runtime.h"

int main() {
    int *data = nullptr;
    OK(cudaMalloc(&data, size_t(1) << 50));
    add<<<1, 16>>>(data, 1); //~ bounds unread-error
    return 0;
}
