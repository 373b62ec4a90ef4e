/* NAME: first in, first out; marks ECT(1) that has waited longer than a threshold. Build it with: make */
#include <stdlib.h>

#include "l4slab.h"

struct NAME {
    double limit, threshold; /* the parameters, in the order of the table */
    struct l4slab_fifo fifo;
    uint64_t marked;
};

static void *create(const double *parameters, uint64_t rate_bps, uint64_t now_ns) {
    (void)rate_bps, (void)now_ns;
    struct NAME *self = calloc(1, sizeof *self);
    if (self) {
        self->limit = parameters[0];
        self->threshold = parameters[1];
    }
    return self;
}

static void enqueue(void *this, struct l4slab_packet *packet, struct l4slab_link *link) {
    struct NAME *self = this;
    if (self->fifo.packets >= self->limit)
        l4slab_overflow(link, packet);
    else
        l4slab_push(&self->fifo, packet);
}

static struct l4slab_packet *dequeue(void *this, struct l4slab_link *link) {
    struct NAME *self = this;
    struct l4slab_packet *packet = l4slab_pop(&self->fifo);
    if (packet && packet->ecn == L4SLAB_ECT1 && link->now_ns - packet->arrived_ns > self->threshold)
        self->marked += l4slab_mark(link, packet);
    return packet;
}

static void probe(const void *this, double *gauges) {
    const struct NAME *self = this;
    gauges[0] = (double)self->marked;
}

static const struct l4slab_parameter parameters[] = {
    {"limit", L4SLAB_WHOLE, "1000", "packets that it holds", 1, 1e6},
    {"threshold", L4SLAB_TIME, "1ms", "an ECT(1) packet that has waited longer is marked", 0, 0},
};
static const struct l4slab_gauge gauges[] = {
    {"step_marks", "", "marks since the start"},
};

L4SLAB_QUEUE = {
    .abi = L4SLAB_ABI,
    .summary = "first in, first out; marks ECT(1) that has waited longer than a threshold",
    .parameters = parameters,
    .parameter_count = sizeof parameters / sizeof *parameters,
    .gauges = gauges,
    .gauge_count = sizeof gauges / sizeof *gauges,
    .create = create,
    .destroy = free,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .probe = probe,
};
