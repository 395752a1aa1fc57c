// Sums four rows of 128 elements, each read in reverse, with two buffers in turn. Two buffers spare the second
// barrier of a tile, not the first: here there is none, and a warp reads slots that are not filled yet or
// already refilled.
// Corpus: r10
//@launch: kernel=sum_rows grid=1 block=128 arg=in:in:f32[4x128]=randn(seed=0) arg=out:out:f32[128] arg=rows:i32=4

extern "C" __global__ void sum_rows(const float *in, float *out, int rows)
{
    __shared__ float buffer[2][128];
    unsigned t = threadIdx.x;
    float sum = 0.0f;
    for (int row = 0; row < rows; row++) {
        buffer[row % 2][t] = in[row * 128 + t]; //~ shared-race
        sum += buffer[row % 2][127 - t]; //~ shared-race
    }
    out[t] = sum;
}
