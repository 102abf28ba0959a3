/*
 * The kernel's side of an exchange of PDUs that are compared octet for octet: on each of N circuits from 0.0.VCI on, a peer
 * sends PDUs by a schedule; each is held against what it should be, and answered with one of the other direction.
 *
 * usage: pdus AAL VCI N OCTETS ANSWER COUNT [OCTETS ANSWER COUNT ...]     AAL 0 (52 octets, a cell with its header) or 5
 *
 * Says "ready" when all circuits are open, and at the end "good PDUS" or what was wrong first.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "pvc.h"

/* The same is in the test. Direction 0 is to here, 1 from here. */
static void fill(uint8_t *sdu, int aal, int vci, int octets, int number, int direction)
{
	uint64_t seed = (uint64_t)direction << 63 ^ (uint64_t)vci << 48 ^ (uint64_t)octets << 24 ^ number;
	uint32_t header = vci << 4;
	uint64_t k = seed * 0x9E3779B97F4A7C15u;
	for (int at = 0; at < octets; at += 8, k += 0x9E3779B97F4A7C15u) {
		uint64_t x = (k ^ k >> 29) * 0xBF58476D1CE4E5B9u;
		/* Eight where there is room: an emulated processor takes long to call what copies fewer. */
		if (octets - at >= 8)
			memcpy(sdu + at, &x, 8);
		else
			memcpy(sdu + at, &x, octets - at);
	}
	if (!aal)
		memcpy(sdu, &header, 4);
}

struct circuit { int step, number; };

int main(int argc, char **argv)
{
	static uint8_t got[65536], wanted[65536];
	if (argc < 7)
		return 2;
	int aal = atoi(argv[1]), first = atoi(argv[2]), n = atoi(argv[3]), open = n;
	long pdus = 0;
	struct pollfd *fds = calloc(n, sizeof(*fds));
	struct circuit *circuits = calloc(n, sizeof(*circuits));
	for (int i = 0; i < n; i++) {
		fds[i].fd = opened("pdus", 0, first + i, aal ? AAL5 : AAL0);
		fds[i].events = POLLIN;
	}
	puts("pdus: ready");
	fflush(stdout);
	while (open) {
		if (poll(fds, n, 60000) <= 0) {
			printf("pdus: nothing for a minute, after %ld\n", pdus);
			return 1;
		}
		for (int i = 0; i < n; i++) {
			struct circuit *at = &circuits[i];
			if (!(fds[i].revents & POLLIN))
				continue;
			int octets = atoi(argv[4 + 3 * at->step]), answer = atoi(argv[5 + 3 * at->step]);
			ssize_t came = read(fds[i].fd, got, sizeof(got));
			fill(wanted, aal, first + i, octets, at->number, 0);
			if (came != octets || memcmp(got, wanted, octets)) {
				printf("pdus: wrong: circuit %d, number %d of %d octets, came %zd\n", first + i, at->number, octets, came);
				return 1;
			}
			fill(wanted, aal, first + i, answer, at->number, 1);
			if (write(fds[i].fd, wanted, answer) != answer) {
				perror("pdus: write");
				return 1;
			}
			pdus++;
			if (++at->number == atoi(argv[6 + 3 * at->step])) {
				at->number = 0;
				if (6 + 3 * ++at->step >= argc) {
					fds[i].fd = -1 - fds[i].fd;
					open--;
				}
			}
		}
	}
	/* Closing throws away what the link's daemon has not fetched. */
	sleep(1);
	printf("pdus: good %ld\n", pdus);
	return 0;
}
