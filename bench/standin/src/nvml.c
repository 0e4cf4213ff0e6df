/* NVML, libnvidia-ml.so.1: the machine's GPUs, the memory that the ledger tells, and sensors that a script may tell. */
#define _GNU_SOURCE
#include "standin.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };
enum { CLOCK_MEMORY = 2, MOST_PROCESSES = 256 };
typedef unsigned u32;
typedef unsigned long long u64;

typedef struct {
    char legacy[16];
    u32 domain, bus, device, pci_device_id, pci_subsystem_id;
    char text[32];
} Pci;
typedef struct {
    u32 version;
    u64 total, reserved, free, used;
} Memory;
typedef struct {
    u32 pid;
    u64 bytes;
    u32 instance, compute_instance;
} Process;
typedef struct {
    u32 version;
    int sensor, celsius;
} Temperature;

static int handles[MAX_DEVICES]; /* a handle is the address of its GPU's entry */
static int physical(void *handle) { return (int)((int *)handle - handles); }

#define MAY(handle)                                                                                                    \
    do {                                                                                                               \
        int refused = script_refusal(handle ? physical(handle) : -1, __func__);                                        \
        if (refused) return refused;                                                                                   \
    } while (0)

static u64 told(void *handle, const char *key, u64 otherwise) {
    uint64_t value;
    return script_number(physical(handle), key, &value) ? value : otherwise;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the library and the driver ---- */
API int nvmlInit_v2(void) {
    standin_init();
    MAY(NULL);
    return OK;
}
API int nvmlInit(void) { return nvmlInit_v2(); }
API int nvmlInitWithFlags(u32 flags) { return nvmlInit_v2(); }
API int nvmlShutdown(void) { return OK; }
API const char *nvmlErrorString(int code) {
    switch (code) {
        case OK: return "Success";
        case INVALID: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        default: return "Unknown Error";
    }
}
API int nvmlSystemGetDriverVersion(char *text, u32 n) {
    MAY(NULL);
    snprintf(text, n, "580.00.00-standin");
    return OK;
}
API int nvmlSystemGetNVMLVersion(char *text, u32 n) {
    snprintf(text, n, "13.580.00");
    return OK;
}
API int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = STANDIN_CUDA;
    return OK;
}
API int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

/* ---- which GPU ---- */
API int nvmlDeviceGetCount_v2(u32 *n) {
    MAY(NULL);
    *n = (u32)device_all;
    return OK;
}
API int nvmlDeviceGetCount(u32 *n) { return nvmlDeviceGetCount_v2(n); }
API int nvmlDeviceGetHandleByIndex_v2(u32 i, void **handle) {
    if (i >= (u32)device_all) return INVALID;
    *handle = &handles[i];
    MAY(*handle);
    return OK;
}
API int nvmlDeviceGetHandleByIndex(u32 i, void **handle) { return nvmlDeviceGetHandleByIndex_v2(i, handle); }
API int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    unsigned char raw[16];
    for (int i = 0; i < device_all; i++)
        if (!strcmp(uuid, uuid_text(i, raw))) {
            *handle = &handles[i];
            return OK;
        }
    return NOT_FOUND;
}
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **handle) {
    u32 domain, bus;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2 || bus < 1 || bus > (u32)device_all) return NOT_FOUND;
    *handle = &handles[bus - 1];
    return OK;
}
API int nvmlDeviceGetIndex(void *h, u32 *index) {
    *index = (u32)physical(h);
    return OK;
}
API int nvmlDeviceGetMinorNumber(void *h, u32 *number) { return nvmlDeviceGetIndex(h, number); }
API int nvmlDeviceGetName(void *h, char *text, u32 n) {
    MAY(h);
    snprintf(text, n, "%s", gpu.name);
    return OK;
}
API int nvmlDeviceGetUUID(void *h, char *text, u32 n) {
    unsigned char raw[16];
    MAY(h);
    snprintf(text, n, "%s", uuid_text(physical(h), raw));
    return OK;
}
API int nvmlDeviceGetPciInfo_v3(void *h, Pci *out) {
    *out = (Pci){.bus = (u32)physical(h) + 1, .pci_device_id = 0x20b210de};
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    snprintf(out->text, sizeof out->text, "00000000:%02X:00.0", out->bus);
    return OK;
}
API int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    *major = gpu.major;
    *minor = gpu.minor;
    return OK;
}

/* ---- memory and processes ---- */
static const u64 DRIVERS_OWN = 600ull << 20; /* what the driver keeps, on top of what CUDA calls the total [bytes] */

static int processes(void *h, Process *out, int most) { /* of the ledger, then of the script */
    u32 pids[MOST_PROCESSES];
    uint64_t bytes[MOST_PROCESSES];
    int found = 0, pid;
    lock();
    for (int i = 0; i < ledger_slots() && found < most; i++) {
        u64 used = used_by(i, physical(h), &pid);
        if (pid && used) out[found++] = (Process){(u32)pid, used, ~0u, ~0u};
    }
    unlock();
    int scripted = script_processes(physical(h), most - found, pids, bytes);
    for (int i = 0; i < scripted; i++) out[found++] = (Process){pids[i], bytes[i], ~0u, ~0u};
    return found;
}
static u64 used(void *h) {
    Process all[MOST_PROCESSES];
    u64 sum = 0;
    for (int i = processes(h, all, MOST_PROCESSES) - 1; i >= 0; i--) sum += all[i].bytes;
    return told(h, "used_bytes", sum);
}
API int nvmlDeviceGetMemoryInfo(void *h, u64 out[3]) { /* total, free, used */
    MAY(h);
    out[0] = gpu.memory_bytes + DRIVERS_OWN;
    out[2] = used(h) + DRIVERS_OWN;
    out[1] = out[0] - out[2];
    return OK;
}
API int nvmlDeviceGetMemoryInfo_v2(void *h, Memory *out) {
    MAY(h);
    out->total = gpu.memory_bytes + DRIVERS_OWN;
    out->reserved = DRIVERS_OWN;
    out->used = used(h);
    out->free = out->total - out->reserved - out->used;
    return OK;
}
API int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, Process *out) {
    Process all[MOST_PROCESSES];
    MAY(h);
    u32 found = (u32)processes(h, all, MOST_PROCESSES), room = out ? *n : 0;
    for (u32 i = 0; i < found && i < room; i++) out[i] = all[i];
    *n = found;
    return found > room ? TOO_SMALL : OK;
}
API int nvmlDeviceGetComputeRunningProcesses_v2(void *h, u32 *n, Process *out) {
    return nvmlDeviceGetComputeRunningProcesses_v3(h, n, out);
}
API int nvmlDeviceGetComputeRunningProcesses(void *h, u32 *n, Process *out) {
    return nvmlDeviceGetComputeRunningProcesses_v3(h, n, out);
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, u32 *n, Process *out) {
    *n = 0;
    return OK;
}

/* ---- sensors: a constant unless the script tells them ---- */
#define SENSOR(function, type, key, otherwise)                                                                         \
    API int function(void *h, type *out) {                                                                             \
        MAY(h);                                                                                                        \
        *out = (type)told(h, key, (u64)(otherwise));                                                                   \
        return OK;                                                                                                     \
    }
#define CLOCK(function, key)                                                                                           \
    API int function(void *h, int kind, u32 *mhz) {                                                                    \
        MAY(h);                                                                                                        \
        *mhz = kind == CLOCK_MEMORY ? (u32)gpu.memory_clock_mhz : (u32)told(h, key, (u64)gpu.sm_clock_mhz);            \
        return OK;                                                                                                     \
    }
SENSOR(nvmlDeviceGetPowerUsage, u32, "power_mw", gpu.power_limit_w * 500)
SENSOR(nvmlDeviceGetEnforcedPowerLimit, u32, "power_limit_mw", gpu.power_limit_w * 1000)
SENSOR(nvmlDeviceGetPowerManagementLimit, u32, "power_limit_mw", gpu.power_limit_w * 1000)
SENSOR(nvmlDeviceGetPowerManagementDefaultLimit, u32, "power_limit_mw", gpu.power_limit_w * 1000)
SENSOR(nvmlDeviceGetTotalEnergyConsumption, u64, "energy_mj", now_s() * gpu.power_limit_w * 500)
SENSOR(nvmlDeviceGetCurrentClocksEventReasons, u64, "throttle_reasons", 0)
SENSOR(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "throttle_reasons", 0)
SENSOR(nvmlDeviceGetPersistenceMode, int, "persistence_mode", !persistence_off())
SENSOR(nvmlDeviceGetComputeMode, int, "compute_mode", 0)
SENSOR(nvmlDeviceGetPerformanceState, int, "performance_state", 0)
SENSOR(nvmlDeviceGetMaxMigDeviceCount, u32, "mig_devices", 0)
CLOCK(nvmlDeviceGetClockInfo, "sm_clock_mhz")
CLOCK(nvmlDeviceGetMaxClockInfo, "sm_clock_max_mhz")
CLOCK(nvmlDeviceGetApplicationsClock, "sm_clock_default_mhz")
CLOCK(nvmlDeviceGetDefaultApplicationsClock, "sm_clock_default_mhz")

API int nvmlDeviceGetTemperature(void *h, int sensor, u32 *celsius) {
    MAY(h);
    *celsius = (u32)told(h, "temperature_c", 45);
    return OK;
}
API int nvmlDeviceGetTemperatureV(void *h, Temperature *out) {
    MAY(h);
    out->celsius = (int)told(h, "temperature_c", 45);
    return OK;
}
API int nvmlDeviceGetViolationStatus(void *h, int policy, u64 out[2]) { /* reference time, time violated [ns] */
    char key[32];
    MAY(h);
    snprintf(key, sizeof key, "violation_%d_ns", policy); /* 0: power, 1: thermal */
    out[0] = (u64)(now_s() * 1e9);
    out[1] = told(h, key, 0);
    return OK;
}
API int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, u64 *n) {
    MAY(h);
    *n = told(h, kind ? "ecc_uncorrected" : "ecc_corrected", kind && device_error() == cudaErrorECCUncorrectable);
    return OK;
}
API int nvmlDeviceGetMemoryErrorCounter(void *h, int kind, int counter, int where, u64 *n) {
    return nvmlDeviceGetTotalEccErrors(h, kind, counter, n);
}
API int nvmlDeviceGetUtilizationRates(void *h, u32 rates[2]) {
    MAY(h);
    rates[0] = (u32)told(h, "utilization_percent", 100);
    rates[1] = 50;
    return OK;
}
API int nvmlDeviceGetMigMode(void *h, u32 *now, u32 *next) { return NOT_SUPPORTED; }
API int nvmlDeviceIsMigDeviceHandle(void *h, u32 *is) {
    *is = 0;
    return OK;
}
API int nvmlDeviceGetP2PStatus(void *a, void *b, int index, int *status) {
    *status = 0;
    return OK;
}
API int nvmlDeviceGetNvLinkRemoteDeviceType(void *h, u32 link, int *type) { return NOT_SUPPORTED; }
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *h, u32 link, void *pci) { return NOT_SUPPORTED; }
API int nvmlDeviceGetGpuFabricInfoV(void *h, void *info) { return NOT_SUPPORTED; }
