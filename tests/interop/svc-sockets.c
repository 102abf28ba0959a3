/*
 * Preloaded under stock atmsigd and ilmid on a machine without ATM in its kernel: their ATM sockets become UNIX sockets of
 * whole packets, which a test serves. SVC_KERNEL names the socket that plays the kernel's control channel of atmsigd,
 * SVC_CHANNEL the one that is the signalling or ILMI channel. SVC_ADDRESS is the interface's ATM address in hexadecimal
 * digits, as `getaddr` would give it.
 *
 * Constants are those of Linux's ATM interface, written out because newer kernels ship no header that has them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { FAMILY_PVC = 8, FAMILY_SVC = 20 };
enum { WILDCARD_VCI = -1, FIRST_VCI = 100, LINK_RATE = 353207 };

#define CONTROL_CHANNEL _IO('a', 0xf0)
/* These three carry a pointer to { int number; int length; void *answer; }. */
enum { CMD_LINK_RATE = 0x81, CMD_ESI = 0x85, CMD_ADDRESSES = 0x86 };

struct pvc_name { uint16_t family, pad; int16_t itf, vpi; int32_t vci; };
struct svc_name { uint16_t family, pad; uint8_t nsap[20]; uint8_t rest[20]; };
struct request { int number, length; void *answer; };

enum { DESCRIPTORS = 1024 };
static struct { int family, vci; } table[DESCRIPTORS];

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static int family_of(int fd) { return fd >= 0 && fd < DESCRIPTORS ? table[fd].family : 0; }

static int join(int fd, const char *variable)
{
	int (*real)(int, const struct sockaddr *, socklen_t) = next("connect");
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const char *path = getenv(variable);

	if (!path || strlen(path) >= sizeof name.sun_path)
		return -1;
	strcpy(name.sun_path, path);
	return real(fd, (struct sockaddr *)&name, sizeof name);
}

int socket(int family, int type, int protocol)
{
	int (*real)(int, int, int) = next("socket");
	int atm = family == FAMILY_PVC || family == FAMILY_SVC;
	int fd = atm ? real(AF_UNIX, SOCK_SEQPACKET, 0) : real(family, type, protocol);

	if (fd >= 0 && fd < DESCRIPTORS) {
		table[fd].family = atm ? family : 0;
		table[fd].vci = 0;
	}
	return fd;
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	int (*real)(int, int, int, const void *, socklen_t) = next("setsockopt");

	return family_of(fd) ? 0 : real(fd, level, option, value, length);
}

int bind(int fd, const struct sockaddr *name, socklen_t length)
{
	int (*real)(int, const struct sockaddr *, socklen_t) = next("bind");
	static int free_vci = FIRST_VCI;
	const struct pvc_name *pvc = (const void *)name;

	if (family_of(fd) != FAMILY_PVC)
		return real(fd, name, length);
	if (pvc->vci == WILDCARD_VCI) {
		/* A network side reserves the circuit of a call by a socket of its own. */
		table[fd].vci = free_vci++;
		return 0;
	}
	return join(fd, "SVC_CHANNEL");
}

int getsockname(int fd, struct sockaddr *name, socklen_t *length)
{
	int (*real)(int, struct sockaddr *, socklen_t *) = next("getsockname");
	struct pvc_name pvc = { .family = FAMILY_PVC };

	if (family_of(fd) != FAMILY_PVC)
		return real(fd, name, length);
	pvc.vci = table[fd].vci;
	memcpy(name, &pvc, sizeof pvc);
	return 0;
}

int ioctl(int fd, unsigned long command, ...)
{
	int (*real)(int, unsigned long, ...) = next("ioctl");
	va_list arguments;
	void *argument;
	struct request *request;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!family_of(fd))
		return real(fd, command, argument);
	if (command == CONTROL_CHANNEL)
		return join(fd, "SVC_KERNEL");
	request = argument;
	switch (_IOC_NR(command)) {
	case CMD_LINK_RATE:
		*(int *)request->answer = LINK_RATE;
		break;
	case CMD_ESI:
		memcpy(request->answer, "\002\0\0\0\0\001", 6);
		break;
	case CMD_ADDRESSES: {
		struct svc_name *svc = request->answer;
		const char *digits = getenv("SVC_ADDRESS");
		unsigned octet;

		memset(svc, 0, sizeof *svc);
		svc->family = FAMILY_SVC;
		for (int i = 0; i < 20 && digits && sscanf(digits + 2 * i, "%2x", &octet) == 1; i++)
			svc->nsap[i] = octet;
		request->length = sizeof *svc;
		break;
	}
	}
	return 0;
}
