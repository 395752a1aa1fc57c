// All inline PTX of the kernels: one function for each instruction, named by its mnemonic.
#pragma once

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// threadIdx.x, read at this place and not before: what is made of it takes no registers until here.
__device__ __forceinline__ unsigned thread_again()
{
    unsigned x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

// 16 bytes from global to shared memory; `bytes` of them are read (0 or 16), the rest is filled with zeros.
__device__ __forceinline__ void cp_async_16(void *to, const void *from, unsigned bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most N of this thread's groups are under way.
template <int N> __device__ __forceinline__ void cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Four 8×8 matrices of 16-bit elements; lane l gives the shared address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}

// Two of them; lanes 0–15 give the rows.
__device__ __forceinline__ void ldmatrix_x2(unsigned (&r)[2], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(row) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}

// c += a · b on f16, c in f32.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c += a · b on 8-bit floats, c in f32 (of which the tensor core keeps 13 fraction bits).
enum class Fp8 { E4M3, E5M2 };

#define WARPPROOF_EACH_FP8(MMA)                                                                                           \
    if constexpr (A == Fp8::E4M3 && B == Fp8::E4M3)                                                                       \
        MMA("e4m3.e4m3");                                                                                                 \
    else if constexpr (A == Fp8::E4M3)                                                                                    \
        MMA("e4m3.e5m2");                                                                                                 \
    else if constexpr (B == Fp8::E4M3)                                                                                    \
        MMA("e5m2.e4m3");                                                                                                 \
    else                                                                                                                  \
        MMA("e5m2.e5m2")

template <Fp8 A, Fp8 B> __device__ __forceinline__ void mma_m16n8k32_fp8(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
#define WARPPROOF_MMA(TYPES)                                                                                             \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." TYPES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "      \
                 "{%0, %1, %2, %3};"                                                                                      \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
    WARPPROOF_EACH_FP8(WARPPROOF_MMA);
#undef WARPPROOF_MMA
}

// d = a · b, likewise. The zeros are operands of their own: as values of d they would be moved there first.
template <Fp8 A, Fp8 B>
__device__ __forceinline__ void mma_m16n8k32_fp8_from_zero(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
#define WARPPROOF_MMA(TYPES)                                                                                             \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." TYPES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "      \
                 "{%10, %10, %10, %10};"                                                                                  \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f))
    WARPPROOF_EACH_FP8(WARPPROOF_MMA);
#undef WARPPROOF_MMA
}
#undef WARPPROOF_EACH_FP8

// 2^x.
__device__ __forceinline__ float ex2(float x)
{
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 2^x, 0 where it is below 2^-126: one instruction, where ex2 takes four to keep what is denormal.
__device__ __forceinline__ float ex2_ftz(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x to within an ulp.
__device__ __forceinline__ float rcp_ftz(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float lg2(float x)
{
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two e4m3 codes, `low` in bits 0–7.
__device__ __forceinline__ unsigned cvt_e4m3x2(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ unsigned cvt_e5m2x2(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

// Two f16 codes, `low` in bits 0–15.
__device__ __forceinline__ unsigned cvt_f16x2(float low, float high)
{
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ unsigned short cvt_f16(float x)
{
    unsigned short code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
}

// Likewise in bf16.
__device__ __forceinline__ unsigned cvt_bf16x2(float low, float high)
{
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ unsigned short cvt_bf16(float x)
{
    unsigned short code;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
}

// Eight bytes to global memory in one instruction.
__device__ __forceinline__ void st_global_v2(void *to, unsigned x, unsigned y)
{
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(x), "r"(y) : "memory");
}

// The value of the f16 code in bits 0–15; exact.
__device__ __forceinline__ float cvt_f32_f16(unsigned code)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<unsigned short>(code)));
    return x;
}

// Two f16 of two e4m3 codes; exact.
__device__ __forceinline__ unsigned cvt_f16x2_e4m3x2(unsigned short codes)
{
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(codes));
    return pair;
}

__device__ __forceinline__ unsigned cvt_f16x2_e5m2x2(unsigned short codes)
{
    unsigned pair;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(codes));
    return pair;
}

// Bytes of {b, a} picked by the four digits of `selector`, the lowest first.
template <unsigned SELECTOR> __device__ __forceinline__ unsigned prmt(unsigned a, unsigned b)
{
    unsigned d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "n"(SELECTOR));
    return d;
}
