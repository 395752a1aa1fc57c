// Four ways to let something else than the inputs decide: the clock, the timer, the multiprocessor, and where an array lies.
//@launch: kernel=by_clock grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32]
//@launch: kernel=by_timer grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32]
//@launch: kernel=by_multiprocessor grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32]
//@launch: kernel=by_address grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32]
//@checks: machine
extern "C" __global__ void by_clock(const int *in, int *out)
{
    int low = clock() & 1; //~ machine-dependent
    out[threadIdx.x] = in[threadIdx.x] + low; //~ machine-dependent
}

extern "C" __global__ void by_timer(const int *in, int *out)
{
    unsigned now;
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(now)); //~ machine-dependent
    out[threadIdx.x] = in[threadIdx.x] + (now & 1); //~ machine-dependent
}

extern "C" __global__ void by_multiprocessor(const int *in, int *out)
{
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id)); //~ machine-dependent
    out[threadIdx.x] = in[threadIdx.x] / (id + 1); //~ machine-dependent
}

extern "C" __global__ void by_address(const int *in, int *out) //~ machine-dependent
{
    unsigned bit = (unsigned)((unsigned long long)in >> 12) & 1;
    out[threadIdx.x] = in[threadIdx.x ^ bit]; //~ machine-dependent
}
