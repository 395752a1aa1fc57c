// A copy to a variable is longer than the variable.
#include "../runtime.h"

static __device__ int table[16];

int main() {
    std::vector<int> host(32);
    OK(cudaMemcpyToSymbol(table, host.data(), 64));
    return 0;
}
