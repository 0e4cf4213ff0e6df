/* Device memory: address space of the host, reserved and not touched. A ledger counts it for all processes. */
#define _GNU_SOURCE
#include "standin.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRAIN (2 * MIB) /* the driver hands out memory in pages of this size */
#define SLOTS 128

/* The ledger: who holds how much of which GPU of the machine. In a shared file when STANDIN_LEDGER names one. */
typedef struct {
    _Atomic int pid;
    int context[MAX_DEVICES];
    _Atomic int64_t used[MAX_DEVICES];
} Slot;
static Slot own_slots[SLOTS], *ledger, *mine;
static int mine_pid;

typedef struct {
    uintptr_t base;
    size_t size;
    int device;
} Range;
static Range *ranges;
static int range_count, range_capacity;

typedef struct Block {
    uintptr_t base;
    size_t size;
    struct Block *next;
} Block;
static uintptr_t arena[MAX_DEVICES];
static size_t arena_size[MAX_DEVICES];
static Block *blocks[MAX_DEVICES]; /* taken, by address */

typedef struct {
    char *p;
    size_t size;
} Host;
static Host *hosts;
static int host_count, host_capacity;

/* ---- the ledger ---- */
static void open_ledger(void) {
    const char *path = getenv("STANDIN_LEDGER");
    ledger = own_slots;
    if (!path || !*path) return;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && !ftruncate(fd, sizeof own_slots)) {
        void *map = mmap(NULL, sizeof own_slots, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED) ledger = map;
    }
    if (ledger == own_slots) fprintf(stderr, "standin: no ledger at %s: %s\n", path, strerror(errno));
    if (fd >= 0) close(fd);
}

static void take(Slot *slot) {
    for (int i = 0; i < MAX_DEVICES; i++) slot->used[i] = 0;
    memset(slot->context, 0, sizeof slot->context);
    mine = slot;
    mine_pid = getpid();
}

static Slot *own_slot(void) {
    if (!ledger) open_ledger();
    if (mine && mine_pid == getpid()) return mine; /* a fork is another process, which holds nothing yet */
    for (int i = 0; i < SLOTS; i++) {
        int pid = ledger[i].pid, none = 0;
        if (pid == getpid()) { /* left by an ended process of the same id */
            take(&ledger[i]);
            return mine;
        }
        if (pid && process_ended(pid))
            none = pid;
        else if (pid)
            continue;
        if (__atomic_compare_exchange_n(&ledger[i].pid, &none, getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            take(&ledger[i]);
            return mine;
        }
    }
    fprintf(stderr, "standin: the ledger has no room for another process\n");
    abort();
}

int ledger_slots(void) { return SLOTS; }

size_t used_by(int slot, int physical, int *pid) {
    if (!ledger) open_ledger();
    *pid = ledger[slot].pid;
    if (*pid && *pid != getpid() && process_ended(*pid)) *pid = 0;
    return *pid ? (size_t)ledger[slot].used[physical] + (ledger[slot].context[physical] ? context_bytes : 0) : 0;
}

size_t used_total(int device) {
    size_t sum = 0;
    int pid;
    for (int i = 0; i < SLOTS; i++) sum += used_by(i, visible[device], &pid);
    return sum;
}

int context_made(int device) { return own_slot()->context[visible[device]]; }

void context_needed(int device) {
    if (!context_made(device)) trace("context on device %d", device);
    own_slot()->context[visible[device]] = 1;
}

int account(int device, int64_t bytes) {
    context_needed(device);
    _Atomic int64_t *used = &own_slot()->used[visible[device]];
    *used += bytes; /* before the check, as another process may take memory at the same time */
    size_t limit = refuse_at_byte();
    if (bytes <= 0 || (used_total(device) <= gpu.memory_bytes && (!limit || (size_t)*used <= limit))) return 0;
    *used -= bytes;
    return 1;
}

/* ---- what is device memory ---- */
void range_add(uintptr_t base, size_t size, int device) {
    if (range_count == range_capacity) {
        range_capacity = range_capacity ? range_capacity * 2 : 32;
        ranges = realloc(ranges, sizeof *ranges * (size_t)range_capacity);
    }
    ranges[range_count++] = (Range){base, size, device};
}

int range_find(const void *p, uintptr_t *base, size_t *size) {
    for (int i = range_count - 1; i >= 0; i--)
        if ((uintptr_t)p >= ranges[i].base && (uintptr_t)p - ranges[i].base < ranges[i].size) {
            *base = ranges[i].base;
            *size = ranges[i].size;
            return ranges[i].device;
        }
    return -1;
}

int range_device(const void *p) {
    uintptr_t base;
    size_t size;
    return range_find(p, &base, &size);
}

/* ---- allocation ---- */
static void *reserve(void *at, size_t size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *map = mmap(at, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (map == MAP_FAILED) return NULL;
    madvise(map, size, MADV_NOHUGEPAGE); /* a touched byte must not cost 2 MiB of the host */
    madvise(map, size, MADV_DONTDUMP);
    return map;
}

static int open_arena(int device) { /* far larger than the GPU, so that gaps between blocks refuse nothing */
    size_t size = gpu.memory_bytes * 4;
    void *map = reserve((void *)(0x700000000000ull + ((uintptr_t)device << 40)), size);
    if (!map) map = reserve(NULL, size = gpu.memory_bytes + GRAIN);
    if (!map) {
        fprintf(stderr, "standin: no address space for a GPU's memory: %s\n", strerror(errno));
        return 1;
    }
    arena[device] = ((uintptr_t)map + GRAIN - 1) / GRAIN * GRAIN;
    arena_size[device] = size - GRAIN;
    range_add(arena[device], arena_size[device], device);
    return 0;
}

void *device_alloc(int device, size_t size) {
    size = size ? (size + GRAIN - 1) / GRAIN * GRAIN : GRAIN;
    if ((!arena[device] && open_arena(device)) || account(device, (int64_t)size)) return NULL;
    uintptr_t at = arena[device];
    Block **link = &blocks[device];
    for (; *link && (*link)->base - at < size; link = &(*link)->next) at = (*link)->base + (*link)->size;
    if (at + size > arena[device] + arena_size[device]) {
        account(device, -(int64_t)size);
        return NULL;
    }
    Block *block = malloc(sizeof *block);
    *block = (Block){at, size, *link};
    *link = block;
    return (void *)at;
}

int device_free(void *p, size_t *size) {
    int device = range_device(p);
    if (device < 0) return 1;
    for (Block **link = &blocks[device]; *link; link = &(*link)->next)
        if ((*link)->base == (uintptr_t)p) {
            Block *gone = *link;
            *link = gone->next;
            *size = gone->size;
            madvise(p, gone->size, MADV_DONTNEED);
            account(device, -(int64_t)gone->size);
            free(gone);
            return 0;
        }
    return 1;
}

/* ---- page-locked memory of the host ---- */
void host_add(void *p, size_t size) {
    if (host_count == host_capacity) {
        host_capacity = host_capacity ? host_capacity * 2 : 64;
        hosts = realloc(hosts, sizeof *hosts * (size_t)host_capacity);
    }
    hosts[host_count++] = (Host){p, size};
}

int host_remove(void *p, size_t *size) {
    for (int i = 0; i < host_count; i++)
        if (hosts[i].p == (char *)p) {
            *size = hosts[i].size;
            hosts[i] = hosts[--host_count];
            return 0;
        }
    return 1;
}

int host_is(const void *p) {
    for (int i = 0; i < host_count; i++)
        if ((const char *)p >= hosts[i].p && (const char *)p < hosts[i].p + hosts[i].size) return 1;
    return 0;
}

/* ---- values ---- */
void copy(void *to, const void *from, size_t size) { /* what the host reads is always real */
    if (!size || to == from || (size > copy_limit && range_device(to) >= 0)) return;
    memmove(to, from, size);
}

void fill(void *to, int value, size_t size) {
    if (size <= copy_limit) {
        memset(to, value, size);
        return;
    }
    if (value) return;
    uintptr_t start = (uintptr_t)to, end = start + size, first = (start + 4095) & ~(uintptr_t)4095;
    uintptr_t last = end & ~(uintptr_t)4095;
    memset(to, 0, first - start);
    madvise((void *)first, last - first, MADV_DONTNEED); /* reads as zeros, and costs no memory */
    memset((void *)last, 0, end - last);
}
