/* A scalable congestion control: it answers the extent of marks, as DCTCP and Prague do (RFC 8257, RFC 9332). */
#include <stdlib.h>

#include "l4slab.h"

#define GAIN (1.0 / 16) /* of the moving average, once per round trip */

struct scalable {
    double alpha;  /* moving average of the marked fraction */
    double credit; /* part of a segment by which the window is larger than cwnd */
    uint32_t round_end, round_delivered, round_ce;
};

static void *create(const double *options, uint64_t seed) {
    (void)options, (void)seed;
    struct scalable *self = calloc(1, sizeof *self);
    if (self)
        self->alpha = 1;
    return self;
}

static void on_ack(void *this, const struct l4slab_ack *ack, struct l4slab_window *window) {
    struct scalable *self = this;
    if (ack->delivered >= self->round_end) {
        uint32_t delivered = ack->delivered - self->round_delivered;
        double marked = delivered ? (double)(ack->delivered_ce - self->round_ce) / delivered : 0;
        self->alpha += (marked - self->alpha) * GAIN;
        self->round_delivered = ack->delivered;
        self->round_ce = ack->delivered_ce;
        self->round_end = ack->delivered + window->cwnd;
    }
    if (!ack->may_grow)
        return;
    if (window->cwnd < window->ssthresh) {
        window->cwnd += ack->acked;
        return;
    }
    self->credit += (double)ack->acked / window->cwnd;
    window->cwnd += (uint32_t)self->credit;
    self->credit -= (uint32_t)self->credit;
}

static void on_congestion(void *this, uint32_t why, uint64_t now_ns, struct l4slab_window *window) {
    struct scalable *self = this;
    (void)now_ns;
    double reduction = why == L4SLAB_ON_ECN ? self->alpha / 2 : 0.5;
    double target = window->cwnd * (1 - reduction);
    window->ssthresh = target > 2 ? (uint32_t)target : 2;
    /* Rounding would be most of the answer to a mark. After a loss, Reno loses the part of a segment. */
    self->credit = why == L4SLAB_ON_ECN && target > 2 ? self->credit + target - window->ssthresh : 0;
}

L4SLAB_CONTROLLER = {
    .abi = L4SLAB_ABI,
    .ecn = L4SLAB_ECN_ACCECN,
    .summary = "answers the extent of marks",
    .create = create,
    .destroy = free,
    .on_ack = on_ack,
    .on_congestion = on_congestion,
};
