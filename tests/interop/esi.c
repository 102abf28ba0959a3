/*
 * Sets the end system identifier of ATM interface 0, as an adapter would have one from its maker: `esi 020000000001`.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

struct request { int number, length; void *value; };

int main(int argc, char **argv)
{
	uint8_t esi[6];
	struct request request = { 0, sizeof esi, esi };
	int fd = socket(8, SOCK_DGRAM, 0);

	for (int i = 0; i < 6; i++) {
		unsigned octet = 0;
		sscanf(argv[1] + 2 * i, "%2x", &octet);
		esi[i] = octet;
	}
	/* ATM_SETESI */
	if (ioctl(fd, 0x4010618c, &request) < 0) {
		perror("esi");
		return 1;
	}
	return 0;
}
