__global__ void mystery(const float* a, const int* index, float* out, float factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = factor * a[index[i]];
}
