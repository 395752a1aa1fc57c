// Sums four rows of 128 elements, each read in reverse, with two buffers in turn and one barrier per row:
// whoever fills a buffer again has passed the barrier that its readers reached after they had used it.
// Result: out[i] = in[0][127 - i] + in[1][127 - i] + in[2][127 - i] + in[3][127 - i]
// Corpus: r10
//@launch: kernel=sum_rows grid=1 block=128 arg=in:in:f32[4x128]=randn(seed=0) arg=out:out:f32[128] arg=rows:i32=4

extern "C" __global__ void sum_rows(const float *in, float *out, int rows)
{
    __shared__ float buffer[2][128];
    unsigned t = threadIdx.x;
    float sum = 0.0f;
    for (int row = 0; row < rows; row++) {
        buffer[row % 2][t] = in[row * 128 + t];
        __syncthreads();
        sum += buffer[row % 2][127 - t];
    }
    out[t] = sum;
}
