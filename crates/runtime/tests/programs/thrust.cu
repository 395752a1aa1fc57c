// Thrust and CUB: sort, scan, reduce.
#include "check.h"
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

int main() {
    const int n = 3000;
    thrust::host_vector<int> host(n);
    unsigned state = 1;
    for (int i = 0; i < n; i++) host[i] = (int)((state = state * 1664525u + 1013904223u) >> 8) % 1000;
    thrust::device_vector<int> v = host;
    long expected = 0;
    for (int i = 0; i < n; i++) expected += host[i];
    IS(thrust::reduce(v.begin(), v.end(), 0L) == expected);
    thrust::sort(v.begin(), v.end());
    thrust::host_vector<int> sorted = v;
    for (int i = 1; i < n; i++) IS(sorted[i - 1] <= sorted[i]);
    thrust::device_vector<int> scanned(n);
    thrust::inclusive_scan(v.begin(), v.end(), scanned.begin());
    IS(scanned[n - 1] == expected);
    thrust::transform(v.begin(), v.end(), v.begin(), thrust::negate<int>());
    IS(v[0] == -sorted[0]);

    int *sum;
    void *scratch = nullptr;
    size_t bytes = 0;
    OK(cudaMalloc(&sum, 4));
    int *data = thrust::raw_pointer_cast(v.data());
    OK(cub::DeviceReduce::Sum(scratch, bytes, data, sum, n));
    OK(cudaMalloc(&scratch, bytes));
    OK(cub::DeviceReduce::Sum(scratch, bytes, data, sum, n));
    int result;
    OK(cudaMemcpy(&result, sum, 4, cudaMemcpyDeviceToHost));
    IS(result == -expected);
    OK(cudaFree(scratch));
    OK(cudaFree(sum));
    puts("ok");
}
