// Instructions of sm_100a as macros, not functions: a finding then names the line of the kernel that uses one.
#pragma once

#define SHARED(pointer) ((unsigned)__cvta_generic_to_shared(pointer))

// mbarriers and tensor copies.
#define INIT(barrier, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SHARED(barrier)), "r"(count) : "memory")
#define ARRIVE_EXPECT(barrier, bytes) \
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SHARED(barrier)), "r"((unsigned)(bytes)) : "memory")
#define WAIT(barrier, parity)                                                                                              \
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" \
                 ::"r"(SHARED(barrier)), "r"(parity)                                                                       \
                 : "memory")
#define FENCE_INIT() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define FENCE_PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define TENSOR_LOAD(to, map, x, y, barrier)                                                                                        \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r" \
                 (SHARED(to)), "l"(map), "r"(x), "r"(y), "r"(SHARED(barrier)) : "memory")

// Tensor memory. `address` is what TENSOR_ALLOC wrote.
#define TENSOR_ALLOC(to, columns) \
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(SHARED(to)), "n"(columns) : "memory")
#define TENSOR_FREE(address, columns) \
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(columns) : "memory")
#define TENSOR_RELINQUISH() asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory")
#define FENCE_BEFORE() asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory")
#define FENCE_AFTER() asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")
#define TENSOR_LOAD_8(r, address)                                                                                  \
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"                   \
                 : "=f"((r)[0]), "=f"((r)[1]), "=f"((r)[2]), "=f"((r)[3]), "=f"((r)[4]), "=f"((r)[5]), "=f"((r)[6]), \
                   "=f"((r)[7])                                                                                    \
                 : "r"(address) : "memory")
#define TENSOR_STORE_8(address, value)                                                                      \
    asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %1, %1, %1, %1, %1, %1, %1};" ::"r"(address), \
                 "f"(value) : "memory")
#define WAIT_LOADS() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define WAIT_STORES() asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")
// D (tensor memory) = A * B, or += if `accumulate` is not 0.
#define MULTIPLY(d, a, b, format, accumulate)                                                                       \
    asm volatile("{\n.reg .pred add;\nsetp.ne.u32 add, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, add;\n}" \
                 ::"r"(d), "l"(a), "l"(b), "r"(format), "r"((unsigned)(accumulate)) : "memory")
#define COMMIT(barrier)                                                                                                  \
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(SHARED(barrier)) : "memory")

// f16 to f32, both operands K-major, of `m` rows and `n` columns.
constexpr unsigned format(unsigned m, unsigned n)
{
    return 1u << 4 | n / 8 << 17 | m / 16 << 24;
}

// Rows of 128 bytes with the swizzle of 128 bytes.
__device__ inline unsigned long long swizzled(const void *tile)
{
    unsigned long long start = SHARED(tile) >> 4 & 0x3fff;
    return start | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 46 | 2ull << 61;
}

// Rows of 16 halves as core matrices of 8 rows and 16 bytes: those of the second half of k follow those of the first.
__device__ inline unsigned place(unsigned rows, unsigned row, unsigned k)
{
    return k / 8 * rows * 8 + row * 8 + k % 8;
}

__device__ inline unsigned long long descriptor(const void *tile, unsigned rows)
{
    unsigned long long start = SHARED(tile) >> 4 & 0x3fff;
    return start | (unsigned long long)rows << 16 | 128ull >> 4 << 32 | 1ull << 46;
}

// The same for a pair of blocks, whose ranks in the cluster differ in the last bit.
#define PAIR_ALLOC(to, columns) \
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(SHARED(to)), "n"(columns) : "memory")
#define PAIR_FREE(address, columns) \
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(columns) : "memory")
#define PAIR_RELINQUISH() asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory")
#define PAIR_MULTIPLY(d, a, b, format, accumulate)                                                                  \
    asm volatile("{\n.reg .pred add;\nsetp.ne.u32 add, %4, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, add;\n}" \
                 ::"r"(d), "l"(a), "l"(b), "r"(format), "r"((unsigned)(accumulate)) : "memory")
// Arrives at the barrier at this address in the blocks of the mask.
#define PAIR_COMMIT(barrier, mask)                                                                                           \
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r" \
                 (SHARED(barrier)), "h"((unsigned short)(mask)) : "memory")
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.aligned;" ::: "memory")
