/* NAME: the rate of the encoder follows queueing delay and losses, as in NADA's gradual mode (RFC 8698).
 * Build it with: make */
#include <stdlib.h>

#include "l4slab.h"

struct NAME {
    double reference, penalty; /* the parameters, in the order of the table */
    double base, losses, signal;
    uint64_t last_ns;
};

static void *create(const double *options, uint64_t seed) {
    (void)seed;
    struct NAME *self = calloc(1, sizeof *self);
    if (self) {
        self->reference = options[0];
        self->penalty = options[1];
        self->base = 1e300;
    }
    return self;
}

static double within(double rate, double least, double most) {
    return rate < least ? least : rate > most ? most : rate;
}

/* Growth by 5 % while the signal is small, then towards the rate that the signal asks for. */
static void on_report(void *this, const struct l4slab_report *report, struct l4slab_rates *rates) {
    struct NAME *self = this;
    uint64_t least = L4SLAB_NEVER;
    uint32_t arrived = 0;
    for (uint32_t i = 0; i < report->packet_count; i++) {
        const struct l4slab_fate *packet = &report->packets[i];
        if (packet->arrived_ns == L4SLAB_NEVER)
            continue;
        uint64_t delay = packet->arrived_ns - packet->sent_ns;
        least = delay < least ? delay : least;
        arrived++;
    }
    if (!arrived)
        return;
    double delay = (double)least * 1e-6;
    self->base = delay < self->base ? delay : self->base;
    double lost = 1 - (double)arrived / report->packet_count;
    self->losses += 0.1 * (lost - self->losses);
    double percent = self->losses * 100;
    double signal = delay - self->base + self->penalty * percent * percent;
    double elapsed = self->last_ns ? (double)(report->now_ns - self->last_ns) * 1e-6 : 100.0;
    double rate = rates->target_bps;
    if (signal < self->reference) {
        rate *= 1.05;
    } else {
        double offset = signal - self->reference * rates->max_bps / rate;
        rate *= 1 - 0.5 * (elapsed / 500) * (offset / 500) - (signal - self->signal) / 500;
    }
    rates->target_bps = within(rate, rates->min_bps, rates->max_bps);
    rates->pacing_bps = 1.1 * rates->target_bps; /* a frame has left before the next one */
    self->signal = signal;
    self->last_ns = report->now_ns;
}

static void probe(const void *this, double *gauges) {
    const struct NAME *self = this;
    if (self->last_ns)
        gauges[0] = self->signal;
}

static const struct l4slab_parameter parameters[] = {
    {"reference", L4SLAB_NUMBER, "10", "queueing delay at the encoder's highest rate, ms", 1, 100},
    {"penalty", L4SLAB_NUMBER, "10", "delay that 1 % of losses count as, ms", 0, 1000},
};
static const struct l4slab_gauge gauges[] = {
    {"signal_ms", "ms", "queueing delay, and what losses add"},
};

L4SLAB_MEDIA = {
    .abi = L4SLAB_ABI,
    .ecn = L4SLAB_NOT_ECT,
    .report_interval_ns = 100000000,
    .summary = "the rate follows queueing delay and losses",
    .parameters = parameters,
    .parameter_count = sizeof parameters / sizeof *parameters,
    .gauges = gauges,
    .gauge_count = sizeof gauges / sizeof *gauges,
    .create = create,
    .destroy = free,
    .on_report = on_report,
    .probe = probe,
};
