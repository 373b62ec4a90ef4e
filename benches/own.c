/* The laws of `reno` and `pfifo` as a library: what the ABI costs is the difference to the built-in ones. */
#include <stdlib.h>

#include "l4slab.h"

struct reno {
    uint32_t count;
};

static void *create(const double *options, uint64_t seed) {
    (void)options, (void)seed;
    return calloc(1, sizeof(struct reno));
}

static void on_ack(void *this, const struct l4slab_ack *ack, struct l4slab_window *w) {
    struct reno *self = this;
    uint32_t acked = ack->acked, per;
    if (!ack->may_grow || !ack->cwnd_limited)
        return;
    if (w->cwnd < w->ssthresh) {
        uint32_t room = w->ssthresh - w->cwnd, step = acked < room ? acked : room;
        w->cwnd += step;
        acked -= step;
    }
    if (!acked)
        return;
    per = w->cwnd;
    if (self->count >= per) {
        self->count = 0;
        w->cwnd++;
    }
    self->count += acked;
    if (self->count >= per) {
        w->cwnd += self->count / per;
        self->count %= per;
    }
}

static void on_congestion(void *this, uint32_t why, uint64_t now_ns, struct l4slab_window *w) {
    (void)this, (void)why, (void)now_ns;
    w->ssthresh = w->cwnd / 2 > 2 ? w->cwnd / 2 : 2;
}

L4SLAB_CONTROLLER = {
    .abi = L4SLAB_ABI,
    .summary = "reno",
    .create = create,
    .destroy = free,
    .on_ack = on_ack,
    .on_congestion = on_congestion,
};

struct pfifo {
    double limit;
    struct l4slab_fifo fifo;
};

static void *create_queue(const double *parameters, uint64_t rate_bps, uint64_t now_ns) {
    struct pfifo *self = calloc(1, sizeof *self);
    (void)rate_bps, (void)now_ns;
    if (self)
        self->limit = parameters[0];
    return self;
}

static void enqueue(void *this, struct l4slab_packet *packet, struct l4slab_link *link) {
    struct pfifo *self = this;
    if (self->fifo.packets >= self->limit)
        l4slab_overflow(link, packet);
    else
        l4slab_push(&self->fifo, packet);
}

static struct l4slab_packet *dequeue(void *this, struct l4slab_link *link) {
    struct pfifo *self = this;
    (void)link;
    return l4slab_pop(&self->fifo);
}

static const struct l4slab_parameter parameters[] = {
    {"limit", L4SLAB_WHOLE, "1000", "packets that it holds", 1, 1e6},
};

L4SLAB_QUEUE = {
    .abi = L4SLAB_ABI,
    .summary = "pfifo",
    .parameters = parameters,
    .parameter_count = 1,
    .create = create_queue,
    .destroy = free,
    .enqueue = enqueue,
    .dequeue = dequeue,
};
