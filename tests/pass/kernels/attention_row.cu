// Attention of one query per warp over 64 keys of 32 elements, keys and values in tiles of 16 shared by the
// block, with the running maximum and sum of an online softmax.
// Result: out[q] = sum over j of softmax(query[q] * key[j])[j] * value[j]
//@launch: kernel=attention grid=1 block=128 arg=query:in:f32[4x32]=randn(seed=0) arg=key:in:f32[64x32]=randn(seed=1) arg=value:in:f32[64x32]=randn(seed=2) arg=out:out:f32[4x32] arg=keys:u32=64

extern "C" __global__ void attention(const float *query, const float *key, const float *value, float *out,
                                     unsigned keys)
{
    __shared__ float k_tile[16][32], v_tile[16][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float q = query[warp * 32 + lane], top = -1e30f, sum = 0.0f, accumulator = 0.0f;
    for (unsigned first = 0; first < keys; first += 16) {
        for (unsigned row = warp; row < 16; row += 4) {
            k_tile[row][lane] = key[(first + row) * 32 + lane];
            v_tile[row][lane] = value[(first + row) * 32 + lane];
        }
        __syncthreads();
        for (unsigned row = 0; row < 16; row++) {
            float score = q * k_tile[row][lane];
            for (int mask = 16; mask > 0; mask /= 2)
                score += __shfl_xor_sync(0xffffffff, score, mask);
            float larger = fmaxf(top, score), scale = __expf(top - larger), p = __expf(score - larger);
            sum = sum * scale + p;
            accumulator = accumulator * scale + p * v_tile[row][lane];
            top = larger;
        }
        __syncthreads();
    }
    out[warp * 32 + lane] = accumulator / sum;
}
