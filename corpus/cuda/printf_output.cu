// Device printf: every conversion a kernel is likely to use, including none, strings and 64-bit values.
// Result: the text below, once per thread; lines of one thread stay in order
//@arch: 75+
//@launch: kernel=say grid=1 block=4 arg=values:f32[4]=iota
//@launch: kernel=formats grid=1 block=1 arg=big:u64=18446744073709551615

extern "C" __global__ void say(const float *values)
{
    printf("thread %u of %u: %f\n", threadIdx.x, blockDim.x, values[threadIdx.x]);
    if (threadIdx.x == 0)
        printf("done\n");
}

extern "C" __global__ void formats(unsigned long long big)
{
    const char *word = big & 1 ? "odd" : "even";
    printf("%d %5d|%-5d|%05d %x %X %o %c %%\n", -7, 42, 42, 42, 255, 255, 8, 'q');
    printf("%llu %lld %#llx %s\n", big, (long long)big, big, word);
    printf("%.3f %e %g %8.2f|\n", 3.14159, 1.5e10, 0.0001, -2.5);
    int written = printf("%s\n", "");
    printf("%d\n", written);
}
