/* The shared room of a communicator: a slot for each rank's data, letter boxes for pairs, and one bell. A waiting rank
   sleeps on the bell and looks, each time it wakes, whether it was aborted or a peer is gone: no wait is for ever. */
#define _GNU_SOURCE
#include "nccl_room.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    _Atomic int pid; /* 0: has not joined */
    _Atomic int left;
    int device; /* of the machine */
    _Atomic uint64_t step;
    What what;
} Member;
typedef struct {
    _Atomic uint32_t bytes; /* 0: empty */
} Mail;
struct Room {
    _Atomic uint32_t bell;
    Member members[MAX_RANKS];
    Mail mails[MAX_RANKS][MAX_RANKS]; /* [sender][receiver] */
    char data[];                      /* slots, then letters */
};

static size_t room_bytes(int size) {
    return sizeof(Room) + (size_t)size * SLOT_BYTES + (size_t)size * (size_t)size * MAIL_BYTES;
}
char *room_slot(Comm *comm, int rank) { return comm->room->data + (size_t)rank * SLOT_BYTES; }
static char *letter(Comm *comm, int from, int to) {
    return room_slot(comm, comm->size) + ((size_t)from * (size_t)comm->size + (size_t)to) * MAIL_BYTES;
}

/* ---- the bell ---- */
uint32_t room_bell(Comm *comm) { return comm->room->bell; }

void room_wake(Comm *comm) {
    comm->room->bell++;
    syscall(SYS_futex, &comm->room->bell, FUTEX_WAKE, MAX_RANKS * 2, NULL, NULL, 0);
}

void room_fail(Comm *comm, int error, const char *problem) {
    if (comm->error) return;
    snprintf(comm->problem, sizeof comm->problem, "%s", problem);
    comm->error = error;
    trace("nccl error %d: %s", error, problem);
}

int room_lost(Comm *comm, int rank) { /* what it did before it went is seen after this answer */
    Member *member = &comm->room->members[rank];
    return rank != comm->rank && member->pid && (member->left || process_ended(member->pid));
}

void room_fail_lost(Comm *comm, int rank) {
    char problem[128];
    snprintf(problem, sizeof problem, "rank %d (process %d) has ended or left", rank, comm->room->members[rank].pid);
    room_fail(comm, ncclRemoteError, problem);
}

static void sleep_on(Comm *comm, uint32_t seen) {
    struct timespec longest = {0, 20 * 1000 * 1000};
    syscall(SYS_futex, &comm->room->bell, FUTEX_WAIT, seen, &longest, NULL, 0);
}

int room_pause(Comm *comm, uint32_t seen) {
    sleep_on(comm, seen);
    return comm->aborted;
}

/* ---- joining and leaving ---- */
int room_open(Comm *comm) {
    int fd = shm_open(comm->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t bytes = room_bytes(comm->size);
    void *map = fd >= 0 && !ftruncate(fd, (off_t)bytes) ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                                        : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (map == MAP_FAILED) {
        snprintf(comm->problem, sizeof comm->problem, "no shared memory of %zu bytes for %.60s", bytes, comm->name);
        return ncclSystemError;
    }
    comm->room = map;
    Member *own = &comm->room->members[comm->rank];
    own->device = visible[comm->device];
    own->pid = getpid();
    room_wake(comm);
    for (int i = 0; i < comm->size; i++)
        while (!comm->room->members[i].pid) {
            uint32_t seen = comm->room->bell;
            int lost = 0;
            for (int j = 0; j < comm->size; j++) lost |= room_lost(comm, j);
            if (lost && !comm->room->members[i].pid) {
                snprintf(comm->problem, sizeof comm->problem, "a rank ended before all had joined");
                shm_unlink(comm->name);
                return ncclRemoteError;
            }
            sleep_on(comm, seen);
        }
    shm_unlink(comm->name); /* all are in: nothing stays behind */
    for (int i = 0; i < comm->size; i++)
        if (i != comm->rank && comm->room->members[i].device == own->device) {
            snprintf(comm->problem, sizeof comm->problem,
                     "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", comm->rank, i,
                     (own->device + 1) << 12);
            return ncclInvalidUsage;
        }
    return ncclSuccess;
}

void room_leave(Comm *comm) {
    comm->room->members[comm->rank].left = 1;
    room_wake(comm);
}

/* ---- collectives ---- */
int room_meet(Comm *comm) {
    uint64_t own = ++comm->room->members[comm->rank].step;
    room_wake(comm);
    for (int i = 0; i < comm->size; i++) {
        _Atomic uint64_t *step = &comm->room->members[i].step;
        while (*step < own) {
            uint32_t seen = comm->room->bell;
            int lost = room_lost(comm, i);
            if (*step >= own) break;
            if (lost) room_fail_lost(comm, i);
            if (room_pause(comm, seen)) return ncclInternalError;
        }
    }
    return ncclSuccess;
}

int room_agree(Comm *comm, const What *what) {
    comm->room->members[comm->rank].what = *what;
    if (room_meet(comm)) return ncclInternalError;
    int differs = -1;
    for (int i = 0; i < comm->size; i++) {
        const What *other = &comm->room->members[i].what;
        if (other->kind != what->kind || other->type != what->type || other->reduction != what->reduction ||
            other->root != what->root || other->count != what->count || other->moves != what->moves)
            differs = i;
    }
    if (room_meet(comm)) return ncclInternalError; /* all have read before any writes the next */
    if (differs < 0) return ncclSuccess;
    char problem[128];
    snprintf(problem, sizeof problem, "rank %d does another collective than rank %d, or one of another size", differs,
             comm->rank);
    room_fail(comm, ncclInvalidUsage, problem);
    return ncclInvalidUsage;
}

/* ---- letters ---- */
int room_send(Comm *comm, int to, const char **from, size_t *left) {
    Mail *mail = &comm->room->mails[comm->rank][to];
    if (!*left || mail->bytes) return 0;
    size_t part = *left < MAIL_BYTES ? *left : MAIL_BYTES;
    memcpy(letter(comm, comm->rank, to), *from, part);
    *from += part;
    *left -= part;
    mail->bytes = (uint32_t)part;
    room_wake(comm);
    return 1;
}

int room_receive(Comm *comm, int source, char **to, size_t *left) {
    Mail *mail = &comm->room->mails[source][comm->rank];
    size_t part = mail->bytes;
    if (!*left || !part) return 0;
    if (part > *left) {
        room_fail(comm, ncclInvalidUsage, "a rank sends more than its peer receives");
        part = *left;
    }
    memcpy(*to, letter(comm, source, comm->rank), part);
    *to += part;
    *left -= part;
    mail->bytes = 0;
    room_wake(comm);
    return 1;
}
