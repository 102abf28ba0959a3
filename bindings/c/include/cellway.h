/* Endpoints, direct circuits and calls of a Cellway service, for C (docs/building-on-it.md).
 *
 * Functions give 0 or a count where they succeed, and a negative code where they do not; cellway_strerror has the words
 * for a code, cellway_last_error those of this thread's last failure, with its values. A timeout is in milliseconds; a
 * negative one is as long as it takes. Texts are UTF-8. A socket of NULL is the default one (cellway_default_socket).
 *
 * SDUs and loans of a handle end with it.
 *
 * One thread at a time uses a handle; of a direct circuit, one thread may send while another receives. No function
 * changes the process's signals, locale or descriptors, and none ends the process.
 *
 * Symbols have the version CELLWAY_0.1. A structure that begins with its size may grow.
 */
#ifndef CELLWAY_H
#define CELLWAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Codes. */
#define CELLWAY_OK 0
#define CELLWAY_ARGUMENT -1
#define CELLWAY_NO_SERVICE -2
#define CELLWAY_NO_ANSWER -3
#define CELLWAY_GONE -4
#define CELLWAY_PEER_GONE -5
#define CELLWAY_NO_PEER -6
#define CELLWAY_UNTRUSTED -7
#define CELLWAY_PROTOCOL -8
#define CELLWAY_SYSTEM -9
#define CELLWAY_REFUSED -10
#define CELLWAY_NO_HOST -11
#define CELLWAY_NO_CIRCUIT -12
#define CELLWAY_IN_USE -13
#define CELLWAY_NOT_ALLOWED -14
#define CELLWAY_LIMIT -15
#define CELLWAY_INVALID -16
#define CELLWAY_FULL -20
#define CELLWAY_TOO_LONG -21
#define CELLWAY_EMPTY -22
#define CELLWAY_TOO_MANY_HELD -23
#define CELLWAY_RELEASED -24
#define CELLWAY_CALL_NO_ANSWER -25
#define CELLWAY_INTERNAL -99

/* Never null, valid for ever. */
const char *cellway_strerror(int code);
/* Never null, valid until this thread's next failure. */
const char *cellway_last_error(void);

/* Octets to send. */
typedef struct cellway_buffer {
    const void *data;
    size_t octets;
} cellway_buffer;

/* Memory to fill and send: the program's until it sends it or gives it back. */
typedef struct cellway_loan {
    void *data; /* NULL once it was sent or given back */
    size_t octets;
    uint32_t number;
    uint32_t reserved;
} cellway_loan;

#define CELLWAY_SDU_CLP 1        /* a cell had its loss priority set */
#define CELLWAY_SDU_CONGESTION 2 /* the last cell had met congestion */
#define CELLWAY_SDU_MAY_CHANGE 4 /* the sender may still change the octets: check a copy */
#define CELLWAY_SDU_SHORT 8      /* at most 256 such may be in the program's hands */

/* An SDU that has arrived: the program's until it releases it, in any order. */
typedef struct cellway_sdu {
    const void *data; /* NULL once it was released */
    size_t octets;
    uint32_t channel;
    uint32_t number;
    uint8_t uu; /* AAL5 user-to-user indication */
    uint8_t flags;
    uint8_t reserved[6];
} cellway_sdu;

#define CELLWAY_PATH_COPYING 0
#define CELLWAY_PATH_SHARED 1
#define CELLWAY_PATH_ZERO_COPY 2

#define CELLWAY_EVENTS_INTERRUPT 0
#define CELLWAY_EVENTS_POLLING 1
#define CELLWAY_EVENTS_CLOCKED 2 /* events_number: ticks per second */
#define CELLWAY_EVENTS_HYBRID 3  /* events_number: descriptors, 1 or more */
#define CELLWAY_EVENTS_SOFT 4    /* events_number: looks per second */

typedef struct cellway_endpoint_options {
    size_t size; /* sizeof this structure */
    uint32_t send_ring; /* slots, a power of two */
    uint32_t receive_ring;
    uint32_t free_ring;
    uint32_t buffers;
    uint32_t buffer_octets; /* a multiple of 64: the longest SDU */
    uint32_t send_buffers;  /* of the buffers, those for sending */
    uint32_t path;
    uint32_t events;
    uint32_t events_number;
    uint32_t reserved;
} cellway_endpoint_options;

#define CELLWAY_AAL5 0
#define CELLWAY_AAL0 1 /* cells of 52 octets: four of header, 48 of payload */
#define CELLWAY_AAL34 2
#define CELLWAY_OAM 3 /* the circuit's OAM cells, as AAL0 */

#define CELLWAY_BOTH_WAYS 0
#define CELLWAY_SEND_ONLY 1
#define CELLWAY_RECEIVE_ONLY 2

typedef struct cellway_circuit_options {
    size_t size; /* sizeof this structure */
    uint32_t aal;
    uint32_t direction;
} cellway_circuit_options;

#define CELLWAY_SPIN_NONE 0    /* sleeps at once */
#define CELLWAY_SPIN_BOUNDED 1 /* spins and yields for a moment first */
#define CELLWAY_SPIN_FOREVER 2 /* never sleeps */

typedef struct cellway_direct_options {
    size_t size; /* sizeof this structure */
    uint32_t ring; /* lines, a power of two */
    uint32_t returns; /* at least as many as the other side has blocks */
    uint32_t blocks;
    uint32_t block_octets; /* a multiple of 64 */
    uint32_t spin;
    uint32_t reserved;
} cellway_direct_options;

/* Endpoints: SDUs on a host's circuits. */
typedef struct cellway_endpoint cellway_endpoint;

int cellway_endpoint_options_init(cellway_endpoint_options *options);
/* Blocks until the service has answered, for ten seconds at most. options: NULL for the defaults. */
int cellway_endpoint_create(const char *socket, const char *host, const cellway_endpoint_options *options,
                            cellway_endpoint **endpoint);
/* Ends the endpoint and all that it opened. NULL is no error. */
void cellway_endpoint_free(cellway_endpoint *endpoint);
/* circuit: "vpi.vci". Blocks until the service has answered, for ten seconds at most. */
int cellway_endpoint_open(cellway_endpoint *endpoint, const char *circuit, const cellway_circuit_options *options,
                          uint32_t *channel);
int cellway_endpoint_close(cellway_endpoint *endpoint, uint32_t channel);
/* Sends a copy. CELLWAY_FULL: cellway_endpoint_wait_room, then again. Never blocks. */
int cellway_endpoint_send(cellway_endpoint *endpoint, uint32_t channel, const void *data, size_t octets);
/* Sends copies with one wake-up; gives how many. Never blocks. */
int cellway_endpoint_send_batch(cellway_endpoint *endpoint, uint32_t channel, const cellway_buffer *sdus, size_t n);
/* A buffer where the host reads it. Never blocks. */
int cellway_endpoint_loan(cellway_endpoint *endpoint, cellway_loan *loan);
int cellway_endpoint_send_loan(cellway_endpoint *endpoint, uint32_t channel, cellway_loan *loan, size_t octets);
int cellway_endpoint_give_back(cellway_endpoint *endpoint, cellway_loan *loan);
/* 1, or 0 if the time passes first. */
int cellway_endpoint_receive(cellway_endpoint *endpoint, cellway_sdu *sdu, int timeout_ms);
/* Waits for one, then takes what has come, n at most; gives how many. */
int cellway_endpoint_receive_batch(cellway_endpoint *endpoint, cellway_sdu *sdus, size_t n, int timeout_ms);
int cellway_endpoint_release(cellway_endpoint *endpoint, cellway_sdu *sdu);
int cellway_endpoint_release_batch(cellway_endpoint *endpoint, cellway_sdu *sdus, size_t n);
/* Waits until an SDU can be sent: 1, or 0 if the time passes first. */
int cellway_endpoint_wait_room(cellway_endpoint *endpoint, int timeout_ms);
/* Waits until the host has taken all that was sent: 1, or 0 if the time passes first. */
int cellway_endpoint_wait_sent(cellway_endpoint *endpoint, int timeout_ms);
/* For poll or epoll: arm, receive without waiting until nothing comes, poll for reading, disarm. */
int cellway_endpoint_fd(cellway_endpoint *endpoint);
int cellway_endpoint_arm(cellway_endpoint *endpoint);
int cellway_endpoint_disarm(cellway_endpoint *endpoint);

/* Direct circuits: two programs of one machine, without the host interface between them. */
typedef struct cellway_direct cellway_direct;

int cellway_direct_options_init(cellway_direct_options *options);
/* Blocks until the other end is opened directly too, for timeout_ms at most. */
int cellway_direct_open(const char *socket, const char *host, const char *circuit,
                        const cellway_direct_options *options, int timeout_ms, cellway_direct **direct);
/* Both sides in one process. Needs no service. */
int cellway_direct_pair(const cellway_direct_options *options, cellway_direct **one, cellway_direct **other);
void cellway_direct_free(cellway_direct *direct);
int cellway_direct_send(cellway_direct *direct, const void *data, size_t octets);
int cellway_direct_send_batch(cellway_direct *direct, const cellway_buffer *sdus, size_t n);
int cellway_direct_loan(cellway_direct *direct, size_t octets, cellway_loan *loan);
int cellway_direct_send_loan(cellway_direct *direct, cellway_loan *loan, size_t octets);
/* As cellway_direct_send_loan; a receiver that sleeps is woken by cellway_direct_flush: for many in a row. */
int cellway_direct_post(cellway_direct *direct, cellway_loan *loan, size_t octets);
int cellway_direct_flush(cellway_direct *direct);
int cellway_direct_give_back(cellway_direct *direct, cellway_loan *loan);
int cellway_direct_wait_room(cellway_direct *direct, size_t octets, int timeout_ms);
int cellway_direct_receive(cellway_direct *direct, cellway_sdu *sdu, int timeout_ms);
int cellway_direct_receive_batch(cellway_direct *direct, cellway_sdu *sdus, size_t n, int timeout_ms);
int cellway_direct_release(cellway_direct *direct, cellway_sdu *sdu);
int cellway_direct_release_batch(cellway_direct *direct, cellway_sdu *sdus, size_t n);
int cellway_direct_fd(cellway_direct *direct);
int cellway_direct_arm(cellway_direct *direct);
int cellway_direct_disarm(cellway_direct *direct);

/* Calls: circuits on demand. */
typedef struct cellway_session cellway_session;

typedef struct cellway_call {
    uint64_t number;
    char circuit[16]; /* for cellway_endpoint_open */
} cellway_call;

int cellway_session_open(const char *socket, const char *host, cellway_session **session);
void cellway_session_free(cellway_session *session);
/* selector: negative for any; sap: NULL for any; address: NULL, or 64 octets for the host's first address. */
int cellway_session_listen(cellway_session *session, int selector, const char *sap, char *address);
int cellway_session_call(cellway_session *session, const char *address, const char *sap, int timeout_ms,
                         cellway_call *made);
/* 1, or 0 if the time passes first. */
int cellway_session_accept(cellway_session *session, int timeout_ms, cellway_call *made);
int cellway_session_release(cellway_session *session, uint64_t number);
int cellway_session_fd(cellway_session *session);

/* A request of the management protocol, JSON; its answer is freed by cellway_text_free. */
int cellway_request(const char *socket, const char *request, char **answer);
char *cellway_default_socket(void);
void cellway_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
