// Mean and variance of each of 32 columns by Welford's method: warps take rows in turn, and the block merges
// their statistics pairwise in shared memory.
// Result: mean[c], variance[c] of column c of in, 64 x 32
//@launch: kernel=statistics grid=1 block=32,8 arg=in:in:f32[64x32]=randn(seed=0) arg=mean:out:f32[32] arg=variance:out:f32[32] arg=rows:u32=64

extern "C" __global__ void statistics(const float *in, float *mean, float *variance, unsigned rows)
{
    __shared__ float means[8][32], squares[8][32];
    unsigned c = threadIdx.x, y = threadIdx.y;
    float center = 0.0f, square = 0.0f, count = 0.0f;
    for (unsigned row = y; row < rows; row += 8) {
        float x = in[row * 32 + c], delta = x - center;
        count += 1.0f;
        center += delta / count;
        square += delta * (x - center);
    }
    means[y][c] = center;
    squares[y][c] = square;
    for (unsigned half = 4; half > 0; half /= 2) {
        __syncthreads();
        if (y < half) {
            float delta = means[y + half][c] - means[y][c];
            means[y][c] += 0.5f * delta;
            squares[y][c] += squares[y + half][c] + delta * delta * count * 0.5f;
            count *= 2.0f;
        }
    }
    if (y == 0) {
        mean[c] = means[0][c];
        variance[c] = squares[0][c] / rows;
    }
}
