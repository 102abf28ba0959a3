/*
 * What Linux's ATM sockets do, case by case: one line each, "name: result", the same wherever they are the same.
 *
 * Run on a kernel with ATM (interfaces 0 and 1, joined) and under `cellway run`; the test compares the lines. Written from
 * the interface's description (linux/atm.h, socket(2)), with numbers of its own, so that it needs no header of ATM's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PVC = 8, SVC = 20, LEVEL = 264, LEVEL_AAL = 265, AAL0 = 13, AAL34 = 3, AAL5 = 5 };
enum { NONE, UBR, CBR, VBR, ABR, ANY_CLASS };
enum { QOS = 0x42020054, CLP = 0x42000004, ADDRESS = 0x4204000c, RANGE = 0x42010002, SAP = 0x42030028, MULTIPOINT = 0x42050004 };

struct address { uint16_t family, pad; int16_t itf, vpi; int32_t vci; };
struct way { uint8_t class; int32_t max_pcr, pcr, min_pcr, max_cdv, max_sdu; uint32_t rest[4]; };
struct qos { struct way tx, rx; uint8_t aal; };
struct sioc { int number, length; void *value; };
struct iobuf { int length; void *value; };
_Static_assert(sizeof(struct address) == 12 && sizeof(struct qos) == 84, "as Linux has them");

static const char *name_of(int e)
{
	static char other[16];
	switch (e) {
#define N(x) case x: return #x
	N(EINVAL); N(EBADFD); N(EAFNOSUPPORT); N(EADDRINUSE); N(EADDRNOTAVAIL); N(ENODEV); N(EPERM); N(EPROTOTYPE);
	N(ENOTCONN); N(EISCONN); N(EMSGSIZE); N(EAGAIN); N(EOPNOTSUPP); N(E2BIG); N(ENOTTY); N(EFAULT); N(EINTR);
	N(EPIPE); N(EUNATCH); N(ENOPROTOOPT); N(EEXIST); N(ENOENT); N(EBADF); N(ESOCKTNOSUPPORT); N(EPROTONOSUPPORT);
	N(ESPIPE); N(EACCES); N(ENOTDIR); N(ENXIO); N(ENOTSOCK); N(ENOBUFS); N(EDEADLK); N(EIO);
#undef N
	}
	snprintf(other, sizeof(other), "errno %d", e);
	return other;
}

static void say(const char *name, long result)
{
	if (result < 0)
		printf("%s: %s\n", name, name_of(errno));
	else
		printf("%s: %ld\n", name, result);
	fflush(stdout);
}

static void ok(const char *name, long result)
{
	say(name, result < 0 ? result : 0);
}

static struct qos ubr(int aal)
{
	struct qos q = { .aal = aal };
	q.tx.class = q.rx.class = UBR;
	return q;
}

/* The same for short SDUs, which want little memory. */
static struct qos brief(void)
{
	struct qos q = ubr(AAL5);
	q.tx.max_sdu = q.rx.max_sdu = 200;
	return q;
}

static struct address at(int itf, int vpi, int vci)
{
	return (struct address) { .family = PVC, .itf = itf, .vpi = vpi, .vci = vci };
}

static int set_qos(int fd, struct qos q)
{
	return setsockopt(fd, LEVEL, QOS, &q, sizeof(q));
}

static int bind_to(int fd, struct address a)
{
	return bind(fd, (struct sockaddr *)&a, sizeof(a));
}

static int plain(int aal)
{
	return socket(PVC, SOCK_DGRAM, aal);
}

static int opened(int itf, int vci, struct qos q)
{
	int fd = plain(q.aal);
	if (set_qos(fd, q) < 0 || bind_to(fd, at(itf, 0, vci)) < 0)
		printf("cannot open %d.0.%d: %s\n", itf, vci, name_of(errno));
	return fd;
}

/* Until something waits on fd, two seconds at most. */
static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (poll(&p, 1, 2000) != 1)
		printf("nothing came\n");
}

static long try_bind(struct qos q, struct address a)
{
	int fd = plain(0), e;
	long r = set_qos(fd, q);
	if (r == 0)
		r = bind_to(fd, a);
	e = errno;
	close(fd);
	errno = e;
	return r;
}

static long try_qos(struct qos q)
{
	int fd = plain(0), e;
	long r = set_qos(fd, q);
	e = errno;
	close(fd);
	errno = e;
	return r;
}

static void making(void)
{
	int fd;
	ok("socket dgram", fd = plain(0));
	close(fd);
	ok("socket raw", fd = socket(PVC, SOCK_RAW, 0));
	close(fd);
	ok("socket stream", socket(PVC, SOCK_STREAM, 0));
	ok("socket of type 99", socket(PVC, 99, 0));
	fd = socket(PVC, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, AAL5);
	say("socket flags: nonblock", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	say("socket flags: cloexec", fcntl(fd, F_GETFD));
	close(fd);
	fd = plain(AAL5);
	struct stat st;
	fstat(fd, &st);
	say("fstat says socket", S_ISSOCK(st.st_mode));
	int value = -1;
	socklen_t n = sizeof(value);
	ok("SO_TYPE", getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &n));
	say("SO_TYPE is", value);
	n = sizeof(value);
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &n);
	say("SO_DOMAIN is", value);
	n = sizeof(value);
	getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &n);
	say("SO_PROTOCOL is", value);
	n = sizeof(value);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &n);
	say("SO_ERROR is", value);
	n = sizeof(value);
	ok("SO_SNDBUF", getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &n));
	value = 100000;
	ok("set SO_SNDBUF", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)));
	int pair[2], off = 0, on = 1;
	ok("socketpair", socketpair(PVC, SOCK_DGRAM, 0, pair));
	n = sizeof(value);
	ok("SO_RCVBUF", getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &n));
	ok("SO_ACCEPTCONN", getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &n));
	say("SO_ACCEPTCONN is", value);
	ok("SO_REUSEADDR", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	ok("SO_TIMESTAMP", setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &off, sizeof(off)));
	ok("SO_BROADCAST", setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)));
	ok("SO_TYPE with 2 octets", (n = 2, getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &n)));
	say("its length", n);
	ok("SO_TYPE with -1 octets", (n = -1, getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &n)));
	ok("lseek", lseek(fd, 0, SEEK_SET));
	ok("pread", pread(fd, &value, 1, 0));
	ok("fsync", fsync(fd));
	ok("ftruncate", ftruncate(fd, 0));
	ok("listen", listen(fd, 1));
	ok("accept", accept(fd, NULL, NULL));
	ok("shutdown", shutdown(fd, SHUT_RDWR));
	close(fd);
}

static void unconnected(void)
{
	struct address a = at(0, 0, 100);
	struct qos q;
	char octets[16];
	int fd = plain(AAL5), n;
	socklen_t size = sizeof(q);
	ok("bind without QoS", bind_to(fd, a));
	ok("connect without QoS", connect(fd, (struct sockaddr *)&a, sizeof(a)));
	ok("get QoS before it is set", getsockopt(fd, LEVEL, QOS, &q, &size));
	size = sizeof(a);
	ok("get address before connect", getsockopt(fd, LEVEL, ADDRESS, &a, &size));
	ok("getsockname before connect", getsockname(fd, (struct sockaddr *)&a, &size));
	ok("getpeername before connect", getpeername(fd, (struct sockaddr *)&a, &size));
	ok("read before connect", read(fd, octets, 16));
	ok("read of nothing before connect", read(fd, octets, 0));
	ok("recv before connect", recv(fd, octets, 16, 0));
	ok("write before connect", write(fd, octets, 16));
	ok("write of nothing before connect", write(fd, octets, 0));
	ok("send before connect", send(fd, octets, 16, 0));
	ok("SIOCINQ before connect", ioctl(fd, FIONREAD, &n));
	ok("SIOCOUTQ before connect", ioctl(fd, TIOCOUTQ, &n));
	set_qos(fd, ubr(AAL5));
	ok("bind with 11 octets", bind(fd, (struct sockaddr *)&a, 11));
	ok("bind with 16 octets", bind(fd, (struct sockaddr *)octets, 16));
	ok("bind with 200 octets", bind(fd, (struct sockaddr *)octets, 200));
	a = at(0, 0, 100);
	a.family = AF_INET;
	ok("bind with another family", bind_to(fd, a));
	ok("bind 0.0.0", bind_to(fd, at(0, 0, 0)));
	ok("bind 77.0.100", bind_to(fd, at(77, 0, 100)));
	ok("bind -5.0.100", bind_to(fd, at(-5, 0, 100)));
	ok("bind VPI 300", bind_to(fd, at(0, 300, 100)));
	ok("bind VPI -7", bind_to(fd, at(0, -7, 100)));
	ok("bind VCI 70000", bind_to(fd, at(0, 0, 70000)));
	ok("bind VCI -7", bind_to(fd, at(0, 0, -7)));
	ok("bind at last", bind_to(fd, at(0, 0, 100)));
	close(fd);
}

static void traffic(void)
{
	struct qos q = ubr(0), back;
	int fd, value;
	socklen_t size;
	q.tx.class = q.rx.class = NONE;
	ok("QoS none", try_qos(q));
	q = ubr(0);
	q.rx.class = CBR;
	q.rx.max_pcr = 100;
	ok("QoS UBR and CBR", try_qos(q));
	q = ubr(0);
	q.tx.class = q.rx.class = CBR;
	ok("QoS CBR without rate", try_qos(q));
	q.tx.max_pcr = q.rx.max_pcr = 1000;
	ok("QoS CBR with rate", try_qos(q));
	q.tx.min_pcr = 2000;
	ok("QoS min above max", try_qos(q));
	q.tx.max_pcr = -1;
	ok("QoS min below unlimited", try_qos(q));
	q.tx.min_pcr = -1;
	ok("QoS min unlimited", try_qos(q));
	q = ubr(0);
	q.tx.class = ANY_CLASS;
	ok("QoS any class", try_qos(q));
	ok("bind with any class", try_bind(q, at(0, 0, 100)));
	q.tx.class = 77;
	q.rx.class = 77;
	ok("QoS class 77", try_qos(q));
	ok("bind AAL2", try_bind(ubr(2), at(0, 0, 100)));
	ok("bind AAL 77", try_bind(ubr(77), at(0, 0, 100)));
	q = ubr(AAL5);
	q.tx.max_sdu = 70000;
	ok("bind with SDUs of 70000", try_bind(q, at(0, 0, 100)));
	q = ubr(AAL0);
	q.rx.max_sdu = 53;
	ok("bind AAL0 with SDUs of 53", try_bind(q, at(0, 0, 100)));

	fd = plain(AAL5);
	q = ubr(AAL5);
	ok("set QoS with 80 octets", setsockopt(fd, LEVEL, QOS, &q, 80));
	ok("set QoS with 88 octets", setsockopt(fd, LEVEL, QOS, &q, 88));
	ok("set QoS at another level", setsockopt(fd, LEVEL_AAL, QOS, &q, sizeof(q)));
	ok("set QoS from nowhere", setsockopt(fd, LEVEL, QOS, NULL, sizeof(q)));
	ok("set range", setsockopt(fd, LEVEL, RANGE, &q, 2));
	ok("set address", setsockopt(fd, LEVEL, ADDRESS, &q, 12));
	ok("set an unknown option", setsockopt(fd, LEVEL, 3, &q, 4));
	q.rx.max_sdu = 1234;
	q.tx.pcr = 77;
	set_qos(fd, q);
	size = sizeof(back);
	ok("get QoS", getsockopt(fd, LEVEL, QOS, &back, &size));
	say("QoS comes back as it was", memcmp(&q, &back, 81) == 0);
	size = 80;
	ok("get QoS with 80 octets", getsockopt(fd, LEVEL, QOS, &back, &size));
	value = 1;
	ok("set CLP", setsockopt(fd, LEVEL, CLP, &value, sizeof(value)));
	long got[2] = { 7, 7 };
	size = 4;
	ok("get CLP", getsockopt(fd, LEVEL, CLP, got, &size));
	say("CLP is", (int)got[0]);
	ok("get range", (size = 2, getsockopt(fd, LEVEL, RANGE, got, &size)));
	close(fd);
}

static void connected(void)
{
	struct address a;
	struct qos q = ubr(0), back;
	int fd = plain(0), other, number;
	socklen_t size = sizeof(a);
	set_qos(fd, q);
	a = at(0, 0, 100);
	ok("connect", connect(fd, (struct sockaddr *)&a, sizeof(a)));
	memset(&a, 0x55, sizeof(a));
	ok("getsockname", getsockname(fd, (struct sockaddr *)&a, &size));
	printf("name is %d %d.%d.%d of %d\n", a.family, a.itf, a.vpi, a.vci, (int)size);
	memset(&a, 0x55, sizeof(a));
	size = 4;
	ok("getpeername with 4 octets", getpeername(fd, (struct sockaddr *)&a, &size));
	printf("name is %d %x of %d\n", a.family, (unsigned short)a.itf, (int)size);
	size = sizeof(a);
	ok("get address", getsockopt(fd, LEVEL, ADDRESS, &a, &size));
	printf("address is %d %d.%d.%d of %d\n", a.family, a.itf, a.vpi, a.vci, (int)size);
	size = sizeof(back);
	getsockopt(fd, LEVEL, QOS, &back, &size);
	printf("QoS is aal %d, tx %d %d %d, rx %d %d %d\n", back.aal, back.tx.class, back.tx.max_sdu, back.tx.max_cdv,
	       back.rx.class, back.rx.max_sdu, back.rx.max_cdv);
	ok("bind again", bind_to(fd, at(0, 0, 100)));
	ok("bind again elsewhere", bind_to(fd, at(0, 0, 101)));
	ok("bind again to nonsense", bind_to(fd, at(0, 0, 0)));
	ok("another socket on the same", try_bind(ubr(AAL5), at(0, 0, 100)));
	ok("set the same QoS", set_qos(fd, back));
	q = back;
	q.tx.class = q.rx.class = CBR;
	q.tx.max_pcr = q.rx.max_pcr = 10;
	ok("set another class", set_qos(fd, q));
	q = back;
	q.aal = AAL0;
	ok("set another AAL", set_qos(fd, q));
	ok("set nonsense", (q.tx.class = NONE, q.rx.class = NONE, set_qos(fd, q)));
	ok("SIOCOUTQ", ioctl(fd, TIOCOUTQ, &number));
	say("SIOCOUTQ says room", number > 0);
	ok("SIOCINQ", ioctl(fd, FIONREAD, &number));
	say("SIOCINQ is", number);
	close(fd);

	fd = plain(AAL5);
	set_qos(fd, ubr(AAL5));
	ok("free after close", bind_to(fd, at(0, 0, 100)));
	close(fd);

	q = ubr(AAL5);
	q.rx.class = NONE;
	fd = opened(0, 100, q);
	ok("a second sender", try_bind(q, at(0, 0, 100)));
	ok("both ways beside a sender", try_bind(ubr(AAL5), at(0, 0, 100)));
	q = ubr(AAL5);
	q.tx.class = NONE;
	other = plain(AAL5);
	set_qos(other, q);
	ok("a receiver beside a sender", bind_to(other, at(0, 0, 100)));
	ok("a receiver sends", write(other, "x", 1));
	ok("a sender receives", recv(fd, &q, sizeof(q), MSG_DONTWAIT));
	q.tx.max_sdu = 100;
	close(other);
	other = opened(0, 100, q);
	ok("a receiver with a size sends", write(other, "x", 1));
	close(other);
	close(fd);

	fd = plain(AAL5);
	set_qos(fd, ubr(AAL5));
	ok("bind any interface", bind_to(fd, at(-1, 0, 101)));
	size = sizeof(a);
	getsockname(fd, (struct sockaddr *)&a, &size);
	say("any interface is", a.itf);
	close(fd);
	fd = plain(AAL5);
	set_qos(fd, ubr(AAL5));
	ok("bind any VCI", bind_to(fd, at(0, 0, -1)));
	getsockname(fd, (struct sockaddr *)&a, &size);
	say("any VCI is a user's", a.vci >= 32 && a.vci < 65536 && a.vpi == 0);
	close(fd);
	fd = plain(AAL5);
	set_qos(fd, ubr(AAL5));
	ok("bind in part", bind_to(fd, at(0, 0, -2)));
	ok("bind in part: write", write(fd, "x", 1));
	close(fd);

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (setgid(1000) || setuid(1000))
			_exit(2);
		ok("VCI 5 without rights", try_bind(ubr(AAL5), at(0, 0, 5)));
		ok("reset addresses without rights", ioctl(plain(0), 0x40106187, &(struct sioc) { 0, 0, NULL }));
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static char big[70000], into[70000];

static void transfer(void)
{
	int a = opened(0, 100, ubr(AAL5)), b = opened(1, 100, ubr(AAL5)), number;
	struct address from = { 0 };
	struct iovec two[2], three[3];
	struct msghdr m = { 0 };
	socklen_t size;
	long n;
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = i * 31 + i / 256;

	static const int sizes[] = { 1, 8, 40, 41, 48, 1500, 9180, 65527 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char name[64];
		snprintf(name, sizeof(name), "SDU of %d", sizes[i]);
		say(name, write(a, big, sizes[i]));
		await(b);
		n = read(b, into, sizeof(into));
		say("  read", n);
		say("  the same", n >= 0 && memcmp(big, into, n) == 0);
	}
	write(b, "back", 4);
	await(a);
	say("the other way", read(a, into, 100));

	say("write of nothing", write(a, big, 0));
	say("send of nothing", send(a, big, 0, 0));
	say("SDU of 65536", write(a, big, 65536));
	say("sendto with an address", sendto(a, big, 10, 0, (struct sockaddr *)&from, sizeof(from)));
	say("sendto with an address of nothing", sendto(a, big, 10, 0, (struct sockaddr *)&from, 0));
	say("sendto without", sendto(a, "0123456789", 10, 0, NULL, 0));
	await(b);
	size = sizeof(from);
	say("recvfrom", recvfrom(b, into, 100, 0, (struct sockaddr *)&from, &size));
	say("recvfrom's address has", size);
	say("write from nowhere", write(a, NULL, 10));

	write(a, "abcdefgh", 8);
	write(a, "second", 6);
	await(b);
	usleep(100000);
	say("SIOCINQ of the first", (ioctl(b, FIONREAD, &number), number));
	say("read of nothing", read(b, into, 0));
	say("peek", recv(b, into, 100, MSG_PEEK));
	say("peek shortly", recv(b, into, 3, MSG_PEEK));
	say("read shortly", read(b, into, 3));
	say("the rest is gone", (into[0] == 'a' && into[2] == 'c'));
	say("the second", read(b, into, 100));
	say("SIOCINQ of none", (ioctl(b, FIONREAD, &number), number));
	write(a, "gone", 4);
	write(a, "next", 4);
	usleep(100000);
	say("recv of nothing takes one", recv(b, into, 0, 0));
	say("the next", (recv(b, into, 100, 0), into[0] == 'n'));
	write(a, "flags", 5);
	await(b);
	say("recv with MSG_TRUNC", recv(b, into, 3, MSG_TRUNC));
	say("recv with MSG_WAITALL", recv(b, into, 3, MSG_WAITALL));
	say("recv with MSG_OOB", recv(b, into, 3, MSG_OOB));
	say("recv with MSG_NOSIGNAL", recv(b, into, 3, MSG_NOSIGNAL));
	two[0] = (struct iovec) { into, 2 };
	two[1] = (struct iovec) { into + 100, 2 };
	m = (struct msghdr) { .msg_iov = two, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = sizeof(from) };
	say("recvmsg", recvmsg(b, &m, 0));
	printf("recvmsg's flags %x, name %d, control %d, octets %c%c%c%c\n", m.msg_flags, (int)m.msg_namelen,
	       (int)m.msg_controllen, into[0], into[1], into[100], into[101]);
	three[0] = (struct iovec) { "one", 3 };
	three[1] = (struct iovec) { NULL, 0 };
	three[2] = (struct iovec) { "two", 3 };
	say("writev", writev(a, three, 3));
	await(b);
	say("readv", readv(b, two, 2));
	m = (struct msghdr) { .msg_iov = three, .msg_iovlen = 3 };
	say("sendmsg", sendmsg(a, &m, 0));
	await(b);
	m = (struct msghdr) { .msg_iov = &(struct iovec) { into, 100 }, .msg_iovlen = 1 };
	say("recvmsg of all", recvmsg(b, &m, 0));
	say("its flags", m.msg_flags);
	m = (struct msghdr) { .msg_iov = three, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = sizeof(from) };
	say("sendmsg with an address", sendmsg(a, &m, 0));
	m = (struct msghdr) { .msg_iov = three, .msg_iovlen = 5000 };
	say("sendmsg of 5000 parts", sendmsg(a, &m, 0));
	say("writev of -1 parts", writev(a, three, -1));
	struct mmsghdr many[3] = { 0 };
	for (int i = 0; i < 3; i++)
		many[i].msg_hdr = (struct msghdr) { .msg_iov = three, .msg_iovlen = 3 };
	say("sendmmsg", sendmmsg(a, many, 3, 0));
	usleep(100000);
	for (int i = 0; i < 3; i++)
		many[i].msg_hdr = (struct msghdr) { .msg_iov = two, .msg_iovlen = 2 };
	say("recvmmsg", recvmmsg(b, many, 2, 0, NULL));
	say("its length", many[1].msg_len);
	say("recvmmsg of more than there are", recvmmsg(b, many, 3, MSG_DONTWAIT, NULL));
	for (int i = 0; i < 3; i++)
		many[i].msg_hdr = (struct msghdr) { .msg_iov = three, .msg_iovlen = 3 };
	sendmmsg(a, many, 3, 0);
	usleep(100000);
	for (int i = 0; i < 3; i++)
		many[i].msg_hdr = (struct msghdr) { .msg_iov = two, .msg_iovlen = 2 };
	struct timespec limit = { 0, 1000000000 };
	say("recvmmsg with a time limit of nonsense", recvmmsg(b, many, 3, 0, &limit));
	limit.tv_nsec = 0;
	say("recvmmsg with no time", recvmmsg(b, many, 3, 0, &limit));
	limit.tv_sec = 20;
	say("recvmmsg with a time limit", recvmmsg(b, many, 2, 0, &limit));
	say("some of it is left", limit.tv_sec < 20 && (limit.tv_sec > 0 || limit.tv_nsec > 0));
	say("send with MSG_OOB", send(a, "oob", 3, MSG_OOB));
	await(b);
	say("recv with MSG_ERRQUEUE", recv(b, into, 3, MSG_ERRQUEUE | MSG_DONTWAIT));
	m = (struct msghdr) { .msg_iov = two, .msg_iovlen = 2 };
	say("recvmsg with MSG_CMSG_CLOEXEC", recvmsg(b, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
	recv(b, into, 10, MSG_DONTWAIT);
	say("recv without waiting", recv(b, into, 10, MSG_DONTWAIT));
	say("recv to nowhere without waiting", recv(b, NULL, 10, MSG_DONTWAIT));
	fcntl(b, F_SETFL, O_NONBLOCK);
	say("read without blocking", read(b, into, 10));
	say("recvmsg without blocking", recvmsg(b, &m, 0));
	fcntl(b, F_SETFL, 0);
	struct timeval tv = { 0, 50000 };
	setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	say("read with a time limit", read(b, into, 10));
	tv.tv_usec = 0;
	setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	say("write after the other end has closed", (close(b), write(a, "lost", 4)));
	close(a);

	a = opened(0, 100, ubr(AAL0));
	b = opened(1, 100, ubr(AAL0));
	uint32_t header = 100 << 4 | 1;
	memcpy(big, &header, 4);
	say("cell", write(a, big, 52));
	await(b);
	say("cell comes", read(b, into, 100));
	memcpy(&header, into, 4);
	printf("its header %08x, payload %s\n", header, memcmp(big + 4, into + 4, 48) ? "changed" : "the same");
	say("cell of 53", write(a, big, 53));
	close(a);
	close(b);
}

/* What an interface has counted: AAL0, AAL3/4, AAL5, five numbers each. */
static void counted(int itf, int numbers[15])
{
	int fd = plain(0);
	struct sioc sioc = { itf, 15 * sizeof(int), numbers };
	if (ioctl(fd, 0x40106150, &sioc) < 0)
		printf("no GETSTAT: %s\n", name_of(errno));
	close(fd);
}

static void layer_3_4(void)
{
	int before[2][15], after[2][15], a = opened(0, 100, ubr(AAL34)), b = opened(1, 100, ubr(AAL34)), other;
	static const int sizes[] = { 1, 36, 37, 44, 1500, 9188, 65527 };
	struct qos q = { 0 };
	socklen_t size = sizeof(q);
	long n;
	counted(0, before[0]);
	counted(1, before[1]);
	ok("AAL3/4: get QoS", getsockopt(a, LEVEL, QOS, &q, &size));
	printf("AAL3/4: QoS is aal %d, tx %d %d, rx %d %d\n", q.aal, q.tx.class, q.tx.max_sdu, q.rx.class, q.rx.max_sdu);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char name[64];
		snprintf(name, sizeof(name), "AAL3/4: SDU of %d", sizes[i]);
		say(name, write(a, big, sizes[i]));
		await(b);
		n = read(b, into, sizeof(into));
		say("  read", n);
		say("  the same", n >= 0 && memcmp(big, into, n) == 0);
	}
	say("AAL3/4: the other way", write(b, "back", 4));
	await(a);
	say("  read", read(a, into, 100));
	say("AAL3/4: write of nothing", write(a, big, 0));
	say("AAL3/4: SDU of 65536", write(a, big, 65536));
	write(a, "abcdefgh", 8);
	await(b);
	say("AAL3/4: read shortly", read(b, into, 3));
	say("AAL3/4: the rest is gone", recv(b, into, 100, MSG_DONTWAIT));
	ok("AAL3/4: AAL5 on the same circuit", try_bind(ubr(AAL5), at(0, 0, 100)));
	q.aal = AAL5;
	ok("AAL3/4: set another AAL", set_qos(a, q));
	usleep(100000);
	counted(0, after[0]);
	counted(1, after[1]);
	for (int itf = 0; itf < 2; itf++)
		for (int aal = 0; aal < 3; aal++) {
			int *was = before[itf] + 5 * aal, *is = after[itf] + 5 * aal;
			printf("AAL3/4: interface %d counted for layer %d: %d %d %d %d %d\n", itf, aal, is[0] - was[0],
			       is[1] - was[1], is[2] - was[2], is[3] - was[3], is[4] - was[4]);
		}
	close(a);
	close(b);
	q = ubr(AAL34);
	q.tx.max_sdu = 70000;
	ok("AAL3/4: bind with SDUs of 70000", try_bind(q, at(0, 0, 100)));
	q = ubr(AAL34);
	q.tx.max_sdu = q.rx.max_sdu = 100;
	a = opened(0, 100, q);
	b = opened(1, 100, q);
	say("AAL3/4: more than its size", write(a, big, 101));
	say("AAL3/4: its size", write(a, big, 100));
	await(b);
	say("  read", read(b, into, 1000));
	close(b);
	q.tx.class = NONE;
	b = opened(1, 100, q);
	ok("AAL3/4: a receiver sends", write(b, "x", 1));
	close(a);
	close(b);
	a = plain(AAL34);
	size = sizeof(q);
	q = ubr(0);
	set_qos(a, q);
	ok("AAL3/4: the QoS's layer goes before the protocol's", bind_to(a, at(0, 0, 100)));
	getsockopt(a, LEVEL, QOS, &q, &size);
	say("  it is", q.aal);
	close(a);
}

/* The first line of a table, and the rows of the circuits that are open here, wherever they stand. */
static void table(const char *name, const char *row_begin)
{
	static const char *const circuits[] = { "  0   0   100", "  0   0   101", "  1   0   100" };
	char path[64], line[256];
	snprintf(path, sizeof(path), "/proc/net/atm/%s", name);
	FILE *file = fopen(path, "r");
	if (!file || !fgets(line, sizeof(line), file)) {
		say(path, -1);
		return;
	}
	printf("%s: %s", path, line);
	for (int i = 0; row_begin && i < 3; i++) {
		rewind(file);
		while (fgets(line, sizeof(line), file)) {
			/* The kernel shows addresses to nobody. */
			char *row = strstr(line, row_begin[0] ? row_begin : circuits[i]);
			if (row && strstr(line, circuits[i]))
				printf("  row%s", strstr(line, circuits[i]));
		}
	}
	fclose(file);
	ok("  to write", open(path, O_RDWR | O_CLOEXEC));
	ok("  a folder of that name", open(path, O_RDONLY | O_DIRECTORY));
}

/* The folder by its paths: a kernel may have more in it. */
static void folder(void)
{
	static const char *const paths[] = { "", "/", "/devices", "/pvc", "/svc", "/vc", "/nothing" };
	for (unsigned i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		char path[64];
		struct stat what = { 0 };
		snprintf(path, sizeof(path), "/proc/net/atm%s", paths[i]);
		ok(path, stat(path, &what));
		printf("  mode %o, size %ld, links %d, of %d\n", what.st_mode, (long)what.st_size,
			S_ISDIR(what.st_mode) ? 2 : (int)what.st_nlink, (int)what.st_uid);
		ok("  lstat", lstat(path, &what));
		ok("  fstatat", fstatat(AT_FDCWD, path, &what, 0));
		ok("  is there", access(path, F_OK));
		ok("  to read", access(path, R_OK));
		ok("  to run or search", access(path, X_OK));
		DIR *names = opendir(path);
		ok("  opendir", names ? 0 : -1);
		if (!names)
			continue;
		int found = 0;
		for (struct dirent *entry; (entry = readdir(names));)
			for (unsigned j = 2; j < sizeof(paths) / sizeof(*paths); j++)
				found |= !strcmp(entry->d_name, paths[j] + 1) << j;
		printf("  names %x\n", found);
		ok("  closedir", closedir(names));
	}
}

static void tables(void)
{
	folder();
	int a = opened(0, 100, ubr(AAL34)), b = opened(0, 101, ubr(AAL5)), c = opened(1, 100, ubr(AAL0));
	table("devices", NULL);
	table("svc", NULL);
	table("pvc", "");
	ok("a table that is not there", open("/proc/net/atm/nothing", O_RDONLY));
	/* Buffers are Linux's own there: the head, and that the circuits are in it. */
	table("vc", NULL);
	close(a);
	close(b);
	close(c);
}

/* Sockets that do not wait, that watch edges, that are shut, and options once connected. */
static void others(void)
{
	int a = socket(PVC, SOCK_DGRAM | SOCK_NONBLOCK, 0), b = opened(1, 100, ubr(AAL5)), e = epoll_create1(0), number = 0;
	struct address to = at(0, 0, 100);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct timeval tv = { 0, 20000 };
	socklen_t size = sizeof(tv);
	set_qos(a, ubr(AAL5));
	ok("connect without waiting", connect(a, (struct sockaddr *)&to, sizeof(to)));
	ok("connect again", connect(a, (struct sockaddr *)&to, sizeof(to)));
	ok("connect with 2 octets", connect(a, (struct sockaddr *)&to, 2));
	say("recv when nothing is there", recv(a, into, 10, 0));
	say("write without waiting", write(a, "now", 3));
	await(b);
	say("  read", read(b, into, 10));
	ok("FIONBIO", ioctl(b, FIONBIO, &(int) { 1 }));
	say("read after FIONBIO", read(b, into, 10));
	say("it shows in F_GETFL", !!(fcntl(b, F_GETFL) & O_NONBLOCK));
	ok("FIONBIO off", ioctl(b, FIONBIO, &number));
	ok("set SO_RCVTIMEO", setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	say("recv with a time limit", recv(b, into, 10, 0));
	ok("get SO_RCVTIMEO", getsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &tv, &size));
	printf("it is %ld.%06ld of %d\n", (long)tv.tv_sec, (long)tv.tv_usec, (int)size);
	tv.tv_usec = 0;
	setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	say("edge: add", epoll_ctl(e, EPOLL_CTL_ADD, b, &event));
	say("edge: add twice", epoll_ctl(e, EPOLL_CTL_ADD, b, &event));
	write(a, "one", 3);
	say("edge: one", epoll_wait(e, &event, 1, 2000));
	say("edge: once only", epoll_wait(e, &event, 1, 50));
	read(b, into, 10);
	write(a, "two", 3);
	say("edge: another", epoll_wait(e, &event, 1, 2000));
	read(b, into, 10);
	say("edge: delete", epoll_ctl(e, EPOLL_CTL_DEL, b, NULL));
	say("edge: delete twice", epoll_ctl(e, EPOLL_CTL_DEL, b, NULL));
	close(e);
	ok("connected: shutdown to write", shutdown(a, SHUT_WR));
	ok("connected: shutdown as 7", shutdown(a, 7));
	say("connected: write after it", write(a, "x", 1));
	await(b);
	say("  read", read(b, into, 10));
	ok("connected: listen", listen(a, 1));
	ok("connected: accept", accept(a, NULL, NULL));
	number = 1;
	ok("connected: set CLP", setsockopt(a, LEVEL, CLP, &number, sizeof(number)));
	ok("connected: set CLP with 2 octets", setsockopt(a, LEVEL, CLP, &number, 2));
	ok("connected: set CLP from nowhere", setsockopt(a, LEVEL, CLP, NULL, sizeof(number)));
	ok("connected: get QoS to nowhere", (size = sizeof(struct qos), getsockopt(a, LEVEL, QOS, NULL, &size)));
	ok("connected: getsockname to nowhere", (size = 12, getsockname(a, NULL, &size)));
	ok("connected: GETSTAT of -1", ioctl(a, 0x40106150, &(struct sioc) { -1, 60, into }));
	struct sioc nowhere = { 0, 60, NULL };
	ok("connected: GETSTAT to nowhere", ioctl(a, 0x40106150, &nowhere));
	say("  its length", nowhere.length);
	ok("connected: GETSTAT from nowhere", ioctl(a, 0x40106150, NULL));
	int copy = dup(a);
	close(a);
	ok("a copy keeps the circuit", try_bind(ubr(AAL5), at(0, 0, 100)));
	close(copy);
	ok("with the last copy it is free", try_bind(ubr(AAL5), at(0, 0, 100)));
	say("read of a closed descriptor", read(a, into, 10));
	say("write to a closed descriptor", write(copy, into, 10));
	ok("bind of a closed descriptor", bind_to(a, to));
	ok("QoS of a closed descriptor", set_qos(a, ubr(AAL5)));
	close(b);
}

static void waiting(void)
{
	int a = opened(0, 100, ubr(AAL5)), b = opened(1, 100, ubr(AAL5)), fresh = plain(AAL5), e, copy;
	struct pollfd p = { .fd = b, .events = POLLIN | POLLOUT };
	struct epoll_event event = { .events = EPOLLIN };
	fd_set set;
	struct timeval none = { 0, 0 };
	say("poll of nothing", poll(&p, 1, 0));
	say("  its events", p.revents);
	write(a, "x", 1);
	p.events = POLLIN;
	say("poll waits", poll(&p, 1, 2000));
	p.events = POLLIN | POLLOUT;
	say("poll of one", poll(&p, 1, 0));
	say("  its events", p.revents);
	FD_ZERO(&set);
	FD_SET(b, &set);
	say("select of one", select(b + 1, &set, NULL, NULL, &none));
	read(b, into, 10);
	FD_ZERO(&set);
	FD_SET(b, &set);
	say("select of none", select(b + 1, &set, NULL, NULL, &none));
	FD_ZERO(&set);
	FD_SET(b, &set);
	say("select to write", select(b + 1, NULL, &set, NULL, &none));
	e = epoll_create1(0);
	say("epoll add", epoll_ctl(e, EPOLL_CTL_ADD, b, &event));
	say("epoll of none", epoll_wait(e, &event, 1, 0));
	for (int i = 0; i < 3; i++) {
		write(a, "y", 1);
		say("epoll of one", epoll_wait(e, &event, 1, 2000));
		say("epoll of one, again", epoll_wait(e, &event, 1, 0));
		read(b, into, 10);
		say("epoll when read", epoll_wait(e, &event, 1, 0));
	}
	close(e);
	p = (struct pollfd) { .fd = fresh, .events = POLLIN | POLLOUT };
	say("poll before QoS", poll(&p, 1, 0));
	set_qos(fresh, ubr(AAL5));
	say("poll with QoS", poll(&p, 1, 0));
	say("  its events", p.revents);
	struct qos receive = ubr(AAL5);
	receive.tx.class = NONE;
	close(fresh);
	fresh = opened(0, 101, receive);
	p.fd = fresh;
	say("poll of a receiver", poll(&p, 1, 0));
	close(fresh);

	copy = dup(b);
	close(b);
	write(a, "dup", 3);
	await(copy);
	say("read by a copy", read(copy, into, 10));
	b = dup2(copy, 50);
	say("dup2", b);
	close(copy);
	copy = fcntl(b, F_DUPFD, 60);
	say("F_DUPFD", copy);
	close(b);
	b = copy;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		write(a, "child", 5);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	await(b);
	say("a child's SDU", read(b, into, 10));
	fflush(stdout);
	child = fork();
	if (child == 0) {
		long n = read(b, into, 10);
		_exit(n == 6 ? 6 : 1);
	}
	write(a, "parent", 6);
	int status;
	waitpid(child, &status, 0);
	say("a child reads", WEXITSTATUS(status));
	for (int i = 0; i < 20; i++) {
		if ((child = fork()) == 0) {
			write(a, big, 100 + i);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		write(a, big, 200 + i);
	}
	long sum = 0;
	for (int i = 0; i < 40; i++) {
		await(b);
		sum += read(b, into, 1000);
	}
	say("SDUs of parent and children in turn", sum);

	char number[16];
	snprintf(number, sizeof(number), "%d", b);
	fflush(stdout);
	write(a, "inherited", 9);
	await(b);
	if ((child = fork()) == 0) {
		execl("/proc/self/exe", "sockets", number, NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	say("the other program ends", WEXITSTATUS(status));
	await(a);
	say("its answer", read(a, into, 100));
	write(a, "mine again", 10);
	await(b);
	say("read after it has ended", read(b, into, 100));
	if ((child = vfork()) == 0) {
		execl("/proc/self/exe", "sockets", number, "quiet", NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	say("write beside a spawned program", write(b, "x", 1));
	await(a);
	say("  it comes", read(a, into, 100));
	fcntl(b, F_SETFD, FD_CLOEXEC);
	if ((child = fork()) == 0) {
		execl("/proc/self/exe", "sockets", number, NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	write(b, "x", 1);
	await(a);
	say("after one that did not inherit", read(a, into, 100));
	close(a);
	close(b);
}

static void nothing(int signal)
{
	(void)signal;
}

struct late { int fd; };

static void *send_later(void *argument)
{
	usleep(100000);
	write(((struct late *)argument)->fd, "late", 4);
	return NULL;
}

static void *read_now(void *argument)
{
	char octets[10];
	return (void *)read(((struct late *)argument)->fd, octets, 10);
}

static void signals_and_threads(void)
{
	int a = opened(0, 100, ubr(AAL5)), b = opened(1, 100, ubr(AAL5));
	struct late sender = { a }, reader = { b };
	struct sigaction action = { .sa_handler = nothing };
	struct itimerval soon = { .it_value = { 0, 50000 } }, off = { 0 };
	pthread_t thread;
	void *result;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	say("read and a signal", read(b, into, 10));
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	pthread_create(&thread, NULL, send_later, &sender);
	setitimer(ITIMER_REAL, &soon, NULL);
	say("read and a signal that restarts", read(b, into, 10));
	pthread_join(thread, NULL);
	setitimer(ITIMER_REAL, &off, NULL);
	pthread_create(&thread, NULL, read_now, &reader);
	usleep(50000);
	write(a, "to a thread", 10);
	pthread_join(thread, &result);
	say("a thread reads", (long)result);
	struct timeval stamp, now;
	ok("SIOCGSTAMP", ioctl(b, 0x8906, &stamp));
	write(a, "stamped", 7);
	await(b);
	read(b, into, 10);
	ok("SIOCGSTAMP of an SDU", ioctl(b, 0x8906, &stamp));
	gettimeofday(&now, NULL);
	say("it is near", labs(now.tv_sec - stamp.tv_sec) < 3);
	close(a);
	close(b);
	say("read after close", read(b, into, 10));
}

/* More at once than a process has descriptors for, six of them to a circuit. */
static void many(void)
{
	static int a[150], b[150];
	long sum = 0;
	for (int i = 0; i < 150; i++) {
		a[i] = opened(0, 1000 + i, brief());
		b[i] = opened(1, 1000 + i, brief());
	}
	for (int i = 0; i < 150; i++)
		write(a[i], big, i + 1);
	for (int i = 0; i < 150; i++) {
		await(b[i]);
		sum += read(b[i], into, 1000) == i + 1;
	}
	say("circuits at once", sum);
	for (int i = 0; i < 150; i++) {
		close(a[i]);
		close(b[i]);
	}
}

/* Two hundred circuits one after the other, and signals all the time. */
static void interrupted(void)
{
	struct sigaction action = { .sa_handler = nothing };
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, off = { 0 };
	long opened = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 200; i++)
		opened += try_bind(brief(), at(0, 0, 100)) == 0;
	setitimer(ITIMER_REAL, &off, NULL);
	say("circuits opened though signals interrupt", opened);
}

/* One socket that another program inherits and sixty that it does not, with few descriptors too. */
static void one_of_many(void)
{
	for (int few = 0; few < 2; few++) {
		int a, b, status;
		pid_t child, heir;
		char number[16];
		struct rlimit limit;
		if ((child = fork()) == 0) {
			getrlimit(RLIMIT_NOFILE, &limit);
			if (few) {
				limit.rlim_cur = 200;
				setrlimit(RLIMIT_NOFILE, &limit);
			}
			for (int i = 0; i < 60; i++)
				fcntl(opened(0, 1000 + i, brief()), F_SETFD, FD_CLOEXEC);
			a = opened(0, 100, brief());
			b = opened(1, 100, brief());
			fcntl(a, F_SETFD, FD_CLOEXEC);
			snprintf(number, sizeof(number), "%d", b);
			write(a, "inherited", 9);
			await(b);
			if ((heir = fork()) == 0) {
				execl("/proc/self/exe", "sockets", number, NULL);
				_exit(1);
			}
			waitpid(heir, &status, 0);
			say("one of many: the other program ends", WEXITSTATUS(status));
			await(a);
			say("one of many: its answer", read(a, into, 100));
			exit(0);
		}
		waitpid(child, &status, 0);
		say("one of many", status);
	}
}

/* What comes within two seconds; what it says, if it is short. */
static void came(int fd)
{
	await(fd);
	long n = recv(fd, into, sizeof(into) - 1, MSG_DONTWAIT);
	say("  came", n);
	if (n > 0 && n < 40) {
		into[n] = 0;
		printf("  %s\n", into);
	}
}

/* Octets that the kernel copies, and streams. */
static void copies(void)
{
	int a = opened(0, 100, ubr(AAL5)), b = opened(1, 100, ubr(AAL5)), file = open("/proc/self/exe", O_RDONLY), pipes[2];
	off_t offset = 0;
	say("sendfile of ten", sendfile(a, file, &offset, 10));
	await(b);
	say("  came", read(b, into, 100));
	offset = 100;
	say("sendfile of 9000", sendfile(a, file, &offset, 9000));
	say("  offset", offset);
	for (int i = 0; i < 3; i++) {
		await(b);
		say("  came", read(b, into, sizeof(into)));
	}
	lseek(file, 4000, SEEK_SET);
	say("sendfile from where it is", sendfile(a, file, NULL, 200));
	say("  it is", lseek(file, 0, SEEK_CUR));
	for (int i = 0; i < 2; i++) {
		await(b);
		say("  came", read(b, into, sizeof(into)));
	}
	say("sendfile of nothing", sendfile(a, file, NULL, 0));
	say("sendfile from a socket", sendfile(a, b, NULL, 10));
	if (pipe(pipes))
		return;
	say("sendfile from a pipe", sendfile(a, pipes[0], NULL, 10));
	write(pipes[1], "through a pipe", 14);
	say("splice", splice(pipes[0], NULL, a, NULL, 100, 0));
	came(b);
	say("splice of an empty pipe", splice(pipes[0], NULL, a, NULL, 100, SPLICE_F_NONBLOCK));
	offset = 0;
	write(pipes[1], "x", 1);
	say("splice to an offset", splice(pipes[0], NULL, a, &offset, 100, 0));
	say("splice from a pipe's offset", splice(pipes[0], &offset, a, NULL, 100, 0));
	say("splice without a pipe", splice(b, NULL, a, NULL, 100, 0));
	read(pipes[0], into, 1);
	write(a, "out of the socket", 17);
	await(b);
	say("splice from the socket", splice(b, NULL, pipes[1], NULL, 100, 0));
	came(pipes[0]);
	write(a, "0123456789", 10);
	await(b);
	say("splice of a part", splice(b, NULL, pipes[1], NULL, 4, 0));
	say("  the rest", recv(b, into, 10, MSG_DONTWAIT));
	came(pipes[0]);
	close(pipes[0]);
	close(pipes[1]);
	close(file);

	FILE *out = fdopen(dup(a), "w"), *in = fdopen(b, "r");
	char line[50] = "";
	say("stream: fileno is a descriptor", fileno(out) >= 0 && fileno(in) == b);
	fprintf(out, "line %d\n", 1);
	fprintf(out, "line %d\n", 2);
	ok("stream: fflush", fflush(out));
	await(b);
	printf("stream: %s", fgets(line, sizeof(line), in) ? line : "nothing\n");
	printf("stream: %s", fgets(line, sizeof(line), in) ? line : "nothing\n");
	memset(big, 'x', 5000);
	say("stream: fwrite", fwrite(big, 1, 5000, out));
	ok("stream: fclose", fclose(out));
	came(b);
	came(b);
	write(a, "after", 5);
	came(b);
	ok("stream: fclose of the other", fclose(in));
	ok("stream: its descriptor is closed", fcntl(b, F_GETFD));
	ok("stream: the circuit is free", try_bind(ubr(AAL5), at(1, 0, 100)));
	ok("fdopen of a closed descriptor", fdopen(b, "r") ? 0 : -1);
	close(a);
}

static volatile int told;

static void tell(int signal)
{
	(void)signal;
	told++;
}

static int handled, failed;

static void send_too(int signal)
{
	int before = errno;
	(void)signal;
	failed += write(handled, "handler", 7) != 7;
	told++;
	errno = before;
}

extern char **environ;

/* Times beside SDUs, signals, threads that end in mid-call, high numbers, programs that are spawned. */
static void unusual(void)
{
	int a = opened(0, 100, ubr(AAL5)), b = opened(1, 100, ubr(AAL5)), on = 1, status, e = epoll_create1(0), copy;
	char beside[128];
	static const int times[] = { SO_TIMESTAMP, SO_TIMESTAMPNS };
	for (int i = 0; i < 2; i++) {
		struct msghdr m = { .msg_iov = &(struct iovec) { into, 100 }, .msg_iovlen = 1, .msg_control = beside, .msg_controllen = sizeof(beside) };
		ok("time: set", setsockopt(b, SOL_SOCKET, times[i], &on, sizeof(on)));
		write(a, "timed", 5);
		await(b);
		say("time: recvmsg", recvmsg(b, &m, 0));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		struct timespec t = { 0 }, now;
		clock_gettime(CLOCK_REALTIME, &now);
		if (c)
			memcpy(&t, CMSG_DATA(c), sizeof(t));
		printf("time: %d octets, level %d, type %d, flags %x\n", (int)m.msg_controllen, c ? c->cmsg_level : -1, c ? c->cmsg_type : -1, m.msg_flags);
		say("time: it is near", labs(now.tv_sec - t.tv_sec) < 3 && t.tv_nsec < (i ? 1000000000 : 1000000));
		setsockopt(b, SOL_SOCKET, times[i], &(int) { 0 }, sizeof(on));
	}

	struct sigaction action = { .sa_handler = tell, .sa_flags = SA_RESTART };
	sigaction(SIGIO, &action, NULL);
	fcntl(b, F_SETOWN, getpid());
	fcntl(b, F_SETFL, O_ASYNC);
	for (int i = 0; i < 3; i++) {
		told = 0;
		write(a, "a signal", 8);
		for (int j = 0; j < 2000 && !told; j++)
			usleep(1000);
		say("signal: it comes", told > 0);
		say("  read", recv(b, into, 100, MSG_DONTWAIT));
	}
	fcntl(b, F_SETFL, 0);

	/* A handler that sends, some times in the midst of the sending that it interrupts. */
	long sent = 0, got = 0;
	action.sa_handler = send_too;
	sigaction(SIGALRM, &action, NULL);
	handled = a;
	told = 0;
	for (int i = 0; i < 300; i++) {
		struct itimerval soon = { .it_value = { 0, 20 + i } };
		int before = told;
		setitimer(ITIMER_REAL, &soon, NULL);
		do {
			sent += write(a, big, 8000) == 8000;
			while (got < sent + told) {
				struct pollfd p = { .fd = b, .events = POLLIN };
				int ready = poll(&p, 1, 20000);
				if (ready == 0 || (ready > 0 && recv(b, into, sizeof(into), MSG_DONTWAIT) < 0))
					break;
				got += ready > 0;
			}
		} while (told == before);
	}
	say("handler: failed", failed);
	say("handler: all came", got == sent + told);

	struct late reader = { b };
	pthread_t thread;
	void *result;
	pthread_create(&thread, NULL, read_now, &reader);
	usleep(100000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	say("thread: cancelled in read", result == PTHREAD_CANCELED);
	write(a, "to nobody else", 14);
	came(b);
	reader.fd = dup(b);
	pthread_create(&thread, NULL, read_now, &reader);
	usleep(100000);
	close(reader.fd);
	write(a, "open", 4);
	pthread_join(thread, &result);
	say("thread: its descriptor closed in read", (long)result);

	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	epoll_ctl(e, EPOLL_CTL_ADD, b, &event);
	write(a, "1", 1);
	say("once: the first", epoll_wait(e, &event, 1, 2000));
	came(b);
	write(a, "2", 1);
	say("once: no more", epoll_wait(e, &event, 1, 100));
	event.events = EPOLLIN | EPOLLONESHOT;
	epoll_ctl(e, EPOLL_CTL_MOD, b, &event);
	say("once: again", epoll_wait(e, &event, 1, 2000));
	came(b);
	close(e);

	setrlimit(RLIMIT_NOFILE, &(struct rlimit) { 4096, 4096 });
	say("high: dup2", copy = dup2(b, 1500));
	unsigned long set[64] = { 0 };
	set[1500 / 64] |= 1ul << 1500 % 64;
	write(a, "high", 4);
	await(copy);
	say("high: select", select(1501, (fd_set *)set, NULL, NULL, &(struct timeval) { 0, 0 }));
	say("high: its bit", set[1500 / 64] >> 1500 % 64 & 1);
	came(copy);
	say("high: select of none", select(1501, (fd_set *)set, NULL, NULL, &(struct timeval) { 0, 0 }));
	close(copy);

	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, b, 77);
	char *arguments[] = { "sockets", "77", NULL };
	pid_t child;
	write(a, "spawned", 7);
	await(b);
	int spawned = posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ);
	waitpid(child, &status, 0);
	say("spawn", spawned);
	say("  it ends", WEXITSTATUS(status));
	came(a);
	close(a);
	close(b);
}

static void requests(void)
{
	int fd = plain(0), svc = socket(SVC, SOCK_DGRAM, 0), numbers[8] = { 0 };
	unsigned char text[64];
	struct iobuf names = { sizeof(numbers), numbers };
	struct sioc sioc = { 0, sizeof(text), text };
	ok("socket of calls", svc);
	socklen_t n;
	struct { uint16_t family; unsigned char rest[42]; } called = { .family = SVC };
	ok("calls: read", read(svc, text, 10));
	ok("calls: write", write(svc, text, 10));
	ok("calls: bind", bind(svc, (struct sockaddr *)&called, sizeof(called)));
	ok("calls: connect", connect(svc, (struct sockaddr *)&called, sizeof(called)));
	ok("calls: connect a PVC", (called.family = PVC, connect(svc, (struct sockaddr *)&called, sizeof(called))));
	set_qos(svc, ubr(AAL5));
	called.family = SVC;
	ok("calls: bind with QoS", bind(svc, (struct sockaddr *)&called, sizeof(called)));
	ok("calls: connect with QoS", connect(svc, (struct sockaddr *)&called, sizeof(called)));
	ok("calls: listen", listen(svc, 1));
	ok("calls: accept", accept(svc, NULL, NULL));
	ok("calls: accept with flags of nonsense", accept4(svc, NULL, NULL, 1));
	ok("calls: shutdown", shutdown(svc, SHUT_RDWR));
	ok("calls: recv of nothing", recv(svc, text, 0, 0));
	ok("calls: recv with MSG_OOB", recv(svc, text, 10, MSG_OOB));
	ok("calls: sendto", sendto(svc, text, 10, 0, (struct sockaddr *)&called, sizeof(called)));
	ok("calls: FIONREAD", ioctl(svc, FIONREAD, numbers));
	ok("calls: TIOCOUTQ", ioctl(svc, TIOCOUTQ, numbers));
	ok("calls: get address", (n = 12, getsockopt(svc, LEVEL, ADDRESS, text, &n)));
	ok("calls: bind with 12 octets", bind(svc, (struct sockaddr *)&called, 12));
	ok("calls: bind to nowhere", bind(svc, NULL, sizeof(called)));
	ok("calls: bind of no octets", bind(svc, (struct sockaddr *)&called, 0));
	ok("calls: connect to nowhere", connect(svc, NULL, sizeof(called)));
	struct pollfd polled = { .fd = svc, .events = POLLIN | POLLOUT };
	say("calls: poll", poll(&polled, 1, 0));
	printf("  its events %x\n", polled.revents);
	ok("calls: getsockname", (n = 44, getsockname(svc, (struct sockaddr *)&called, &n)));
	unsigned char part[44];
	memset(part, 0x55, sizeof(part));
	ok("calls: getsockname with 5 octets", (n = 5, getsockname(svc, (struct sockaddr *)part, &n)));
	printf("name of %d, behind it %x %x\n", (int)n, part[5], part[43]);
	memset(part, 0x55, sizeof(part));
	ok("calls: getpeername with 1 octet", (n = 1, getpeername(svc, (struct sockaddr *)part, &n)));
	printf("name of %d, behind it %x %x\n", (int)n, part[1], part[43]);
	ok("calls: getsockname with -1 octets", (n = -1, getsockname(svc, (struct sockaddr *)part, &n)));
	ok("calls: connect with 12 octets", connect(svc, (struct sockaddr *)&called, 12));
	unsigned char sap[40] = { 1, 2, 3 }, back[40] = { 0 };
	ok("calls: set SAP", setsockopt(svc, LEVEL, SAP, sap, sizeof(sap)));
	ok("calls: get SAP", (n = sizeof(back), getsockopt(svc, LEVEL, SAP, back, &n)));
	say("  it is the same", memcmp(sap, back, sizeof(sap)) == 0);
	ok("calls: set SAP with 39 octets", setsockopt(svc, LEVEL, SAP, sap, 39));
	ok("calls: set SAP at another level", setsockopt(svc, LEVEL_AAL, SAP, sap, sizeof(sap)));
	ok("calls: set SAP from nowhere", setsockopt(svc, LEVEL, SAP, NULL, sizeof(sap)));
	ok("calls: get SAP with 39 octets", (n = 39, getsockopt(svc, LEVEL, SAP, back, &n)));
	ok("calls: SAP of a PVC", setsockopt(fd, LEVEL, SAP, sap, sizeof(sap)));
	ok("calls: get SAP of a PVC", (n = sizeof(back), getsockopt(fd, LEVEL, SAP, back, &n)));
	ok("calls: add a party to a call to one", ioctl(svc, 0x401061f4, &called));
	ok("calls: to 2", setsockopt(svc, LEVEL, MULTIPOINT, &(int) { 2 }, 4));
	ok("calls: to many", setsockopt(svc, LEVEL, MULTIPOINT, &(int) { 1 }, 4));
	ok("calls: to many with 2 octets", setsockopt(svc, LEVEL, MULTIPOINT, &(int) { 1 }, 2));
	ok("calls: to many, of a PVC", setsockopt(fd, LEVEL, MULTIPOINT, &(int) { 1 }, 4));
	ok("calls: get to many", (n = 4, getsockopt(svc, LEVEL, MULTIPOINT, back, &n)));
	ok("calls: to one again", setsockopt(svc, LEVEL, MULTIPOINT, &(int) { 0 }, 4));
	ok("calls: drop a party of a call to one", ioctl(svc, 0x400461f5, &(int) { 1 }));
	ok("GETNAMES", ioctl(fd, 0x40106183, &names));
	printf("names %d: %d %d\n", names.length, numbers[0], numbers[1]);
	names.length = 4;
	ok("GETNAMES without room", ioctl(fd, 0x40106183, &names));
	ok("GETTYPE", ioctl(fd, 0x40106184, &sioc));
	say("its length fits", sioc.length == (int)strlen((char *)text) + 1 && sioc.length <= 8);
	sioc.number = 77;
	ok("GETTYPE of 77", ioctl(fd, 0x40106184, &sioc));
	sioc.number = 1;
	ok("GETESI", ioctl(svc, 0x40106185, &sioc));
	say("its length", sioc.length);
	ok("GETCIRANGE", ioctl(fd, 0x4010618a, &sioc));
	printf("range %d %d of %d\n", text[0], text[1], sioc.length);
	ok("GETLINKRATE", ioctl(fd, 0x40106181, &sioc));
	memcpy(numbers, text, 4);
	printf("rate %d of %d\n", numbers[0], sioc.length);
	ok("GETSTAT", ioctl(fd, 0x40106150, &sioc));
	say("its length", sioc.length);
	sioc.length = sizeof(text);
	ok("GETADDR", ioctl(svc, 0x40106186, &sioc));
	say("its length", sioc.length);
	sioc.value = (void *)1;
	ok("SETLOOP", ioctl(fd, 0x40106153, &sioc));
	ok("QUERYLOOP", ioctl(fd, 0x40106154, &sioc));
	ok("SONET_GETSTAT", ioctl(fd, 0x80246110, &sioc));
	ok("an ioctl that nobody knows", ioctl(fd, 0x401061ff, &sioc));
	ok("TCGETS", ioctl(fd, 0x5401, text));
	ok("SETSC", ioctl(fd, 0x400461f1, 0));
	close(svc);
	close(fd);
}

/* A program that has inherited a socket. */
static int heir(int fd)
{
	struct address a = { 0 };
	socklen_t size = sizeof(a);
	ok("heir: getsockname", getsockname(fd, (struct sockaddr *)&a, &size));
	if (a.vci == 100)
		printf("heir: %d.%d.%d\n", a.itf, a.vpi, a.vci);
	say("heir: read", recv(fd, into, 100, MSG_DONTWAIT));
	say("heir: read again", recv(fd, into, 100, MSG_DONTWAIT));
	int copy = dup(fd);
	close(fd);
	say("heir: write", write(copy, "from the heir", 13));
	say("heir: bind", bind_to(copy, at(0, 0, 101)));
	return 7;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return 0;
	if (argc == 2)
		return heir(atoi(argv[1]));
	signal(SIGPIPE, SIG_IGN);
	making();
	unconnected();
	traffic();
	connected();
	transfer();
	layer_3_4();
	tables();
	others();
	waiting();
	signals_and_threads();
	many();
	interrupted();
	one_of_many();
	copies();
	unusual();
	requests();
	puts("end");
	return 0;
}
