/*
 * Senders that are gone right after they have sent. Again and again a child at 0.0.VCI sends COUNT numbered SDUs and ends
 * at once, in one of the ways that give no library a last word; the parent at 1.0.VCI must get them all, in their order.
 *
 * usage: gone VCI COUNT CHILDREN (kill | exit | exec)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pvc.h"

static char sdu[65536];

static size_t size_of(uint32_t i)
{
	return 4 + i * 7919 % 2000;
}

static void child(int vci, const char *way, uint32_t from, uint32_t to)
{
	int fd = opened("gone", 0, vci, AAL5);
	for (uint32_t i = from; i < to; i++) {
		memcpy(sdu, &i, 4);
		if (write(fd, sdu, size_of(i)) != (ssize_t)size_of(i)) {
			perror("gone: write");
			exit(1);
		}
	}
	if (!strcmp(way, "kill"))
		raise(SIGKILL);
	if (!strcmp(way, "exit"))
		syscall(SYS_exit_group, 0);
	execl("/bin/true", "true", NULL);
	exit(1);
}

int main(int argc, char **argv)
{
	uint32_t due = 0, number;
	int status;
	if (argc != 5)
		return 2;
	int vci = atoi(argv[1]), count = atoi(argv[2]), children = atoi(argv[3]), fd = opened("gone", 1, vci, AAL5);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	alarm(120);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();
		if (pid == 0)
			child(vci, argv[4], due, due + count);
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			return 1;
		for (uint32_t end = due + count; due < end; due++) {
			if (poll(&p, 1, 3000) != 1) {
				fprintf(stderr, "gone, %s: SDU %u of child %d did not come\n", argv[4], due, i);
				return 1;
			}
			ssize_t n = read(fd, sdu, sizeof(sdu));
			memcpy(&number, sdu, 4);
			if (n != (ssize_t)size_of(due) || number != due) {
				fprintf(stderr, "gone, %s: %zd octets of SDU %u where %u was due\n", argv[4], n, number, due);
				return 1;
			}
		}
	}
	printf("gone, %s: all came of %d children\n", argv[4], children);
	return 0;
}
