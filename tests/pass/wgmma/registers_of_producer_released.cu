// The block starts with 168 registers for each thread. The consumers get those that the producer releases.
//@arch: 90a
//@launch: kernel=roles grid=1 block=384 arg=out:out:i32[1]

extern "C" __global__ void __launch_bounds__(384, 1) roles(int *out)
{
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            *out = 1;
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
}
