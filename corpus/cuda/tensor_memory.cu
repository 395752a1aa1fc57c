// Tensor memory (sm_100a): allocate 32 columns, store registers to them, load them back, free.
// Result: out[t] = in[t] for a warpgroup of 128 threads
//@arch: 100a
//@launch: kernel=tensor_memory grid=1 block=128 arg=in:u32[128]=iota arg=out:u32[128]

extern "C" __global__ void __launch_bounds__(128) tensor_memory(const unsigned *in, unsigned *out)
{
    __shared__ unsigned base;
    unsigned warp = threadIdx.x / 32, value = in[threadIdx.x], back;
    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(
                         (unsigned)__cvta_generic_to_shared(&base))
                     : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    __syncthreads();
    // The upper half of an address is the lane of tensor memory; a warp reaches its own 32 lanes.
    unsigned address = base + (warp * 32 << 16);
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(address), "r"(value) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(back) : "r"(address) : "memory");
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    out[threadIdx.x] = back;
    __syncthreads();
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(base));
}
