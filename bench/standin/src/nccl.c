/* NCCL: communicators whose collectives really exchange, between the processes of one machine, one rank to a process.
   An operation is queued and run by a thread of its own, in order; the stream waits for its ticket, not the host. */
#define _GNU_SOURCE
#include "nccl_room.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MOST_IN_GROUP = 4096 };

typedef struct {
    What what;
    const char *from;
    char *to;
    Comm *comm;
    void *stream;
} Operation;
typedef struct Job {
    int count;
    Operation *operations;
    struct Job *next;
} Job;

static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER, job_ended = PTHREAD_COND_INITIALIZER;
static Job *first, **last = &first;
static uint64_t issued;
static _Atomic uint64_t ended;
static int thread_runs;

/* ---- running one job ---- */
static int failed(Operation *operation) { return operation->comm->aborted; }

static void collective(Operation *o) {
    Comm *comm = o->comm;
    size_t width = type_width(o->what.type), bytes = o->what.count * width;
    int kind = o->what.kind, scatters = kind == REDUCE_SCATTER || kind == ALL_TO_ALL, own = comm->rank;
    int reduces = kind == ALL_REDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
    if (room_agree(comm, &o->what) || !o->what.moves) return;
    for (int phase = 0; phase < (scatters ? comm->size : 1); phase++)
        for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
            size_t part = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
            if (kind != BROADCAST || own == o->what.root)
                memcpy(room_slot(comm, own), o->from + (size_t)phase * bytes + at, part);
            if (room_meet(comm)) return;
            int takes = scatters ? phase == own : kind == REDUCE || kind == GATHER ? own == o->what.root : 1;
            if (takes && reduces) {
                if (reduce_slots(o->to + at, room_slot(comm, 0), comm->size, part / width, o->what.type,
                                 o->what.reduction))
                    room_fail(comm, ncclInvalidArgument, "the stand-in does not reduce this type or operation");
            } else if (takes && kind == BROADCAST)
                memcpy(o->to + at, room_slot(comm, o->what.root), part);
            else if (takes)
                for (int i = 0; i < comm->size; i++) memcpy(o->to + (size_t)i * bytes + at, room_slot(comm, i), part);
            if (room_meet(comm)) return;
        }
}

/* Letters of a pair keep their order. */
static int waits_for_earlier(const Operation *operations, const size_t *left, int i) {
    for (int j = 0; j < i; j++)
        if (left[j] && operations[j].comm == operations[i].comm && operations[j].what.kind == operations[i].what.kind &&
            operations[j].what.root == operations[i].what.root)
            return 1;
    return 0;
}

static void letters(Operation *operations, int count) { /* all of a group's together, as each may wait for another */
    static char nothing; /* stands for what is not carried */
    size_t left[MOST_IN_GROUP];
    for (int i = 0; i < count; i++) {
        Operation *o = &operations[i];
        left[i] = o->what.kind < SEND ? 0 : o->what.moves ? o->what.count * type_width(o->what.type) : 1;
        if (!o->what.moves && left[i]) o->from = o->to = &nothing;
    }
    for (int suspected = 0;;) {
        Operation *waiting = NULL;
        uint32_t seen = 0;
        int moved = 0;
        for (int i = 0; i < count; i++) {
            Operation *o = &operations[i];
            if (!left[i] || failed(o) || waits_for_earlier(operations, left, i)) continue;
            if (!waiting) seen = room_bell(o->comm);
            moved |= o->what.kind == SEND ? room_send(o->comm, o->what.root, &o->from, &left[i])
                                          : room_receive(o->comm, o->what.root, &o->to, &left[i]);
            if (left[i] && !waiting) waiting = o;
        }
        if (!waiting && !moved) return;
        if (moved) {
            suspected = 0;
            continue;
        }
        if (suspected) room_fail_lost(waiting->comm, waiting->what.root);
        suspected = !suspected && room_lost(waiting->comm, waiting->what.root); /* once more: for a last letter */
        if (!suspected) room_pause(waiting->comm, seen);
    }
}

static void hold(Operation *o) { /* until it is aborted, as a GPU's kernel that waits for its peers */
    while (!failed(o)) room_pause(o->comm, room_bell(o->comm));
}

static void run(Job *job) {
    for (int i = 0; i < job->count; i++)
        if (device_hangs()) hold(&job->operations[i]);
    for (int i = 0; i < job->count; i++)
        if (job->operations[i].what.kind < SEND && !failed(&job->operations[i])) collective(&job->operations[i]);
    letters(job->operations, job->count);
    for (int i = 0; i < job->count; i++)
        if (job->operations[i].comm->error) hold(&job->operations[i]);
}

static void *work(void *unused) {
    for (;;) {
        pthread_mutex_lock(&queue_mutex);
        while (!first) pthread_cond_wait(&queue_filled, &queue_mutex);
        Job *job = first;
        pthread_mutex_unlock(&queue_mutex);
        run(job);
        pthread_mutex_lock(&queue_mutex);
        first = job->next;
        if (!first) last = &first;
        ended++;
        for (int i = 0; i < job->count; i++) job->operations[i].comm->unfinished--;
        pthread_cond_broadcast(&job_ended);
        pthread_mutex_unlock(&queue_mutex);
        free(job->operations);
        free(job);
    }
    return unused;
}

int work_done(uint64_t ticket) { return ended >= ticket; }

void work_wait(uint64_t ticket) {
    if (work_done(ticket)) return;
    pthread_mutex_lock(&queue_mutex);
    while (!work_done(ticket)) pthread_cond_wait(&job_ended, &queue_mutex);
    pthread_mutex_unlock(&queue_mutex);
}

static void after_fork(void) { /* the thread and its queue stay with the parent */
    pthread_mutex_init(&queue_mutex, NULL);
    first = NULL;
    last = &first;
    ended = issued;
    thread_runs = 0;
}

/* ---- queueing ---- */
static __thread Operation group[MOST_IN_GROUP];
static __thread int group_depth, group_count;

static uint64_t queue(const Operation *operations, int count) {
    pthread_t thread;
    Job *job = calloc(1, sizeof *job);
    job->count = count;
    job->operations = malloc(sizeof *operations * (size_t)count);
    memcpy(job->operations, operations, sizeof *operations * (size_t)count);
    pthread_mutex_lock(&queue_mutex);
    if (!thread_runs) {
        pthread_atfork(NULL, NULL, after_fork);
        thread_runs = !pthread_create(&thread, NULL, work, NULL);
        if (thread_runs) pthread_detach(thread);
    }
    for (int i = 0; i < count; i++) job->operations[i].comm->unfinished++;
    *last = job;
    last = &job->next;
    uint64_t ticket = ++issued;
    pthread_cond_signal(&queue_filled);
    pthread_mutex_unlock(&queue_mutex);
    return ticket;
}

static int flush_group(void) {
    if (!group_count) return ncclSuccess;
    uint64_t ticket = queue(group, group_count);
    for (int i = 0; i < group_count; i++) stream_follow(group[i].stream, ticket);
    group_count = 0;
    return ncclSuccess;
}

static int post(int kind, const void *from, void *to, size_t count, int type, int reduction, int root, Comm *comm,
                void *stream) {
    size_t bytes = count * type_width(type);
    if (device_error()) return 1; /* ncclUnhandledCudaError */
    if (comm->error) return comm->error;
    if (!type_width(type) || group_count == MOST_IN_GROUP) return ncclInvalidArgument;
    trace("nccl %d of %zu bytes", kind, bytes);
    if (stream_captures(stream)) return ncclSuccess;
    What what = {kind, type, reduction, root, bytes <= copy_limit, count};
    group[group_count++] = (Operation){what, from, to, comm, stream};
    return group_depth ? ncclSuccess : flush_group();
}

API int ncclGroupStart(void) {
    group_depth++;
    return ncclSuccess;
}
API int ncclGroupEnd(void) { return --group_depth ? ncclSuccess : flush_group(); }

/* ---- communicators ---- */
API int ncclGetVersion(int *version) {
    *version = STANDIN_NCCL;
    return ncclSuccess;
}
API int ncclGetUniqueId(ncclUniqueId *id) {
    unsigned char random[16];
    memset(id, 0, sizeof *id);
    if (getrandom(random, sizeof random, 0) != sizeof random) return ncclSystemError;
    int at = snprintf(id->internal, sizeof id->internal, "/standin-nccl-");
    for (size_t i = 0; i < sizeof random; i++) at += sprintf(id->internal + at, "%02x", random[i]);
    return ncclSuccess;
}

static __thread char init_problem[160];

static int make(Comm **out, int size, int rank, const char *name) {
    if (size < 1 || size > MAX_RANKS || rank < 0 || rank >= size) return ncclInvalidArgument;
    Comm *made = calloc(1, sizeof *made);
    made->size = size;
    made->rank = rank;
    made->device = current_device();
    snprintf(made->name, sizeof made->name, "%s", name);
    trace("nccl communicator of %d, rank %d", size, rank);
    int error = room_open(made);
    if (error) {
        snprintf(init_problem, sizeof init_problem, "%s", made->problem);
        if (made->room) room_leave(made);
        return error;
    }
    *out = made;
    return ncclSuccess;
}
API int ncclCommInitRank(Comm **out, int size, ncclUniqueId id, int rank) { return make(out, size, rank, id.internal); }
API int ncclCommInitRankConfig(Comm **out, int size, ncclUniqueId id, int rank, void *config) {
    return make(out, size, rank, id.internal);
}
API int ncclCommInitRankScalable(Comm **out, int size, int rank, int n, ncclUniqueId *ids, void *config) {
    return make(out, size, rank, ids[0].internal);
}
API int ncclCommSplit(Comm *comm, int color, int key, Comm **out, void *config) {
    int64_t own[2] = {color, key}, all[MAX_RANKS][2];
    What what = {ALL_GATHER, ncclInt64, 0, 0, 1, 2};
    Operation gather = {what, (char *)own, (char *)all, comm, NULL};
    work_wait(queue(&gather, 1));
    if (comm->error || comm->aborted) return comm->error ? comm->error : ncclInternalError;
    char name[sizeof comm->name];
    int size = 0, rank = 0;
    for (int i = 0; i < comm->size; i++) {
        if (all[i][0] != color) continue;
        size++;
        rank += all[i][1] < key || (all[i][1] == key && i < comm->rank);
    }
    snprintf(name, sizeof name, "%.150s-%u-%d", comm->name, comm->splits++, color);
    *out = NULL;
    return color < 0 ? ncclSuccess : make(out, size, rank, name); /* NCCL_SPLIT_NOCOLOR: of no group */
}
API int ncclCommFinalize(Comm *comm) { return ncclSuccess; }

static int end(Comm *comm) { /* its memory stays: another thread may still ask it */
    pthread_mutex_lock(&queue_mutex);
    while (comm->unfinished) pthread_cond_wait(&job_ended, &queue_mutex);
    pthread_mutex_unlock(&queue_mutex);
    room_leave(comm);
    return ncclSuccess;
}
API int ncclCommDestroy(Comm *comm) { return end(comm); }
API int ncclCommAbort(Comm *comm) {
    comm->aborted = 1;
    room_wake(comm);
    return end(comm);
}
API int ncclCommGetAsyncError(Comm *comm, int *error) {
    *error = comm->error;
    return ncclSuccess;
}
API int ncclCommCount(Comm *comm, int *n) {
    *n = comm->size;
    return ncclSuccess;
}
API int ncclCommUserRank(Comm *comm, int *rank) {
    *rank = comm->rank;
    return ncclSuccess;
}
API int ncclCommCuDevice(Comm *comm, int *device) {
    *device = comm->device;
    return ncclSuccess;
}
API int ncclCommRegister(Comm *comm, void *p, size_t n, void **handle) {
    *handle = p;
    return ncclSuccess;
}
API int ncclCommMemStats(Comm *comm, int what, uint64_t *value) {
    *value = 0;
    return ncclSuccess;
}
API const char *ncclGetLastError(Comm *comm) { return comm ? comm->problem : init_problem; }
API const char *ncclGetErrorString(int error) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "in progress"};
    return error >= 0 && error < 8 ? texts[error] : "unknown result code";
}

/* ---- operations ---- */
API int ncclAllReduce(const void *from, void *to, size_t n, int type, int reduction, Comm *comm, void *stream) {
    return post(ALL_REDUCE, from, to, n, type, reduction, 0, comm, stream);
}
API int ncclReduce(const void *from, void *to, size_t n, int type, int reduction, int root, Comm *comm, void *stream) {
    return post(REDUCE, from, to, n, type, reduction, root, comm, stream);
}
API int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, Comm *comm, void *stream) {
    return post(BROADCAST, from, to, n, type, 0, root, comm, stream);
}
API int ncclBcast(void *p, size_t n, int type, int root, Comm *comm, void *stream) {
    return post(BROADCAST, p, p, n, type, 0, root, comm, stream);
}
API int ncclAllGather(const void *from, void *to, size_t n, int type, Comm *comm, void *stream) {
    return post(ALL_GATHER, from, to, n, type, 0, 0, comm, stream);
}
API int ncclGather(const void *from, void *to, size_t n, int type, int root, Comm *comm, void *stream) {
    return post(GATHER, from, to, n, type, 0, root, comm, stream);
}
API int ncclReduceScatter(const void *from, void *to, size_t n, int type, int reduction, Comm *comm, void *stream) {
    return post(REDUCE_SCATTER, from, to, n, type, reduction, 0, comm, stream);
}
API int ncclAlltoAll(const void *from, void *to, size_t n, int type, Comm *comm, void *stream) {
    return post(ALL_TO_ALL, from, to, n, type, 0, 0, comm, stream);
}
API int ncclSend(const void *p, size_t n, int type, int peer, Comm *comm, void *stream) {
    return post(SEND, p, NULL, n, type, 0, peer, comm, stream);
}
API int ncclRecv(void *p, size_t n, int type, int peer, Comm *comm, void *stream) {
    return post(RECEIVE, NULL, p, n, type, 0, peer, comm, stream);
}
