// Thread block clusters (sm_90): cluster attributes, distributed shared memory through cooperative groups and through
// mapa and st.async, cluster barriers, cluster special registers.
// Result: neighbor_sum  out[b*128+t] = in of the same thread in the cluster's two blocks, added
//         ring           out[b] = the rank of the block before, in a cluster of 4
//         async_store    out[b] = 100 + rank of the other block
//@arch: 90 100 120
//@launch: kernel=neighbor_sum grid=4 block=128 cluster=2 arg=in:f32[512]=randn(seed=0) arg=out:f32[512]
//@launch: kernel=ring grid=4 block=32 cluster=4 arg=out:u32[4]
//@launch: kernel=async_store grid=2 block=32 cluster=2 arg=out:u32[2]
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbor_sum(const float *in, float *out)
{
    __shared__ float mine[128];
    cg::cluster_group cluster = cg::this_cluster();
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    mine[threadIdx.x] = in[i];
    cluster.sync();
    const float *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    out[i] = mine[threadIdx.x] + theirs[threadIdx.x];
    // A block must not leave while another still reads its shared memory.
    cluster.sync();
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(32) ring(unsigned *out)
{
    __shared__ unsigned mailbox;
    unsigned rank, size, remote, local = (unsigned)__cvta_generic_to_shared(&mailbox);
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"((rank + 1) % size));
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(rank) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
    if (threadIdx.x == 0)
        out[blockIdx.x] = mailbox;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) async_store(unsigned *out)
{
    __shared__ __align__(8) unsigned long long barrier;
    __shared__ unsigned value;
    unsigned rank, bar = (unsigned)__cvta_generic_to_shared(&barrier), val = (unsigned)__cvta_generic_to_shared(&value);
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], 4; }" ::"r"(bar)
                     : "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        asm volatile("{ .reg .b32 to, signal;\n\t"
                     "mapa.shared::cluster.u32 to, %0, %2;\n\t"
                     "mapa.shared::cluster.u32 signal, %1, %2;\n\t"
                     "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [to], %3, [signal]; }" ::"r"(val),
                     "r"(bar), "r"(rank ^ 1), "r"(100 + rank)
                     : "memory");
        asm volatile("{ .reg .pred done;\n\t"
                     "waiting: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n\t"
                     "@!done bra waiting; }" ::"r"(bar)
                     : "memory");
        out[blockIdx.x] = value;
    }
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}
