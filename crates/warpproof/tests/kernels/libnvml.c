// A stand-in for NVIDIA's management library: one device of any id, whose clock can be pinned. What it is told stands in a file.
#include <stdio.h>
#include <stdlib.h>

static unsigned sm_clock = 2040;
static int device;

static void note(const char* text, unsigned number) {
    const char* name = getenv("STAND_IN_LOG");
    FILE* file = name ? fopen(name, "a") : NULL;
    if (file) {
        fprintf(file, "%s %u\n", text, number);
        fclose(file);
    }
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code ? "an error" : "success"; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) { snprintf(text, size, "570.12"); return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
    *handle = &device;
    return uuid[0] != 'G' || uuid[12] != '-';
}
int nvmlDeviceGetClockInfo(void* handle, int which, unsigned* mhz) { *mhz = which == 1 ? sm_clock : 6251; return handle != &device; }
int nvmlDeviceGetTemperature(void* handle, int sensor, unsigned* celsius) { *celsius = 50; return sensor || handle != &device; }
int nvmlDeviceGetPowerUsage(void* handle, unsigned* mw) { *mw = 60000; return handle != &device; }
int nvmlDeviceSetGpuLockedClocks(void* handle, unsigned low, unsigned high) {
    // 4 is "no permission".
    if (getenv("STAND_IN_REFUSES")) return 4;
    sm_clock = low;
    note("pinned", high);
    return handle != &device;
}
int nvmlDeviceResetGpuLockedClocks(void* handle) { sm_clock = 2040; note("released", 0); return handle != &device; }
