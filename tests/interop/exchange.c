/*
 * Two guests exchange PDUs on circuits between them and compare each octet with what it must be: no file goes from one to
 * the other, both can work out what the other sends.
 *
 * exchange meet STEP
 *	waits until the other guest is at STEP or beyond, and prints at which.
 * exchange (first | second) STEP AAL OCTETS REPEATS VCI [CIRCUITS]
 *	opens CIRCUITS circuits (1) from 0.VCI on, meets the other there, and REPEATS times sends a PDU on each of them and
 *	receives one on each. The first sends first. AAL is 5, or 0: then a PDU is as many cells as it needs, with
 *	every user cell type and cell loss priority by turns, and goes in turns of TURN cells.
 *
 * It gives up after PATIENCE_S seconds of the environment, or 350.
 *
 * What is compared on AAL0: the cell's header, and its payload but for the first four octets, which Linux's eni driver
 * sets to zero on 64-bit machines.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEETING_VCI 99
#define MEETING_INTERVAL_MS 200
#define TURN 8
#define CELL 52
#define PAYLOAD 48
/* So many octets of a cell are its header and what the driver sets to zero. */
#define NOT_COMPARED 8
#define PATIENCE_S 350

enum { AAL0 = 13, AAL5 = 5 };

struct address { uint16_t family, pad; int16_t itf, vpi; int32_t vci; };

static const char *doing = "";
static uint8_t due[65536 + PAYLOAD], got[65536 + PAYLOAD];

static void fail(const char *why)
{
	printf("guest: exchange, %s: %s: %s\n", doing, why, strerror(errno));
	exit(1);
}

static int opened(int aal, int vci, int max_sdu)
{
	struct address to = { .family = 8, .vci = vci };
	/* struct atm_qos: two of struct atm_trafprm, 40 octets each, with class (1: UBR) at 0 and max_sdu at 20; the AAL. */
	uint8_t qos[84] = { 0 };
	int fd = socket(8, SOCK_DGRAM, 0);
	qos[0] = qos[40] = 1;
	memcpy(qos + 20, &max_sdu, 4);
	memcpy(qos + 60, &max_sdu, 4);
	qos[80] = aal;
	if (fd < 0 || setsockopt(fd, 264, 0x42020054, qos, sizeof(qos)))
		fail("socket");
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("bind");
	return fd;
}

/* Whoever hears the other say STEP says it once more, for the other may have come just now. Gives the other's step. */
static uint32_t meet(uint32_t step)
{
	int fd = opened(AAL5, MEETING_VCI, PAYLOAD);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	uint32_t heard = 0;
	doing = "meet";
	for (;;) {
		if (write(fd, &step, 4) != 4)
			fail("write");
		if (heard >= step)
			break;
		if (poll(&poll_fd, 1, MEETING_INTERVAL_MS) == 1 && read(fd, &heard, 4) != 4)
			fail("read");
	}
	close(fd);
	return heard;
}

/* The octets that a side sends on a circuit, the same each time. */
static void fill(uint8_t *octets, int n, uint32_t first, uint32_t repeat, uint32_t vci)
{
	uint32_t state = 0x9E3779B9u ^ first << 31 ^ repeat << 16 ^ vci * 2654435761u;
	for (int i = 0; i < n; i++) {
		state ^= state << 13;
		state ^= state >> 17;
		state ^= state << 5;
		octets[i] = state >> 24;
	}
}

static uint32_t header(int vci, int cell)
{
	/* PTI 0 to 3 and CLP. The driver has the header as a number of this machine. */
	return vci << 4 | cell % 8;
}

static void put_cell(int fd, int vci, int cell)
{
	uint8_t octets[CELL];
	uint32_t head = header(vci, cell);
	memcpy(octets, &head, 4);
	memcpy(octets + 4, due + cell * PAYLOAD, PAYLOAD);
	if (write(fd, octets, CELL) != CELL)
		fail("write of a cell");
}

static void get_cell(int fd, int vci, int cell)
{
	uint8_t octets[CELL + 1];
	uint32_t head;
	if (read(fd, octets, sizeof(octets)) != CELL)
		fail("read of a cell");
	memcpy(&head, octets, 4);
	if (head != header(vci, cell) || memcmp(octets + NOT_COMPARED, due + cell * PAYLOAD + NOT_COMPARED - 4, CELL - NOT_COMPARED)) {
		printf("guest: exchange: cell %d of 0.%d is not what was sent (header %08x)\n", cell, vci, head);
		exit(1);
	}
}

static void get_pdu(int fd, int vci, int octets)
{
	ssize_t n = read(fd, got, sizeof(got));
	int at = 0;
	if (n < 0)
		fail("read");
	while (at < n && at < octets && got[at] == due[at])
		at++;
	if (n != octets || at < octets) {
		printf("guest: exchange: %zd octets on 0.%d, %d were sent, and octet %d is not the same\n", n, vci, octets, at);
		exit(1);
	}
}

static void too_long(int signal)
{
	static const char said[] = "guest: exchange: nothing comes any more\n";
	(void)signal;
	write(1, said, sizeof(said) - 1);
	_exit(1);
}

int main(int argc, char **argv)
{
	const char *patience = getenv("PATIENCE_S");
	signal(SIGALRM, too_long);
	alarm(patience ? atoi(patience) : PATIENCE_S);
	if (argc == 3 && !strcmp(argv[1], "meet")) {
		printf("%u\n", meet(atoi(argv[2])));
		return 0;
	}
	if (argc < 7)
		return 2;
	int first = !strcmp(argv[1], "first"), aal = atoi(argv[3]) ? AAL5 : AAL0;
	int octets = atoi(argv[4]), repeats = atoi(argv[5]), vci = atoi(argv[6]), circuits = argc > 7 ? atoi(argv[7]) : 1;
	int turns = aal == AAL5 ? 1 : ((octets + PAYLOAD - 1) / PAYLOAD + TURN - 1) / TURN;
	int *fds = calloc(circuits, sizeof(*fds));
	for (int c = 0; c < circuits; c++)
		fds[c] = opened(aal, vci + c, aal == AAL5 ? octets : CELL);
	meet(atoi(argv[2]));
	for (int repeat = 0; repeat < repeats; repeat++)
		for (int turn = 0; turn < turns; turn++)
			for (int half = 0; half < 2; half++)
				for (int c = 0; c < circuits; c++) {
					int firsts = half == 0, sends = first == firsts;
					fill(due, octets, firsts, repeat, vci + c);
					if (aal == AAL5 && sends) {
						if (write(fds[c], due, octets) != octets)
							fail("write");
					} else if (aal == AAL5) {
						get_pdu(fds[c], vci + c, octets);
					}
					for (int cell = turn * TURN; aal == AAL0 && cell < (turn + 1) * TURN && cell * PAYLOAD < octets; cell++)
						sends ? put_cell(fds[c], vci + c, cell) : get_cell(fds[c], vci + c, cell);
				}
	printf("guest: exchanged %d octets by AAL%d %d times on %d circuits\n", octets, aal % 13, repeats, circuits);
	return 0;
}
