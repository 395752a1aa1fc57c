// A copy to an array has more rows than the array.
#include "../runtime.h"

int main() {
    std::vector<float> texels(16 * 20);
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    OK(cudaMallocArray(&array, &format, 16, 16));
    OK(cudaMemcpy2DToArray(array, 0, 0, texels.data(), 64, 64, 20, cudaMemcpyHostToDevice)); //~ copy-bounds
    OK(cudaFreeArray(array));
    return 0;
}
