#include "not_there.h"
__global__ void k(int *x) { *x = declared_there(); }
