/* Both sides of a direct circuit in one process: loans, batches, short and long SDUs, and what is refused. Prints "done"
 * and leaves no memory. */
#include <cellway.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, cellway_last_error()); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

_Static_assert(sizeof(cellway_buffer) == 16 && sizeof(cellway_loan) == 24, "as the library has them");
_Static_assert(sizeof(cellway_sdu) == 32 && offsetof(cellway_sdu, uu) == 24, "as the library has them");
_Static_assert(sizeof(cellway_call) == 24, "as the library has it");

static void loans(cellway_direct *here, cellway_direct *there) {
    cellway_loan loan, other;
    cellway_sdu sdu;
    CHECK(cellway_direct_loan(here, 9188, &loan) == CELLWAY_OK && loan.octets >= 9188);
    memset(loan.data, 7, 9188);
    CHECK(cellway_direct_send_loan(here, &loan, loan.octets + 1) == CELLWAY_TOO_LONG && loan.data);
    CHECK(cellway_direct_send_loan(here, &loan, 9188) == CELLWAY_OK && !loan.data);
    CHECK(cellway_direct_send_loan(here, &loan, 9188) == CELLWAY_ARGUMENT);
    CHECK(cellway_direct_loan(here, 100, &other) == CELLWAY_OK);
    CHECK(cellway_direct_give_back(here, &other) == CELLWAY_OK);
    CHECK(cellway_direct_give_back(here, &other) == CELLWAY_ARGUMENT);
    CHECK(cellway_direct_receive(there, &sdu, -1) == 1 && sdu.octets == 9188);
    CHECK(((const unsigned char *)sdu.data)[9187] == 7 && sdu.flags == CELLWAY_SDU_MAY_CHANGE);
    CHECK(cellway_direct_release(there, &sdu) == CELLWAY_OK && !sdu.data);
    CHECK(cellway_direct_release(there, &sdu) == CELLWAY_ARGUMENT);
}

static void batches(cellway_direct *here, cellway_direct *there) {
    static char text[64][100];
    cellway_buffer out[64];
    cellway_sdu in[64];
    for (int i = 0; i < 64; i++) {
        memset(text[i], i, sizeof text[i]);
        out[i] = (cellway_buffer){text[i], i % 2 ? 100 : 10};
    }
    CHECK(cellway_direct_send_batch(here, out, 64) == 64);
    CHECK(cellway_direct_receive_batch(there, in, 64, -1) == 64);
    for (int i = 63; i >= 0; i--) {
        CHECK(in[i].octets == out[i].octets && !memcmp(in[i].data, text[i], in[i].octets));
        CHECK(cellway_direct_release(there, &in[i]) == CELLWAY_OK);
    }
    CHECK(cellway_direct_receive_batch(there, in, 64, 0) == 0);
}

static void by_poll(cellway_direct *here, cellway_direct *there) {
    cellway_sdu sdu;
    struct pollfd one = {cellway_direct_fd(there), POLLIN, 0};
    CHECK(cellway_direct_arm(there) == CELLWAY_OK && cellway_direct_receive(there, &sdu, 0) == 0);
    CHECK(cellway_direct_arm(there) == CELLWAY_OK);
    CHECK(cellway_direct_send(here, "ping", 4) == CELLWAY_OK);
    CHECK(poll(&one, 1, -1) == 1 && cellway_direct_disarm(there) == CELLWAY_OK);
    CHECK(cellway_direct_receive(there, &sdu, 0) == 1 && !memcmp(sdu.data, "ping", 4));
    CHECK(cellway_direct_release(there, &sdu) == CELLWAY_OK);
}

static void too_many(cellway_direct *here, cellway_direct *there) {
    static cellway_sdu in[257];
    int held = 0;
    for (; held < 256; held++) {
        CHECK(cellway_direct_send(here, "x", 1) == CELLWAY_OK);
        CHECK(cellway_direct_receive(there, &in[held], -1) == 1);
    }
    CHECK(cellway_direct_send(here, "x", 1) == CELLWAY_OK);
    CHECK(cellway_direct_receive(there, &in[256], -1) == CELLWAY_TOO_MANY_HELD);
    CHECK(cellway_direct_release_batch(there, in, 256) == CELLWAY_OK);
    CHECK(cellway_direct_receive(there, &in[256], -1) == 1);
    CHECK(cellway_direct_release(there, &in[256]) == CELLWAY_OK);
}

int main(void) {
    cellway_direct *here, *there;
    cellway_direct_options options;
    cellway_endpoint *endpoint = (cellway_endpoint *)1;
    CHECK(cellway_direct_options_init(&options) == CELLWAY_OK && options.size == sizeof options);
    options.ring = 7;
    CHECK(cellway_direct_pair(&options, &here, &there) == CELLWAY_INVALID);
    CHECK(strstr(cellway_last_error(), "power of two"));
    options.size = 4;
    CHECK(cellway_direct_pair(&options, &here, &there) == CELLWAY_ARGUMENT);
    CHECK(cellway_direct_pair(NULL, &here, &there) == CELLWAY_OK);
    loans(here, there);
    batches(here, there);
    by_poll(here, there);
    too_many(here, there);
    CHECK(cellway_direct_send(here, NULL, 4) == CELLWAY_ARGUMENT);
    CHECK(cellway_direct_send(here, "x", 0) == CELLWAY_EMPTY);
    CHECK(cellway_direct_send(NULL, "x", 1) == CELLWAY_ARGUMENT);
    CHECK(cellway_endpoint_create("/nowhere/socket", "alpha", NULL, &endpoint) == CELLWAY_NO_SERVICE && !endpoint);
    CHECK(strstr(cellway_last_error(), "/nowhere/socket"));
    cellway_direct_free(there);
    CHECK(cellway_direct_wait_room(here, 100000000, 5000) == CELLWAY_PEER_GONE);
    cellway_direct_free(here);
    cellway_direct_free(NULL);
    cellway_endpoint_free(NULL);
    puts("done");
    return 0;
}
