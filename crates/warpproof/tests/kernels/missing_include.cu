#include "not_there.h"
__global__ void k() {}
