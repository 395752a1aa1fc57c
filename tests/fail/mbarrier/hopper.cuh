// Instructions of sm_90a as macros, not functions: a finding then names the line of the kernel that uses one.
#pragma once

#define SHARED(pointer) ((unsigned)__cvta_generic_to_shared(pointer))

// mbarriers. `barrier` is a pointer to one of this block.
#define INIT(barrier, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SHARED(barrier)), "r"(count) : "memory")
#define ARRIVE(barrier) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SHARED(barrier)) : "memory")
#define ARRIVE_COUNT(barrier, count) \
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(SHARED(barrier)), "r"(count) : "memory")
#define ARRIVE_EXPECT(barrier, bytes) \
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SHARED(barrier)), "r"((unsigned)(bytes)) : "memory")
#define EXPECT(barrier, bytes) \
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(SHARED(barrier)), "r"((unsigned)(bytes)) : "memory")
#define WAIT(barrier, parity)                                                                                              \
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" \
                 ::"r"(SHARED(barrier)), "r"(parity)                                                                       \
                 : "memory")
#define FENCE_INIT() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define FENCE_PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

// Bulk copies: `bytes` is a multiple of 16.
#define BULK_LOAD(to, from, bytes, barrier)                                                                      \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r" \
                 (SHARED(to)), "l"(__cvta_generic_to_global(from)), "r"((unsigned)(bytes)), "r"(SHARED(barrier)) : "memory")
#define BULK_STORE(to, from, bytes)                                                                                \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), \
                 "r"(SHARED(from)), "r"((unsigned)(bytes)) : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT_READ(left) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory")
#define BULK_WAIT(left) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(left) : "memory")

// Named barrier of a number of threads.
#define NAMED_BARRIER(id, threads) asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory")

// Clusters. `peer` is an address from MAPA.
#define CLUSTER_RANK(rank) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank))
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define CLUSTER_ARRIVE_RELAXED() asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define CLUSTER_SYNC() \
    do {               \
        CLUSTER_ARRIVE(); \
        CLUSTER_WAIT(); \
    } while (0)
#define MAPA(peer, pointer, rank) \
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(SHARED(pointer)), "r"(rank))
#define LOAD_PEER(value, peer) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(peer) : "memory")
#define STORE_PEER(peer, value) asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(peer), "r"(value) : "memory")
#define ARRIVE_PEER(peer) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer) : "memory")
#define WAIT_CLUSTER(barrier, parity)                                                                                 \
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n" \
                 "@!done bra AGAIN;\n}" ::"r"(SHARED(barrier)), "r"(parity) : "memory")

// The tensor core.
#define WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT(left) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory")
// D (64 x 8, float c[4]) += A (64 x 16) * B (16 x 8), both in shared memory.
#define WGMMA_64X8(c, a, b)                                                                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"           \
                 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                                               \
                 : "l"(a), "l"(b))
// The same with A in registers, unsigned a[4].
#define WGMMA_64X8_REGISTERS(c, a, b)                                                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;" \
                 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                                               \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b))
// D (64 x 32, float c[16]) += A (64 x 16) * B (16 x 32).
#define WGMMA_64X32(c, a, b)                                                                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "    \
                 "%11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 0;"                                                   \
                 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]), "+f"((c)[4]), "+f"((c)[5]), "+f"((c)[6]),    \
                   "+f"((c)[7]), "+f"((c)[8]), "+f"((c)[9]), "+f"((c)[10]), "+f"((c)[11]), "+f"((c)[12]), "+f"((c)[13]), \
                   "+f"((c)[14]), "+f"((c)[15])                                                                         \
                 : "l"(a), "l"(b))

// Tiles without swizzle: core matrices of 8 rows and 16 bytes. Those of the next 8 columns follow after `rows` * 16 bytes.
__device__ inline unsigned long long descriptor(const void *tile, unsigned rows)
{
    unsigned long long start = SHARED(tile) >> 4 & 0x3fff;
    return start | (unsigned long long)rows << 16 | 128ull >> 4 << 32;
}
// The index of an element of such a tile of 16-bit elements.
__device__ inline unsigned place(unsigned rows, unsigned row, unsigned column)
{
    return column / 8 * rows * 8 + row * 8 + column % 8;
}

// One lane of the warp.
__device__ inline bool elected()
{
    unsigned chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen;
}
