// Relaxed atomics of several kinds on the same words, from all blocks at once.
// Result: out[0] = 255, out[1] = 0, out[2] = 256, out[3] = all 32 bits, out[4] = 256
//@launch: kernel=extremes grid=4 block=64 arg=out:inout:u32[5]=[0,4294967295,0,0,0]

extern "C" __global__ void extremes(unsigned *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMax(&out[0], i);
    atomicMin(&out[1], i);
    atomicInc(&out[2], 999);
    atomicOr(&out[3], 1u << i % 32);
    unsigned seen = atomicAdd(&out[4], 0), expected;
    do {
        expected = seen;
        seen = atomicCAS(&out[4], expected, expected + 1);
    } while (seen != expected);
}
