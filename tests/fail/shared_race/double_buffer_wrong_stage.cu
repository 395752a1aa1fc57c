// Sums four rows of 128 elements, each read in reverse, with two buffers: one is filled while the other is
// read. The reader takes the buffer that is being filled, and gets old and new elements mixed.
// Corpus: r09
//@launch: kernel=sum_rows grid=1 block=128 arg=in:in:f32[4x128]=randn(seed=0) arg=out:out:f32[128] arg=rows:i32=4

extern "C" __global__ void sum_rows(const float *in, float *out, int rows)
{
    __shared__ float buffer[2][128];
    unsigned t = threadIdx.x;
    float sum = 0.0f;
    buffer[0][t] = in[t];
    __syncthreads();
    for (int row = 1; row < rows; row++) {
        buffer[row % 2][t] = in[row * 128 + t]; //~ shared-race
        sum += buffer[row % 2][127 - t]; //~ shared-race
        __syncthreads();
    }
    out[t] = sum;
}
