// Each thread writes, rewrites and reads its own 16 bytes in different widths; no barrier is needed for that.
// Result: out[i] = sum over the four bytes of in[i], plus three times in[i], modulo 2^32
//@launch: kernel=digits grid=2 block=64 arg=in:in:u32[128]=randint(seed=0) arg=out:out:u32[128]

extern "C" __global__ void digits(const unsigned *in, unsigned *out)
{
    __shared__ volatile unsigned scratch[64][4];
    unsigned i = blockIdx.x * 64 + threadIdx.x;
    volatile unsigned *mine = scratch[threadIdx.x];
    for (int k = 0; k < 4; k++)
        mine[k] = in[i];
    volatile unsigned char *bytes = (volatile unsigned char *)mine;
    unsigned sum = bytes[0] + bytes[1] + bytes[2] + bytes[3];
    *(volatile unsigned short *)mine = (unsigned short)sum;
    out[i] = *(volatile unsigned short *)mine + mine[1] + mine[2] + mine[3];
}
