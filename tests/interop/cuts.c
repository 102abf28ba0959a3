/*
 * The kernel's side of an exchange over a line that is cut: numbered PDUs go out, one each two milliseconds, and others come
 * in; each must be as its number says, and later than the one before.
 *
 * From HELD on its PDUs wait until one that far has come: the peer sends none before the line is cut no more.
 *
 * usage: cuts VCI COUNT HELD
 *
 * Says "ready", and when the last one has come, or nothing for a minute, what was sent, received, damaged, and came twice or
 * out of turn.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "pvc.h"

/* The same is in the test. Direction 0 is to here, 1 from here. */
static int fill(uint8_t *sdu, uint32_t number, int direction)
{
	int octets = 8 + number * 977 % 9000;
	memset(sdu, number * 31 + direction, octets);
	for (int at = 4; at + 4 <= octets; at += 256)
		sdu[at] = at / 256 ^ number;
	memcpy(sdu, &number, 4);
	return octets;
}

int main(int argc, char **argv)
{
	static uint8_t got[65536], sdu[65536];
	if (argc < 4)
		return 2;
	uint32_t count = atoi(argv[2]), held = atoi(argv[3]), sent = 0, received = 0, damaged = 0, twice = 0, next = 0;
	struct pollfd p = { .fd = opened("cuts", 0, atoi(argv[1]), AAL5), .events = POLLIN };
	puts("cuts: ready");
	fflush(stdout);
	for (int waits = 0; waits < 60 && (sent < count || next < count);) {
		int sends = sent < count && (sent < held || next > held);
		if (sends) {
			int octets = fill(sdu, sent++, 1);
			if (write(p.fd, sdu, octets) != octets)
				perror("cuts: write");
			usleep(2000);
		}
		for (; poll(&p, 1, sends ? 0 : 1000) > 0; waits = 0) {
			ssize_t came = read(p.fd, got, sizeof(got));
			uint32_t number;
			memcpy(&number, got, 4);
			received++;
			if (came < 4 || came != fill(sdu, number, 0) || memcmp(got, sdu, came))
				damaged++;
			else if (number < next)
				twice++;
			else
				next = number + 1;
			if (next == count)
				break;
		}
		waits += !sends;
	}
	/* Closing throws away what the link's daemon has not fetched. */
	sleep(1);
	printf("cuts: sent %u received %u damaged %u twice %u next %u\n", sent, received, damaged, twice, next);
	return 0;
}
