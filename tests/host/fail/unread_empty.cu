// A launch without blocks fails, and the program does not read the error.
#include "../runtime.h"

int main() {
    int count = 100;
    add<<<count / 128, 128>>>(nullptr, 1); //~ unread-error
    OK(cudaDeviceSynchronize());
    return 0;
}
