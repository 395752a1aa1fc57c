// C = A B in f32: a block computes BM by BN elements of C, a thread TM by TN of them, over tiles of BK.
//
// VEC        floats that a thread loads from global memory at once
// PAD        floats behind each row of a tile in shared memory
// INTERLEAVE a thread's columns are BN / TN apart instead of side by side
static_assert(BM % TM == 0 && BN % TN == 0, "whole tiles of threads");
static_assert(VEC == 1 || VEC == 4, "one word or four");
constexpr int ROWS = BM / TM;
constexpr int COLUMNS = BN / TN;
constexpr int THREADS = ROWS * COLUMNS;
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps");
static_assert(BM * BK % (THREADS * VEC) == 0 && BN * BK % (THREADS * VEC) == 0, "every thread loads alike");

// VEC elements of a row of a matrix; zeros beyond its edges.
__device__ void load(float (&to)[VEC], const float* from, unsigned row, unsigned column, unsigned rows, unsigned columns) {
#if VEC == 4
    if (row < rows && column + 3 < columns && columns % 4 == 0) {
        const float4 all = *reinterpret_cast<const float4*>(from + static_cast<size_t>(row) * columns + column);
        to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
        return;
    }
#endif
    for (int i = 0; i < VEC; ++i)
        to[i] = row < rows && column + i < columns ? from[static_cast<size_t>(row) * columns + column + i] : 0.0f;
}

__device__ int column_of(int thread, int j) { return INTERLEAVE ? thread + j * COLUMNS : thread * TN + j; }

extern "C" __global__ void __launch_bounds__(THREADS)
    sgemm(const float* a, const float* b, float* c, unsigned m, unsigned n, unsigned k) {
    // A stands transposed, so that a thread's TM values lie side by side.
    __shared__ __align__(16) float tile_a[BK][BM + PAD];
    __shared__ __align__(16) float tile_b[BK][BN + PAD];
    const int ty = threadIdx.x / COLUMNS, tx = threadIdx.x % COLUMNS;
    const unsigned row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
    float sum[TM][TN] = {};
    for (unsigned depth = 0; depth < k; depth += BK) {
#pragma unroll
        for (int piece = 0; piece < BM * BK / (THREADS * VEC); ++piece) {
            const int at = (piece * THREADS + threadIdx.x) * VEC;
            float values[VEC];
            load(values, a, row0 + at / BK, depth + at % BK, m, k);
            for (int i = 0; i < VEC; ++i) tile_a[at % BK + i][at / BK] = values[i];
        }
#pragma unroll
        for (int piece = 0; piece < BN * BK / (THREADS * VEC); ++piece) {
            const int at = (piece * THREADS + threadIdx.x) * VEC;
            float values[VEC];
            load(values, b, depth + at / BN, column0 + at % BN, k, n);
            for (int i = 0; i < VEC; ++i) tile_b[at / BN][at % BN + i] = values[i];
        }
        __syncthreads();
#pragma unroll UNROLL
        for (int inner = 0; inner < BK; ++inner) {
            float left[TM], right[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) left[i] = tile_a[inner][ty * TM + i];
#pragma unroll
            for (int j = 0; j < TN; ++j) right[j] = tile_b[inner][column_of(tx, j)];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const unsigned row = row0 + ty * TM + i, column = column0 + column_of(tx, j);
            if (row < m && column < n) c[static_cast<size_t>(row) * n + column] = sum[i][j];
        }
}
