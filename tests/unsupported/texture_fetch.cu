// Samples a two-dimensional texture. A program creates texture objects; a launch of a file has none.
//@launch: kernel=sample grid=1 block=32 arg=image:u64=0 arg=out:out:f32[32]

#define TEX_2D(r, image, x, y)                                                                                 \
    asm("{ .reg .f32 g, b, a; tex.2d.v4.f32.f32 {%0, g, b, a}, [%1, {%2, %3}]; }"                              \
        : "=f"(r) : "l"(image), "f"(x), "f"(y))

extern "C" __global__ void sample(unsigned long long image, float *out)
{
    float x = (threadIdx.x + 0.5f) / blockDim.x, y = 0.5f, value;
    TEX_2D(value, image, x, y); //~ unsupported
    out[threadIdx.x] = value;
}
