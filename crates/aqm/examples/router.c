/* A router with DualPI2 in user space: router RATE_BPS. Standard input gives IPv4 packets and standard output takes them,
 * one at a time, as TUN devices and sockets of datagrams do. It ends with its input, when all has left.
 *   cc -I crates/aqm/include crates/aqm/examples/router.c target/release/libl4slab_aqm.a -lm -lpthread -ldl */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "l4slab_aqm.h"

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Sets CE and renews the header's checksum (RFC 1624). */
static void mark(uint8_t *ip)
{
    uint32_t sum = (0xffff - (ip[10] << 8 | ip[11])) + (0xffff - (ip[1] & 3)) + 3;

    ip[1] |= 3;
    for (int i = 0; i < 2; i++)
        sum = (sum & 0xffff) + (sum >> 16);
    ip[10] = ~sum >> 8;
    ip[11] = ~sum;
}

int main(int count, char **words)
{
    uint64_t rate = count > 1 ? strtoull(words[1], NULL, 10) : 0, free_at = now();
    struct l4slab_aqm *queue = l4slab_aqm_new("dualpi2", rate, 1, free_at, NULL, 0);
    struct l4slab_packet p;
    uint8_t ip[65536];
    int is_open = 1;

    if (!queue)
        return 2;
    while (is_open || l4slab_aqm_backlog(queue)) {
        uint64_t t = now(), next = !l4slab_aqm_backlog(queue) ? UINT64_MAX : free_at > t ? free_at - t : 0;
        struct timespec wait = { next / 1000000000, next % 1000000000 };
        struct pollfd in = { .fd = is_open ? 0 : -1, .events = POLLIN };

        if (ppoll(&in, 1, next == UINT64_MAX ? NULL : &wait, NULL) > 0) {
            ssize_t length = read(0, ip, sizeof ip);

            if (length <= 0)
                is_open = 0;
            if (length < 20 || ip[0] >> 4 != 4)
                continue;
            t = now();
            if (!l4slab_aqm_backlog(queue) && free_at < t)
                free_at = t;
            p = (struct l4slab_packet){ .cookie = (uintptr_t)memcpy(malloc(length), ip, length), .length = length + 14,
                                        .ecn = ip[1] & 3, .dscp = ip[1] >> 2, .flow = ip[15] << 8 | ip[19] };
            l4slab_aqm_enqueue(queue, t, &p);
        }
        t = now();
        if (free_at <= t && l4slab_aqm_dequeue(queue, t, &p)) {
            uint8_t *packet = (uint8_t *)(uintptr_t)p.cookie;

            if (p.ecn == 3 && (packet[1] & 3) != 3)
                mark(packet);
            ssize_t written = write(1, packet, p.length - 14);
            free(packet);
            if (written < 0)
                return 1;
            free_at += p.length * 8000000000ull / rate;
        }
        while (l4slab_aqm_dropped(queue, &p))
            free((void *)(uintptr_t)p.cookie);
    }
    l4slab_aqm_free(queue);
    return 0;
}
