// After NVIDIA/apex pull request 1184 (LayerNorm): four warps normalize one row after another. The sums of a row are
// combined through shared memory, and the total is broadcast through its first slot.
// A barrier follows the broadcast, before the next row uses the slots again.
//@launch: kernel=layer_norm grid=1 block=32,4 arg=in:in:f32[6x128]=randn(seed=0) arg=out:out:f32[6x128] arg=rows:u32=6

extern "C" __global__ void layer_norm(const float *in, float *out, unsigned rows)
{
    __shared__ float2 buffer[2];
    unsigned warp = threadIdx.y, i = warp * 32 + threadIdx.x;
    for (unsigned row = 0; row < rows; row++) {
        float x = in[row * 128 + i], sum = x, squares = x * x;
        for (unsigned distance = 16; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, distance);
            squares += __shfl_xor_sync(0xffffffff, squares, distance);
        }
        for (unsigned offset = 2; offset > 0; offset /= 2) {
            if (threadIdx.x == 0 && warp >= offset && warp < 2 * offset)
                buffer[warp - offset] = make_float2(sum, squares);
            __syncthreads();
            if (warp < offset) {
                sum += buffer[warp].x;
                squares += buffer[warp].y;
            }
            __syncthreads();
        }
        if (i == 0)
            buffer[0] = make_float2(sum, squares);
        __syncthreads();
        float2 total = buffer[0];
        float mean = total.x / 128.0f, variance = total.y / 128.0f - mean * mean;
        __syncthreads();
        out[row * 128 + i] = (x - mean) * rsqrtf(variance + 1e-5f);
    }
}
