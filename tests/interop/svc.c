/*
 * Calls by Linux's API (AF_ATMSVC), without linux-atm's headers: each line that it prints is checked by a test.
 *
 * usage: svc server (wait | poll | exec)    answers one call, sends back what comes, and says how it ended
 *        svc client ADDRESS NOBODY           calls, not waiting in connect, and ends the call itself; failures before that
 *        svc root ADDRESS ADDRESS [timed]    sends to one party, to two, and to the second; with a timer, which interrupts requests
 *        svc leaf                            says what comes
 *        svc timed COUNT                     answers so many calls while a timer interrupts it, then is interrupted and cancelled in accept
 *        svc full                            has no descriptor left when it is called, and then has some
 *        svc calls ADDRESS COUNT             calls so often, and says something each time
 *        svc served FD                       of `server exec`
 * Addresses are 40 hexadecimal digits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FAMILY = 20, LEVEL = 264, QOS = 0x42020054, SAP = 0x42030028, PVC = 0x4204000c, MULTIPOINT = 0x42050004 };
enum { ADD_PARTY = 0x401061f4, DROP_PARTY = 0x400461f5 };

struct address { uint16_t family, pad; uint8_t nsap[20]; uint8_t rest[20]; };
struct pvc { uint16_t family, pad; int16_t itf, vpi; int32_t vci; };

static struct address parsed(const char *digits)
{
	struct address a = { .family = FAMILY };
	for (int i = 0; digits && i < 20; i++) {
		unsigned octet;
		sscanf(digits + 2 * i, "%2x", &octet);
		a.nsap[i] = octet;
	}
	return a;
}

static void show(const char *what, const struct address *a)
{
	printf("%s ", what);
	for (int i = 0; i < 20; i++)
		printf("%02x", a->nsap[i]);
	printf("\n");
}

static void result(const char *what, int value)
{
	printf("%s %s\n", what, value < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
}

/* The longest SDU of its sockets: short ones want little memory. */
static int longest = 4000;

/* A socket for UBR, of the low layer protocol LLC and a high layer of the user's; one way only where `receives` is not set. */
static int made(int sends, int receives, int high)
{
	uint8_t qos[84] = { 0 }, sap[40] = { 0 };
	int fd = socket(FAMILY, SOCK_DGRAM, 0);
	qos[0] = sends;
	qos[40] = receives;
	qos[80] = 5;
	*(int *)(qos + 20) = *(int *)(qos + 60) = longest;
	if (high) {
		memcpy(sap, "\002\004TEST", 6);
		sap[10] = 0x0c;
	}
	if (setsockopt(fd, LEVEL, QOS, qos, sizeof qos) || setsockopt(fd, LEVEL, SAP, sap, sizeof sap))
		result("setsockopt", -1);
	return fd;
}

static int call(int fd, const char *digits)
{
	struct address to = parsed(digits);
	return connect(fd, (struct sockaddr *)&to, sizeof to);
}

static volatile int rung;

static void ring(int signal)
{
	(void)signal;
	rung++;
}

/* A signal each so many microseconds, or none any more. */
static void timer(int period_us, int flags)
{
	struct sigaction action = { .sa_handler = ring, .sa_flags = flags };
	struct itimerval each = { { 0, period_us }, { 0, period_us } };
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
}

/* A fifth of a second, whatever interrupts it. */
static void pause_shortly(void)
{
	struct timespec left = { 0, 200000000 };
	while (nanosleep(&left, &left))
		;
}

static void echo(int fd)
{
	char sdu[4000];
	ssize_t n;
	while ((n = read(fd, sdu, sizeof sdu)) > 0)
		if (write(fd, sdu, n) != n)
			result("write", -1);
	result("end", n);
	signal(SIGPIPE, SIG_IGN);
	result("write after the end", write(fd, "x", 1));
}

static int server(const char *self, const char *how)
{
	struct address name;
	socklen_t size = sizeof name;
	uint8_t sap[40];
	socklen_t sap_size = sizeof sap;
	int waits = strcmp(how, "poll") != 0;
	int fd = socket(FAMILY, SOCK_DGRAM, 0);

	name = parsed(NULL);
	result("bind without qos", bind(fd, (struct sockaddr *)&name, size));
	close(fd);
	fd = made(1, 1, 1);
	name = parsed("4700000000000000000000000000000000000000");
	result("bind elsewhere", bind(fd, (struct sockaddr *)&name, size));
	name = parsed(NULL);
	result("bind", bind(fd, (struct sockaddr *)&name, size));
	result("listen", listen(fd, 5));
	result("listen again", listen(fd, 5));
	if (!waits) {
		struct pollfd polled = { .fd = fd, .events = POLLIN };
		fcntl(fd, F_SETFL, O_NONBLOCK);
		result("accept", accept(fd, NULL, NULL));
		printf("poll %d\n", poll(&polled, 1, 0));
		fflush(stdout);
		poll(&polled, 1, 30000);
	}
	int new = accept(fd, (struct sockaddr *)&name, &size);
	result("accept", new);
	show("from", &name);
	size = sizeof name;
	getsockname(new, (struct sockaddr *)&name, &size);
	show("to", &name);
	getsockopt(new, LEVEL, SAP, sap, &sap_size);
	printf("sap %d %.4s %02x\n", sap[0], (char *)sap + 2, sap[10]);
	fflush(stdout);
	if (!strcmp(how, "exec")) {
		char number[12];
		/* The call outlives the listener, and goes on in another program. */
		close(fd);
		snprintf(number, sizeof number, "%d", new);
		if (fork() == 0)
			execl(self, self, "served", number, NULL);
		close(new);
		wait(NULL);
		return 0;
	}
	if (fork() == 0) {
		close(fd);
		echo(new);
		return 0;
	}
	close(new);
	wait(NULL);
	return 0;
}

static int client(const char *to, const char *nobody)
{
	struct address name;
	struct pvc pvc;
	socklen_t size;
	char sdu[100];
	int fd = socket(FAMILY, SOCK_DGRAM, 0);

	result("connect without qos", call(fd, to));
	close(fd);
	fd = made(1, 1, 1);
	result("connect to nobody", call(fd, nobody));
	close(fd);
	/* Nobody listens for calls of any kind. */
	fd = made(1, 1, 0);
	result("connect for another service", call(fd, to));
	close(fd);

	fd = made(1, 1, 1);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	struct pollfd polled = { .fd = fd, .events = POLLOUT };
	result("connect", call(fd, nobody));
	poll(&polled, 1, 30000);
	result("connect to nobody", call(fd, nobody));
	result("connect", call(fd, to));
	printf("poll %d\n", poll(&polled, 1, 30000));
	result("connect", call(fd, to));
	result("connect again", call(fd, to));
	fcntl(fd, F_SETFL, 0);
	size = sizeof name;
	getsockname(fd, (struct sockaddr *)&name, &size);
	show("own", &name);
	size = sizeof name;
	getpeername(fd, (struct sockaddr *)&name, &size);
	show("peer", &name);
	size = sizeof pvc;
	getsockopt(fd, LEVEL, PVC, &pvc, &size);
	printf("circuit %d.%d.%s\n", pvc.itf, pvc.vpi, pvc.vci >= 1024 ? "call" : "other");
	for (int i = 0; i < 3; i++) {
		snprintf(sdu, sizeof sdu, "number %d of more than the forty octets that fit a descriptor", i);
		if (write(fd, sdu, strlen(sdu)) < 0)
			result("write", -1);
		ssize_t n = read(fd, sdu, sizeof sdu);
		printf("echo %.*s\n", (int)(n > 8 ? 8 : n), sdu);
	}
	fflush(stdout);
	close(fd);
	return 0;
}

static int root(const char *first, const char *second, int timed)
{
	struct address party = parsed(second);
	int many = 1;
	int fd = made(1, 0, 1);

	result("add without many", ioctl(fd, ADD_PARTY, &party));
	setsockopt(fd, LEVEL, MULTIPOINT, &many, sizeof many);
	result("listen", listen(fd, 1));
	result("connect", call(fd, first));
	write(fd, "to the first", 12);
	if (timed)
		timer(200, SA_RESTART);
	int number = ioctl(fd, ADD_PARTY, &party);
	printf("party %d\n", number);
	write(fd, "to both", 7);
	party = parsed("4700000000000000000000000000000000000000");
	for (int i = 0; timed && i < 30; i++)
		if (ioctl(fd, ADD_PARTY, &party) >= 0 || errno != EHOSTUNREACH)
			result("add nobody again", -1);
	result("add nobody", ioctl(fd, ADD_PARTY, &party));
	int wrong = 77;
	result("drop nobody", ioctl(fd, DROP_PARTY, &wrong));
	/* What is under way in a switch when a party goes is lost. */
	pause_shortly();
	int zero = 0;
	result("drop", ioctl(fd, DROP_PARTY, &zero));
	pause_shortly();
	write(fd, "to the second", 13);
	pause_shortly();
	close(fd);
	return 0;
}

static int leaf(void)
{
	char sdu[4000];
	ssize_t n;
	struct address name = parsed(NULL);
	int fd = made(0, 1, 1);

	bind(fd, (struct sockaddr *)&name, sizeof name);
	result("listen", listen(fd, 5));
	int new = accept(fd, NULL, NULL);
	result("accept", new);
	while ((n = read(new, sdu, sizeof sdu)) > 0) {
		printf("got %.*s\n", (int)n, sdu);
		fflush(stdout);
	}
	result("end", n);
	return 0;
}

static void *accept_once(void *listener)
{
	result("accept in a thread", accept(*(int *)listener, NULL, NULL));
	return NULL;
}

static int timed(int count)
{
	struct address name = parsed(NULL);
	char sdu[100];
	pthread_t thread;
	void *end;
	longest = sizeof sdu;
	int fd = made(0, 1, 1);

	/* Nobody calls before it listens: the timer rings many times in the first accept. */
	timer(200, SA_RESTART);
	result("bind", bind(fd, (struct sockaddr *)&name, sizeof name));
	result("listen", listen(fd, 5));
	for (int i = 0; i < count; i++) {
		int new = accept(fd, NULL, NULL);
		if (new < 0)
			result("accept", new);
		ssize_t n = read(new, sdu, sizeof sdu);
		printf("got %.*s\n", (int)(n < 0 ? 0 : n), sdu);
		while (read(new, sdu, sizeof sdu) > 0)
			;
		close(new);
	}
	printf("interrupted %d\n", rung > count);
	timer(20000, 0);
	result("accept", accept(fd, NULL, NULL));
	timer(0, 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	result("accept", accept(fd, NULL, NULL));
	fcntl(fd, F_SETFL, 0);
	pthread_create(&thread, NULL, accept_once, &fd);
	pause_shortly();
	pthread_cancel(thread);
	pthread_join(thread, &end);
	printf("cancelled %d\n", end == PTHREAD_CANCELED);
	result("close", close(fd));
	fd = made(0, 1, 1);
	result("bind", bind(fd, (struct sockaddr *)&name, sizeof name));
	result("listen", listen(fd, 5));
	return 0;
}

static int full(void)
{
	struct address name = parsed(NULL);
	char sdu[100];
	longest = sizeof sdu;
	int fd = made(0, 1, 1), others[1000], count = 0;
	struct pollfd polled = { .fd = fd, .events = POLLIN };

	result("bind", bind(fd, (struct sockaddr *)&name, sizeof name));
	result("listen", listen(fd, 5));
	poll(&polled, 1, 30000);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit) { 900, 900 });
	while (count < 1000 && (others[count] = dup(0)) >= 0)
		count++;
	result("accept without a descriptor", accept(fd, NULL, NULL));
	result("accept without a descriptor", accept(fd, NULL, NULL));
	while (count > 0)
		close(others[--count]);
	int new = accept(fd, NULL, NULL);
	result("accept", new);
	ssize_t n = read(new, sdu, sizeof sdu);
	printf("got %.*s\n", (int)(n < 0 ? 0 : n), sdu);
	return 0;
}

static int calls(const char *to, int count)
{
	char sdu[100];
	longest = sizeof sdu;
	for (int i = 0; i < count; i++) {
		int fd = made(1, 0, 1);
		result("connect", call(fd, to));
		snprintf(sdu, sizeof sdu, "number %d", i);
		if (write(fd, sdu, strlen(sdu)) < 0)
			result("write", -1);
		close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "timed"))
		return timed(atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "full"))
		return full();
	if (argc == 4 && !strcmp(argv[1], "calls"))
		return calls(argv[2], atoi(argv[3]));
	if (argc == 3 && !strcmp(argv[1], "server"))
		return server(argv[0], argv[2]);
	if (argc == 3 && !strcmp(argv[1], "served"))
		return echo(atoi(argv[2])), 0;
	if (argc == 4 && !strcmp(argv[1], "client"))
		return client(argv[2], argv[3]);
	if (argc >= 4 && !strcmp(argv[1], "root"))
		return root(argv[2], argv[3], argc == 5);
	return leaf();
}
