// An array is never freed.
#include "../runtime.h"

int main() {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    OK(cudaMallocArray(&array, &format, 16, 16)); //~ memory-leak
    std::vector<float> texels(256, 1.0f);
    OK(cudaMemcpy2DToArray(array, 0, 0, texels.data(), 64, 64, 16, cudaMemcpyHostToDevice));
    return 0;
}
