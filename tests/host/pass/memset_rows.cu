// A memset takes the pitch of rows as their width.
#include "../runtime.h"

int main() {
    char *data;
    size_t pitch;
    OK(cudaMallocPitch(&data, &pitch, 100, 8));
    OK(cudaMemset2D(data, pitch, 0, 100, 8));
    OK(cudaFree(data));
    return 0;
}
