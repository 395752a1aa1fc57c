// Single instructions of sm_100a as functions, for the kernels of this folder. What Hopper has too is in `hopper.cuh`.
#pragma once

#include "hopper.cuh"

// Tensor memory: `to` receives the address of the first column. All lanes of one warp.
__device__ inline void tensor_alloc(unsigned *to, unsigned columns)
{
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(to)), "r"(columns) : "memory");
}

__device__ inline void tensor_relinquish()
{
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

__device__ inline void tensor_free(unsigned address, unsigned columns)
{
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory");
}

__device__ inline void fence_before_sync()
{
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ inline void fence_after_sync()
{
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Arrives when all multiplications of this thread so far are complete.
__device__ inline void mma_commit(Barrier *barrier)
{
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Rows of 64 halves with the swizzle of 128 bytes, as a tensor copy writes them; `tile` may be a later column or row of them.
__device__ inline u64 tile_descriptor(const Half *tile)
{
    return (shared_address(tile) >> 4 & 0x3fff) | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 46 | 2ull << 61;
}

// f16 to f32 with 128 rows. B has its columns in rows (`keys`), or its rows in rows.
constexpr unsigned format(unsigned columns, bool rows_of_b)
{
    return 1u << 4 | (rows_of_b ? 1u << 16 : 0) | columns / 8 << 17 | 128 / 16 << 24;
}

// D += A * B, or D = A * B; A in shared memory.
__device__ inline void mma(unsigned d, u64 a, u64 b, unsigned format, bool add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d), "l"(a),
                 "l"(b), "r"(format), "r"((unsigned)add)
                 : "memory");
}

// The same with A in tensor memory.
__device__ inline void mma_tensor(unsigned d, unsigned a, u64 b, unsigned format, bool add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}\n" ::"r"(d), "r"(a),
                 "l"(b), "r"(format), "r"((unsigned)add)
                 : "memory");
}

// Sixteen columns of the lane that belongs to the thread.
__device__ inline void tensor_load(float *r, unsigned address)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
                 : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]), "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7]), "=f"(r[8]), "=f"(r[9]),
                   "=f"(r[10]), "=f"(r[11]), "=f"(r[12]), "=f"(r[13]), "=f"(r[14]), "=f"(r[15])
                 : "r"(address)
                 : "memory");
}

__device__ inline void tensor_store(unsigned address, const float *r)
{
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};" ::"r"(address),
                 "f"(r[0]), "f"(r[1]), "f"(r[2]), "f"(r[3]), "f"(r[4]), "f"(r[5]), "f"(r[6]), "f"(r[7]), "f"(r[8]), "f"(r[9]), "f"(r[10]),
                 "f"(r[11]), "f"(r[12]), "f"(r[13]), "f"(r[14]), "f"(r[15])
                 : "memory");
}

__device__ inline void tensor_store(unsigned address, const unsigned *r)
{
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};" ::"r"(address),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7]), "r"(r[8]), "r"(r[9]), "r"(r[10]),
                 "r"(r[11]), "r"(r[12]), "r"(r[13]), "r"(r[14]), "r"(r[15])
                 : "memory");
}

__device__ inline void tensor_wait_loads()
{
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

__device__ inline void tensor_wait_stores()
{
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// Stores eight halves of a row into a tile with the swizzle of 128 bytes.
__device__ inline void store_chunk(Half *tile, unsigned row, unsigned chunk, const unsigned *halves)
{
    uint4 *to = reinterpret_cast<uint4 *>(tile + row * 64 + (chunk ^ row % 8) * 8);
    *to = make_uint4(halves[0], halves[1], halves[2], halves[3]);
}
