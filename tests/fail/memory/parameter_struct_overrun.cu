// Evaluates a polynomial whose four coefficients come in a struct by value. The degree says four, so a fifth
// coefficient is read past the end of the struct (the compiler copies it to local memory).
//@launch: kernel=evaluate grid=1 block=32 arg=out:out:f32[32] arg=degree:i32=4 arg=c:f32=[1,2,3,4]

struct Coefficients {
    float c[4];
};

extern "C" __global__ void evaluate(float *out, int degree, Coefficients p)
{
    float x = threadIdx.x, sum = 0.0f;
#pragma unroll 1
    for (int i = degree; i >= 0; i--)
        sum = sum * x + p.c[i]; //~ bounds
    out[threadIdx.x] = sum;
}
