// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A packet generator for queues in virtual time: packets PLAN >RESULT, in a network namespace of its own.
 *
 * g0 -> g1, forwarded as by a router, -> out (the queue) -> in. A line of PLAN:
 *   case NUMBER SALT      the times of a case begin at a multiple of 32 ms, SETTLE after this line; SALT, below 256: a
 *                         part of all addresses and ports, for other hashes of the same flows in the same boot
 *   tc TIME WORDS         what tc is told; TIME in ns, may be before the case begins
 *   packet TIME ID FLOW FRAME TOS IPv6 SEGMENT
 *                         an Ethernet frame of this length; SEGMENT: payload of its segments, 0 for none
 *   end TIME              the counters of the queues, and then no queue any more
 * A line of RESULT: "case NUMBER", "left TIME ID FRAME TOS", "refused WORDS" (what tc says), "counters JSON".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Queues are in their stride: PIE waits for 0.5 s, and CoDel takes the clock's zero for its last episode. */
#define SETTLE 2000000000LL
#define ALIGN 32000000LL
/* Newer than some headers. */
#define GSO_UDP_L4 5
#define MAGIC 0x51554555
#define READ_EVERY 256

static int sending, receiving, tc, said[2];
static int64_t zero, real_less_mono;
static off_t heard[2];
static unsigned salt;

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static int64_t now_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(int64_t mono)
{
	struct timespec t = { mono / 1000000000, mono % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static int opened(const char *device, int protocol)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol) };
	int fd = socket(AF_PACKET, SOCK_RAW, htons(protocol)), room = 1 << 29, one = 1;

	to.sll_ifindex = if_nametoindex(device);
	if (fd < 0 || !to.sll_ifindex || bind(fd, (struct sockaddr *)&to, sizeof to))
		fail("%s: %s", device, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
	return fd;
}

static void start_tc(void)
{
	static const char *const names[2] = { "/tmp/tc.out", "/tmp/tc.err" };
	int ways[2];

	if (pipe2(ways, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));
	for (int i = 0; i < 2; i++)
		said[i] = open(names[i], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0600);
	if (!fork()) {
		dup2(ways[0], 0);
		dup2(said[0], 1);
		dup2(said[1], 2);
		execlp("tc", "tc", "-s", "-j", "-force", "-batch", "-", NULL);
		_exit(127);
	}
	tc = ways[1];
}

/* What tc has written since, in one line. */
static void hear(int which, const char *name)
{
	static char text[1 << 20];
	ssize_t n = pread(said[which], text, sizeof text - 1, heard[which]);

	if (n <= 0)
		return;
	heard[which] += n;
	text[n] = 0;
	for (char *c = text; *c; c++)
		if (*c == '\n')
			*c = ' ';
	printf("%s %s\n", name, text);
}

/* Computing takes no time: when this process goes on, tc is done. */
static void tell(const char *words)
{
	dprintf(tc, "%s\n", words);
	sleep_until(now_of(CLOCK_MONOTONIC) + 1);
	hear(0, "counters");
	hear(1, "refused");
}

static void read_all(void)
{
	static uint8_t frame[1 << 17];
	char control[256];

	for (;;) {
		struct iovec part = { frame, sizeof frame };
		struct sockaddr_ll from;
		struct msghdr message = { &from, sizeof from, &part, 1, control, sizeof control, 0 };
		ssize_t n = recvmsg(receiving, &message, MSG_DONTWAIT);
		int ip6, at;
		uint32_t id[2];
		struct timespec t = { 0, 0 };

		if (n < 0)
			return;
		ip6 = n > 14 && frame[12] == 0x86;
		at = ip6 ? 62 : 42;
		if (from.sll_pkttype == PACKET_OUTGOING || n < at + 8)
			continue;
		memcpy(id, frame + at, sizeof id);
		if (id[0] != MAGIC)
			continue;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
			if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS)
				memcpy(&t, CMSG_DATA(c), sizeof t);
		printf("left %lld %u %zd %u\n",
		       (long long)(t.tv_sec * 1000000000LL + t.tv_nsec - real_less_mono - zero), id[1], n,
		       ip6 ? (frame[14] & 15) << 4 | frame[15] >> 4 : frame[15]);
	}
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static unsigned folded(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static uint32_t summed(const uint8_t *at, int n)
{
	uint32_t sum = 0;

	for (int i = 0; i + 1 < n; i += 2)
		sum += at[i] << 8 | at[i + 1];
	return sum;
}

static void send_packet(uint32_t id, unsigned flow, unsigned length, unsigned tos, int ip6, unsigned segment)
{
	static uint8_t frame[1 << 17];
	struct virtio_net_hdr offload = { 0 };
	struct iovec parts[2] = { { &offload, sizeof offload }, { frame, length } };
	unsigned head = ip6 ? 62 : 42, udp = length - head + 8, step = segment ? segment : length;
	uint8_t *ip = frame + 14, *u = frame + head - 8;
	uint32_t mark[2] = { MAGIC, id }, pseudo;

	memset(frame, 0, length);
	memcpy(frame, "\2\0\0\0\0\1\2\0\0\0\0\0", 12);
	put16(frame + 12, ip6 ? 0x86dd : 0x0800);
	if (ip6) {
		ip[0] = 0x60 | tos >> 4;
		ip[1] = tos << 4;
		put16(ip + 4, udp);
		ip[6] = 17;
		ip[7] = 64;
		ip[8] = ip[24] = 0xfd;
		ip[22] = flow + 1;
		ip[21] = ip[37] = salt;
		ip[23] = 1;
		ip[38] = flow + 1;
		ip[39] = 2;
		pseudo = summed(ip + 8, 32) + 17 + udp;
	} else {
		ip[0] = 0x45;
		ip[1] = tos;
		put16(ip + 2, udp + 20);
		ip[8] = 64;
		ip[9] = 17;
		memcpy(ip + 12, "\12\1\0\0\12\2\0\0", 8);
		ip[14] = ip[18] = salt;
		ip[15] = ip[19] = flow + 1;
		put16(ip + 10, ~folded(summed(ip, 20)));
		pseudo = summed(ip + 12, 8) + 17 + udp;
	}
	put16(u, 1000 + 64 * salt + flow);
	put16(u + 2, 30000 + 64 * salt + flow);
	put16(u + 4, udp);
	for (unsigned at = head; at + 8 <= length; at += step)
		memcpy(frame + at, mark, sizeof mark);
	if (segment) {
		offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		offload.gso_type = GSO_UDP_L4;
		offload.hdr_len = head;
		offload.gso_size = segment;
		offload.csum_start = head - 8;
		offload.csum_offset = 6;
		put16(u + 6, folded(pseudo));
	}
	if (writev(sending, parts, 2) < 0)
		fail("packet %u: %s", id, strerror(errno));
}

int main(int argc, char **argv)
{
	static char line[1 << 16];
	int one = 1, sent = 0;
	FILE *plan = argc == 2 ? fopen(argv[1], "r") : NULL;

	if (!plan)
		fail("usage: packets PLAN");
	/* Else a sleep ends up to 50 microseconds late. */
	prctl(PR_SET_TIMERSLACK, 1);
	sending = opened("g0", 0);
	setsockopt(sending, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one);
	receiving = opened("in", ETH_P_ALL);
	start_tc();
	while (fgets(line, sizeof line, plan)) {
		long long at;
		unsigned id, flow, length, tos, ip6, segment;
		int words = 0;

		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "case %u %u", &id, &salt) == 2) {
			real_less_mono = now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC);
			zero = (now_of(CLOCK_MONOTONIC) / ALIGN + 1) * ALIGN + SETTLE;
			printf("case %u\n", id);
		} else if (sscanf(line, "tc %lld %n", &at, &words) == 1 && words) {
			sleep_until(zero + at);
			tell(line + words);
		} else if (sscanf(line, "packet %lld %u %u %u %u %u %u", &at, &id, &flow, &length, &tos, &ip6,
				  &segment) == 7 && length < sizeof line && length >= (ip6 ? 70 : 50)) {
			sleep_until(zero + at);
			send_packet(id, flow, length, tos, ip6, segment);
			if (++sent % READ_EVERY == 0)
				read_all();
		} else if (sscanf(line, "end %lld", &at) == 1) {
			sleep_until(zero + at);
			read_all();
			tell("qdisc show dev out");
			tell("qdisc del dev out root");
			read_all();
			printf("end\n");
			fflush(stdout);
		} else {
			fail("plan: %s", line);
		}
	}
	return 0;
}
