// Quantizes a tensor: f16, bf16 or f32 rows become E4M3 or E5M2 codes with f32 scales, bit for bit as on the host
// (src/tensor.rs). The host's copy of the parameters is src/quantize.rs.
//
// A block takes 64 rows of one head. LANES threads share a row and read 16 bytes each; SLOTS rows are read at once.
// Grid: x = tiles of rows of the longest sequence, y = heads, z = sequences.
//
//   sums      with SMOOTH: sums of each column of a tile
//   mean      with SMOOTH: the mean of each column of a head, from the sums of its tiles in order
//   maxima    with scales per head or tensor: the largest magnitude of a tile
//   largest   with a scale per tensor: the largest of all tiles, by one block
//   quantize  codes and scales
//
// Values that are not finite do not change a maximum or a mean. Infinities become the largest code, NaN stays NaN.
#include "ptx.cuh"

#ifndef HEAD_DIM // elements of a row
#define HEAD_DIM 64
#endif
#ifndef VALUE // 0: f16, 1: bf16, 2: f32
#define VALUE 0
#endif
#ifndef FORMAT_E5M2
#define FORMAT_E5M2 0
#endif
#ifndef SCALES // one for 0: a head, 1: 64 rows, 2: a row, 3: the tensor
#define SCALES 0
#endif
#ifndef SMOOTH // subtract the mean of each column over the rows of a head
#define SMOOTH 0
#endif
#ifndef VARLEN // sequences of different lengths, one after the other
#define VARLEN 0
#endif

struct QuantizeParams {
    const unsigned char *values;
    unsigned char *codes;
    float *scales;          // [batch][head][scale_head]; one for the tensor
    float *mean;            // with SMOOTH: [batch][head][HEAD_DIM]
    float *sums;            // with SMOOTH: [batch][head][tile][HEAD_DIM]
    float *maxima;          // with scales per head or tensor: [batch][head][tile], then the largest of all
    const unsigned *starts; // with VARLEN: rows before each sequence, then all rows; batch strides are then 0
    unsigned long long value_batch, value_head, value_row; // strides in elements
    unsigned long long code_batch, code_head, code_row;
    unsigned heads, batches;
    unsigned rows, tiles; // of every sequence; with VARLEN of the longest
    unsigned scale_batch, scale_head;
};
static_assert(sizeof(QuantizeParams) == 128, "what the host writes");

constexpr unsigned D = HEAD_DIM, THREADS = 256, TILE = 64;
constexpr unsigned VALUE_BYTES = VALUE == 2 ? 4 : 2;
constexpr unsigned EACH = 16 / VALUE_BYTES; // values of 16 bytes
constexpr unsigned CHUNKS = D / EACH;
constexpr unsigned LANES = CHUNKS > 16 ? 32 : CHUNKS > 8 ? 16 : CHUNKS > 4 ? 8 : 4;
constexpr unsigned PIECES = (CHUNKS + LANES - 1) / LANES; // chunks of a thread in a row
constexpr unsigned SLOTS = THREADS / LANES, PASSES = TILE / SLOTS;
static_assert(D % 16 == 0 && D <= 256 && TILE % SLOTS == 0, "rows of whole chunks");

__device__ __forceinline__ bool finite(float x) { return fabsf(x) < __int_as_float(0x7f800000); }

// The value of the f16, bf16 or f32 with index i in 16 bytes; exact.
__device__ __forceinline__ float value(uint4 bytes, unsigned i)
{
    const unsigned words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    const unsigned word = words[i * VALUE_BYTES / 4];
    if (VALUE == 2)
        return __uint_as_float(word);
    if (VALUE == 1)
        return __uint_as_float(i % 2 ? word & 0xffff0000 : word << 16);
    return cvt_f32_f16(word >> i % 2 * 16 & 0xffff);
}

// A block's tile, and this thread's part of it.
struct TileWork {
    const QuantizeParams &p;
    unsigned batch, head, first, rows; // rows of the sequence
    unsigned slot, lane;

    __device__ __forceinline__ explicit TileWork(const QuantizeParams &p)
        : p(p), batch(blockIdx.z), head(blockIdx.y), first(blockIdx.x * TILE), slot(threadIdx.x / LANES), lane(threadIdx.x % LANES)
    {
        rows = VARLEN ? p.starts[batch + 1] - p.starts[batch] : p.rows;
    }
    __device__ __forceinline__ unsigned row(unsigned pass) const { return first + pass * SLOTS + slot; }
    __device__ __forceinline__ unsigned chunk(unsigned piece) const { return piece * LANES + lane; }
    __device__ __forceinline__ bool has(unsigned pass, unsigned piece) const
    {
        return row(pass) < rows && (CHUNKS % LANES == 0 || chunk(piece) < CHUNKS);
    }
    __device__ __forceinline__ unsigned long long place(unsigned pass) const
    {
        return row(pass) + (VARLEN ? p.starts[batch] : 0);
    }
    __device__ __forceinline__ unsigned head_index() const { return batch * p.heads + head; }
    __device__ __forceinline__ unsigned long long tile_index() const
    {
        return (unsigned long long)head_index() * p.tiles + blockIdx.x;
    }
};

// The values of a tile; zeros beyond the end of the sequence.
struct Values {
    float x[PASSES][PIECES][EACH];

    template <bool CENTER> __device__ __forceinline__ void load(const TileWork &work)
    {
        const QuantizeParams &p = work.p;
        const unsigned char *from = p.values + (work.batch * p.value_batch + work.head * p.value_head) * VALUE_BYTES;
#pragma unroll
        for (unsigned pass = 0; pass < PASSES; pass++)
#pragma unroll
            for (unsigned piece = 0; piece < PIECES; piece++) {
                uint4 bytes = {};
                if (work.has(pass, piece))
                    bytes = *reinterpret_cast<const uint4 *>(from + work.place(pass) * p.value_row * VALUE_BYTES +
                                                             work.chunk(piece) * 16);
#pragma unroll
                for (unsigned i = 0; i < EACH; i++)
                    x[pass][piece][i] = value(bytes, i);
            }
        if (CENTER)
            center(work);
    }

    // Subtracts the mean of each column.
    __device__ __forceinline__ void center(const TileWork &work)
    {
#pragma unroll
        for (unsigned piece = 0; piece < PIECES; piece++) {
            float mean[EACH] = {};
            if (CHUNKS % LANES == 0 || work.chunk(piece) < CHUNKS)
#pragma unroll
                for (unsigned i = 0; i < EACH; i += 4) {
                    const float4 four = *reinterpret_cast<const float4 *>(work.p.mean + (unsigned long long)work.head_index() * D +
                                                                         work.chunk(piece) * EACH + i);
                    mean[i] = four.x, mean[i + 1] = four.y, mean[i + 2] = four.z, mean[i + 3] = four.w;
                }
#pragma unroll
            for (unsigned pass = 0; pass < PASSES; pass++)
#pragma unroll
                for (unsigned i = 0; i < EACH; i++)
                    if (work.row(pass) < work.rows)
                        x[pass][piece][i] = __fsub_rn(x[pass][piece][i], mean[i]);
        }
    }

    // The largest finite magnitude of this thread's part of a row.
    __device__ __forceinline__ float maximum(unsigned pass) const
    {
        float largest = 0.0f;
#pragma unroll
        for (unsigned piece = 0; piece < PIECES; piece++)
#pragma unroll
            for (unsigned i = 0; i < EACH; i++)
                largest = fmaxf(largest, finite(x[pass][piece][i]) ? fabsf(x[pass][piece][i]) : 0.0f);
        return largest;
    }
    __device__ __forceinline__ float maximum() const
    {
        float largest = 0.0f;
#pragma unroll
        for (unsigned pass = 0; pass < PASSES; pass++)
            largest = fmaxf(largest, maximum(pass));
        return largest;
    }
};

// The largest of COUNT neighboring lanes; a maximum does not depend on the order.
template <unsigned COUNT> __device__ __forceinline__ float lanes_max(float x)
{
#pragma unroll
    for (unsigned step = 1; step < COUNT; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    return x;
}

// The largest of all threads of a block, to all threads; once for each launch.
__device__ __forceinline__ float block_max(float x)
{
    __shared__ float warps[THREADS / 32];
    x = lanes_max<32>(x);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = x;
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < THREADS / 32; i++)
        x = fmaxf(x, warps[i]);
    return x;
}

// The scale that maps `largest` to the format's largest value; 1 where it would be 0.
__device__ __forceinline__ float scale_of(float largest)
{
    const float scale = __fdiv_rn(largest, FORMAT_E5M2 ? 57344.0f : 448.0f);
    return scale == 0.0f ? 1.0f : scale;
}

__device__ __forceinline__ unsigned four_codes(const float *x, float scale)
{
    float y[4];
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        y[i] = __fdiv_rn(x[i], scale);
    return FORMAT_E5M2 ? cvt_e5m2x2(y[0], y[1]) | cvt_e5m2x2(y[2], y[3]) << 16
                       : cvt_e4m3x2(y[0], y[1]) | cvt_e4m3x2(y[2], y[3]) << 16;
}

#if SMOOTH
// Column sums: a thread adds its rows in order, then the slots are added in order.
extern "C" __global__ void __launch_bounds__(THREADS) sums(const __grid_constant__ QuantizeParams p)
{
    __shared__ __align__(16) float slots[SLOTS][D];
    const TileWork work(p);
    if (work.first >= work.rows)
        return;
    Values values;
    values.load<false>(work);
#pragma unroll
    for (unsigned piece = 0; piece < PIECES; piece++) {
        float sum[EACH];
#pragma unroll
        for (unsigned i = 0; i < EACH; i++) {
            sum[i] = 0.0f;
#pragma unroll
            for (unsigned pass = 0; pass < PASSES; pass++)
                sum[i] = __fadd_rn(sum[i], finite(values.x[pass][piece][i]) ? values.x[pass][piece][i] : 0.0f);
        }
        if (CHUNKS % LANES == 0 || work.chunk(piece) < CHUNKS)
#pragma unroll
            for (unsigned i = 0; i < EACH; i += 4)
                *reinterpret_cast<float4 *>(&slots[work.slot][work.chunk(piece) * EACH + i]) =
                    make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
    }
    __syncthreads();
    if (threadIdx.x < D) {
        float sum = 0.0f;
#pragma unroll
        for (unsigned slot = 0; slot < SLOTS; slot++)
            sum = __fadd_rn(sum, slots[slot][threadIdx.x]);
        p.sums[work.tile_index() * D + threadIdx.x] = sum;
    }
}

// Grid: x = heads, y = sequences; a thread for each column.
extern "C" __global__ void __launch_bounds__(D) mean(const __grid_constant__ QuantizeParams p)
{
    const unsigned head = blockIdx.x, batch = blockIdx.y, index = batch * p.heads + head;
    const unsigned rows = VARLEN ? p.starts[batch + 1] - p.starts[batch] : p.rows;
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned tile = 0; tile * TILE < rows; tile++)
        sum = __fadd_rn(sum, p.sums[((unsigned long long)index * p.tiles + tile) * D + threadIdx.x]);
    // A sum that overflows leaves the column as it is.
    p.mean[(unsigned long long)index * D + threadIdx.x] = rows > 0 && finite(sum) ? __fdiv_rn(sum, __uint2float_rn(rows)) : 0.0f;
}
#endif

#if SCALES == 0 || SCALES == 3
extern "C" __global__ void __launch_bounds__(THREADS) maxima(const __grid_constant__ QuantizeParams p)
{
    const TileWork work(p);
    Values values;
    values.load<SMOOTH>(work);
    const float largest = block_max(values.maximum());
    if (threadIdx.x == 0)
        p.maxima[work.tile_index()] = largest;
}
#endif

#if SCALES == 3
extern "C" __global__ void __launch_bounds__(THREADS) largest(const __grid_constant__ QuantizeParams p)
{
    const unsigned long long count = (unsigned long long)p.batches * p.heads * p.tiles;
    float largest = 0.0f;
    for (unsigned long long i = threadIdx.x; i < count; i += THREADS)
        largest = fmaxf(largest, p.maxima[i]);
    largest = block_max(largest);
    if (threadIdx.x == 0)
        p.maxima[count] = largest;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) quantize(const __grid_constant__ QuantizeParams p)
{
    const TileWork work(p);
    Values values;
    values.load<SMOOTH>(work);
    float scale[PASSES];
    float *scales = p.scales + work.batch * p.scale_batch + work.head * p.scale_head;
    if (SCALES == 2) {
#pragma unroll
        for (unsigned pass = 0; pass < PASSES; pass++) {
            scale[pass] = scale_of(lanes_max<LANES>(values.maximum(pass)));
            if (work.lane == 0 && work.row(pass) < p.rows)
                scales[work.row(pass)] = scale[pass];
        }
    } else {
        float largest = 0.0f;
        if (SCALES == 0)
            for (unsigned tile = threadIdx.x; tile < p.tiles; tile += THREADS)
                largest = fmaxf(largest, p.maxima[(unsigned long long)work.head_index() * p.tiles + tile]);
        const float all = SCALES == 3 ? p.maxima[(unsigned long long)p.batches * p.heads * p.tiles]
                                      : block_max(SCALES == 1 ? values.maximum() : largest);
        const float one = scale_of(all);
#pragma unroll
        for (unsigned pass = 0; pass < PASSES; pass++)
            scale[pass] = one;
        const bool writes = SCALES == 3 ? blockIdx.x + blockIdx.y + blockIdx.z == 0 : SCALES == 1 || blockIdx.x == 0;
        if (threadIdx.x == 0 && writes)
            scales[SCALES == 1 ? blockIdx.x : 0] = one;
    }
    unsigned char *to = p.codes + work.batch * p.code_batch + work.head * p.code_head;
#pragma unroll
    for (unsigned pass = 0; pass < PASSES; pass++)
#pragma unroll
        for (unsigned piece = 0; piece < PIECES; piece++) {
            if (!work.has(pass, piece))
                continue;
            unsigned char *place = to + work.place(pass) * p.code_row + work.chunk(piece) * EACH;
            const float *x = values.x[pass][piece];
            if constexpr (EACH == 8)
                st_global_v2(place, four_codes(x, scale[pass]), four_codes(x + 4, scale[pass]));
            else
                *reinterpret_cast<unsigned *>(place) = four_codes(x, scale[pass]);
        }
}
