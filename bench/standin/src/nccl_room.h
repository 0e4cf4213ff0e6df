/* The memory that the ranks of one NCCL communicator share, and how they wait for one another in it. */
#ifndef STANDIN_NCCL_ROOM_H
#define STANDIN_NCCL_ROOM_H
#include "standin.h"

#define MAX_RANKS MAX_DEVICES
#define SLOT_BYTES MIB
#define MAIL_BYTES ((size_t)64 << 10)

enum kind { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND, RECEIVE };

typedef struct {
    int kind, type, reduction, root, moves; /* root: of one that has one, or the peer */
    size_t count;
} What; /* must be the same on every rank */

typedef struct Room Room;

typedef struct {
    int size, rank, device;
    unsigned splits;
    Room *room;
    char name[192];         /* of the shared memory */
    char problem[160];      /* what ncclGetLastError says */
    _Atomic int error;      /* what ncclCommGetAsyncError says */
    _Atomic int aborted;    /* its operations end now */
    _Atomic int unfinished; /* operations queued or running */
} Comm;

/* nccl_room.c */
int room_open(Comm *comm); /* joins the room of that name, waits for all ranks; an NCCL error */
void room_leave(Comm *comm);
void room_wake(Comm *comm);
char *room_slot(Comm *comm, int rank);
int room_agree(Comm *comm, const What *what); /* all ranks begin the same collective */
int room_meet(Comm *comm);                    /* returns when every rank has come here */
int room_send(Comm *comm, int to, const char **from, size_t *left);  /* as much as goes now; 1: something went */
int room_receive(Comm *comm, int source, char **to, size_t *left);
uint32_t room_bell(Comm *comm);
int room_pause(Comm *comm, uint32_t seen); /* waits until the bell tells another number, or a moment; 1: aborted */
int room_lost(Comm *comm, int rank); /* it has ended or left */
void room_fail(Comm *comm, int error, const char *problem); /* it goes on waiting, as on a GPU, until it is aborted */
void room_fail_lost(Comm *comm, int rank);

/* nccl_reduce.c */
size_t type_width(int type); /* [bytes]; 0: unknown */
int reduce_slots(void *to, const char *slots, int ranks, size_t count, int type, int reduction); /* 0: done */
#endif
