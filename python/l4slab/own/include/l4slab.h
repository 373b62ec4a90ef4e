/* Controllers and queues for the simulator l4slab, compiled.
 *
 * A library has some of the three tables of this file, under the names `l4slab_controller`, `l4slab_media` and
 * `l4slab_queue`. An experiment file says cc = "./libmine.so" or qdisc = "./libmine.so limit 100".
 *
 * Times are nanoseconds since the start of the run, windows count segments, rates of pacing are bytes of payload per
 * second. Nothing is shared between connections or links but what the library itself shares; with nothing shared, and
 * random numbers only from where they are given here, the same run gives the same bits.
 */
#ifndef L4SLAB_H
#define L4SLAB_H

#include <stdint.h>

/* Changes when a table below does. */
#define L4SLAB_ABI 2

#ifdef __cplusplus
#define L4SLAB_EXPORT extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define L4SLAB_EXPORT __attribute__((visibility("default")))
#endif

/* -- parameters and gauges -------------------------------------------------------------------------------------- */

/* What a parameter is, and as what `create` gets it. */
enum l4slab_kind {
    L4SLAB_NUMBER = 0, /* 0.5 */
    L4SLAB_WHOLE = 1,  /* 1000 */
    L4SLAB_TIME = 2,   /* 15ms: nanoseconds */
    L4SLAB_RATE = 3,   /* 50mbit: bits per second */
    L4SLAB_SIZE = 4,   /* 64k: bytes */
    L4SLAB_SWITCH = 5, /* on or off: 1 or 0 */
};

struct l4slab_parameter {
    const char *keyword;
    uint32_t kind;
    const char *standard; /* the default, as it is written in an experiment file */
    const char *help;     /* one line */
    double least, most;   /* both 0: whatever the kind can be */
};

/* A column of the time series. */
struct l4slab_gauge {
    const char *name; /* ends in its unit */
    const char *unit; /* "" for numbers and probabilities */
    const char *help;
};

enum l4slab_codepoint { L4SLAB_NOT_ECT = 0, L4SLAB_ECT1 = 1, L4SLAB_ECT0 = 2, L4SLAB_CE = 3 };

#define L4SLAB_NEVER UINT64_MAX

/* -- congestion control ----------------------------------------------------------------------------------------- */

/* What a controller asks of the peer. */
enum l4slab_ecn {
    L4SLAB_ECN_OFF = 0,
    L4SLAB_ECN_CLASSIC = 1, /* ECT(0), RFC 3168 */
    L4SLAB_ECN_ACCECN = 2,  /* ECT(1) with AccECN feedback: an L4S sender (RFC 9331) */
};

/* Why the window must come down. */
enum l4slab_congestion {
    L4SLAB_ON_ECN = 0,       /* an ECN mark, at most once per round trip */
    L4SLAB_ON_LOSS = 1,      /* fast retransmit */
    L4SLAB_ON_TIMEOUT = 2,   /* the retransmission timer */
    L4SLAB_ON_TAIL_LOSS = 3, /* a tail loss probe has repaired a loss */
};

/* What one ACK told. Counts are segments. */
struct l4slab_ack {
    uint64_t now_ns;
    uint64_t next_departure_ns; /* the pacing clock */
    uint64_t pacing_rate;       /* that TCP uses now */
    uint64_t rate_interval_ns;  /* delivery rate: rate_delivered over this; 0: no sample */
    uint64_t lost_total;
    uint32_t acked;             /* newly delivered, cumulatively or by SACK */
    uint32_t ce;                /* of which reported as marked */
    uint32_t delivered;         /* totals of the connection */
    uint32_t delivered_ce;
    uint32_t rtt_us;            /* of the newest segment acknowledged; 0: no sample */
    uint32_t srtt_us;
    uint32_t min_rtt_us;
    uint32_t in_flight;
    uint32_t prior_in_flight;   /* before this ACK */
    uint32_t lost;              /* newly found lost */
    uint32_t rate_delivered;
    uint32_t rate_prior_delivered;
    uint32_t rate_tx_in_flight; /* with `on_lost` only, else 0: in flight when that segment left, */
    uint32_t rate_lost;         /* and found lost */
    uint32_t rate_delivered_ce; /* and reported as marked since then */
    uint8_t rate_app_limited;
    uint8_t may_grow;           /* TCP neither recovers nor reduces, and the ACK acknowledges new data */
    uint8_t cwnd_limited;       /* the window held the sender back in the last round trip */
    uint8_t reducing;           /* TCP is bringing the window down itself */
    uint8_t recovering;
    uint8_t repairing;          /* lost segments are being sent again */
    uint8_t open;               /* no loss, reordering or mark is being dealt with */
    uint8_t paced;
};

/* A segment newly found lost. Counts are segments. */
struct l4slab_lost {
    uint64_t now_ns;
    uint32_t tx_in_flight; /* in flight when it was sent, itself included */
    uint32_t lost;         /* found lost since then, itself included */
    uint8_t app_limited;   /* the window was not used up then */
};

/* What a controller answers with. Every call finds what holds, and may change the first four. */
struct l4slab_window {
    uint32_t cwnd;        /* 1 to 1 000 000 */
    uint32_t ssthresh;
    uint64_t pacing_rate; /* 0: TCP does not pace, or at a rate of its own */
    uint32_t burst;       /* segments sent back to back when paced; 0: TCP's rule */
    uint32_t mss;         /* payload of a full segment, bytes */
    uint32_t header;      /* IP and TCP headers of a segment, bytes */
};

/* The calls of a connection's controller. Those marked so may be NULL. */
struct l4slab_controller {
    uint32_t abi;            /* L4SLAB_ABI */
    uint32_t ecn;            /* enum l4slab_ecn */
    uint32_t governs_window; /* not 0: the window during recovery is the controller's, too */
    const char *summary;     /* one line */
    const struct l4slab_parameter *parameters;
    uint32_t parameter_count;
    const struct l4slab_gauge *gauges;
    uint32_t gauge_count;
    /* `options`: a value per parameter, in their order. `seed` is for random numbers. NULL: no memory. */
    void *(*create)(const double *options, uint64_t seed);
    void (*destroy)(void *self);
    /* Every ACK that tells something new. Who leaves recovery to TCP must not grow the window unless `may_grow`. */
    void (*on_ack)(void *self, const struct l4slab_ack *ack, struct l4slab_window *window);
    /* Once per round trip with congestion: sets ssthresh, towards which TCP then brings the window. */
    void (*on_congestion)(void *self, uint32_t why, uint64_t now_ns, struct l4slab_window *window);
    /* NULL, or: recovery or reduction is over. */
    void (*on_recovered)(void *self, struct l4slab_window *window);
    /* NULL (cwnd is at least what it was), or: the reduction was not justified. */
    void (*on_undo)(void *self, uint32_t prior_cwnd, struct l4slab_window *window);
    /* NULL, or: the handshake is over; not 0: the wish for ECN was granted. */
    void (*on_established)(void *self, uint32_t granted, struct l4slab_window *window);
    /* NULL, or: each segment that is found lost, before the ACK that tells it. */
    void (*on_lost)(void *self, const struct l4slab_lost *lost);
    /* NULL, or: a value per gauge, in their order; NaN, which they are before, for none. */
    void (*probe)(const void *self, double *gauges);
};

/* -- congestion control of media -------------------------------------------------------------------------------- */

/* What became of a packet. */
struct l4slab_fate {
    uint64_t sent_ns;
    uint64_t arrived_ns; /* L4SLAB_NEVER: it was lost */
    uint32_t size;       /* of the RTP packet, bytes */
    uint32_t ce;         /* not 0: it arrived marked */
};

/* What a feedback report told. Sizes are bytes of RTP packets. */
struct l4slab_report {
    uint64_t now_ns;
    uint64_t rtt_ns;        /* of the newest packet that has arrived, without the time that the receiver held the report */
    uint64_t one_way_ns;    /* of the same packet, from the sender to the receiver */
    uint64_t acked;         /* by so much the newest packet that has arrived moved on; lost ones before it included */
    uint64_t in_flight;     /* sent after that packet */
    uint64_t max_in_flight; /* the most that this was since the report before */
    const struct l4slab_fate *packets; /* whose fate is new, in the order in which they were sent */
    uint32_t packet_count;
};

/* The moment before the encoder makes a frame. */
struct l4slab_frame {
    uint64_t now_ns;
    uint64_t interval_ns;  /* between frames */
    uint64_t queue_age_ns; /* how long the oldest frame has waited that has not left in full */
    uint64_t queue_bytes;  /* media that waits */
    uint64_t last_bytes;   /* the frame before */
};

/* What a controller of media answers with. Every call finds what holds, and may change the first three. */
struct l4slab_rates {
    double target_bps; /* that the encoder should produce; l4slab keeps it between the next two. At first: rate_start */
    double pacing_bps; /* of RTP packets, while frames wait; 0: 1.5 times the target */
    uint64_t window;   /* bytes of RTP packets that may be in flight; 0: any number */
    double min_bps, max_bps; /* of the encoder */
};

/* The calls of a flow's controller. Those marked so may be NULL. */
struct l4slab_media {
    uint32_t abi;                /* L4SLAB_ABI */
    uint32_t ecn;                /* enum l4slab_codepoint, not CE: what packets carry where the flow does not say */
    uint64_t report_interval_ns; /* between reports where the flow does not say; 0: after 16 packets and each frame */
    const char *summary;         /* one line */
    const struct l4slab_parameter *parameters;
    uint32_t parameter_count;
    const struct l4slab_gauge *gauges;
    uint32_t gauge_count;
    /* As those of a controller. */
    void *(*create)(const double *options, uint64_t seed);
    void (*destroy)(void *self);
    /* Every report that tells something new. */
    void (*on_report)(void *self, const struct l4slab_report *report, struct l4slab_rates *rates);
    /* NULL, or: the encoder is about to make a frame, of the target rate that this leaves. */
    void (*on_frame)(void *self, const struct l4slab_frame *frame, struct l4slab_rates *rates);
    /* NULL, or: as that of a controller. */
    void (*probe)(const void *self, double *gauges);
};

/* -- queue ------------------------------------------------------------------------------------------------------ */

/* A packet, from `enqueue` until it is dropped or `dequeue` has returned it. */
struct l4slab_packet {
    struct l4slab_packet *next; /* the queue's own */
    uint64_t arrived_ns;
    uint32_t id;                /* l4slab's own */
    uint32_t length;            /* bytes of the Ethernet frame */
    uint32_t flow;              /* the same for all packets of one transport flow, spread over 32 bits */
    uint8_t ecn;                /* enum l4slab_codepoint, as it arrived */
    uint8_t dscp;
    uint8_t band;               /* 0 to band_count - 1: which it is counted in. `enqueue` may set it, and then keeps or
                                   drops the packet */
};

/* What a queue can do, during one of its calls. */
struct l4slab_link {
    uint64_t now_ns;
    void *host; /* l4slab's own, as is what follows: see the functions below */
    void (*drop)(struct l4slab_link *link, const struct l4slab_packet *packet, uint32_t overflow);
    uint32_t (*mark)(struct l4slab_link *link, const struct l4slab_packet *packet);
    double (*random)(struct l4slab_link *link);
};

/* Gives a packet up: the new one, the first, or any other that is in the queue. */
static inline void l4slab_drop(struct l4slab_link *link, const struct l4slab_packet *packet) {
    link->drop(link, packet, 0);
}
/* The same because the buffer is full. */
static inline void l4slab_overflow(struct l4slab_link *link, const struct l4slab_packet *packet) {
    link->drop(link, packet, 1);
}
/* The packet will leave with CE. 0: it is Not-ECT, and then is normally dropped. */
static inline uint32_t l4slab_mark(struct l4slab_link *link, const struct l4slab_packet *packet) {
    return link->mark(link, packet);
}
/* Uniform in [0, 1). */
static inline double l4slab_random(struct l4slab_link *link) {
    return link->random(link);
}

/* Packets in the order of their arrival. */
struct l4slab_fifo {
    struct l4slab_packet *first, *last;
    uint32_t packets;
    uint64_t bytes;
};

static inline void l4slab_push(struct l4slab_fifo *fifo, struct l4slab_packet *packet) {
    packet->next = 0;
    if (fifo->first)
        fifo->last->next = packet;
    else
        fifo->first = packet;
    fifo->last = packet;
    fifo->packets++;
    fifo->bytes += packet->length;
}
/* NULL: it is empty. */
static inline struct l4slab_packet *l4slab_pop(struct l4slab_fifo *fifo) {
    struct l4slab_packet *packet = fifo->first;
    if (packet) {
        fifo->first = packet->next;
        fifo->packets--;
        fifo->bytes -= packet->length;
    }
    return packet;
}

/* The calls of a link's queue. Those marked so may be NULL. */
struct l4slab_queue {
    uint32_t abi;        /* L4SLAB_ABI */
    const char *summary; /* one line */
    const struct l4slab_parameter *parameters;
    uint32_t parameter_count;
    const struct l4slab_gauge *gauges;
    uint32_t gauge_count;
    const char *const *bands; /* names of the queues inside, which are reported apart, such as "L" and "C" */
    uint32_t band_count;      /* 0: it is one queue */
    /* `parameters`: a value each, in their order. NULL: no memory. */
    void *(*create)(const double *parameters, uint64_t rate_bps, uint64_t now_ns);
    void (*destroy)(void *self);
    /* Keeps the packet or drops it. */
    void (*enqueue)(void *self, struct l4slab_packet *packet, struct l4slab_link *link);
    /* The packet to send; NULL: there is none, or it is not its time yet. May drop and mark on the way. */
    struct l4slab_packet *(*dequeue)(void *self, struct l4slab_link *link);
    /* NULL (never), or: when `on_timer` is to be called; `dequeue` is tried after it. */
    uint64_t (*next_timer)(const void *self);
    void (*on_timer)(void *self, struct l4slab_link *link);
    /* NULL, or: as that of a controller. */
    void (*probe)(const void *self, double *gauges);
};

/* L4SLAB_CONTROLLER = { .abi = L4SLAB_ABI, ... }; and the same of a queue. */
#define L4SLAB_CONTROLLER L4SLAB_EXPORT const struct l4slab_controller l4slab_controller
#define L4SLAB_MEDIA L4SLAB_EXPORT const struct l4slab_media l4slab_media
#define L4SLAB_QUEUE L4SLAB_EXPORT const struct l4slab_queue l4slab_queue

#ifdef __cplusplus
}
#endif

#endif
