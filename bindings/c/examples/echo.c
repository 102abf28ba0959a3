/* Sends back what comes: `cellway up examples/two-hosts.toml`, then `echo beta 0.100`. */
#include <cellway.h>
#include <stdio.h>

int main(int n, char **words) {
    cellway_endpoint *endpoint;
    uint32_t channel;
    cellway_sdu sdu;
    if (n != 3 || cellway_endpoint_create(NULL, words[1], NULL, &endpoint) != CELLWAY_OK ||
        cellway_endpoint_open(endpoint, words[2], NULL, &channel) != CELLWAY_OK)
        return fprintf(stderr, "echo HOST VPI.VCI: %s\n", cellway_last_error()), 1;
    while (cellway_endpoint_receive(endpoint, &sdu, -1) == 1) {
        while (cellway_endpoint_send(endpoint, channel, sdu.data, sdu.octets) == CELLWAY_FULL)
            cellway_endpoint_wait_room(endpoint, -1);
        cellway_endpoint_release(endpoint, &sdu);
    }
    return 1;
}
