// A template with one instance.
template <typename T, int BLOCK> __global__ void __launch_bounds__(BLOCK)
row_softmax(const T* __restrict__ input, T* __restrict__ output, int rows, int cols) {
    extern __shared__ float scratch[];
    const int row = blockIdx.x;
    float top = -1e30f, sum = 0;
    for (int c = 0; c < cols; ++c) top = fmaxf(top, float(input[row * cols + c]));
    for (int c = 0; c < cols; ++c) sum += expf(float(input[row * cols + c]) - top);
    scratch[threadIdx.x] = sum;
    for (int c = threadIdx.x; c < cols; c += BLOCK) output[row * cols + c] = T(expf(float(input[row * cols + c]) - top) / scratch[threadIdx.x]);
}
template __global__ void row_softmax<float, 64>(const float*, float*, int, int);
