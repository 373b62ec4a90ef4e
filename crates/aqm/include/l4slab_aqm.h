/* The queue disciplines of l4slab for C. Link with libl4slab_aqm.a (cargo build --release -p l4slab-aqm), -lm, -lpthread
 * and -ldl. No function asks for the time, and no function is thread-safe for one queue. */
#ifndef L4SLAB_AQM_H
#define L4SLAB_AQM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct l4slab_packet {
    uint64_t cookie; /* the caller's name for it; a queue that copies packets (netem) copies it too */
    uint32_t length; /* of the Ethernet frame without FCS, bytes, at most 65535 */
    uint32_t flow;   /* the same for all packets of a flow, such as a hash of addresses and ports */
    uint16_t host;   /* the same for all packets that a host sends, for queues that are fair by host */
    uint8_t ecn;     /* the two bits of the ECN field */
    uint8_t dscp;    /* the six bits of the Differentiated Services field */
};

struct l4slab_aqm;

/* A queue from the words of `tc qdisc`, such as "dualpi2" or "fq_codel target 5ms". rate_bps is the rate of the link
 * behind it. NULL if the words are wrong: error then holds a sentence. */
struct l4slab_aqm *l4slab_aqm_new(const char *words, uint64_t rate_bps, uint64_t seed, uint64_t now_ns,
                                  char *error, size_t room);
void l4slab_aqm_free(struct l4slab_aqm *queue);

/* A packet arrives. Times never go back. */
void l4slab_aqm_enqueue(struct l4slab_aqm *queue, uint64_t now_ns, const struct l4slab_packet *packet);
/* The link is free: 1 and the packet that leaves, with the ECN field that it leaves with; 0 if there is none. */
int l4slab_aqm_dequeue(struct l4slab_aqm *queue, uint64_t now_ns, struct l4slab_packet *to);
/* 1 and a packet that the queue has dropped, each once; 0 if there is none. */
int l4slab_aqm_dropped(struct l4slab_aqm *queue, struct l4slab_packet *to);
/* When to dequeue again, if that gave nothing although there is a backlog; UINT64_MAX: after an arrival. */
uint64_t l4slab_aqm_next(const struct l4slab_aqm *queue);
uint64_t l4slab_aqm_backlog(const struct l4slab_aqm *queue);

#ifdef __cplusplus
}
#endif
#endif
