// Inverts a surface in place. A program creates surface objects; a launch of a file has none.
//@launch: kernel=invert grid=1 block=32 arg=image:u64=0

extern "C" __global__ void invert(unsigned long long image)
{
    int x = threadIdx.x * 4, y = 0;
    unsigned value;
    asm volatile("suld.b.2d.b32.trap %0, [%1, {%2, %3}];" : "=r"(value) : "l"(image), "r"(x), "r"(y)); //~ unsupported
    asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], %3;" ::"l"(image), "r"(x), "r"(y), "r"(~value));
}
