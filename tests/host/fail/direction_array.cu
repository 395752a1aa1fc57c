// A copy from the host to an array is declared as one within the device.
#include "../runtime.h"

int main() {
    std::vector<float> texels(256);
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    OK(cudaMallocArray(&array, &format, 16, 16));
    OK(cudaMemcpy2DToArray(array, 0, 0, texels.data(), 64, 64, 16, cudaMemcpyDeviceToDevice)); //~ invalid-copy-direction
    OK(cudaFreeArray(array));
    return 0;
}
