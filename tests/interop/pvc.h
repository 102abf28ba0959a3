/*
 * Circuits of Linux's API, as the test programs open them, without linux-atm's headers.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { AAL0 = 13, AAL34 = 3, AAL5 = 5 };

struct address { uint16_t family, pad; int16_t itf, vpi; int32_t vci; };

/* A socket on ITF.0.VCI, UBR both ways; without one the program ends. */
static int opened(const char *program, int itf, int vci, int aal)
{
	struct address to = { .family = 8, .itf = itf, .vci = vci };
	uint8_t qos[84] = { 0 };
	int fd = socket(8, SOCK_DGRAM, 0);
	qos[0] = qos[40] = 1;
	qos[80] = aal;
	if (setsockopt(fd, 264, 0x42020054, qos, sizeof(qos)) || bind(fd, (struct sockaddr *)&to, sizeof(to))) {
		fprintf(stderr, "%s: ", program);
		perror("bind");
		exit(1);
	}
	return fd;
}
