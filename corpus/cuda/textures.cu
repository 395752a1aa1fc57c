// Texture and surface objects: fetches by integer and by normalized coordinate, layers, gathers, surface reads and writes.
// The objects are opaque 64-bit handles made by the driver, so these kernels have no launch line.
//@arch: 75+

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;

extern "C" __global__ void filter(cudaTextureObject_t image, float *out)
{
    float x = (threadIdx.x + 0.5f) / blockDim.x, y = (threadIdx.y + 0.5f) / blockDim.y, r;
    asm("{ .reg .f32 g, b, a; tex.2d.v4.f32.f32 {%0, g, b, a}, [%1, {%2, %3}]; }"
        : "=f"(r)
        : "l"(image), "f"(x), "f"(y));
    out[threadIdx.y * blockDim.x + threadIdx.x] = r;
}

extern "C" __global__ void fetch(cudaTextureObject_t line, cudaTextureObject_t layers, float *out)
{
    float r, s;
    asm("{ .reg .f32 g, b, a; tex.1d.v4.f32.s32 {%0, g, b, a}, [%1, {%2}]; }"
        : "=f"(r)
        : "l"(line), "r"(threadIdx.x));
    asm("{ .reg .f32 g, b, a; tex.level.a2d.v4.f32.f32 {%0, g, b, a}, [%1, {%2, %3, %4, %4}], %5; }"
        : "=f"(s)
        : "l"(layers), "r"(blockIdx.x), "f"(0.5f), "f"(0.25f), "f"(0.0f));
    out[threadIdx.x] = r + s;
}

extern "C" __global__ void invert(cudaSurfaceObject_t image)
{
    int value;
    asm volatile("suld.b.2d.b32.trap {%0}, [%1, {%2, %3}];"
                 : "=r"(value)
                 : "l"(image), "r"(threadIdx.x * 4), "r"(threadIdx.y));
    asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};" ::"l"(image), "r"(threadIdx.x * 4), "r"(threadIdx.y),
                 "r"(~value)
                 : "memory");
}
