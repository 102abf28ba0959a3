/*
 * Round trips over an ATM circuit: a child at 1.0.VCI sends back what the parent sends from 0.0.VCI. Prints the median and
 * the 99th percentile in microseconds.
 *
 * usage: rounds VCI OCTETS COUNT
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct address { uint16_t family, pad; int16_t itf, vpi; int32_t vci; };

static int opened(int itf, int vci)
{
	struct address to = { .family = 8, .itf = itf, .vci = vci };
	uint8_t qos[84] = { 0 };
	int fd = socket(8, SOCK_DGRAM, 0);
	qos[0] = qos[40] = 1;
	qos[80] = 5;
	if (setsockopt(fd, 264, 0x42020054, qos, sizeof(qos)) || bind(fd, (struct sockaddr *)&to, sizeof(to))) {
		perror("rounds");
		exit(1);
	}
	return fd;
}

static int less(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static char sdu[65536];
	struct timespec begin, end;
	if (argc != 4)
		return 2;
	int vci = atoi(argv[1]), octets = atoi(argv[2]), count = atoi(argv[3]);
	pid_t child = fork();
	int fd = opened(child == 0, vci);
	if (child == 0) {
		for (ssize_t n; (n = read(fd, sdu, sizeof(sdu))) > 1;)
			write(fd, sdu, n);
		return 0;
	}
	double *took = calloc(count, sizeof(*took));
	sleep(1);
	for (int i = 0; i < count; i++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		if (write(fd, sdu, octets) != octets || read(fd, sdu, sizeof(sdu)) != octets) {
			perror("rounds");
			return 1;
		}
		clock_gettime(CLOCK_MONOTONIC, &end);
		took[i] = (end.tv_sec - begin.tv_sec) * 1e6 + (end.tv_nsec - begin.tv_nsec) / 1e3;
	}
	write(fd, sdu, 1);
	waitpid(child, NULL, 0);
	qsort(took, count, sizeof(*took), less);
	printf("rounds of %d octets: median %.1f us, 99th percentile %.1f us\n", octets, took[count / 2], took[count * 99 / 100]);
	return 0;
}
