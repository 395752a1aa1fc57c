/* Calls a function that is not supported, twice. */
#include <stdio.h>

extern int cudaIpcGetMemHandle(void *, void *);

int main(void) {
    char handle[64];
    int first = cudaIpcGetMemHandle(handle, handle);
    printf("%d %d\n", first, cudaIpcGetMemHandle(handle, handle));
    return 0;
}
