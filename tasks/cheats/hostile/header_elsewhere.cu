// A file of the repository that is not of the task: what it says would stand in messages of the compiler.
#include "../../../deny.toml"
extern "C" __global__ void twice(const float* x, float* y) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2.0f * x[i];
}
