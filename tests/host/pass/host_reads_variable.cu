// The host reads a managed variable that a kernel writes, and does not wait for the kernel.
#include "../runtime.h"

static __managed__ int result;
static __global__ void set(int value) { result = value; }

int main() {
    set<<<1, 1>>>(7);
    OK(cudaDeviceSynchronize());
    int found = result;
    OK(cudaDeviceSynchronize());
    return found == 7 ? 0 : 3;
}
