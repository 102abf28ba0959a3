/*
 * A bell that comes late: the program at 1.0.VCI has read its SDU and looked again while the processes that ring for the service
 * are stopped. Once they have gone on, the descriptor must not be readable, and who waits on it must sleep.
 *
 * usage: late VCI PROCESS...    prints "done", or what is wrong
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pvc.h"

/* More processor time than a thread that sleeps uses, and much less than one that does not in as long as it is watched. */
enum { WATCHED_MS = 500, MOST_MS = 100 };

static int processes[16], count;

static void send_all(int number)
{
	for (int i = 0; i < count; i++)
		kill(processes[i], number);
}

static void fail(const char *what)
{
	send_all(SIGCONT);
	printf("%s\n", what);
	exit(1);
}

static void *receive(void *fd)
{
	char sdu[100];
	return (void *)recv(*(int *)fd, sdu, sizeof sdu, 0);
}

int main(int argc, char **argv)
{
	char sdu[100];
	pthread_t thread;
	clockid_t clock;
	struct timespec used;
	void *received;
	int a = opened("late", 0, atoi(argv[1]), AAL5), b = opened("late", 1, atoi(argv[1]), AAL5);

	for (int i = 2; i < argc && count < 16; i++)
		processes[count++] = atoi(argv[i]);
	for (int round = 0; round < 3; round++) {
		send_all(SIGSTOP);
		write(a, "rings", 5);
		while (recv(b, sdu, sizeof sdu, MSG_DONTWAIT) != 5)
			usleep(1000);
		if (recv(b, sdu, sizeof sdu, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
			fail("there is more than was sent");
		usleep(200000);
		send_all(SIGCONT);
		/* The bell comes. */
		usleep(300000);
		struct pollfd p = { .fd = b, .events = POLLIN };
		if (poll(&p, 1, 0) != 0)
			fail("it can be read though nothing is there");
		pthread_create(&thread, NULL, receive, &b);
		usleep(WATCHED_MS * 1000);
		pthread_getcpuclockid(thread, &clock);
		clock_gettime(clock, &used);
		if (used.tv_sec > 0 || used.tv_nsec > MOST_MS * 1000000)
			fail("who waits does not sleep");
		write(a, "the end", 7);
		pthread_join(thread, &received);
		if ((long)received != 7)
			fail("what was sent did not come");
		if (poll(&p, 1, 0) != 0)
			fail("it can be read though all was read");
	}
	puts("done");
	return 0;
}
