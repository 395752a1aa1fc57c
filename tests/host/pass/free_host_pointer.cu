// The free gets memory of `malloc`.
#include "../runtime.h"

int main() {
    void *data = malloc(64);
    free(data);
    return 0;
}
