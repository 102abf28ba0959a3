/*
 * SDUs of many sizes there and back over an ATM circuit, compared octet for octet.
 *
 * usage: echo ITF VCI AAL answer       sends back what comes, until an SDU of one octet
 *        echo ITF VCI AAL ask COUNT    sends COUNT SDUs one after another, and checks what comes back
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "pvc.h"

static char sent[65536], got[65536];

int main(int argc, char **argv)
{
	static const int sizes[] = { 2, 36, 37, 40, 44, 48, 1500, 9188, 65527 };
	if (argc < 5)
		return 2;
	int fd = opened("echo", atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
	printf("echo: bound\n");
	fflush(stdout);
	if (!strcmp(argv[4], "answer")) {
		for (ssize_t n; (n = read(fd, got, sizeof(got))) > 1;)
			if (write(fd, got, n) != n)
				perror("echo: write");
		return 0;
	}
	int count = argc > 5 ? atoi(argv[5]) : 100;
	for (int i = 0; i < count; i++) {
		int octets = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
		struct pollfd p = { .fd = fd, .events = POLLIN };
		for (int at = 0; at < octets; at++)
			sent[at] = at * 31 + at / 256 + i;
		if (write(fd, sent, octets) != octets) {
			perror("echo: write");
			return 1;
		}
		if (poll(&p, 1, 10000) != 1) {
			printf("echo: SDU %d of %d octets did not come back\n", i, octets);
			return 1;
		}
		ssize_t n = read(fd, got, sizeof(got));
		if (n != octets || memcmp(sent, got, n)) {
			printf("echo: %zd octets came back of SDU %d of %d octets, or changed\n", n, i, octets);
			return 1;
		}
	}
	if (write(fd, sent, 1) != 1)
		perror("echo: write");
	printf("echo: %d there and back\n", count);
	return 0;
}
