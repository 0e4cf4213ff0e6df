/* CUDA runtime: streams, events and graphs. A kernel has ended when its launch returns; only collectives take time, and
   what follows one on a stream waits for its ticket. On a GPU that hangs nothing ends any more. */
#include "standin.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENT_DISABLE_TIMING = 2 };

typedef struct {
    size_t nodes;
    unsigned long long id;
    int ended;
} Graph;

typedef struct Stream {
    int priority, device, capture_mode;
    unsigned flags;
    unsigned long long id;
    uint64_t ticket;
    Graph *capture;
    struct Stream *next;
} Stream;

typedef struct {
    double at_ms;
    int recorded;
    unsigned flags;
    uint64_t ticket;
    Graph *capture;
} Event;

static Stream *streams, legacy[3];
static unsigned long long stream_ids = 1, graph_ids;

static Stream *stream_of(void *stream) { return (uintptr_t)stream <= 2 ? &legacy[(uintptr_t)stream] : stream; }

static double clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int stream_captures(void *stream) {
    Graph *graph = stream_of(stream)->capture;
    if (graph) graph->nodes++;
    return graph != NULL;
}

void stream_follow(void *stream, uint64_t ticket) {
    if (ticket > stream_of(stream)->ticket) stream_of(stream)->ticket = ticket;
}

/* ---- waiting ---- */
static int waited(uint64_t ticket) { /* as the host waits for all that was queued before */
    if (device_error()) return give(device_error());
    if (device_hangs()) hang();
    work_wait(ticket);
    return give(device_error());
}

int stream_wait(void *stream) { return waited(stream_of(stream)->ticket); }

static int ended(uint64_t ticket) {
    if (device_error()) return give(device_error());
    return device_hangs() || !work_done(ticket) ? give(cudaErrorNotReady) : cudaSuccess;
}

API int cudaStreamSynchronize(void *stream) {
    trace("synchronize stream");
    if (stream_of(stream)->capture) return give(cudaErrorStreamCaptureUnsupported);
    return waited(stream_of(stream)->ticket);
}
API int cudaStreamQuery(void *stream) {
    if (stream_of(stream)->capture) return give(cudaErrorStreamCaptureUnsupported);
    return ended(stream_of(stream)->ticket);
}
API int cudaDeviceSynchronize(void) {
    uint64_t last = 0;
    int refused = 0;
    trace("synchronize device");
    lock();
    context_needed(current_device());
    for (int i = 0; i < 3; i++) last = legacy[i].ticket > last ? legacy[i].ticket : last;
    for (Stream *s = streams; s; s = s->next) {
        if (s->capture && s->capture_mode == cudaStreamCaptureModeGlobal) refused = 1;
        if (s->device == current_device() && s->ticket > last) last = s->ticket;
    }
    unlock();
    return refused ? give(cudaErrorStreamCaptureUnsupported) : waited(last);
}
API int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) {
    Event *e = event;
    if (device_error()) return give(device_error());
    if (e && e->capture && !e->capture->ended) stream_of(stream)->capture = e->capture;
    if (e) stream_follow(stream, e->ticket);
    return cudaSuccess;
}
API int cudaLaunchHostFunc(void *stream, void (*call)(void *), void *data) {
    if (stream_captures(stream)) return cudaSuccess;
    int error = waited(stream_of(stream)->ticket);
    if (!error) call(data);
    return error;
}
API int cudaStreamAddCallback(void *stream, void (*call)(void *, int, void *), void *data, unsigned flags) {
    int error = waited(stream_of(stream)->ticket);
    call(stream, error, data);
    return cudaSuccess;
}

/* ---- streams ---- */
API int cudaStreamCreateWithPriority(void **out, unsigned flags, int priority) {
    if (device_error()) return give(device_error());
    Stream *made = calloc(1, sizeof *made);
    lock();
    *made =
        (Stream){.priority = priority, .flags = flags, .device = current_device(), .id = ++stream_ids, .next = streams};
    streams = made;
    context_needed(current_device());
    unlock();
    *out = made;
    return cudaSuccess;
}
API int cudaStreamCreateWithFlags(void **out, unsigned flags) { return cudaStreamCreateWithPriority(out, flags, 0); }
API int cudaStreamCreate(void **out) { return cudaStreamCreateWithPriority(out, 0, 0); }
API int cudaStreamDestroy(void *stream) {
    lock();
    for (Stream **link = &streams; *link; link = &(*link)->next)
        if (*link == stream) {
            *link = (*link)->next;
            free(stream);
            break;
        }
    unlock();
    return cudaSuccess;
}
API int cudaStreamGetPriority(void *stream, int *priority) {
    *priority = stream_of(stream)->priority;
    return cudaSuccess;
}
API int cudaStreamGetFlags(void *stream, unsigned *flags) {
    *flags = stream_of(stream)->flags;
    return cudaSuccess;
}
API int cudaStreamGetId(void *stream, unsigned long long *id) {
    *id = stream_of(stream)->id;
    return cudaSuccess;
}
API int cudaStreamGetDevice(void *stream, int *device) {
    *device = stream_of(stream)->device;
    return cudaSuccess;
}

/* ---- events ---- */
API int cudaEventCreateWithFlags(void **out, unsigned flags) {
    if (device_error()) return give(device_error());
    Event *made = calloc(1, sizeof *made);
    made->flags = flags;
    lock();
    context_needed(current_device());
    unlock();
    *out = made;
    return cudaSuccess;
}
API int cudaEventCreate(void **out) { return cudaEventCreateWithFlags(out, 0); }
API int cudaEventDestroy(void *event) {
    free(event);
    return cudaSuccess;
}
API int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) {
    if (device_error()) return give(device_error());
    *(Event *)event =
        (Event){clock_ms(), 1, ((Event *)event)->flags, stream_of(stream)->ticket, stream_of(stream)->capture};
    return cudaSuccess;
}
API int cudaEventRecord(void *event, void *stream) { return cudaEventRecordWithFlags(event, stream, 0); }

static int event_captured(const Event *e) { return e->capture && !e->capture->ended; }

API int cudaEventQuery(void *event) {
    const Event *e = event;
    if (event_captured(e)) return give(cudaErrorCapturedEvent);
    return e->recorded ? ended(e->ticket) : cudaSuccess;
}
API int cudaEventSynchronize(void *event) {
    const Event *e = event;
    trace("synchronize event");
    if (event_captured(e)) return give(cudaErrorCapturedEvent);
    return e->recorded ? waited(e->ticket) : cudaSuccess;
}
API int cudaEventElapsedTime(float *ms, void *begin, void *end) {
    const Event *a = begin, *b = end;
    if (device_error()) return give(device_error());
    if (!a->recorded || !b->recorded || ((a->flags | b->flags) & EVENT_DISABLE_TIMING))
        return give(cudaErrorInvalidResourceHandle);
    if (device_hangs() || !work_done(a->ticket) || !work_done(b->ticket)) return give(cudaErrorNotReady);
    *ms = (float)(b->at_ms - a->at_ms);
    return cudaSuccess;
}
API int cudaEventElapsedTime_v2(float *ms, void *begin, void *end) { return cudaEventElapsedTime(ms, begin, end); }

/* ---- graphs: they count their nodes, and do nothing ---- */
static Graph *graph_new(void) {
    Graph *made = calloc(1, sizeof *made);
    lock();
    made->id = ++graph_ids;
    unlock();
    return made;
}

API int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *d, const void *e, size_t n, int mode) {
    if ((uintptr_t)stream <= 1) return give(cudaErrorStreamCaptureUnsupported); /* the default stream */
    stream_of(stream)->capture = graph;
    stream_of(stream)->capture_mode = mode;
    return cudaSuccess;
}
API int cudaStreamBeginCapture(void *stream, int mode) {
    return cudaStreamBeginCaptureToGraph(stream, graph_new(), NULL, NULL, 0, mode);
}
API int cudaStreamEndCapture(void *stream, void **out) {
    Graph *graph = stream_of(stream)->capture;
    if (!graph) return give(cudaErrorIllegalState);
    lock();
    graph->ended = 1;
    for (Stream *s = streams; s; s = s->next)
        if (s->capture == graph) s->capture = NULL;
    unlock();
    *out = graph;
    return cudaSuccess;
}
API int cudaStreamIsCapturing(void *stream, int *status) {
    *status = stream_of(stream)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

static int capture_info(void *stream, int *status, unsigned long long *id, void **graph, const void **nodes,
                        size_t *n) {
    Graph *on = stream_of(stream)->capture;
    cudaStreamIsCapturing(stream, status);
    if (id) *id = on ? on->id : 0;
    if (graph) *graph = on;
    if (nodes) *nodes = NULL;
    if (n) *n = 0;
    return cudaSuccess;
}
API int cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph, const void **nodes,
                                    const void **edges, size_t *n) {
    if (edges) *edges = NULL;
    return capture_info(stream, status, id, graph, nodes, n);
}
API int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph, const void **nodes,
                                    size_t *n) {
    return capture_info(stream, status, id, graph, nodes, n);
}
#if STANDIN_CUDA >= 13000
API int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void **graph, const void **nodes,
                                 const void **edges, size_t *n) {
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, edges, n);
}
#endif
API int cudaThreadExchangeStreamCaptureMode(int *mode) {
    static __thread int now = cudaStreamCaptureModeGlobal;
    int before = now;
    now = *mode;
    *mode = before;
    return cudaSuccess;
}
API int cudaGraphCreate(void **out, unsigned flags) {
    *out = graph_new();
    return cudaSuccess;
}
API int cudaGraphGetNodes(void *graph, void **nodes, size_t *n) {
    if (nodes)
        memset(nodes, 0, *n * sizeof *nodes);
    else
        *n = ((Graph *)graph)->nodes;
    return cudaSuccess;
}
API int cudaGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) {
    Graph *made = malloc(sizeof *made);
    *made = *(Graph *)graph;
    *out = made;
    return cudaSuccess;
}
API int cudaGraphInstantiate(void **out, void *graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(out, graph, flags);
}
API int cudaGraphLaunch(void *exec, void *stream) {
    trace("launch graph of %zu nodes", ((Graph *)exec)->nodes);
    dim3 one = {1, 1, 1};
    return give(launch_node("graph", one, one, 0, stream));
}
API int cudaGraphExecDestroy(void *exec) {
    free(exec);
    return cudaSuccess;
}
API int cudaUserObjectCreate(void **out, void *p, void (*destroy)(void *), unsigned count, unsigned flags) {
    *out = calloc(1, 8);
    return cudaSuccess;
}
