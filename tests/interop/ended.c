/*
 * A program that reads on and on, whatever it is told, while the service ends. It hears of that in each way of waiting.
 *
 * usage: ended VCI (read | poll | nonblocking)
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "pvc.h"

int main(int argc, char **argv)
{
	char sdu[64];
	if (argc != 3)
		return 2;
	int fd = opened("ended", 0, atoi(argv[1]), AAL5);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (!strcmp(argv[2], "nonblocking"))
		fcntl(fd, F_SETFL, O_NONBLOCK);
	puts("open");
	fflush(stdout);
	alarm(60);
	if (!strcmp(argv[2], "poll") && (poll(&p, 1, -1) != 1 || !(p.revents & POLLHUP))) {
		printf("poll says %x\n", p.revents);
		return 1;
	}
	for (int i = 0; i < 3; i++) {
		ssize_t n;
		do
			n = read(fd, sdu, sizeof(sdu));
		while (n < 0 && errno == EAGAIN);
		if (n != -1 || errno != ENETDOWN) {
			printf("read %d says %zd, %s\n", i, n, strerror(errno));
			return 1;
		}
	}
	puts("ended");
	return 0;
}
