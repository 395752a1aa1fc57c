// After flashinfer-ai/flashinfer pull request 3439 (Mamba state update): each of four warps copies its 16 rows of a
// state by cp.async; then every warp multiplies all 64 rows with its own columns.
// What is wrong: after its wait a warp only does a __syncwarp(), which says nothing about the rows that other warps
// copied. There five launches with equal inputs gave five different results.
//@launch: kernel=multiply grid=1 block=128 arg=state:in:f32[64x32]=randn(seed=0) arg=x:in:f32[4x64]=randn(seed=1) arg=out:out:f32[4x32]

#define CP_ASYNC_16(to, from)                                                                                  \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"                                                   \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")

extern "C" __global__ void multiply(const float *state, const float *x, float *out)
{
    __shared__ __align__(16) float tile[64][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned i = lane; i < 16 * 8; i += 32) {
        unsigned row = warp * 16 + i / 8, column = i % 8 * 4;
        CP_ASYNC_16(&tile[row][column], &state[row * 32 + column]); //~ async-copy
    }
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
    __syncwarp();
    float sum = 0.0f;
    for (unsigned row = 0; row < 64; row++)
        sum += x[warp * 64 + row] * tile[row][lane]; //~ async-copy
    out[warp * 32 + lane] = sum;
}
