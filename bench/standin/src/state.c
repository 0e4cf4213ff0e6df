/* The switches of the stand-in, read from the environment once, and what every file needs of a process. */
#define _GNU_SOURCE
#include "standin.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Gpu gpu;
int device_count, device_all, visible[MAX_DEVICES];
size_t copy_limit, context_bytes;

static FILE *trace_file;
static pthread_mutex_t mutex;
static pthread_once_t once = PTHREAD_ONCE_INIT;

API int standin_version(void) { return 1; } /* how a process tells that the stand-in is loaded */

size_t number_of(const char *variable, size_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* STANDIN_GPU is "name=...;uuid=...;major=8;...": the table itself is in Python */
static int fact(const char *facts, const char *key, char *out, size_t size) {
    size_t length = strlen(key);
    for (const char *at = facts; at && *at; at = strchr(at, ';'), at = at ? at + 1 : NULL)
        if (!strncmp(at, key, length) && at[length] == '=') {
            snprintf(out, size, "%.*s", (int)strcspn(at + length + 1, ";"), at + length + 1);
            return 1;
        }
    return 0;
}

static size_t fact_number(const char *facts, const char *key) {
    char text[32];
    return fact(facts, key, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

static int read_gpu(void) {
    const char *facts = getenv("STANDIN_GPU");
    if (!facts || !fact(facts, "name", gpu.name, sizeof gpu.name) || !fact(facts, "uuid", gpu.uuid, sizeof gpu.uuid)) {
        fprintf(stderr, "standin: STANDIN_GPU does not describe a GPU; this process has none\n");
        return 0;
    }
    gpu.major = (int)fact_number(facts, "major");
    gpu.minor = (int)fact_number(facts, "minor");
    gpu.sms = (int)fact_number(facts, "sms");
    gpu.memory_bytes = fact_number(facts, "memory_bytes");
    gpu.shared_memory_per_sm = (int)fact_number(facts, "shared_memory_per_sm");
    gpu.shared_memory_per_block = (int)fact_number(facts, "shared_memory_per_block");
    gpu.l2_bytes = (int)fact_number(facts, "l2_bytes");
    gpu.sm_clock_mhz = (int)fact_number(facts, "sm_clock_mhz");
    gpu.memory_clock_mhz = (int)fact_number(facts, "memory_clock_mhz");
    gpu.memory_bus_bits = (int)fact_number(facts, "memory_bus_bits");
    gpu.threads_per_sm = (int)fact_number(facts, "threads_per_sm");
    gpu.blocks_per_sm = (int)fact_number(facts, "blocks_per_sm");
    gpu.power_limit_w = (int)fact_number(facts, "power_limit_w");
    return 1;
}

const char *uuid_text(int physical, unsigned char raw[16]) {
    static char text[MAX_DEVICES][64];
    snprintf(text[physical], sizeof *text, "GPU-%s%02x", gpu.uuid, physical);
    int digits = 0;
    for (const char *at = text[physical] + 4; *at && digits < 32; at++) {
        if (*at == '-') continue;
        int value = *at >= 'a' ? *at - 'a' + 10 : *at - '0';
        raw[digits / 2] = (unsigned char)(digits % 2 ? raw[digits / 2] | value : value << 4);
        digits++;
    }
    return text[physical];
}

static int visible_index(const char *word) { /* an index or the start of a UUID */
    unsigned char raw[16];
    if (*word >= '0' && *word <= '9') return atoi(word);
    for (int i = 0; !strncmp(word, "GPU-", 4) && i < device_all; i++)
        if (!strncmp(uuid_text(i, raw), word, strlen(word))) return i;
    return -1;
}

static void read_visible(void) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    device_count = device_all;
    for (int i = 0; i < MAX_DEVICES; i++) visible[i] = i;
    if (!mask) return;
    char text[1024], *rest = NULL;
    snprintf(text, sizeof text, "%s", mask);
    device_count = 0;
    for (char *word = strtok_r(text, ",", &rest); word && device_count < MAX_DEVICES;
         word = strtok_r(NULL, ",", &rest)) {
        int index = visible_index(word);
        if (index < 0 || index >= device_all) break; /* as the driver does: it stops at the first that is none */
        visible[device_count++] = index;
    }
}

static void init_once(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attributes);
    device_all = read_gpu() ? (int)number_of("STANDIN_GPU_COUNT", 1) : 0;
    if (device_all > MAX_DEVICES) device_all = MAX_DEVICES;
    copy_limit = number_of("STANDIN_COPY_BYTES", MIB);
    context_bytes = number_of("STANDIN_CONTEXT_BYTES", 450 * MIB);
    read_visible();
    const char *path = getenv("STANDIN_TRACE");
    trace_file = path && *path ? fopen(path, "a") : NULL;
    if (trace_file) setvbuf(trace_file, NULL, _IOFBF, 1 << 16);
}

void standin_init(void) { pthread_once(&once, init_once); }
void lock(void) {
    standin_init();
    pthread_mutex_lock(&mutex);
}
void unlock(void) { pthread_mutex_unlock(&mutex); }

int tracing(void) {
    standin_init();
    return trace_file != NULL;
}

void trace(const char *format, ...) {
    if (!tracing()) return;
    va_list arguments;
    va_start(arguments, format);
    lock();
    vfprintf(trace_file, format, arguments);
    fputc('\n', trace_file);
    unlock();
    va_end(arguments);
}

__attribute__((destructor)) void trace_flush(void) {
    if (trace_file) fflush(trace_file);
}

void standin_refuse(const char *name) {
    static const char *said[512];
    static int count;
    trace("refused %s", name);
    lock();
    int known = count == 512;
    for (int i = 0; i < count && !known; i++) known = !strcmp(said[i], name);
    if (!known) {
        said[count++] = name;
        fprintf(stderr, "standin: %s is not in the stand-in\n", name);
    }
    unlock();
}

int process_ended(int pid) {
    char path[32], line[512];
    if (kill(pid, 0) && errno == ESRCH) return 1;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return errno == ENOENT;
    char *text = fgets(line, sizeof line, file), *name_end = text ? strrchr(line, ')') : NULL;
    fclose(file);
    return name_end && (name_end[2] == 'Z' || name_end[2] == 'X');
}
