// A structure that is on the device has a pointer to memory that was freed.
#include "../runtime.h"

struct Rows {
    int *row[4];
};

static __global__ void sum(Rows rows, int *out) {
    for (int i = 0; i < 4; i++)
        *out += rows.row[i][0];
}

int main() {
    int *data, *out;
    OK(cudaMalloc(&data, 4 * 64));
    OK(cudaMalloc(&out, sizeof(int)));
    OK(cudaMemset(data, 0, 4 * 64));
    OK(cudaMemset(out, 0, sizeof(int)));
    Rows rows;
    for (int i = 0; i < 4; i++)
        rows.row[i] = data + 16 * i;
    OK(cudaFree(data));
    sum<<<1, 1>>>(rows, out); //~ use-after-free
    cudaError_t error = cudaDeviceSynchronize();
    OK(cudaFree(out));
    return error == cudaSuccess ? 0 : 3;
}
