// A product of two matrices of e2m1 with a scale of ue4m3 for 16 elements, and pairs of f32 for the epilogue; each thread compares
// its results with a plain loop, which is exact for these numbers.
//@arch: 120a
//@launch: kernel=product grid=1 block=32 arg=out:out:f32[16x8]

__device__ float value(unsigned code)
{
    const float magnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

__device__ unsigned a_code(unsigned row, unsigned k) { return (row * 5 + k * 3 + k / 16) % 16; }
__device__ unsigned b_code(unsigned k, unsigned column) { return (column * 7 + k * 5 + k / 32 + 1) % 16; }
// The exponent of a scale: 0x38 is 1, 0x40 is 2, 0x48 is 4.
__device__ unsigned a_scale(unsigned row, unsigned block) { return 0x38 + (row + block) % 3 * 8; }
__device__ unsigned b_scale(unsigned column, unsigned block) { return 0x38 + (column * 2 + block) % 2 * 8; }

__device__ float power(unsigned scale) { return float(1 << (scale - 0x38) / 8); }

extern "C" __global__ void product(float *out)
{
    unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned a[4], b[2], sa = 0, sb = 0;
    for (unsigned r = 0; r < 4; r++) {
        a[r] = 0;
#pragma unroll 1
        for (unsigned e = 0; e < 8; e++)
            a[r] |= a_code(g + r % 2 * 8, r / 2 * 32 + t * 8 + e) << 4 * e;
    }
    for (unsigned r = 0; r < 2; r++) {
        b[r] = 0;
#pragma unroll 1
        for (unsigned e = 0; e < 8; e++)
            b[r] |= b_code(r * 32 + t * 8 + e, g) << 4 * e;
    }
    for (unsigned block = 0; block < 4; block++) {
        sa |= a_scale(g + t % 2 * 8, block) << 8 * block;
        sb |= b_scale(g, block) << 8 * block;
    }
    float d[4] = {0, 0, 0, 0};
    unsigned short byte = 0, thread = 0;
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {%12, %13}, %11, {%12, %13};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sa), "r"(sb), "h"(byte), "h"(thread));
#pragma unroll 1
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = g + i / 2 * 8, column = t * 2 + i % 2;
        float sum = 0;
#pragma unroll 1
        for (unsigned k = 0; k < 64; k++)
            sum += value(a_code(row, k)) * value(b_code(k, column)) * power(a_scale(row, k / 16)) * power(b_scale(column, k / 16));
        if (sum != d[i])
            __trap();
    }
    for (unsigned i = 0; i < 4; i += 2) {
        float2 from = make_float2(d[i], d[i + 1]), factor = make_float2(0.5f, 0.25f), more = make_float2(1.0f, 2.0f), pair;
        asm("fma.rn.f32x2 %0, %1, %2, %3;"
            : "=l"(reinterpret_cast<unsigned long long &>(pair))
            : "l"(reinterpret_cast<unsigned long long &>(from)), "l"(reinterpret_cast<unsigned long long &>(factor)),
              "l"(reinterpret_cast<unsigned long long &>(more)));
        if (pair.x != d[i] * 0.5f + 1.0f || pair.y != d[i + 1] * 0.25f + 2.0f)
            __trap();
        *reinterpret_cast<float2 *>(out + (g + i / 2 * 8) * 8 + t * 2) = pair;
    }
}
