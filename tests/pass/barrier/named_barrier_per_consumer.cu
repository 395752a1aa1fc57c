// One producer warp serves three consumer warps in turn. Each consumer has a slot and a pair of barriers of its
// own, so that the consumers never wait for one another.
// Result: out[i] = in[i] + 1
//@launch: kernel=serve grid=1 block=128 arg=in:in:i32[384]=randint(-99,99,seed=0) arg=out:out:i32[384] arg=rounds:u32=4

extern "C" __global__ void serve(const int *in, int *out, unsigned rounds)
{
    __shared__ int slot[3][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == 0) {
        for (unsigned round = 0; round < rounds; round++) {
            for (unsigned consumer = 0; consumer < 3; consumer++) {
                if (round > 0)
                    asm volatile("bar.sync %0, 64;" ::"r"(4 + consumer) : "memory");
                slot[consumer][lane] = in[(round * 3 + consumer) * 32 + lane] + 1;
                asm volatile("bar.arrive %0, 64;" ::"r"(1 + consumer) : "memory");
            }
        }
    } else {
        unsigned consumer = warp - 1;
        for (unsigned round = 0; round < rounds; round++) {
            asm volatile("bar.sync %0, 64;" ::"r"(1 + consumer) : "memory");
            int value = slot[consumer][lane ^ 1];
            if (round + 1 < rounds)
                asm volatile("bar.arrive %0, 64;" ::"r"(4 + consumer) : "memory");
            out[(round * 3 + consumer) * 32 + (lane ^ 1)] = value;
        }
    }
}
