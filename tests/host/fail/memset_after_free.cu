// A memset writes memory that was freed.
#include "../runtime.h"

int main() {
    int *data;
    OK(cudaMalloc(&data, 64));
    OK(cudaFree(data));
    OK(cudaMemset(data, 0, 64)); //~ use-after-free
    return 0;
}
