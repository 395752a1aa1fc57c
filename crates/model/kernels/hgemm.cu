// Products of f16 matrices by tensor cores with f32 sums, as spatters/mma-matmul times them: A is m × k row-major; B is k × n
// row-major in the first two, n × k in the last. 256 threads, warps in two rows of four; sizes are multiples of the tiles.
#include <cuda_fp16.h>

__device__ __forceinline__ void product(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ unsigned two(half low, half high)
{
    return (unsigned)__half_as_ushort(high) << 16 | __half_as_ushort(low);
}

// Operands go one by one through shared memory; TILES × TILES products of 32 × 32 for each block.
template <int TILES> __device__ __forceinline__ void plain(const half *a, const half *b, float *c, int n, int k)
{
    __shared__ half left[32 * TILES][16], right[16][32 * TILES];
    const int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x, lane = thread % 32, warp = thread / 32;
    const int row = warp / 4 * 16 + lane / 4, column = warp % 4 * 8 + lane / 4, pair = lane % 4 * 2;
    const int top = blockIdx.y * 32 * TILES, start = blockIdx.x * 32 * TILES;
    float sum[TILES][TILES][4] = {};
    for (int i = 0; i < k; i += 16) {
        for (int t = 0; t < TILES; t++) {
            left[t * 32 + y][x] = a[(top + t * 32 + y) * k + i + x];
            left[t * 32 + 16 + y][x] = a[(top + t * 32 + 16 + y) * k + i + x];
        }
        for (int t = 0; t < TILES; t++) {
            right[y][t * 32 + x] = b[(i + y) * n + start + t * 32 + x];
            right[y][t * 32 + 16 + x] = b[(i + y) * n + start + t * 32 + 16 + x];
        }
        __syncthreads();
        for (int r = 0; r < TILES; r++) {
            const half(*at)[16] = left + r * 32 + row;
            const unsigned rows[4] = {two(at[0][pair], at[0][pair + 1]), two(at[8][pair], at[8][pair + 1]),
                                      two(at[0][pair + 8], at[0][pair + 9]), two(at[8][pair + 8], at[8][pair + 9])};
            for (int s = 0; s < TILES; s++) {
                const int at = s * 32 + column;
                const unsigned columns[2] = {two(right[pair][at], right[pair + 1][at]), two(right[pair + 8][at], right[pair + 9][at])};
                product(sum[r][s], rows, columns);
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < TILES; r++)
        for (int s = 0; s < TILES; s++)
            for (int i = 0; i < 4; i++)
                c[(top + r * 32 + row + i / 2 * 8) * n + start + s * 32 + warp % 4 * 8 + pair + i % 2] = sum[r][s][i];
}

extern "C" __global__ void __launch_bounds__(256) plain_1(const half *a, const half *b, float *c, int m, int n, int k, float, float)
{
    plain<1>(a, b, c, n, k);
}
extern "C" __global__ void __launch_bounds__(256) plain_2(const half *a, const half *b, float *c, int m, int n, int k, float, float)
{
    plain<2>(a, b, c, n, k);
}

// Three stages of asynchronous copies, 32 deep, with rows of 64 bytes permuted so that ldmatrix has no conflict. A warp has
// TILES × TILES products of 16 × 8.
template <int TILES> __device__ __forceinline__ void staged(const half *a, const half *b, float *c, int n, int k)
{
    constexpr int STAGES = 3, ROWS = 32 * TILES;
    __shared__ uint4 left[STAGES][ROWS * 4], right[STAGES][ROWS * 4];
    const int thread = threadIdx.y * 16 + threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int top = blockIdx.y * ROWS, start = blockIdx.x * ROWS;
    auto place = [](int row, int chunk) { return row * 4 + (chunk ^ (row >> 1 & 3)); };
    auto copy = [&](int stage, int depth) {
        for (int r = 0; r < ROWS; r += 64) {
            const int row = r + thread / 4, chunk = thread % 4;
            const half *from[2] = {a + (top + row) * k + depth + chunk * 8, b + (start + row) * k + depth + chunk * 8};
            uint4 *to[2] = {&left[stage][place(row, chunk)], &right[stage][place(row, chunk)]};
            for (int i = 0; i < 2; i++)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to[i])), "l"(from[i]));
        }
    };
    auto commit = [] { asm volatile("cp.async.commit_group;"); };
    float sum[TILES][TILES][4] = {};
    for (int s = 0; s < STAGES - 1; s++) {
        copy(s, s * 32);
        commit();
    }
    for (int i = 0, stage = 0; i < k; i += 32, stage = stage == STAGES - 1 ? 0 : stage + 1) {
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        unsigned rows[TILES][2][4], columns[TILES][2][2];
        for (int t = 0; t < TILES; t++)
            for (int half = 0; half < 2; half++) {
                const int row = warp / 4 * 16 * TILES + t * 16 + lane % 16, chunk = half * 2 + lane / 16;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(rows[t][half][0]), "=r"(rows[t][half][1]), "=r"(rows[t][half][2]), "=r"(rows[t][half][3])
                             : "r"((unsigned)__cvta_generic_to_shared(&left[stage][place(row, chunk)])));
            }
        for (int t = 0; t < TILES; t++)
            for (int half = 0; half < 2; half++) {
                const int row = warp % 4 * 8 * TILES + t * 8 + lane % 8, chunk = half * 2 + lane / 8 % 2;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                             : "=r"(columns[t][half][0]), "=r"(columns[t][half][1])
                             : "r"((unsigned)__cvta_generic_to_shared(&right[stage][place(row, chunk)])));
            }
        const int next = i + 32 * (STAGES - 1);
        copy((stage + STAGES - 1) % STAGES, next < k ? next : k - 32);
        commit();
        for (int r = 0; r < TILES; r++)
            for (int s = 0; s < TILES; s++)
                for (int half = 0; half < 2; half++)
                    product(sum[r][s], rows[r][half], columns[s][half]);
    }
    for (int r = 0; r < TILES; r++)
        for (int s = 0; s < TILES; s++)
            for (int i = 0; i < 2; i++) {
                const int row = top + warp / 4 * 16 * TILES + r * 16 + lane / 4 + i * 8;
                const int column = start + warp % 4 * 8 * TILES + s * 8 + lane % 4 * 2;
                *reinterpret_cast<float2 *>(c + row * n + column) = make_float2(sum[r][s][2 * i], sum[r][s][2 * i + 1]);
            }
}

extern "C" __global__ void __launch_bounds__(256) staged_2(const half *a, const half *b, float *c, int m, int n, int k, float, float)
{
    staged<2>(a, b, c, n, k);
}
extern "C" __global__ void __launch_bounds__(256) staged_4(const half *a, const half *b, float *c, int m, int n, int k, float, float)
{
    staged<4>(a, b, c, n, k);
}
