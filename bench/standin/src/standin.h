/* What the files of the stand-in share: the GPU that they play, the switches, memory, streams and planted faults. */
#ifndef STANDIN_H
#define STANDIN_H
#include "cuda_types.h"

#define API __attribute__((visibility("default")))
#define MAX_DEVICES 16
#define MIB ((size_t)1 << 20)

typedef struct { /* facts of one kind of GPU, told by STANDIN_GPU */
    char name[96];
    char uuid[40]; /* of GPU 0, without its last two digits: 0123...-..., as in GPU-0123... */
    int major, minor, sms;
    size_t memory_bytes;
    int shared_memory_per_sm, shared_memory_per_block, l2_bytes;
    int sm_clock_mhz, memory_clock_mhz, memory_bus_bits, threads_per_sm, blocks_per_sm, power_limit_w;
} Gpu;

/* state.c: the switches, read once */
extern Gpu gpu;                  /* the one kind of GPU in this machine */
extern int device_count;         /* GPUs visible to this process */
extern int device_all;           /* GPUs in the machine, as NVML counts them */
extern int visible[MAX_DEVICES]; /* CUDA's index -> the machine's */
extern size_t copy_limit;        /* larger copies to a device, and collectives, move no values [bytes] */
extern size_t context_bytes;     /* what a process's context takes of a GPU [bytes] */

void standin_init(void);
void lock(void);
void unlock(void);
int tracing(void);
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_flush(void);
API void standin_refuse(const char *name); /* says once on stderr that a function is not in the stand-in */
const char *uuid_text(int physical, unsigned char raw[16]);
size_t number_of(const char *variable, size_t otherwise);
int process_ended(int pid); /* a zombie has ended: it holds no memory */

/* faults.c: what a test planted */
int count_launch(void);   /* counts one kernel; the error with which the launch itself fails */
int device_error(void);   /* the sticky error that every call gives from now on; cudaSuccess: none */
int device_hangs(void);   /* what was launched never ends */
void hang(void);          /* never returns */
size_t refuse_at_byte(void);
int blas_refused(void);
int persistence_off(void);

/* memory.c */
void *device_alloc(int device, size_t size); /* NULL: out of memory */
int device_free(void *p, size_t *size);      /* 0: freed */
int account(int device, int64_t bytes);      /* 0: it fits */
void context_needed(int device);             /* the process has one on the device from now on */
int context_made(int device);
size_t used_total(int device);                          /* by all processes of the ledger [bytes] */
size_t used_by(int slot, int physical, int *pid); /* by one process of the ledger [bytes]; pid 0: slot is free */
int ledger_slots(void);
void range_add(uintptr_t base, size_t size, int device);
int range_device(const void *p); /* -1: not device memory */
int range_find(const void *p, uintptr_t *base, size_t *size);
void host_add(void *p, size_t size);
int host_remove(void *p, size_t *size); /* 0: it was there */
int host_is(const void *p);
void copy(void *to, const void *from, size_t size);
void fill(void *to, int value, size_t size);

/* runtime_*.c */
int give(int error); /* remembers a runtime error for cudaGetLastError */
int current_device(void);
int device_attribute(int attribute, int device);
void *driver_function(const char *name);
const char *error_text(int error);
const char *error_name(int error);
int stream_captures(void *stream); /* 1: a graph is captured, which gets one more node */
void stream_follow(void *stream, uint64_t ticket); /* what comes after on the stream waits for the ticket */
int stream_wait(void *stream); /* as the host waits; a runtime error */
int launch_node(const char *name, dim3 grid, dim3 block, size_t shared, void *stream);

/* nccl.c: collectives run on a thread of their own; a ticket says up to which one to wait */
int work_done(uint64_t ticket);
void work_wait(uint64_t ticket);

/* nvml_script.c */
int script_number(int physical, const char *key, uint64_t *value); /* 1: the script tells it */
int script_refusal(int physical, const char *function); /* the NVML error to give; 0: none */
int script_processes(int physical, int n, uint32_t *pids, uint64_t *bytes);
#endif
