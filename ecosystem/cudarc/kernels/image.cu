// The kernel of the images, by CUDA 13.2: `sass.cubin` is what ptxas makes of its PTX for sm_89, `debug.cubin` with -g, which carries
// the PTX along; `image.fatbin` is `sass.cubin` and the PTX of compute_75 in one, by fatbinary.

extern "C" __global__ void store(int *place, int value)
{
    *place = value;
}
