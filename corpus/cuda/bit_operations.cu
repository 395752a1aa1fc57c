// Bit operations: population count, leading zeros, reversal, byte permutation, funnel shifts, bit fields, logic of three
// operands, dot products of bytes, SIMD in a word, and hash functions built of them.
// Result: see each kernel
// With -G, NVRTC 13.4 gives up on this file below sm_100 ("unsupported operation"); 13.2 does not.
//@arch: 75+
//@not: cuda-13 debug
//@launch: kernel=bit_mix grid=1 block=64 arg=x:u32[64]=randint(seed=0) arg=y:u32[64]=randint(seed=1) arg=out:u32[1280]
//@launch: kernel=bit_mix_64 grid=1 block=64 arg=x:u64[64]=randint(seed=2) arg=out:u32[256]
//@launch: kernel=bit_hash grid=1 block=128 arg=in:u8[2048]=randint(0,255,seed=3) arg=out:u32[128]
//@launch: kernel=bit_crc grid=1 block=16 arg=in:u8[1024]=randint(0,255,seed=4) arg=out:u32[16]

extern "C" __global__ void bit_mix(const unsigned *in_x, const unsigned *in_y, unsigned *out)
{
    unsigned i = threadIdx.x, n = blockDim.x, x = in_x[i], y = in_y[i], r;
    out[i] = __popc(x);
    out[n + i] = __clz(x);
    out[2 * n + i] = __ffs(x);
    out[3 * n + i] = __brev(x);
    out[4 * n + i] = __byte_perm(x, y, i * 0x1235u & 0x7777u);
    out[5 * n + i] = __funnelshift_l(x, y, i);
    out[6 * n + i] = __funnelshift_rc(x, y, i);
    asm("bfe.u32 %0, %1, %2, 7;" : "=r"(r) : "r"(x), "r"(i % 32));
    out[7 * n + i] = r;
    asm("bfe.s32 %0, %1, 3, %2;" : "=r"(r) : "r"(x), "r"(i % 32));
    out[8 * n + i] = r;
    asm("bfi.b32 %0, %1, %2, %3, 5;" : "=r"(r) : "r"(x), "r"(y), "r"(i % 32));
    out[9 * n + i] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
    out[10 * n + i] = r;
    asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(x));
    out[11 * n + i] = r;
    asm("bfind.shiftamt.s32 %0, %1;" : "=r"(r) : "r"(x));
    out[12 * n + i] = r;
    out[13 * n + i] = (unsigned)__dp4a((int)x, (int)y, (int)i);
    out[14 * n + i] = __dp2a_hi(x, y, i);
    out[15 * n + i] = __vadd4(x, y);
    out[16 * n + i] = __vabsdiffu4(x, y);
    out[17 * n + i] = __usad(x, y, i);
    out[18 * n + i] = __umul24(x, y) + __umulhi(x, y);
    out[19 * n + i] = __uhadd(x, y) ^ (unsigned)__rhadd((int)x, (int)y);
}

extern "C" __global__ void bit_mix_64(const unsigned long long *in, unsigned *out)
{
    unsigned i = threadIdx.x, n = blockDim.x;
    unsigned long long x = in[i];
    out[i] = __popcll(x);
    out[n + i] = __clzll(x);
    out[2 * n + i] = __ffsll(x);
    out[3 * n + i] = (unsigned)(__brevll(x) >> 17);
}

// FNV-1a over the thread's 16 bytes, then the final mix of MurmurHash3.
extern "C" __global__ void bit_hash(const unsigned char *in, unsigned *out)
{
    unsigned hash = 2166136261u;
    for (unsigned i = 0; i < 16; i++)
        hash = (hash ^ in[threadIdx.x * 16 + i]) * 16777619u;
    hash ^= hash >> 16;
    hash *= 0x85ebca6bu;
    hash ^= hash >> 13;
    hash *= 0xc2b2ae35u;
    hash ^= hash >> 16;
    out[threadIdx.x] = hash;
}

// CRC-32 (reflected, polynomial 0xedb88320) of the thread's 64 bytes.
extern "C" __global__ void bit_crc(const unsigned char *in, unsigned *out)
{
    unsigned crc = 0xffffffffu;
    for (unsigned i = 0; i < 64; i++) {
        crc ^= in[threadIdx.x * 64 + i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
    }
    out[threadIdx.x] = ~crc;
}
