// The front end of the compiler has options of its own; one of them writes a listing.
//@options: -Xcudafe --list=../../../overwritten.list
extern "C" __global__ void twice(const float* x, float* y) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * 2.0f;
}
