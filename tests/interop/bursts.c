/*
 * Bursts over an ATM circuit, with every way of waiting: nothing may be lost or come twice, and nobody may wait for ever.
 *
 * A child at 1.0.VCI receives; the parent at 0.0.VCI sends COUNT numbered SDUs of changing sizes in bursts, and never has
 * more than WINDOW of them unacknowledged, so that nothing is lost for want of buffers.
 *
 * usage: bursts VCI COUNT WINDOW (read | poll | select | epoll | edge | threads)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pvc.h"

static const char *way;
static int events = -1;
static char sdu[65536];

static void fail(const char *why)
{
	fprintf(stderr, "bursts, %s: %s: %s\n", way, why, strerror(errno));
	exit(1);
}

static int opened_to_wait(int itf, int vci)
{
	int fd = opened("bursts", itf, vci, AAL5);
	if (strcmp(way, "read") && strcmp(way, "threads"))
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Until fd may be readable, or writable. */
static void wait_for(int fd, int to_write)
{
	fd_set set;
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | (strcmp(way, "edge") ? 0 : EPOLLET), .data.fd = fd };
	FD_ZERO(&set);
	FD_SET(fd, &set);
	if (!strcmp(way, "poll")) {
		struct pollfd p = { .fd = fd, .events = to_write ? POLLOUT : POLLIN };
		if (poll(&p, 1, -1) != 1)
			fail("poll");
	} else if (!strcmp(way, "select")) {
		if (select(fd + 1, to_write ? NULL : &set, to_write ? &set : NULL, NULL, NULL) != 1)
			fail("select");
	} else {
		if (events < 0) {
			events = epoll_create1(0);
			if (epoll_ctl(events, EPOLL_CTL_ADD, fd, &event))
				fail("epoll_ctl");
		} else if (strcmp(way, "edge")) {
			event.events = to_write ? EPOLLOUT : EPOLLIN;
			epoll_ctl(events, EPOLL_CTL_MOD, fd, &event);
		}
		if (epoll_wait(events, &event, 1, -1) != 1)
			fail("epoll_wait");
	}
}

static ssize_t get(int fd, char *into)
{
	for (;;) {
		ssize_t n = read(fd, into, 65536);
		if (n >= 0 || errno != EAGAIN)
			return n;
		wait_for(fd, 0);
	}
}

static void put(int fd, const char *from, size_t octets)
{
	while (write(fd, from, octets) != (ssize_t)octets) {
		if (errno != EAGAIN)
			fail("write");
		wait_for(fd, 1);
	}
}

static size_t size_of(uint32_t i)
{
	return 4 + i * 7919 % (i % 16 ? 200 : 9000);
}

static uint32_t number_in(const char *octets)
{
	uint32_t number;
	memcpy(&number, octets, 4);
	return number;
}

static int receiver(int fd, uint32_t count, uint32_t window)
{
	for (uint32_t i = 0; i < count; i++) {
		ssize_t n = get(fd, sdu);
		if (n != (ssize_t)size_of(i) || number_in(sdu) != i) {
			fprintf(stderr, "bursts, %s: %zd octets of SDU %u where %u was due\n", way, n, number_in(sdu), i);
			return 1;
		}
		if ((i + 1) % (window / 2) == 0)
			put(fd, sdu, 4);
	}
	return 0;
}

/* With threads: several read at once, each SDU once. */
static uint32_t limit;
static unsigned char *seen;

static void *reader(void *argument)
{
	char *own = malloc(65536);
	int fd = *(int *)argument;
	for (;;) {
		if (read(fd, own, 65536) < 4)
			fail("read");
		uint32_t i = number_in(own);
		if (i == UINT32_MAX) {
			put(fd, own, 4);
			return NULL;
		}
		if (i >= limit || __atomic_exchange_n(&seen[i], 1, __ATOMIC_RELAXED))
			fail("twice");
	}
}

static int threads(int fd, uint32_t count)
{
	pthread_t all[3];
	seen = calloc(limit = count, 1);
	for (int i = 0; i < 3; i++)
		pthread_create(&all[i], NULL, reader, &fd);
	for (int i = 0; i < 3; i++)
		pthread_join(all[i], NULL);
	for (uint32_t i = 0; i < count; i++)
		if (!seen[i])
			fail("lost");
	return 0;
}

int main(int argc, char **argv)
{
	uint32_t due = 0, end = UINT32_MAX;
	if (argc != 5)
		return 2;
	uint32_t vci = atoi(argv[1]), count = atoi(argv[2]), window = atoi(argv[3]);
	way = argv[4];
	int with_threads = !strcmp(way, "threads"), status = 0;
	alarm(120);
	pid_t child = fork();
	int fd = opened_to_wait(child == 0, vci);
	if (child == 0) {
		alarm(120);
		return with_threads ? threads(fd, count) : receiver(fd, count, window);
	}
	usleep(300000);
	for (uint32_t i = 0; i < count; i++) {
		while (!with_threads && i - due >= window) {
			if (get(fd, sdu) != 4)
				fail("acknowledgement");
			due += window / 2;
		}
		memcpy(sdu, &i, 4);
		put(fd, sdu, size_of(i));
		/* A pause now and then, so that all fall asleep. */
		if (i % 1009 == 0)
			usleep(i % 3 * 400);
		if (with_threads && i % 500 == 0)
			usleep(3000);
	}
	for (int i = 0; with_threads && i < 3; i++) {
		put(fd, (char *)&end, 4);
		if (get(fd, sdu) != 4)
			fail("end");
	}
	waitpid(child, &status, 0);
	if (status)
		return 1;
	printf("bursts, %s: all %u came\n", way, count);
	return 0;
}
