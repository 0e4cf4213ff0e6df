/* A small libnvidia-ml.so.1 for the tests: two A100s that are not there, seen by the real nvidia-ml-py.
 *
 * NVML_STUB       FUNCTION:CODE, comma-separated: the function returns this nvmlReturn_t; CODE `hang` never returns,
 *                 CODE `slow` takes 0.05 s, CODE `late` 6 s
 * NVML_STUB_GPUS  number of GPUs, 2 unless set
 * NVML_STUB_MIG   set: GPU 0 is cut into two MIG devices
 * NVML_STUB_NAME  name of every GPU, any bytes
 *
 * Every GPU draws 300 W, is 61 degrees hot, and is held back by its power limit half of the time.
 *
 * Compiled with -DWITHOUT_MEMORY_V2 it is an older driver's library, which lacks that function; with
 * -DWITHOUT_NEW_NAMES it lacks those that took the place of others.
 * Structures and codes follow NVIDIA's NVML API reference.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct { int index, mig; } device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned long long reference_us, violation_ns; } violation_t;
typedef struct { unsigned int version; int sensor, temperature; } temperature_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;

#define GIB (1024ull * 1024 * 1024)
#define PLANNED do { int code = planned(__func__); if (code) return code; } while (0)

static device_t devices[16], slices[2];

/* Find what is planned for a function: 0 is to go on. */
static int planned(const char *function)
{
    const char *plan = getenv("NVML_STUB");
    size_t length = strlen(function);
    for (const char *at = plan ? strstr(plan, function) : NULL; at; at = strstr(at + 1, function)) {
        if ((at == plan || at[-1] == ',') && at[length] == ':') {
            while (strncmp(at + length + 1, "hang", 4) == 0)
                pause();
            if (strncmp(at + length + 1, "slow", 4) == 0)
                usleep(50000);
            if (strncmp(at + length + 1, "late", 4) == 0)
                sleep(6);
            return atoi(at + length + 1);
        }
    }
    return SUCCESS;
}

static int gpu_count(void)
{
    const char *count = getenv("NVML_STUB_GPUS");
    return count ? atoi(count) : 2;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; PLANNED; return SUCCESS; }
int nvmlShutdown(void) { PLANNED; return SUCCESS; }

int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    PLANNED;
    snprintf(text, size, "550.54.15");
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) { PLANNED; *version = 12040; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { PLANNED; *count = gpu_count(); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **device)
{
    PLANNED;
    if ((int)index >= gpu_count())
        return INVALID_ARGUMENT;
    devices[index].index = index;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetName(device_t *device, char *text, unsigned int size)
{
    const char *name = getenv("NVML_STUB_NAME");
    PLANNED;
    snprintf(text, size, "%s%s", name ? name : "NVIDIA A100-SXM4-80GB", device->mig ? " MIG 3g.40gb" : "");
    return SUCCESS;
}

int nvmlDeviceGetUUID(device_t *device, char *text, unsigned int size)
{
    PLANNED;
    snprintf(text, size, "%s-%08x-0000-1111-2222-00ff00ff00%02x", device->mig ? "MIG" : "GPU",
             0xa0000000u + device->index, device->mig);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device_t *device, memory_t *memory)
{
    PLANNED;
    memory->total = 80 * GIB;
    memory->used = (1 + 2 * device->index) * GIB; /* the driver's own GiB counts as used here */
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

#ifndef WITHOUT_MEMORY_V2
int nvmlDeviceGetMemoryInfo_v2(device_t *device, memory_v2_t *memory)
{
    PLANNED;
    if (memory->version != (sizeof *memory | 2u << 24))
        return INVALID_ARGUMENT;
    memory->total = (device->mig ? 40 : 80) * GIB;
    memory->reserved = GIB;
    memory->used = 2 * device->index * GIB;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}
#endif

/* GPU 1 has two processes, one of which does not tell its memory. */
int nvmlDeviceGetComputeRunningProcesses_v3(device_t *device, unsigned int *count, process_t *processes)
{
    unsigned int room = *count;
    PLANNED;
    *count = device->index == 1 ? 2 : 0;
    if (*count == 0)
        return SUCCESS;
    if (processes == NULL || room < *count)
        return INSUFFICIENT_SIZE;
    processes[0] = (process_t){4242, 2 * GIB, ~0u, ~0u};
    processes[1] = (process_t){4243, ~0ull, ~0u, ~0u};
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(device_t *device, int clock, unsigned int *mhz)
{
    (void)device, (void)clock;
    PLANNED;
    *mhz = 1155;
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(device_t *device, int clock, unsigned int *mhz)
{
    (void)device, (void)clock;
    PLANNED;
    *mhz = 1410;
    return SUCCESS;
}

int nvmlDeviceGetPersistenceMode(device_t *device, unsigned int *mode)
{
    (void)device;
    PLANNED;
    *mode = 1;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(device_t *device, unsigned int *current, unsigned int *pending)
{
    PLANNED;
    *current = *pending = device->index == 0 && getenv("NVML_STUB_MIG");
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t *device, unsigned int *count)
{
    (void)device;
    PLANNED;
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t *device, unsigned int index, device_t **slice)
{
    PLANNED;
    if (index >= 2)
        return NOT_FOUND;
    slices[index] = (device_t){device->index, index + 1};
    *slice = &slices[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t **device)
{
    char known[96];
    PLANNED;
    for (int index = 0; index < gpu_count(); index++) {
        devices[index].index = index;
        for (int mig = 0; mig < 3; mig++) {
            device_t *one = mig ? &slices[mig - 1] : &devices[index];
            if (mig && (index || !getenv("NVML_STUB_MIG")))
                continue;
            *one = (device_t){index, mig};
            if (nvmlDeviceGetUUID(one, known, sizeof known) == SUCCESS && strcmp(known, uuid) == 0) {
                *device = one;
                return SUCCESS;
            }
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceIsMigDeviceHandle(device_t *device, unsigned int *is_mig)
{
    PLANNED;
    *is_mig = device->mig != 0;
    return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t *slice, device_t **device)
{
    PLANNED;
    devices[slice->index].index = slice->index;
    *device = &devices[slice->index];
    return SUCCESS;
}

static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* A slice has no meter of its own. */
int nvmlDeviceGetTotalEnergyConsumption(device_t *device, unsigned long long *mj)
{
    PLANNED;
    if (device->mig)
        return NOT_SUPPORTED;
    *mj = now_ns() / 1000000 * 300;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(device_t *device, unsigned int *mw)
{
    PLANNED;
    if (device->mig)
        return NOT_SUPPORTED;
    *mw = 300000;
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(device_t *device, unsigned int *mw)
{
    (void)device;
    PLANNED;
    *mw = 400000;
    return SUCCESS;
}

int nvmlDeviceGetDefaultApplicationsClock(device_t *device, int clock, unsigned int *mhz)
{
    (void)device, (void)clock;
    PLANNED;
    *mhz = 1155;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(device_t *device, int sensor, unsigned int *celsius)
{
    (void)device, (void)sensor;
    PLANNED;
    *celsius = 61;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device_t *device, unsigned long long *reasons)
{
    (void)device;
    PLANNED;
    *reasons = 4;
    return SUCCESS;
}

#ifndef WITHOUT_NEW_NAMES
int nvmlDeviceGetTemperatureV(device_t *device, temperature_t *temperature)
{
    (void)device;
    PLANNED;
    if (temperature->version != (sizeof *temperature | 1u << 24))
        return INVALID_ARGUMENT;
    temperature->temperature = 61;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(device_t *device, unsigned long long *reasons)
{
    (void)device;
    PLANNED;
    *reasons = 4;
    return SUCCESS;
}
#endif

int nvmlDeviceGetViolationStatus(device_t *device, int policy, violation_t *violation)
{
    (void)device;
    PLANNED;
    violation->reference_us = now_ns() / 1000;
    violation->violation_ns = policy == 0 ? now_ns() / 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(device_t *device, int kind, int since, unsigned long long *count)
{
    (void)device;
    PLANNED;
    if (kind != 1 || since != 0)
        return INVALID_ARGUMENT;
    *count = 3;
    return SUCCESS;
}
