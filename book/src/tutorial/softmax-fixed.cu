// Softmax over the rows of a matrix of n rows and m columns: one block for each row.
#define THREADS 128

__global__ void softmax(const float* x, float* y, int n, int m) {
    __shared__ float partial[THREADS];
    const int row = blockIdx.x;
    const int lane = threadIdx.x;
    if (row >= n) return;
    const float* in = x + row * m;
    float* out = y + row * m;

    // The largest element, so that no exponential overflows.
    float largest = -3.402823466e38f;
    for (int column = lane; column < m; column += THREADS) largest = fmaxf(largest, in[column]);
    partial[lane] = largest;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (lane < half) partial[lane] = fmaxf(partial[lane], partial[lane + half]);
        __syncthreads();
    }
    largest = partial[0];
    // All have read partial[0] before the sums are written over it.
    __syncthreads();

    float sum = 0.0f;
    for (int column = lane; column < m; column += THREADS) sum += expf(in[column] - largest);
    partial[lane] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (lane < half) partial[lane] += partial[lane + half];
        __syncthreads();
    }

    for (int column = lane; column < m; column += THREADS) out[column] = expf(in[column] - largest) / partial[0];
}
