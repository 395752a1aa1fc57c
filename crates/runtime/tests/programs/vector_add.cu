// Allocation, copies, a launch, and errors of launches.
#include "check.h"
#include <string>
#include <vector>

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

template <typename T> __global__ void fill(T *out, T value, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}

struct Triple {
    char a;
    double b;
    short c;
};
__global__ void by_value(Triple t, double *out) { *out = t.a + t.b + t.c; }

// A kernel whose arguments launch another one.
static int nested(double *out) {
    fill<<<1, 1>>>(out + 1, 7.0, 1L);
    return 3;
}
__global__ void store(double *out, int v) { out[2] = v; }

int main() {
    const int n = 1000;
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
    float *da, *db, *dc;
    OK(cudaMalloc(&da, n * 4));
    OK(cudaMalloc(&db, n * 4));
    OK(cudaMalloc(&dc, n * 4));
    OK(cudaMemcpy(da, a.data(), n * 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(db, b.data(), n * 4, cudaMemcpyDefault));
    add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
    OK(cudaGetLastError());
    OK(cudaMemcpy(c.data(), dc, n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) IS(c[i] == 3 * i);

    double *out;
    double host[3];
    OK(cudaMalloc(&out, 24));
    by_value<<<1, 1>>>(Triple{1, 2.5, 3}, out);
    store<<<1, 1>>>(out, nested(out));
    OK(cudaMemcpy(host, out, 24, cudaMemcpyDeviceToHost));
    IS(host[0] == 6.5 && host[1] == 7 && host[2] == 3);

    // Errors of a launch are the last error of the thread, once.
    add<<<1, 2048>>>(da, db, dc, n);
    IS(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    IS(cudaGetLastError() == cudaErrorInvalidConfiguration);
    IS(cudaGetLastError() == cudaSuccess);
    add<<<0, 1>>>(da, db, dc, n);
    IS(cudaGetLastError() == cudaErrorInvalidConfiguration);
    IS(cudaMemcpy(da, a.data(), 4, (cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    IS(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
    int dummy;
    void *args[] = {&dummy};
    IS(cudaLaunchKernel((void *)&dummy, dim3(1), dim3(1), args, 0, 0) == cudaErrorInvalidDeviceFunction);
    IS(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
    IS(std::string(cudaGetErrorName(cudaErrorInvalidValue)) == "cudaErrorInvalidValue");
    IS(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
    OK(cudaFree(da));
    OK(cudaFree(db));
    OK(cudaFree(dc));
    OK(cudaFree(out));
    OK(cudaFree(nullptr));
    OK(cudaDeviceReset());
    // After a reset, the device code is loaded again.
    OK(cudaMalloc(&out, 8));
    fill<<<1, 1>>>(out, 5.0, 1L);
    OK(cudaMemcpy(host, out, 8, cudaMemcpyDeviceToHost));
    IS(host[0] == 5);
    OK(cudaFree(out));
    puts("ok");
}
