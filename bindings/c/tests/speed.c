/* SDUs per second over a direct circuit between two threads: `speed OCTETS SECONDS`. As bindings/tests/src/speed.rs. */
#include <cellway.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 32 };

static size_t octets;
static double length;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *send_all(void *arg) {
    cellway_direct *direct = arg;
    char *source = calloc(1, octets);
    cellway_loan loan;
    for (double begin = now(); now() - begin < length; cellway_direct_flush(direct))
        for (int i = 0; i < BATCH; i++) {
            while (cellway_direct_loan(direct, octets, &loan) == CELLWAY_FULL)
                cellway_direct_wait_room(direct, octets, -1);
            memcpy(loan.data, source, octets);
            while (cellway_direct_post(direct, &loan, octets) == CELLWAY_FULL)
                cellway_direct_wait_room(direct, 1, -1);
        }
    while (cellway_direct_send(direct, "", 1) == CELLWAY_FULL)
        cellway_direct_wait_room(direct, 1, -1);
    free(source);
    return NULL;
}

int main(int n, char **words) {
    cellway_direct *here, *there;
    cellway_sdu sdus[BATCH];
    pthread_t sender;
    long count = 0;
    if (n != 3 || cellway_direct_pair(NULL, &here, &there) != CELLWAY_OK)
        return 2;
    octets = strtoul(words[1], NULL, 10);
    length = strtod(words[2], NULL);
    char *sink = malloc(octets);
    double begin = now();
    pthread_create(&sender, NULL, send_all, here);
    for (int ends = 0; !ends;) {
        int taken = cellway_direct_receive_batch(there, sdus, BATCH, -1);
        if (taken <= 0)
            return 1;
        for (int i = 0; i < taken; i++) {
            if (sdus[i].octets == 1) {
                ends = 1;
                continue;
            }
            memcpy(sink, sdus[i].data, octets);
            __asm__ volatile("" : : "r"(sink) : "memory");
            count++;
        }
        cellway_direct_release_batch(there, sdus, taken);
    }
    printf("%.0f\n", count / (now() - begin));
    pthread_join(sender, NULL);
    cellway_direct_free(here);
    cellway_direct_free(there);
    free(sink);
    return 0;
}
