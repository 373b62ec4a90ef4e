// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The hosts of an experiment, its sampler and its capture, in one process.
 *
 *     lab PLAN OUTDIR
 *
 * PLAN is a text file, a line per thing (see plan_line); the namespaces that it names exist already.
 * One process, because every change of process costs much in User Mode Linux: a socket belongs to the
 * network namespace in which it was made, so one event loop can be all the hosts at once.
 *
 * OUTDIR gets packets.N.bin of link N and impaired.N.bin of impairments (struct packet), tcp.bin (struct tcp_sample), events.tsv, ticks.tsv,
 * tc.N.json and counters.txt. A .bin file begins with a struct format. With the word "pcap" in the plan there are also linkN.pcap,
 * and hostN.pcap of what passes the sender of flow N, where the plan asks for it. Times are ns since the start.
 *
 * With the word "live" in the plan there is no end: whenever it has come to the time that it was told, all files are
 * up to date and it waits for the next file ask.N with further lines of a plan, the last of them "until TIME SAMPLE";
 * "N done" in the file answers says that it has come there. Then arrivals.N.bin has each packet as it came.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/genetlink.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <linux/wireguard.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

#define NEVER UINT64_MAX
#define SNAP 96			/* Ethernet, IP and TCP with its usual options */
#define BLOCK (1u << 18)
#define BLOCKS 64u
#define HOST_BLOCKS 1024u	/* of all hosts together */
#define RETIRE_MS 100
#define SERVER_PORT 5001
#define SETTLE_MS 2000
#define CHUNK (256 * 1024)
#define NOTSENT (128 * 1024)	/* two of the largest TSO bursts wait in the socket */
#define PIECE_NS 1000000	/* between what an application with a rate writes */

/* The head of a .bin file; little endian, as all that follows. recording/observed.py reads it, and has the same number. */
#define FORMAT 4
/* Words of the largest `union tcp_cc_info`, which is BBR's, and one that makes the size of a sample a multiple of 8. */
#define CC_INFO (5 + 1)
struct format {
	char magic[8];
	u32 version, record_size;
};

/* A packet that came to a link. */
struct packet {
	u64 in_ns;
	u64 out_ns;		/* 0: it never left */
	u16 flow, conn, id, len;
	u8 ecn_in, ecn_out, payload, headers;	/* headers: bytes up to the payload */
	u32 number;		/* in the order of arrival; of programs, TCP's sequence number, else a hash */
	u32 fresh;		/* bytes of its payload that leave the link for the first time */
	u32 damaged;		/* whether its receiver will find a wrong checksum; looked at with the word "checksums" */
};

/* The headers of a packet. The addresses are IPv4's; those of IPv6 end with the ones of the same hosts (flows.py). */
struct ip {
	u8 *at, *src, *dst, *l4;
	u32 header, length;	/* bytes up to `l4`, and of the whole packet */
	u8 is_six, protocol, ecn, is_first, is_part;	/* of a datagram's fragments */
};

struct tcp_sample {
	u64 t_ns, bytes_acked, pacing_bps;
	u32 flow, conn, state, ecn_mode, cwnd, ssthresh, srtt_us, min_rtt_us;
	u32 retrans, delivered, delivered_ce, sndbuf_ms;
	u32 mss, in_flight;	/* in_flight: segments */
	u32 cc_info[CC_INFO];	/* what the congestion control tells, as `ss -i` shows it; 0 where it tells nothing */
};

/* As far as it is needed, of include/uapi/linux/tcp.h of 7.2: the system's own header may be older. */
struct info {
	u8 state, ca_state, retransmits, probes, backoff, options, wscale, flags;
	u32 rto, ato, snd_mss, rcv_mss, unacked, sacked, lost, retrans, fackets;
	u32 last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
	u32 pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss, reordering;
	u32 rcv_rtt, rcv_space, total_retrans;
	u64 pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
	u32 segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out;
	u64 delivery_rate, busy_time, rwnd_limited, sndbuf_limited;
	u32 delivered, delivered_ce;
	u64 bytes_sent, bytes_retrans;
	u32 dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd, rehash;
	u16 total_rto, total_rto_recoveries;
	u32 total_rto_time, received_ce;
	u32 delivered_bytes[3], received_bytes[3];
	u32 ecn;		/* mode: 2 bits */
};

enum kind { LISTENER, SENDER, RECEIVER, TAP, TIMER, PROGRAM };
struct conn;
struct handle {
	enum kind kind;
	void *of;
};

/* The connections of a flow; the one with number n has the first one's port + n. */
struct group {
	int listener, n;
	struct conn **conns;
	struct handle listening;
};

struct conn {
	int udp;
	u32 flow, conn;
	char client[32], server[32], cc[32], server_cc[32], from[32], to[32];
	u16 port;
	u64 start_ns, stop_ns, bytes, left, got, rate;	/* rate: pacing in bytes/s; of UDP, bit/s */
	u32 tos, payload, frame, batch;
	u64 next_ns, remainder, number, begun_ns;
	u64 app_bps, block, written, since_ns;	/* what the application writes; 0: it always has data */
	int fd, rfd, started, stopped, connected, shut, paused;
	struct handle sender, receiver;
};

struct entry {
	u64 key;
	struct packet p;
	u32 next, order;
};

/* What has left a link of a connection's payload: of TCP, stretches of bytes; of datagrams, the latest. */
#define DATAGRAMS_KNOWN 128
struct stretch {
	int64_t begin, end;
};
struct passed {
	u64 key;
	int64_t latest;			/* sequence number of the latest segment, which does not come round */
	struct stretch *stretches;	/* in order, apart from each other */
	u32 n, size, next;
	u16 ids[DATAGRAMS_KNOWN];
};

/* A file of packets. */
struct packets {
	int fd;
	u32 buffered;
	struct packet buffer[8192];
};

/* The headers of a packet in a tunnel, by what its message of WireGuard says outside. */
#define INSIDE (1u << 17)
#define STAGED (1u << 12)
struct inside {
	u64 counter;
	u32 receiver, captured;
	u8 headers[SNAP - ETH_HLEN];
};

struct tap {
	int tunnel, side, device;	/* of an end of a tunnel; its packets have numbers in the order of `staged` */
	struct inside *staged, *inside;
	u32 n_staged, n_numbered;
	u32 link, flow;			/* of a host: the flow whose packets are written down, 0: none */
	int is_impair;			/* `link` is the number of an impairment's namespace */
	char ns[32], dev[32], copies[32];	/* of a link in a host: the device that gets a copy of what comes to its queue */
	int fd, is_host, copies_index;
	u8 *ring, *at;
	u32 block, blocks, seen, *heads, heads_mask, used, size, free, arrived, order;
	struct entry *pool;
	struct passed **passed;
	u32 n_passed, passed_mask;
	FILE *pcap;
	struct handle handle;
	struct packets left, came;
};

struct reader {
	u32 link;
	char ns[32], dev[32];
	int ask, answer;
	FILE *out;
	pid_t pid;
};

/* A command in a namespace; or, without one, the rate of a flow. */
struct change {
	u64 t_ns, rate;
	u32 flow;
	int pauses, paused;
	char ns[32];
	char *command;
};

enum what { START, STOP, DATAGRAMS, PIECE, CHANGE, SAMPLE, END, PROGRAM_START, PROGRAM_STOP, LOOK };
struct event {
	u64 t_ns, number;
	enum what what;
	void *of;
};

static struct conn **conns;
static struct group groups[65536];
static struct tap *taps[8192];
static struct tap *tunnels[256][2];
static struct reader readers[1024];
static char *namespaces[262144];
static int n_conns, n_tunnels, n_taps, n_readers, n_namespaces, n_hosts, want_pcap, is_live, checksums;
static u64 duration_ns, warmup_ns, sample_ns, until_ns, zero_mono, zero_real;
static char out_dir[512];
static int ep, timer;
static u64 timer_at = NEVER;
static FILE *samples, *events, *ticks, *answers;
static struct event *heap;
static int heap_n, heap_size;
static u64 heap_count;
static char blob[CHUNK];

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *text, ...)
{
	va_list args;

	va_start(args, text);
	printf("FAILED: ");
	vprintf(text, args);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

/* Memory that was asked for. */
static void *had(void *memory)
{
	if (!memory)
		fail("out of memory");
	return memory;
}

/* Room for so many of a size, with what was there. */
static void *grown(void *old, size_t n, size_t size)
{
	return had(reallocarray(old, n, size));
}

static char *copied(const char *text)
{
	if (!text)
		fail("plan: a word is missing");
	return had(strdup(text));
}

/* The next place of a table, or the sentence that it is full. */
static int next_place(int *n, size_t size, const char *what)
{
	if ((size_t)*n >= size)
		fail("plan: more than %zu %s", size, what);
	return (*n)++;
}
#define PLACES(table) (sizeof(table) / sizeof(table)[0])

static u64 now_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

static u64 now(void)
{
	return now_of(CLOCK_MONOTONIC) - zero_mono;
}

static FILE *open_out(const char *name)
{
	char path[640];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", out_dir, name);
	f = fopen(path, "we");
	if (!f)
		fail("%s cannot be written: %s", name, strerror(errno));
	setvbuf(f, NULL, _IOFBF, 1 << 18);
	return f;
}

static void close_out(FILE *f, const char *name)
{
	if (fflush(f) || ferror(f) || fclose(f))
		fail("%s cannot be written: %s", name, strerror(errno));
}

static void enter(const char *ns)
{
	static char at[32];
	char path[64];
	int fd;

	if (!strcmp(at, ns))
		return;
	snprintf(path, sizeof path, "/run/netns/%s", ns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail("namespace %s cannot be entered: %s", ns, strerror(errno));
	close(fd);
	snprintf(at, sizeof at, "%s", ns);
}

/* ---- agenda ---- */

static int before(const struct event *a, const struct event *b)
{
	return a->t_ns != b->t_ns ? a->t_ns < b->t_ns : a->number < b->number;
}

static void schedule(u64 t_ns, enum what what, void *of)
{
	int i;

	if (heap_n == heap_size) {
		heap_size = heap_size ? 2 * heap_size : 1024;
		heap = grown(heap, heap_size, sizeof *heap);
	}
	struct event e = { t_ns, heap_count++, what, of };
	for (i = heap_n++; i && before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event take(void)
{
	struct event top = heap[0], last = heap[--heap_n];
	int i = 0, c;

	while ((c = 2 * i + 1) < heap_n) {
		if (c + 1 < heap_n && before(&heap[c + 1], &heap[c]))
			c++;
		if (!before(&heap[c], &last))
			break;
		heap[i] = heap[c];
		i = c;
	}
	heap[i] = last;
	return top;
}

static void arm(void)
{
	u64 at = heap[0].t_ns + zero_mono;
	struct itimerspec t = { .it_value = { at / 1000000000, at % 1000000000 } };

	if (at == timer_at)
		return;
	timer_at = at;
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void watch(int fd, u32 what, struct handle *h)
{
	struct epoll_event e = { .events = what, .data.ptr = h };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e))
		fail("epoll: %s", strerror(errno));
}

static struct group *group_of(u32 flow)
{
	if (flow >= PLACES(groups))
		fail("plan: flow %u; the last one is %zu", flow, PLACES(groups) - 1);
	return &groups[flow];
}

/* ---- programs ---- */

#include "programs.h"

/* ---- capture: when a packet reaches a link's queue and when it leaves it ---- */

static struct format format_of(u32 record_size)
{
	return (struct format){ "l4slab", FORMAT, record_size };
}

static void open_packets(struct packets *p, const char *name, u32 link)
{
	struct format head = format_of(sizeof(struct packet));
	char path[640];

	snprintf(path, sizeof path, "%s/%s.%u.bin", out_dir, name, link);
	p->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (p->fd < 0 || write(p->fd, &head, sizeof head) != sizeof head)
		fail("packets cannot be written: %s", strerror(errno));
}

static void flush_packets(struct packets *p)
{
	size_t size = p->buffered * sizeof(struct packet), done = 0;

	while (done < size) {
		ssize_t n = write(p->fd, (char *)p->buffer + done, size - done);

		if (n <= 0)
			fail("packets cannot be written: %s", strerror(errno));
		done += n;
	}
	p->buffered = 0;
}

static void put_packet(struct packets *to, const struct packet *p)
{
	to->buffer[to->buffered++] = *p;
	if (to->buffered == sizeof to->buffer / sizeof to->buffer[0])
		flush_packets(to);
}

static u32 slot(const struct tap *t, u64 key)
{
	return (u32)((key * 0x9e3779b97f4a7c15ull) >> 40) & t->heads_mask;
}

/*
 * Packets with the same number are copies of one, the first of which leaves first; if so many have come between them
 * that the number may have come round, the earlier one was dropped.
 */
static void arrived(struct tap *t, u64 key, const struct packet *p, u32 round)
{
	u32 i, order = t->order++, *link;

	if (is_live)
		put_packet(&t->came, p);
	for (i = t->heads[slot(t, key)]; i; i = t->pool[i].next)
		if (t->pool[i].key == key && order - t->pool[i].order > round) {
			put_packet(&t->left, &t->pool[i].p);
			t->pool[i].p = *p;
			t->pool[i].order = order;
			return;
		}
	if (t->free) {
		i = t->free;
		t->free = t->pool[i].next;
	} else {
		if (t->used == t->size) {
			t->size *= 2;
			t->pool = grown(t->pool, t->size, sizeof *t->pool);
		}
		i = t->used++;
	}
	t->pool[i] = (struct entry){ .key = key, .p = *p, .order = order };
	for (link = &t->heads[slot(t, key)]; *link; link = &t->pool[*link].next)
		;
	*link = i;
}

static struct passed *passed_of(struct tap *t, u32 flow, u32 conn)
{
	u64 key = (u64)flow << 32 | conn;
	u32 at;

	if (2 * t->n_passed >= t->passed_mask) {
		u32 old_mask = t->passed_mask;
		struct passed **old = t->passed;

		t->passed_mask = old ? 2 * old_mask + 1 : 255;
		t->passed = had(calloc(t->passed_mask + 1, sizeof *t->passed));
		for (u32 i = 0; old && i <= old_mask; i++) {
			if (!old[i])
				continue;
			for (at = (u32)((old[i]->key * 0x9e3779b97f4a7c15ull) >> 32) & t->passed_mask; t->passed[at];)
				at = (at + 1) & t->passed_mask;
			t->passed[at] = old[i];
		}
		free(old);
	}
	for (at = (u32)((key * 0x9e3779b97f4a7c15ull) >> 32) & t->passed_mask; t->passed[at]; at = (at + 1) & t->passed_mask)
		if (t->passed[at]->key == key)
			return t->passed[at];
	t->n_passed++;
	t->passed[at] = had(calloc(1, sizeof **t->passed));
	t->passed[at]->key = key;
	return t->passed[at];
}

/* How many of these bytes have not been there; now they have. */
static u32 add_stretch(struct passed *p, int64_t begin, int64_t end)
{
	u32 from = p->n, to, fresh = end - begin;
	struct stretch whole = { begin, end };

	/* Most segments go on where the last stretch ends. */
	while (from && p->stretches[from - 1].end >= begin)
		from--;
	for (to = from; to < p->n && p->stretches[to].begin <= end; to++) {
		struct stretch s = p->stretches[to];
		int64_t low = s.begin > begin ? s.begin : begin, high = s.end < end ? s.end : end;

		if (high > low)
			fresh -= high - low;
		if (s.begin < whole.begin)
			whole.begin = s.begin;
		if (s.end > whole.end)
			whole.end = s.end;
	}
	if (from == to && p->n == p->size) {
		p->size = p->size ? 2 * p->size : 4;
		p->stretches = grown(p->stretches, p->size, sizeof *p->stretches);
	}
	memmove(p->stretches + from + 1, p->stretches + to, (p->n - to) * sizeof *p->stretches);
	p->stretches[from] = whole;
	p->n += 1 - (to - from);
	return fresh;
}

/* Bytes of a packet's payload that leave the link for the first time. */
static u32 fresh_bytes(struct tap *t, const struct packet *packet, u32 bytes, const struct ip *ip)
{
	struct passed *p = passed_of(t, packet->flow, packet->conn);
	const u8 *l4 = ip->l4;

	if (ip->protocol == IPPROTO_TCP) {
		u32 seq = (u32)l4[4] << 24 | l4[5] << 16 | l4[6] << 8 | l4[7];

		/* Far from zero, so that what comes before the first one has a number, too. */
		p->latest = p->n ? p->latest + (int32_t)(seq - (u32)p->latest) : (1ll << 40) + seq;
		return add_stretch(p, p->latest, p->latest + bytes);
	}
	/* Unconnected sockets of programs number none of their datagrams. */
	if (is_program[packet->flow])
		return bytes;
	for (u32 i = 0; i < DATAGRAMS_KNOWN && i < p->n; i++)
		if (p->ids[i] == packet->id)
			return 0;
	p->ids[p->next] = packet->id;
	p->next = (p->next + 1) % DATAGRAMS_KNOWN;
	p->n++;
	return bytes;
}

static void departed(struct tap *t, u64 key, u64 out_ns, u8 ecn, u32 fresh, int damaged)
{
	u32 i, *link = &t->heads[slot(t, key)];

	for (; (i = *link); link = &t->pool[i].next)
		if (t->pool[i].key == key) {
			t->pool[i].p.out_ns = out_ns;
			t->pool[i].p.ecn_out = ecn;
			t->pool[i].p.fresh = fresh;
			t->pool[i].p.damaged = damaged;
			put_packet(&t->left, &t->pool[i].p);
			*link = t->pool[i].next;
			t->pool[i].next = t->free;
			t->free = i;
			return;
		}
}

static void write_pcap(struct tap *t, const u8 *frame, u64 t_ns, u32 caplen, u32 len, int out)
{
	u32 head[4] = { t_ns / 1000000000, t_ns % 1000000000, caplen, len };

	/* The second byte of the source address tells arrivals (0) from departures (1). */
	u8 copy[SNAP];
	memcpy(copy, frame, caplen);
	copy[7] = out;
	fwrite(head, sizeof head, 1, t->pcap);
	fwrite(copy, caplen, 1, t->pcap);
}

/*
 * In a link's queue, a flow on a host that others share has that host's address, and a server port of its own. Its
 * frame's source address is 06:00:00:B:x:y: flow x.y, and of B = 1 on the way back.
 */
static void take_off_host(u8 *f, struct ip *ip)
{
	u8 back = f[9];

	if (f[6] != 6)
		return;
	memcpy(ip->src, (u8[]){ 10, back ? 224 : 208, f[10], f[11] }, 4);
	memcpy(ip->dst, (u8[]){ 10, back ? 208 : 224, f[10], f[11] }, 4);
	if (!is_program[f[10] << 8 | f[11]])
		memcpy(ip->l4 + (back ? 0 : 2), (u8[]){ SERVER_PORT >> 8, SERVER_PORT & 255 }, 2);
	f[6] = 2;
}

/* What is captured of a frame reaches to the end of what is read of it; of fragments but the first, that is no header. */
static int read_headers(u8 *frame, u32 captured, struct ip *p)
{
	u8 *ip = frame + ETH_HLEN;

	if (captured < ETH_HLEN + 28 || captured > SNAP)
		return 0;
	u32 rest = captured - ETH_HLEN;

	if (frame[12] == ETH_P_IP >> 8) {
		*p = (struct ip){ .at = ip, .src = ip + 12, .dst = ip + 16, .header = (ip[0] & 15) * 4,
				  .length = ip[2] << 8 | ip[3], .protocol = ip[9], .ecn = ip[1] & 3,
				  .is_first = !((ip[6] & 0x1f) | ip[7]), .is_part = !!((ip[6] & 0x3f) | ip[7]) };
	} else {
		*p = (struct ip){ .at = ip, .src = ip + 20, .dst = ip + 36, .header = 40, .is_six = 1,
				  .length = 40 + (ip[4] << 8 | ip[5]), .protocol = ip[6], .ecn = ip[1] >> 4 & 3,
				  .is_first = 1 };
		if (p->protocol == IPPROTO_FRAGMENT && rest >= 48) {
			p->header = 48;
			p->protocol = ip[40];
			p->is_first = !(ip[42] | ip[43] >> 3);
			p->is_part = 1;
		}
	}
	p->l4 = ip + p->header;
	return p->header >= 20 && rest >= p->header + (p->protocol == IPPROTO_TCP && p->is_first ? 20 : 8);
}

static u32 sum_of(const u8 *bytes, u32 n, u32 sum)
{
	for (; n > 1; n -= 2, bytes += 2)
		sum += bytes[0] << 8 | bytes[1];
	return n ? sum + (bytes[0] << 8) : sum;
}

/* Whether a checksum is wrong that was calculated over this, too. */
static int is_wrong(u32 sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum != 0xffff;
}

/* Whether the next host drops a frame that netem damaged: for its address, or for the checksum of its IPv4 header. */
static int is_lost_on_the_way(const struct sockaddr_ll *ll, const struct ip *ip)
{
	return ll->sll_pkttype == PACKET_OTHERHOST || (!ip->is_six && is_wrong(sum_of(ip->at, ip->header, 0)));
}

/* Whether a whole packet has a wrong checksum of TCP or UDP. Without one, and with parts of a datagram, nobody knows. */
static int is_damaged(const struct ip *ip, u32 size)
{
	u32 length = ip->length - ip->header;
	const u8 *l4 = ip->l4;

	if ((ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP) || ip->is_part)
		return 0;
	if (ip->length > size)
		return 1;
	if (ip->protocol == IPPROTO_UDP) {
		u32 told = l4[4] << 8 | l4[5];

		if (!(l4[6] | l4[7]))
			return 0;
		if (told < 8 || told > length)
			return 1;
		length = told;
	}
	u32 addresses = ip->is_six ? sum_of(ip->at + 8, 32, 0) : sum_of(ip->at + 12, 8, 0);

	return is_wrong(sum_of(l4, length, addresses + ip->protocol + length));
}

/* The message of WireGuard with data in a packet from 10.200.TUNNEL.SIDE + 1; a keepalive has none. */
static const u8 *message_of(const struct ip *ip, u32 captured)
{
	const u8 *m = ip->l4 + 8;

	if (ip->is_six || ip->protocol != IPPROTO_UDP || ip->src[0] != 10 || ip->src[1] != 200 || captured < ETH_HLEN + 44)
		return NULL;
	return m[0] == 4 && ip->length > ip->header + 8 + 32 ? m : NULL;
}

static struct inside *inside_of(struct tap *end, const u8 *message, u64 *counter, u32 *receiver)
{
	memcpy(receiver, message + 4, 4);
	memcpy(counter, message + 8, 8);
	return &end->inside[*counter % INSIDE];
}

/* What an end of a tunnel sends: first the packet to its device, then, in the same order, the message that carries it. */
static void see_end(struct tap *t, const struct tpacket3_hdr *h, const struct sockaddr_ll *ll, u8 *f)
{
	struct inside *to, *from;
	const u8 *message;
	struct ip ip;

	if (ll->sll_pkttype != PACKET_OUTGOING)
		return;
	if (ll->sll_ifindex == t->device) {
		to = &t->staged[t->n_staged++ % STAGED];
		to->captured = h->tp_snaplen < sizeof to->headers ? h->tp_snaplen : sizeof to->headers;
		memcpy(to->headers, f, to->captured);
		return;
	}
	if (!read_headers(f, h->tp_snaplen, &ip) || !(message = message_of(&ip, h->tp_snaplen)))
		return;
	if (t->n_numbered == t->n_staged || t->n_staged - t->n_numbered > STAGED)
		fail("tunnel %d sends what nobody gave it", t->tunnel);
	from = &t->staged[t->n_numbered++ % STAGED];
	to = inside_of(t, message, &from->counter, &from->receiver);
	*to = *from;
}

/* A packet in a tunnel looks as it does inside, but for its length and its ECN field. */
static u8 *unwrapped(u8 *frame, u32 *captured, struct ip *ip)
{
	static u8 inner[SNAP];
	const u8 *message;
	struct inside *found;
	u32 receiver;
	u64 counter;
	u8 ecn = ip->ecn;

	if (!n_tunnels || ip->is_six || ip->src[0] != 10 || ip->src[1] != 200)
		return frame;
	message = message_of(ip, *captured);
	if (!message)
		return NULL;
	found = inside_of(tunnels[ip->src[2]][ip->src[3] - 1], message, &counter, &receiver);
	if (found->counter != counter || found->receiver != receiver)
		return NULL;
	memcpy(inner, frame, ETH_HLEN);
	memcpy(inner + ETH_HLEN, found->headers, found->captured);
	*captured = ETH_HLEN + found->captured;
	if (!read_headers(inner, *captured, ip))
		return NULL;
	ip->ecn = ecn;
	return inner;
}

static void see(struct tap *t, struct tpacket3_hdr *h)
{
	const struct sockaddr_ll *ll = (const void *)((const u8 *)h + TPACKET_ALIGN(sizeof *h));
	u8 *f = (u8 *)h + h->tp_mac;
	u32 size = h->tp_snaplen;
	int damaged = 0;
	struct ip ip;

	if (t->tunnel)
		return see_end(t, h, ll, f);
	/* What comes to a host is not for the queue in it. */
	if (t->copies_index && ll->sll_pkttype != PACKET_OUTGOING)
		return;
	if (checksums && size > SNAP)
		h->tp_snaplen = SNAP;
	if (!read_headers(f, h->tp_snaplen, &ip))
		return;
	if (checksums) {
		if (is_lost_on_the_way(ll, &ip))
			return;
		/* What its sender's device was to calculate, netem has not damaged: it calculates that first. */
		damaged = !(h->tp_status & TP_STATUS_CSUMNOTREADY) && is_damaged(&ip, size - ETH_HLEN);
	}
	u32 captured = h->tp_snaplen;
	u8 *seen = unwrapped(f, &captured, &ip);

	if (!seen)
		return;
	take_off_host(seen, &ip);
	const u8 *src = ip.src, *dst = ip.dst, *l4 = ip.l4;
	u64 t_ns = (u64)h->tp_sec * 1000000000 + h->tp_nsec - zero_real;
	int out = ll->sll_pkttype == PACKET_OUTGOING && (!t->copies_index || ll->sll_ifindex != t->copies_index), ack = src[0] == 10 && src[1] >= 224;
	u32 src_port = l4[0] << 8 | l4[1], dst_port = l4[2] << 8 | l4[3];
	struct packet p = { .in_ns = t_ns };
	u64 key;

	if ((int64_t)t_ns < 0)
		return;
	/* Senders are 10.208.x.y, receivers 10.224.x.y: x.y is the flow. The sender's port is the connection. */
	p.flow = src[2] << 8 | src[3];
	p.conn = ack ? dst_port : src_port;
	p.id = ip.at[4] << 8 | ip.at[5];
	p.len = h->tp_len;
	p.ecn_in = ip.ecn;
	u32 headers = ip.header + (ip.protocol == 6 ? (l4[12] >> 4) * 4 : 8);
	key = (u64)p.flow << 40 | (u64)p.conn << 24 | (u64)p.id << 8 | ack;
	if (is_program[p.flow]) {
		/* What goes from a host to itself is no packet of the flow. */
		if (src[0] != 10 || dst[0] != 10 || (src[1] >= 224) == (dst[1] >= 224))
			return;
		struct program_frame frame = program_frame(&ip, h->tp_snaplen - ETH_HLEN, p.flow, ack);

		if (t->is_host) {
			see_at_client(&frame, client_sends[p.flow] ? !ack : ack, t_ns);
			return;
		}
		p.conn = frame.pair;
		p.number = frame.seq;
		headers = frame.headers;
		key = frame.hash;
		/* IPv6 numbers no packets, and no checksum is of its addresses alone. */
		if (ip.is_six) {
			if (memcmp(src + 2, dst + 2, 2))
				return;
			p.id = frame.hash;
		}
	} else if (ip.is_six) {
		return;
	}
	p.headers = ETH_HLEN + headers;
	p.payload = (ack ? 2 : 0) | (ip.length > headers);
	if (t->pcap)
		write_pcap(t, f, t_ns, h->tp_snaplen, h->tp_len, out);
	if (t->is_host)
		return;
	if (out) {
		u32 bytes = ip.length - headers;

		departed(t, key, t_ns, p.ecn_in, p.payload == 1 && !damaged ? fresh_bytes(t, &p, bytes, &ip) : 0, damaged);
	} else {
		if (!is_program[p.flow])
			p.number = t->arrived++;
		arrived(t, key, &p, is_program[p.flow] ? 0 : 32768);
	}
}

/*
 * Takes what was captured. Blocks are handed over when they are full or old; in_open: also what the open block has so
 * far. There is one processor, so while this runs nobody writes there.
 */
static void drain(struct tap *t, int in_open)
{
	/* What links saw has come out of a tunnel's end before. */
	for (int i = 0; !t->tunnel && i < n_tunnels; i++)
		for (int side = 0; side < 2; side++)
			if (tunnels[i + 1][side])
				drain(tunnels[i + 1][side], 1);
	for (;;) {
		struct tpacket_block_desc *b = (void *)(t->ring + (size_t)t->block * BLOCK);
		struct tpacket_hdr_v1 *v = &b->hdr.bh1;
		int is_ours = v->block_status & TP_STATUS_USER;

		if (!is_ours && !in_open)
			return;
		if (!t->seen)
			t->at = (u8 *)b + v->offset_to_first_pkt;
		for (; t->seen < v->num_pkts; t->seen++) {
			struct tpacket3_hdr *h = (void *)t->at;

			see(t, h);
			t->at += h->tp_next_offset;
		}
		if (!is_ours)
			return;
		t->seen = v->num_pkts = 0;
		v->block_status = TP_STATUS_KERNEL;
		t->block = (t->block + 1) % t->blocks;
	}
}

static void open_pcap(struct tap *t, const char *what, u32 number)
{
	u32 head[6] = { 0xa1b23c4d, 2 | 4 << 16, 0, 0, SNAP, 1 };
	char name[64];

	snprintf(name, sizeof name, "%s%u.pcap", what, number);
	t->pcap = open_out(name);
	fwrite(head, sizeof head, 1, t->pcap);
}

/* ---- tunnels ---- */

/* The keys of both ends of every tunnel are no secret: the private one of side S has the bytes 32 S, 32 S + 1 and so on. */
static const char *const public_keys[2] = {
	"8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f",
	"358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd166254",
};

static void put(struct nlmsghdr *n, u16 type, const void *data, u16 size)
{
	struct nlattr *a = (void *)((u8 *)n + NLMSG_ALIGN(n->nlmsg_len));

	*a = (struct nlattr){ .nla_len = NLA_HDRLEN + size, .nla_type = type };
	if (size)
		memcpy(a + 1, data, size);
	n->nlmsg_len = NLMSG_ALIGN(n->nlmsg_len) + NLA_ALIGN(a->nla_len);
}

/* Begins an attribute that holds others; `end_nest` takes what this returns. */
static struct nlattr *nest(struct nlmsghdr *n, u16 type)
{
	struct nlattr *a = (void *)((u8 *)n + n->nlmsg_len);

	put(n, type | NLA_F_NESTED, NULL, 0);
	return a;
}

static void end_nest(struct nlmsghdr *n, struct nlattr *a)
{
	a->nla_len = (u8 *)n + n->nlmsg_len - (u8 *)a;
}

/* Sends a request of generic netlink and puts the answer into its place, which has room for a page. */
static void ask_netlink(struct nlmsghdr *n, u16 family)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

	n->nlmsg_type = family;
	if (fd < 0 || sendto(fd, n, n->nlmsg_len, 0, (void *)&kernel, sizeof kernel) < 0 || recv(fd, n, 4096, 0) < 0)
		fail("generic netlink: %s", strerror(errno));
	const struct nlmsgerr *told = NLMSG_DATA(n);

	if (n->nlmsg_type == NLMSG_ERROR && told->error)
		fail("the kernel's WireGuard: %s", strerror(-told->error));
	close(fd);
}

static struct nlmsghdr *request(void *buffer, u16 flags, u8 command)
{
	struct nlmsghdr *n = memset(buffer, 0, 4096);
	struct genlmsghdr *g = NLMSG_DATA(n);

	n->nlmsg_flags = NLM_F_REQUEST | flags;
	n->nlmsg_len = NLMSG_LENGTH(sizeof *g);
	*g = (struct genlmsghdr){ .cmd = command, .version = 1 };
	return n;
}

static u16 family_of_wireguard(void)
{
	static _Alignas(8) u8 buffer[4096];
	struct nlmsghdr *n = request(buffer, 0, CTRL_CMD_GETFAMILY);

	put(n, CTRL_ATTR_FAMILY_NAME, WG_GENL_NAME, sizeof WG_GENL_NAME);
	ask_netlink(n, GENL_ID_CTRL);
	for (u32 at = NLMSG_LENGTH(GENL_HDRLEN); at + NLA_HDRLEN <= n->nlmsg_len;) {
		const struct nlattr *a = (void *)((u8 *)n + at);

		if (a->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(const u16 *)(a + 1);
		at += a->nla_len ? NLA_ALIGN(a->nla_len) : 4096;
	}
	fail("the kernel has no WireGuard");
}

/* Gives an end its keys and the other end, in the namespace of this process. The first one shakes hands at once. */
static void set_up_end(const struct tap *t)
{
	static _Alignas(8) u8 buffer[4096];
	u16 family = family_of_wireguard(), port = 51820, never = t->side ? 0 : UINT16_MAX, inet = AF_INET;
	u8 all[4] = { 0 }, none = 0, key[WG_KEY_LEN], peer_key[WG_KEY_LEN];
	char other[32];
	struct nlmsghdr *n = request(buffer, NLM_F_ACK, WG_CMD_SET_DEVICE);

	snprintf(other, sizeof other, "10.200.%d.%d", t->tunnel, 2 - t->side);
	struct sockaddr_in endpoint = { .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, other, &endpoint.sin_addr);
	put(n, WGDEVICE_A_IFNAME, "wg", 3);
	for (int i = 0; i < WG_KEY_LEN; i++) {
		key[i] = WG_KEY_LEN * t->side + i;
		sscanf(public_keys[!t->side] + 2 * i, "%2hhx", &peer_key[i]);
	}
	put(n, WGDEVICE_A_PRIVATE_KEY, key, sizeof key);
	put(n, WGDEVICE_A_LISTEN_PORT, &port, sizeof port);
	struct nlattr *peers = nest(n, WGDEVICE_A_PEERS), *peer = nest(n, 0);
	put(n, WGPEER_A_PUBLIC_KEY, peer_key, sizeof peer_key);
	put(n, WGPEER_A_ENDPOINT, &endpoint, sizeof endpoint);
	put(n, WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, &never, sizeof never);
	struct nlattr *allowed = nest(n, WGPEER_A_ALLOWEDIPS), *range = nest(n, 0);
	put(n, WGALLOWEDIP_A_FAMILY, &inet, sizeof inet);
	put(n, WGALLOWEDIP_A_IPADDR, all, sizeof all);
	put(n, WGALLOWEDIP_A_CIDR_MASK, &none, sizeof none);
	end_nest(n, range);
	end_nest(n, allowed);
	end_nest(n, peer);
	end_nest(n, peers);
	/* For 20 ms since the start of the kernel a peer takes a handshake for one of a flood. The next try is 5 s later. */
	if (!t->side)
		usleep(100 * 1000);
	ask_netlink(n, family);
}

static void open_tap(struct tap *t)
{
	/* IP only, SNAP bytes of it; all where checksums are looked at. */
	struct sock_filter code[] = {
		{ BPF_LD | BPF_H | BPF_ABS, 0, 0, 12 },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ETH_P_IP },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, ETH_P_IPV6 },
		{ BPF_RET | BPF_K, 0, 0, checksums ? UINT16_MAX : SNAP },
		{ BPF_RET | BPF_K, 0, 0, 0 },
	};
	/* The device of a tunnel has packets without Ethernet. */
	if (t->tunnel)
		code[0] = (struct sock_filter){ BPF_RET | BPF_K, 0, 0, SNAP };
	struct sock_fprog filter = { PLACES(code), code };
	u32 share = n_hosts ? HOST_BLOCKS / n_hosts : 0;

	t->blocks = !t->is_host || share > BLOCKS ? BLOCKS : share < 2 ? 2 : share;
	size_t size = (size_t)BLOCK * t->blocks;
	struct tpacket_req3 req = {
		.tp_block_size = BLOCK, .tp_block_nr = t->blocks, .tp_frame_size = 256,
		.tp_frame_nr = BLOCK / 256 * t->blocks, .tp_retire_blk_tov = RETIRE_MS,
	};
	int version = TPACKET_V3;

	enter(t->ns);
	t->copies_index = if_nametoindex(t->copies);
	t->fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (t->fd < 0 || setsockopt(t->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
	    setsockopt(t->fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) ||
	    setsockopt(t->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof req))
		fail("capture of link %u: %s", t->link, strerror(errno));
	t->ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	struct sockaddr_ll all = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	/* User Mode Linux cannot copy such a mapping. */
	if (t->ring == MAP_FAILED || madvise(t->ring, size, MADV_DONTFORK) || bind(t->fd, (void *)&all, sizeof all))
		fail("capture of link %u: %s", t->link, strerror(errno));
	t->handle = (struct handle){ TAP, t };
	watch(t->fd, EPOLLIN, &t->handle);
	if (t->flow)
		open_pcap(t, "host", t->flow);
	if (t->tunnel) {
		t->device = if_nametoindex("wg");
		t->staged = had(calloc(STAGED, sizeof *t->staged));
		t->inside = had(calloc(INSIDE, sizeof *t->inside));
		set_up_end(t);
	}
	if (t->is_host || t->tunnel)
		return;
	t->heads_mask = (1 << 16) - 1;
	t->heads = had(calloc(t->heads_mask + 1, sizeof *t->heads));
	t->size = 1 << 12;
	t->pool = grown(NULL, t->size, sizeof *t->pool);
	t->used = 1;
	open_packets(&t->left, t->is_impair ? "impaired" : "packets", t->link);
	if (is_live)
		open_packets(&t->came, "arrivals", t->link);
	if (want_pcap && !t->is_impair)
		open_pcap(t, "link", t->link);
}

static void close_tap(struct tap *t)
{
	struct tpacket_stats_v3 stats;
	socklen_t size = sizeof stats;

	drain(t, 0);
	if (t->pcap)
		close_out(t->pcap, "a capture");
	if (t->tunnel || (t->is_host && !t->flow))
		return;
	getsockopt(t->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
	fprintf(events, "%llu\t%s\t%u\t%u\t%u\n", (unsigned long long)now(), t->flow ? "capture at" : t->is_impair ? "capture impair" : "capture",
		t->flow ? t->flow : t->link, stats.tp_packets, stats.tp_drops);
	if (t->is_host)
		return;
	for (u32 h = 0; h <= t->heads_mask; h++)
		for (u32 i = t->heads[h]; i; i = t->pool[i].next)
			put_packet(&t->left, &t->pool[i].p);
	flush_packets(&t->left);
	if (close(t->left.fd))
		fail("packets cannot be written: %s", strerror(errno));
}

/* ---- hosts ---- */

static struct sockaddr_in address(const char *ip, u16 port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
		fail("%s is not an address", ip);
	return a;
}

static void congestion_control(int fd, const char *name)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)))
		fail("the kernel has no congestion control %s: %s", name, strerror(errno));
}

static void make_listener(struct group *g, const struct conn *c)
{
	struct sockaddr_in here = address(c->to, SERVER_PORT);
	int one = 1;

	enter(c->server);
	g->listener = socket(AF_INET, (c->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (g->listener < 0)
		fail("flow %u cannot listen: %s", c->flow, strerror(errno));
	setsockopt(g->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (!c->udp)
		congestion_control(g->listener, c->server_cc);
	if (bind(g->listener, (void *)&here, sizeof here) ||
	    (!c->udp && listen(g->listener, 65535)))
		fail("flow %u cannot listen: %s", c->flow, strerror(errno));
	g->listening = (struct handle){ LISTENER, g };
	/* Datagrams are counted where they leave the last link; nobody reads them. */
	if (!c->udp)
		watch(g->listener, EPOLLIN, &g->listening);
}

static void make_sender(struct conn *c)
{
	struct sockaddr_in here = address(c->from, c->port), there = address(c->to, SERVER_PORT);
	int one = 1, do_ = IP_PMTUDISC_DO, lowat = NOTSENT;

	enter(c->client);
	c->fd = socket(AF_INET, (c->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		fail("flow %u cannot send: %s", c->flow, strerror(errno));
	setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	/* Of TCP the kernel takes the DSCP only. */
	setsockopt(c->fd, IPPROTO_IP, IP_TOS, &c->tos, sizeof c->tos);
	if (c->udp) {
		int buffer = 64 << 20;

		setsockopt(c->fd, IPPROTO_IP, IP_MTU_DISCOVER, &do_, sizeof do_);
		setsockopt(c->fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
	} else {
		congestion_control(c->fd, c->cc);
		setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof lowat);
		if (c->app_bps)
			setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		if (c->rate && setsockopt(c->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &c->rate, sizeof c->rate))
			fail("flow %u cannot be paced: %s", c->flow, strerror(errno));
	}
	if (bind(c->fd, (void *)&here, sizeof here))
		fail("flow %u cannot send: %s", c->flow, strerror(errno));
	if (c->udp && connect(c->fd, (void *)&there, sizeof there))
		fail("flow %u cannot send: %s", c->flow, strerror(errno));
	c->sender = (struct handle){ SENDER, c };
}

/* Its sockets, and when it begins and ends. */
static void make_ends(struct conn *c)
{
	struct group *g = group_of(c->flow);

	if (c->conn == 0)
		make_listener(g, c);
	g->conns = grown(g->conns, g->n + 1, sizeof *g->conns);
	g->conns[g->n++] = c;
	make_sender(c);
	if (c->start_ns < duration_ns)
		schedule(c->start_ns, START, c);
	if (c->stop_ns < duration_ns)
		schedule(c->stop_ns, STOP, c);
}

static void start(struct conn *c)
{
	struct sockaddr_in there = address(c->to, SERVER_PORT);

	if (c->stopped)
		return;
	c->started = 1;
	c->begun_ns = c->start_ns;
	fprintf(events, "%llu\tstart\t%u\t%u\n", (unsigned long long)c->start_ns, c->flow, c->conn);
	if (c->udp) {
		c->next_ns = c->start_ns;
		schedule(c->next_ns, DATAGRAMS, c);
		return;
	}
	if (connect(c->fd, (void *)&there, sizeof there) && errno != EINPROGRESS)
		fail("flow %u cannot connect: %s", c->flow, strerror(errno));
	watch(c->fd, EPOLLOUT | EPOLLET, &c->sender);
}

static void half_close(struct conn *c)
{
	if (!c->shut)
		shutdown(c->fd, SHUT_WR);
	c->shut = 1;
}

static void stop(struct conn *c)
{
	c->stopped = 1;
	if (!c->udp && c->started)
		half_close(c);
}

/* From then on an application with a rate writes, or rests. */
static void go_on(struct conn *c, u64 t_ns)
{
	c->written = 0;
	c->since_ns = t_ns;
	c->next_ns = c->connected && !c->stopped && !c->paused ? t_ns : NEVER;
	if (c->next_ns != NEVER)
		schedule(c->next_ns, PIECE, c);
}

static void fill(struct conn *c)
{
	int error = 0;
	socklen_t size = sizeof error;

	if (!c->connected) {
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
		if (error) {
			fprintf(events, "%llu\terror\t%u\t%u\t%s\n", (unsigned long long)now(), c->flow, c->conn,
				strerror(error));
			c->stopped = 1;
			return;
		}
		c->connected = 1;
		if (c->app_bps)
			go_on(c, now());
	}
	while (!c->stopped && c->left) {
		ssize_t n = send(c->fd, blob, c->left < CHUNK ? c->left : CHUNK, MSG_NOSIGNAL);

		if (n <= 0) {
			if (errno != EAGAIN)
				fprintf(events, "%llu\terror\t%u\t%u\t%s\n", (unsigned long long)now(), c->flow,
					c->conn, strerror(errno));
			return;
		}
		if (c->bytes != NEVER || c->app_bps)
			c->left -= n;
	}
	if (!c->left && !c->app_bps)
		half_close(c);
}

/*
 * An application with a rate has come to the time of its next piece, or block. The law is that of the simulator
 * (crates/core/src/traffic/tcp/writer.rs): pieces of a millisecond, of which two may wait, or blocks at the mean rate,
 * of which one may wait.
 */
static void write_piece(struct conn *c, u64 t_ns)
{
	int in_socket = 0;
	u64 bytes, unsent, wait = PIECE_NS;

	if (c->stopped || t_ns != c->next_ns)
		return;
	ioctl(c->fd, SIOCOUTQNSD, &in_socket);
	unsent = c->left + (u64)in_socket;
	if (c->block) {
		u64 due;

		bytes = unsent < c->block ? c->block : 0;
		c->written += bytes;
		due = c->since_ns + (u64)((unsigned __int128)c->written * 8000000000 / c->app_bps);
		wait = due > t_ns ? (due - t_ns + PIECE_NS - 1) / PIECE_NS * PIECE_NS : PIECE_NS;
	} else {
		u64 bits = c->app_bps + c->remainder;

		bytes = bits / 8000;
		c->remainder = bits % 8000;
		if (bytes + unsent > 2 * bytes)
			bytes = 2 * bytes > unsent ? 2 * bytes - unsent : 0;
	}
	c->next_ns = t_ns + wait;
	schedule(c->next_ns, PIECE, c);
	c->left += bytes;
	fill(c);
}

static void accept_all(const struct group *g)
{
	struct sockaddr_in peer;
	socklen_t size = sizeof peer;
	int fd;

	while ((fd = accept4(g->listener, (void *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		int number = ntohs(peer.sin_port) - g->conns[0]->port;

		size = sizeof peer;
		if (number < 0 || number >= g->n) {
			close(fd);
			continue;
		}
		struct conn *c = g->conns[number];

		c->rfd = fd;
		c->receiver = (struct handle){ RECEIVER, c };
		watch(fd, EPOLLIN, &c->receiver);
	}
}

static void read_all(struct conn *c)
{
	/* MSG_TRUNC: the data are thrown away in the kernel. A short read has emptied the socket. */
	ssize_t n = recv(c->rfd, NULL, 1 << 30, MSG_TRUNC);

	if (n > 0) {
		c->got += n;
		if (c->got == c->bytes)
			fprintf(events, "%llu\tcomplete\t%u\t%u\t%llu\n", (unsigned long long)now(), c->flow, c->conn,
				(unsigned long long)c->begun_ns);
	} else if (n == 0 || errno != EAGAIN) {
		epoll_ctl(ep, EPOLL_CTL_DEL, c->rfd, NULL);
	}
}

static void datagrams(struct conn *c, u64 t_ns)
{
	u64 bits = (u64)c->frame * c->batch * 8;
	unsigned __int128 length = (unsigned __int128)bits * 1000000000 + c->remainder;

	/* An event from before the rate changed is of no time that counts. */
	if (c->stopped || t_ns != c->next_ns || c->next_ns >= duration_ns)
		return;
	for (u32 i = 0; i < c->batch; i++) {
		memcpy(blob, &c->number, 4);
		c->number++;
		if (send(c->fd, blob, c->payload, 0) < 0)
			fail("flow %u cannot send: %s", c->flow, strerror(errno));
	}
	c->next_ns += (u64)(length / c->rate);
	c->remainder = (u64)(length % c->rate);
	schedule(c->next_ns, DATAGRAMS, c);
}

/* Another rate of a source from then on: the wait that is left shrinks or grows with it. */
static void set_rate(struct conn *c, u64 t_ns, u64 rate)
{
	u64 before = c->rate;

	if (!c->udp) {
		c->app_bps = rate;
		c->remainder = 0;
		if (c->block)
			go_on(c, t_ns);
		return;
	}
	c->rate = rate;
	if (!c->started || c->stopped || c->next_ns <= t_ns)
		return;
	c->next_ns = t_ns + (u64)((unsigned __int128)(c->next_ns - t_ns) * before / rate);
	c->remainder = 0;
	schedule(c->next_ns, DATAGRAMS, c);
}

/* ---- samples ---- */

/* tc writes its answer, a line, while this waits. */
static void copy_answer(struct reader *r)
{
	static char text[1 << 16];
	ssize_t n;

	do {
		n = read(r->answer, text, sizeof text);
		if (n <= 0)
			fail("tc cannot read the queue of link %u", r->link);
		fwrite(text, n, 1, r->out);
	} while (text[n - 1] != '\n');
}

static void sample(u64 t_ns)
{
	static u64 last = NEVER;

	if (t_ns == last)
		return;
	last = t_ns;
	for (int i = 0; i < n_conns; i++) {
		struct conn *c = conns[i];
		struct info info = { 0 };
		socklen_t size = sizeof info, cc_size = CC_INFO * sizeof(u32);

		if (c->udp || !c->started)
			continue;
		if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
			continue;
		struct tcp_sample s = {
			.t_ns = t_ns, .bytes_acked = info.bytes_acked, .pacing_bps = info.pacing_rate,
			.flow = c->flow, .conn = c->conn, .state = info.state, .cwnd = info.snd_cwnd,
			.ecn_mode = size >= sizeof info ? info.ecn & 3 : !!(info.options & 8),
			.ssthresh = info.snd_ssthresh, .srtt_us = info.rtt, .min_rtt_us = info.min_rtt,
			.retrans = info.total_retrans, .delivered = info.delivered,
			.delivered_ce = info.delivered_ce,
			.sndbuf_ms = info.sndbuf_limited / 1000,
			.mss = info.snd_mss, .in_flight = info.unacked - info.sacked - info.lost + info.retrans,
		};

		getsockopt(c->fd, IPPROTO_TCP, TCP_CC_INFO, s.cc_info, &cc_size);
		fwrite(&s, sizeof s, 1, samples);
	}
	for (int i = 0; i < n_readers; i++) {
		struct reader *r = &readers[i];

		if (dprintf(r->ask, "qdisc show dev %s\n", r->dev) < 0)
			fail("tc has ended");
	}
	for (int i = 0; i < n_readers; i++)
		copy_answer(&readers[i]);
	fprintf(ticks, "%llu\n", (unsigned long long)t_ns);
	/* Whoever waits for the programs wants to see that time goes on. */
	if (n_programs)
		fflush(ticks);
}

static void open_reader(struct reader *r)
{
	int ask[2], answer[2];
	char name[32];

	if (pipe2(ask, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));
	enter(r->ns);
	snprintf(name, sizeof name, "tc.%u.json", r->link);
	r->out = open_out(name);
	r->pid = fork();
	if (r->pid < 0)
		fail("tc cannot be started: %s", strerror(errno));
	if (!r->pid) {
		dup2(ask[0], 0);
		dup2(answer[1], 1);
		execlp("tc", "tc", "-s", "-d", "-j", "-batch", "-", (char *)NULL);
		_exit(127);
	}
	close(ask[0]);
	close(answer[1]);
	r->ask = ask[1];
	r->answer = answer[0];
}

/* In a live run what is refused is told and nothing else happens. */
static void apply(struct change *c)
{
	pid_t pid;
	int status;

	if (!c->command) {
		const struct group *g = group_of(c->flow);

		for (int i = 0; i < g->n; i++) {
			if (c->pauses) {
				g->conns[i]->paused = c->paused;
				go_on(g->conns[i], c->t_ns);
			} else {
				set_rate(g->conns[i], c->t_ns, c->rate);
			}
		}
		return;
	}
	enter(c->ns);
	fflush(NULL);
	pid = vfork();
	if (!pid) {
		execl("/bin/sh", "sh", "-ec", c->command, (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status) {
		if (!is_live)
			fail("a change during the run was refused: %s", c->command);
		fprintf(answers, "refused\n");
		return;
	}
	fprintf(events, "%llu\tchange\t%s\n", (unsigned long long)c->t_ns, c->command);
}

static void counters(void)
{
	static const char *const files[] = { "net/netstat", "net/snmp", "net/dev", "net/softnet_stat" };
	FILE *out = open_out("counters.txt");

	for (int i = 0; i < n_namespaces; i++) {
		enter(namespaces[i]);
		for (int k = 0; k < (i ? 3 : 4); k++) {
			char path[64], line[4096];
			FILE *f;

			snprintf(path, sizeof path, "/proc/thread-self/%s", files[k]);
			fprintf(out, "# %s %s\n", namespaces[i], files[k]);
			f = fopen(path, "r");
			while (f && fgets(line, sizeof line, f))
				fputs(line, out);
			if (f)
				fclose(f);
		}
	}
	close_out(out, "counters.txt");
}

/* ---- plan ---- */

static struct tap *new_tap(void)
{
	return taps[next_place(&n_taps, PLACES(taps), "captures")] = had(calloc(1, sizeof(struct tap)));
}

static void plan_line(char *line)
{
	struct conn *c;
	struct change *x;
	unsigned long long a, b, d, e, count, app = 0, block = 0;
	char word[16], what[8];
	u32 flow, conn;
	int n = 0;

	if (sscanf(line, "%15s", word) != 1 || word[0] == '#')
		return;
	if (!strcmp(word, "time")) {
		if (sscanf(line, "%*s %llu %llu %llu", &a, &b, &d) != 3 || !d)
			fail("plan: %s", line);
		duration_ns = a, warmup_ns = b, sample_ns = d;
	} else if (!strcmp(word, "pcap")) {
		want_pcap = 1;
	} else if (!strcmp(word, "checksums")) {
		checksums = 1;
	} else if (!strcmp(word, "live")) {
		is_live = 1;
	} else if (!strcmp(word, "ns")) {
		sscanf(line, "%*s %n", &n);
		namespaces[next_place(&n_namespaces, PLACES(namespaces), "namespaces")] = copied(strtok(line + n, " \n"));
	} else if (!strcmp(word, "link")) {
		struct tap *t = new_tap();
		struct reader *r = &readers[next_place(&n_readers, PLACES(readers), "links")];

		if (sscanf(line, "%*s %u %31s %31s %31s", &t->link, t->ns, t->dev, t->copies) < 3)
			fail("plan: %s", line);
		r->link = t->link;
		strcpy(r->ns, t->ns);
		strcpy(r->dev, t->dev);
	} else if (!strcmp(word, "impair")) {
		struct tap *t = new_tap();

		t->is_impair = 1;
		if (sscanf(line, "%*s %u %31s", &t->link, t->ns) != 2)
			fail("plan: %s", line);
	} else if (!strcmp(word, "tunnel")) {
		struct tap *t = new_tap();

		if (sscanf(line, "%*s %d %d %31s", &t->tunnel, &t->side, t->ns) != 3 || t->tunnel < 1 || t->tunnel > 255)
			fail("plan: %s", line);
		tunnels[t->tunnel][t->side &= 1] = t;
		n_tunnels = t->tunnel > n_tunnels ? t->tunnel : n_tunnels;
	} else if (!strcmp(word, "host")) {
		struct tap *t = new_tap();

		t->is_host = 1;
		n_hosts++;
		if (sscanf(line, "%*s %31s %u", t->ns, &t->flow) < 1)
			fail("plan: %s", line);
	} else if (!strcmp(word, "environment")) {
		plan_environment(line);
	} else if (!strcmp(word, "directory")) {
		strtok(line, " \n");
		char *path = unescaped(strtok(NULL, " \n"));

		snprintf(directory, sizeof directory, "%s", path);
		free(path);
	} else if (!strcmp(word, "program")) {
		plan_program(line);
	} else if (!strcmp(word, "setting")) {
		plan_setting(line);
	} else if (!strcmp(word, "at")) {
		x = had(calloc(1, sizeof *x));
		if (sscanf(line, "%*s %llu %7s %n", &a, what, &n) != 2)
			fail("plan: %s", line);
		x->t_ns = a;
		if (!strcmp(what, "rate") && sscanf(line + n, "%u %llu", &x->flow, &b) == 2 && b) {
			x->rate = b;
		} else if (!strcmp(what, "pause") && sscanf(line + n, "%u %d", &x->flow, &x->paused) == 2) {
			x->pauses = 1;
		} else if (!strcmp(what, "do") && sscanf(line + n, "%31s %n", x->ns, &conn) == 1) {
			line[strcspn(line, "\n")] = 0;
			x->command = copied(line + n + conn);
		} else {
			fail("plan: %s", line);
		}
		schedule(x->t_ns, CHANGE, x);
	} else if (!strcmp(word, "stop")) {
		if (sscanf(line, "%*s %llu %u %u", &a, &flow, &conn) != 3)
			fail("plan: %s", line);
		if (conn >= (u32)group_of(flow)->n)
			fail("plan: flow %u has no connection %u", flow, conn);
		schedule(a, STOP, groups[flow].conns[conn]);
	} else if (!strcmp(word, "sample")) {
		if (sscanf(line, "%*s %llu", &a) != 1)
			fail("plan: %s", line);
		schedule(a, SAMPLE, NULL);
	} else if (!strcmp(word, "until")) {
		if (sscanf(line, "%*s %llu %llu", &a, &b) != 2 || !b)
			fail("plan: %s", line);
		/* Samples are taken at whole multiples. */
		for (u64 t = (until_ns / b + 1) * b; t <= a; t += b)
			schedule(t, SAMPLE, NULL);
		schedule(until_ns = a, END, NULL);
	} else if (!strcmp(word, "tcp") || !strcmp(word, "udp")) {
		int udp = word[0] == 'u';

		conns = grown(conns, n_conns + 1, sizeof *conns);
		c = conns[n_conns++] = had(calloc(1, sizeof *c));
		c->udp = udp;
		c->rfd = c->fd = -1;
		if (udp) {
			if (sscanf(line, "%*s %u %u %hu %31s %31s %31s %31s %llu %llu %llu %u %u %u", &c->flow,
				   &c->conn, &c->port, c->client, c->from, c->server, c->to, &a, &b, &d, &c->tos,
				   &c->frame, &c->batch) != 13 || c->frame < 42 || c->frame - 42 > sizeof blob || !d)
				fail("plan: %s", line);
			c->payload = c->frame - 42;
			e = NEVER;
			count = d;
		} else if (sscanf(line, "%*s %u %u %hu %31s %31s %31s %31s %llu %llu %llu %llu %u %31s %31s %llu %llu",
				  &c->flow, &c->conn, &c->port, c->client, c->from, c->server, c->to, &a, &b, &count, &e,
				  &c->tos, c->cc, c->server_cc, &app, &block) != 16) {
			fail("plan: %s", line);
		}
		c->start_ns = a;
		c->stop_ns = b;
		c->rate = count;
		c->bytes = e;
		c->app_bps = app;
		c->block = block;
		c->left = app ? 0 : e;
		if (zero_mono)
			make_ends(c);
	} else {
		fail("plan: %s", line);
	}
}

static void carry_out(const struct event *e)
{
	switch (e->what) {
	case START:
		start(e->of);
		break;
	case STOP:
		stop(e->of);
		break;
	case DATAGRAMS:
		datagrams(e->of, e->t_ns);
		break;
	case PIECE:
		write_piece(e->of, e->t_ns);
		break;
	case CHANGE:
		apply(e->of);
		break;
	case SAMPLE:
		sample(e->t_ns);
		break;
	case PROGRAM_START:
		start_client(e->of);
		break;
	case PROGRAM_STOP:
		stop_program(e->of);
		break;
	case LOOK:
		look_for_spinning();
		schedule(e->t_ns + LOOK_NS, LOOK, NULL);
		break;
	case END:
		break;
	}
}

static void loop(void)
{
	struct epoll_event ready[256];

	for (;;) {
		int n, due = 0;

		arm();
		n = epoll_wait(ep, ready, 256, -1);
		if (n < 0 && errno != EINTR)
			fail("epoll: %s", strerror(errno));
		for (int i = 0; i < n; i++) {
			struct handle *h = ready[i].data.ptr;

			switch (h->kind) {
			case LISTENER:
				accept_all(h->of);
				break;
			case SENDER:
				fill(h->of);
				break;
			case RECEIVER:
				read_all(h->of);
				break;
			case TAP:
				drain(h->of, 0);
				break;
			case PROGRAM:
				program_ended(h->of);
				break;
			case TIMER:
				due = 1;
				break;
			}
		}
		if (!due)
			continue;
		u64 t = heap[0].t_ns;

		timer_at = NEVER;
		while (heap[0].t_ns <= t) {
			struct event e = take();

			if (e.what == END)
				return;
			carry_out(&e);
		}
	}
}

static void read_plan(FILE *plan)
{
	static char line[8192];

	while (fgets(line, sizeof line, plan))
		plan_line(line);
	fclose(plan);
}

/* What is asked for in the file ask.NUMBER. */
static FILE *next_ask(u64 number)
{
	struct timespec least = { 0, 1 };
	char path[640];
	FILE *ask;

	snprintf(path, sizeof path, "%s/ask.%llu", out_dir, (unsigned long long)number);
	/* Whoever has the clock lets no time go by until the file is there. */
	while (!(ask = fopen(path, "r")))
		nanosleep(&least, NULL);
	return ask;
}

static void __attribute__((noreturn)) live(void)
{
	/* Else a sleep of a nanosecond is one of 50 microseconds. */
	prctl(PR_SET_TIMERSLACK, 1);
	answers = open_out("answers");
	for (u64 number = 0;; number++) {
		/* Time enough to be asked before the start. */
		if (number == 1)
			usleep(SETTLE_MS / 2 * 1000);
		if (number) {
			read_plan(next_ask(number));
			loop();
		}
		for (int i = 0; i < n_taps; i++) {
			drain(taps[i], 1);
			if (taps[i]->tunnel)
				continue;
			flush_packets(&taps[i]->left);
			flush_packets(&taps[i]->came);
		}
		for (int i = 0; i < n_readers; i++)
			fflush(readers[i].out);
		fflush(samples);
		fflush(events);
		fflush(ticks);
		fprintf(answers, "%llu done\n", (unsigned long long)number);
		fflush(answers);
	}
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 20, 1 << 20 };
	struct handle tick = { TIMER, NULL };
	FILE *plan;
	u64 real;

	if (argc != 3)
		fail("usage: lab PLAN OUTDIR");
	if (strlen(argv[2]) >= sizeof out_dir)
		fail("the name of the folder has more than %zu bytes: %s", sizeof out_dir - 1, argv[2]);
	strcpy(out_dir, argv[2]);
	plan = fopen(argv[1], "r");
	if (!plan)
		fail("%s: %s", argv[1], strerror(errno));
	read_plan(plan);
	setrlimit(RLIMIT_NOFILE, &files);
	ep = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	watch(timer, EPOLLIN | EPOLLET, &tick);
	struct format head = format_of(sizeof(struct tcp_sample));

	samples = open_out("tcp.bin");
	fwrite(&head, sizeof head, 1, samples);
	events = open_out("events.tsv");
	ticks = open_out("ticks.tsv");
	for (int i = 0; i < n_readers; i++)
		open_reader(&readers[i]);
	for (int i = 0; i < n_taps; i++)
		open_tap(taps[i]);
	for (int i = 0; i < n_conns; i++)
		make_ends(conns[i]);
	for (u64 t = sample_ns; !is_live && t <= duration_ns; t += sample_ns)
		schedule(t, SAMPLE, NULL);
	/* What is measured begins and ends with a sample. */
	if (warmup_ns % sample_ns || !warmup_ns || is_live)
		schedule(warmup_ns, SAMPLE, NULL);
	if (duration_ns % sample_ns && !is_live)
		schedule(duration_ns, SAMPLE, NULL);
	for (int i = 0; i < n_programs; i++) {
		if (programs[i]->role == CLIENT)
			schedule(programs[i]->start_ns, PROGRAM_START, programs[i]);
		if (programs[i]->stop_ns <= duration_ns)
			schedule(programs[i]->stop_ns, PROGRAM_STOP, programs[i]);
	}
	if (n_programs)
		schedule(LOOK_NS, LOOK, NULL);
	if (!is_live)
		schedule(duration_ns, END, NULL);
	/*
	 * The start: a whole millisecond, after the queues are in their stride. PIE makes its first update after 0.5 s, and
	 * CoDel takes the clock's zero for its last episode: within 16 intervals, 1.6 s, of it, count goes on from an overflow.
	 */
	zero_mono = (now_of(CLOCK_MONOTONIC) / 1000000 + SETTLE_MS) * 1000000;
	real = now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC);
	zero_real = zero_mono + real;
	printf("begin\n");
	fflush(stdout);
	/* Servers have as long to get ready. */
	for (int i = 0; i < n_programs; i++)
		if (programs[i]->role == SERVER)
			start_program(programs[i]);
	if (is_live)
		live();
	loop();
	counters();
	/* Open blocks of the captures are handed over within RETIRE_MS. */
	usleep(3 * RETIRE_MS * 1000);
	for (int i = 0; i < n_taps; i++)
		close_tap(taps[i]);
	for (int i = 0; i < n_readers; i++) {
		int status;

		close(readers[i].ask);
		if (waitpid(readers[i].pid, &status, 0) < 0 || status)
			fail("tc cannot read the queue of link %u", readers[i].link);
		close_out(readers[i].out, "what tc said");
	}
	write_pairs();
	close_out(samples, "tcp.bin");
	close_out(events, "events.tsv");
	close_out(ticks, "ticks.tsv");
	printf("end\n");
	return 0;
}
