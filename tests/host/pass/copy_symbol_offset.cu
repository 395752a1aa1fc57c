// A copy from a variable starts in its middle and ends after it.
#include "../runtime.h"

static __constant__ int table[16];

int main() {
    int host[16];
    OK(cudaMemcpyFromSymbol(host, table, 32, 32));
    return 0;
}
