/* NAME: additive increase, multiplicative decrease. Build it with: make */
#include <stdlib.h>

#include "l4slab.h"

struct NAME {
    double increase, beta; /* the parameters, in the order of the table */
    double credit;         /* part of a segment by which the window is to grow */
};

static void *create(const double *options, uint64_t seed) {
    (void)seed;
    struct NAME *self = calloc(1, sizeof *self);
    if (self) {
        self->increase = options[0];
        self->beta = options[1];
    }
    return self;
}

static void on_ack(void *this, const struct l4slab_ack *ack, struct l4slab_window *window) {
    struct NAME *self = this;
    uint32_t acked = ack->acked;
    if (!ack->may_grow)
        return;
    if (window->cwnd < window->ssthresh) { /* slow start, up to the threshold */
        uint32_t room = window->ssthresh - window->cwnd, step = acked < room ? acked : room;
        window->cwnd += step;
        acked -= step;
    }
    self->credit += self->increase * acked / window->cwnd;
    window->cwnd += (uint32_t)self->credit;
    self->credit -= (uint32_t)self->credit;
}

static void on_congestion(void *this, uint32_t why, uint64_t now_ns, struct l4slab_window *window) {
    struct NAME *self = this;
    (void)why, (void)now_ns;
    window->ssthresh = (uint32_t)(window->cwnd * self->beta);
    if (window->ssthresh < 2)
        window->ssthresh = 2;
}

static void probe(const void *this, double *gauges) {
    const struct NAME *self = this;
    gauges[0] = self->credit;
}

static const struct l4slab_parameter parameters[] = {
    {"increase", L4SLAB_NUMBER, "1", "segments per round trip", 0.01, 100},
    {"beta", L4SLAB_NUMBER, "0.5", "factor on congestion", 0.1, 0.9},
};
static const struct l4slab_gauge gauges[] = {
    {"credit", "", "part of a segment by which the window is to grow"},
};

L4SLAB_CONTROLLER = {
    .abi = L4SLAB_ABI,
    .ecn = L4SLAB_ECN_OFF,
    .summary = "additive increase, multiplicative decrease",
    .parameters = parameters,
    .parameter_count = sizeof parameters / sizeof *parameters,
    .gauges = gauges,
    .gauge_count = sizeof gauges / sizeof *gauges,
    .create = create,
    .destroy = free,
    .on_ack = on_ack,
    .on_congestion = on_congestion,
    .probe = probe,
};
