// Hand-written PTX as people write it: modifiers in unusual order, scoped blocks with their own registers and labels,
// comments, several statements on a line, predicates, vectors, address arithmetic, special registers, numbers of every form.
// Result: see each kernel
//@arch: 75+
//@launch: kernel=modifier_order grid=1 block=64 arg=in:f32[64]=randn(seed=0) arg=out:f32[320]=0
//@launch: kernel=scoped_blocks grid=1 block=64 arg=in:u32[64]=iota arg=out:u32[64]
//@launch: kernel=vectors_and_addresses grid=1 block=32 arg=in:u32[128]=iota arg=out:u32[128]
//@launch: kernel=special_registers grid=2,2,1 block=8,4,2 arg=out:u32[256]
//@launch: kernel=literals grid=1 block=1 arg=out:u32[12]
//@launch: kernel=predicates grid=1 block=64 arg=in:i32[64]=iota arg=out:u32[64]

// The assembler takes modifiers in any order, the type excepted in a few. out: a·a + a flushed, a·a saturated,
// a + 1 rounded towards zero, a rounded to an integer, and the sum of the neighbors' values (i ^ 1).
extern "C" __global__ void modifier_order(const float *in, float *out)
{
    float a, x, y, z, w, v;
    asm volatile("ld.nc.global.f32 %0, [%1];" : "=f"(a) : "l"(in + threadIdx.x));
    asm("fma.ftz.rn.f32 %0, %1, %1, %1;" : "=f"(x) : "f"(a));
    asm("mul.sat.ftz.rn.f32 %0, %1, %1;" : "=f"(y) : "f"(a));
    asm("add.ftz.rz.f32 %0, %1, 0f3F800000;" : "=f"(z) : "f"(a));
    asm("{ .reg .s32 t; cvt.sat.ftz.rni.s32.f32 t, %1; cvt.f32.s32.rn %0, t; }" : "=f"(w) : "f"(a));
    asm volatile("{ .reg .b32 t; shfl.bfly.sync.b32 t, %1, 1, 31, -1; mov.b32 %0, t; }" : "=f"(v) : "f"(a));
    asm volatile("st.cs.global.f32 [%0], %1;" ::"l"(out + threadIdx.x), "f"(x) : "memory");
    asm volatile("st.f32.global [%0], %1;" ::"l"(out + 64 + threadIdx.x), "f"(y) : "memory");
    asm volatile("st.gpu.relaxed.global.f32 [%0], %1;" ::"l"(out + 128 + threadIdx.x), "f"(z) : "memory");
    asm volatile("red.add.gpu.relaxed.global.f32 [%0], %1;" ::"l"(out + 192 + threadIdx.x), "f"(w) : "memory");
    asm volatile("fence.gpu.sc; st.global.f32 [%0], %1;" ::"l"(out + 256 + threadIdx.x), "f"(a + v) : "memory");
}

// out[i] = number of Collatz steps from i + 1 to 1, then tripled in a nested scope
extern "C" __global__ void scoped_blocks(const unsigned *in, unsigned *out)
{
    unsigned steps, n = in[threadIdx.x] + 1;
    asm volatile("{\n\t"
                 "  .reg .pred done, odd;   // one block's own registers\n\t"
                 "  .reg .u32 n, t, count;\n\t"
                 "  mov.u32 n, %1; mov.u32 count, 0;\n\t"
                 "again:\n\t"
                 "  setp.eq.u32 done, n, 1;\n\t"
                 "  @done bra finished;\n\t"
                 "  and.b32 t, n, 1;\n\t"
                 "  setp.ne.u32 odd, t, 0;\n\t"
                 "  @odd mad.lo.u32 n, n, 3, 1;\n\t"
                 "  @!odd shr.u32 n, n, 1;\n\t"
                 "  add.u32 count, count, 1;\n\t"
                 "  bra again;\n\t"
                 "finished:\n\t"
                 "  {\n\t"
                 "    .reg .u32 n;  /* hides the outer n */\n\t"
                 "    shl.b32 n, count, 1; add.u32 %0, n, count;\n\t"
                 "  }\n\t"
                 "}"
                 : "=r"(steps)
                 : "r"(n));
    out[threadIdx.x] = steps;
}

// Four words in, the same four in reverse order out, through shared memory.
extern "C" __global__ void vectors_and_addresses(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) unsigned tile[128];
    unsigned to = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x * 4]);
    asm volatile("{ .reg .b32 a, b, c, d;\n\t"
                 "ld.global.nc.v4.b32 {a, b, c, d}, [%0];\n\t"
                 "st.shared.v2.b32 [%1], {d, c};\n\t"
                 "st.volatile.shared.b32 [%1+8], b; st.shared.b32 [%1 + 12], a; }" ::"l"(in + threadIdx.x * 4),
                 "r"(to)
                 : "memory");
    __syncwarp();
    asm volatile("{ .reg .b64 packed; .reg .b32 low, high;\n\t"
                 "ld.shared.b64 packed, [%1];\n\t"
                 "mov.b64 {low, high}, packed;\n\t"
                 "st.global.v2.u32 [%0], {low, high};\n\t"
                 "ld.shared.v2.u32 {low, high}, [%1+8];\n\t"
                 "st.global.wb.v2.u32 [%0+8], {low, high}; }" ::"l"(out + threadIdx.x * 4),
                 "r"(to)
                 : "memory");
}

// out[global thread number] = lane | warp << 8 | x << 16 | block << 24
extern "C" __global__ void special_registers(unsigned *out)
{
    unsigned lane, warp, x, mask;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%tid.x;" : "=r"(x));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    warp = thread / 32;
    unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    if (mask == (1u << lane) - 1)
        out[block * 64 + thread] = lane | warp << 8 | x << 16 | block << 24;
}

// Decimal, hexadecimal, octal, binary, unsigned suffix, negative, float and double bits, expressions, character codes.
extern "C" __global__ void literals(unsigned *out)
{
    asm volatile("st.global.u32 [%0], 42;\n\t"
                 "st.global.u32 [%0+4], 0x2A;\n\t"
                 "st.global.u32 [%0+8], 052;\n\t"
                 "st.global.u32 [%0+12], 0b101010;\n\t"
                 "st.global.u32 [%0+16], 42U;\n\t"
                 "st.global.s32 [%0+20], -42;\n\t"
                 "st.global.f32 [%0+24], 0f42280000;\n\t"
                 "st.global.f32 [%0+28], 42.0;\n\t"
                 "st.global.u32 [%0+32], (6 * 7);\n\t"
                 "st.global.u32 [%0+36], ((1 << 5) | 10);\n\t"
                 "st.global.f64 [%0+40], 0d4045000000000000;" ::"l"(out)
                 : "memory");
}

// out[i] = bit 0: i < 10 or i > 50; bit 1: i is a multiple of 4; bit 2: both; set through predicate logic
extern "C" __global__ void predicates(const int *in, unsigned *out)
{
    unsigned result;
    asm("{ .reg .pred p, q, r, s; .reg .b32 t;\n\t"
        "setp.lt.s32 p|q, %1, 10;\n\t"
        "setp.gt.or.s32 p, %1, 50, p;\n\t"
        "and.b32 t, %1, 3; setp.eq.u32 r, t, 0;\n\t"
        "and.pred s, p, r; not.pred q, q;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t"
        "@r or.b32 %0, %0, 2;\n\t"
        "@s or.b32 %0, %0, 4; }"
        : "=r"(result)
        : "r"(in[threadIdx.x]));
    out[threadIdx.x] = result;
}
