/*
 * Round trips over an ATM circuit: a child at 1.0.VCI sends back what the parent sends from 0.0.VCI. Prints the median and
 * the 99th percentile in microseconds.
 *
 * usage: rounds VCI OCTETS COUNT
 */
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "pvc.h"

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
	int fd = opened("rounds", child == 0, vci, AAL5);
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
