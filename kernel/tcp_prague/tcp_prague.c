// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP Prague congestion control, for kernels with AccECN (7.2 and later).
 *
 * Prague is the reference sender of the L4S architecture (RFC 9330, RFC 9331,
 * draft-briscoe-iccrg-prague-congestion-control). It marks its packets ECT(1),
 * learns from Accurate ECN how many of them came back as CE, and gives way in
 * proportion to that fraction. This file was written from the specification;
 * its law is that of version 0.7 of the reference implementation.
 *
 * The law, in segments W, round trip time R and marked fraction F:
 *  - once per virtual round trip V = max(R, 25 ms): alpha += (F - alpha) / 16;
 *  - on marks, at most once per V: W -= W * alpha / 2;
 *  - per unmarked segment acknowledged: W += (R/V)^2 / W, which lets the rate
 *    grow by one segment per V in every V, whatever R;
 *  - on loss, once per recovery: W -= W / 2.
 * In equilibrium this is r = (1/p - 1) segments per V, hence up to R = 25 ms a
 * rate that depends on the marking probability p alone.
 *
 * What the kernel does not offer to a module, and how it is done here, is said
 * where it is done: ECT(1) on data (prague_queue_xmit), the size of bursts
 * (prague_set_burst), the size of segments (prague_fit_segments).
 */

#include <linux/inet_diag.h>
#include <linux/kmemleak.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/tcp.h>
#include <net/tcp_ecn.h>

#if !defined(TCP_CONG_NEEDS_ACCECN) || !defined(TCP_CONG_ECT_1_NEGOTIATION)
#error "tcp_prague needs a kernel with Accurate ECN (7.2 or later)"
#endif

/* The estimate alpha has 24 fractional bits, so that one mark among millions
 * of segments still counts. It is stored divided by the gain, so that what the
 * division rounds off is kept for the next round.
 */
#define PRAGUE_ALPHA_BITS	24
#define PRAGUE_ALPHA_ONE	BIT(PRAGUE_ALPHA_BITS)
#define PRAGUE_GAIN_SHIFT	4

/* Windows have 20 fractional bits: below a few segments, whole ones are too
 * coarse for a reaction in proportion to alpha.
 */
#define PRAGUE_CWND_BITS	20
#define PRAGUE_CWND_ONE		BIT(PRAGUE_CWND_BITS)
#define PRAGUE_MIN_CWND		2U

/* 100 kbit/s, in bytes per second: where two segments of the smallest size
 * fill 25 ms. Slower than that a flow needs loss to yield.
 */
#define PRAGUE_MIN_RATE		12500ULL
#define PRAGUE_MIN_MSS		150U

/* One step of growth is a packet of 1500 bytes even where segments are
 * smaller, or flows with small segments would get a smaller share.
 */
#define PRAGUE_REF_MTU		1500ULL
#define PRAGUE_SEGS_PER_VRTT	2U

/* Above 100 ms the square of R/V would not be scaled anyway; the limit only
 * matters for targets beyond.
 */
#define PRAGUE_MAX_SCALED_RTT8	((100U * USEC_PER_MSEC) << 3)

/* srtt_us counts eighths of a microsecond. 2^23 of them stand for a second
 * wherever a rate is turned into a window: a shift instead of a division, and
 * 4.9 % of error that cancels out between the two directions it is used in.
 */
#define PRAGUE_RTT8_PER_SEC	23

/* Gain 1/128 of the average round trip between rate and window. */
#define PRAGUE_SLOW_RTT_SHIFT	7

/* In rate mode, pacing swings by 4/128 = 3 % around the rate, up in the first
 * half of each virtual round trip and down in the second. A step-marking
 * queue then marks some packets of every round; without the swing it marks
 * all of one round and none of the next ones, which is a different law.
 */
#define PRAGUE_SWING		4
#define PRAGUE_SWING_SHIFT	7

/* Detection of a classic ECN queue (arXiv:1911.00710). The score is in units
 * of alpha's full scale: up to 8 the queue is taken for L4S, from 9 on for
 * classic, and 17 is the ceiling, so that it takes as much evidence to leave
 * either verdict. References: a mean deviation of the round trip of 750 us, a
 * queue of 2 ms, as lg(750) and lg(2000) with 24 fractional bits. (There was
 * once a version with 24-bit alpha and constants for 20 bits; it took nearly
 * every path for classic.)
 */
#define PRAGUE_SCORE_L4S	(8ULL << PRAGUE_ALPHA_BITS)
#define PRAGUE_SCORE_CLASSIC	(9ULL << PRAGUE_ALPHA_BITS)
#define PRAGUE_SCORE_MAX	(17ULL << PRAGUE_ALPHA_BITS)
#define PRAGUE_LG_MDEV_REF	160234941
#define PRAGUE_LG_DEPTH_REF	183975331
#define PRAGUE_DET_BITS		24	/* fraction of the detector's times */
#define PRAGUE_DET_MAX_SHIFT	18

enum prague_mode {
	PRAGUE_STEER_WINDOW,
	PRAGUE_STEER_RATE,
	PRAGUE_STEER_BY_SIZE,
};

enum prague_fallback {
	PRAGUE_FALLBACK_OFF,
	PRAGUE_FALLBACK_CORRECT,
	PRAGUE_FALLBACK_DETECT,
};

static unsigned int prague_rtt_target __read_mostly = 25 * USEC_PER_MSEC;
module_param(prague_rtt_target, uint, 0644);
MODULE_PARM_DESC(prague_rtt_target,
		 "RTT below which a flow behaves as if at it, us (0: no RTT independence)");

static unsigned int prague_rtt_transition __read_mostly = 4;
module_param(prague_rtt_transition, uint, 0644);
MODULE_PARM_DESC(prague_rtt_transition,
		 "rounds after slow start until RTT independence begins");

static unsigned int prague_alpha_mode __read_mostly;
module_param(prague_alpha_mode, uint, 0644);
MODULE_PARM_DESC(prague_alpha_mode,
		 "0: alpha starts at 0 and the first mark halves; 1: alpha starts at 1");

static unsigned int prague_cwnd_mode __read_mostly = PRAGUE_STEER_BY_SIZE;
module_param(prague_cwnd_mode, uint, 0644);
MODULE_PARM_DESC(prague_cwnd_mode,
		 "0: steer the window; 1: the rate; 2: the rate when the window is small");

static unsigned int prague_cwnd_transit __read_mostly = 4;
module_param(prague_cwnd_transit, uint, 0644);
MODULE_PARM_DESC(prague_cwnd_transit,
		 "packets of 1500 bytes up to which cwnd_mode 2 steers the rate");

static unsigned int prague_burst_shift __read_mostly = 12;
module_param(prague_burst_shift, uint, 0644);
MODULE_PARM_DESC(prague_burst_shift,
		 "a burst lasts at most 2^-this seconds (12: 0.24 ms)");

static unsigned int prague_max_tso_segs __read_mostly;
module_param(prague_max_tso_segs, uint, 0644);
MODULE_PARM_DESC(prague_max_tso_segs,
		 "upper limit for the segments of a burst (0: none)");

static unsigned int prague_ecn_fallback __read_mostly = PRAGUE_FALLBACK_OFF;
module_param(prague_ecn_fallback, uint, 0644);
MODULE_PARM_DESC(prague_ecn_fallback,
		 "classic ECN queues: 0: not looked for; 1: react as a classic sender; 2: detect only");

/* Times are the low 32 bits of tcp_mstamp. They wrap after 71 minutes; a
 * difference taken wrongly then delays one update by at most the target RTT.
 */
struct prague {
	u64	window;		/* segments, PRAGUE_CWND_BITS */
	u64	rate;		/* bytes of IP packets per second */
	u64	undo_rate;	/* rate before the last loss */
	u64	slow_rtt8;	/* srtt_us, slow average << 7 */
	u64	det_rtt;	/* detector: mean RTT, us << 24 */
	u64	det_mdev;	/* detector: its mean deviation */
	u32	alpha;		/* estimate << PRAGUE_GAIN_SHIFT */
	u32	score;		/* detector: 0 is L4S for sure */
	u32	growth;		/* (R/V)^2, PRAGUE_CWND_BITS */
	u32	alpha_stamp;	/* last update: start of a virtual RTT */
	u32	cut_stamp;	/* last reduction by alpha */
	u32	round_end;	/* snd_nxt at the start of the round */
	u32	round_delivered;
	u32	round_delivered_ce;
	u32	seen_ce;	/* delivered_ce at the last ACK */
	u32	undo_cwnd;	/* snd_cwnd before the last loss */
	u16	rounds;		/* since slow start ended; saturates */
	u16	mss_set;	/* reduced MSS in force, or 0 */
	u16	burst;		/* segments sent at once */
#ifndef TCP_CONG_TSO_SEGS
	u16	dev_burst;	/* sk_gso_max_segs as the device has it */
#endif
	u8	det_shift;	/* detector: gain of the mean */
	u8	mode:2,		/* enum prague_mode */
		by_size:1,	/* mode follows the window */
		saw_ce:1,	/* there is an AQM on the path */
		halve_first:1,	/* alpha started at 0 */
		in_loss:1;	/* no growth until recovered */
};

static_assert(sizeof(struct prague) <= ICSK_CA_PRIV_SIZE);

static struct tcp_congestion_ops prague_reno;

static struct prague *prague_ca(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

/* ------------------------------------------------------------------------
 * ECT(1) on the wire
 *
 * TCP_CONG_ECT_1_NEGOTIATION makes SYN and SYN/ACK carry ECT(1). For all that
 * follows, tcp_ecn_send() puts ECT(0) into the socket's TOS just before each
 * packet goes to IP, and nothing a congestion control may set changes that.
 * The next thing the packet passes is the queue_xmit operation of the address
 * family; a copy of these operations with a queue_xmit of our own is given to
 * the sockets that run Prague, much as SMC and MPTCP do it. Should TCP one day
 * put ECT(1) there itself, prague_queue_xmit() has nothing left to do.
 */

#define PRAGUE_MAX_AF	8

struct prague_af {
	struct inet_connection_sock_af_ops ops;
	const struct inet_connection_sock_af_ops *native;
};

static struct prague_af *prague_af[PRAGUE_MAX_AF];
static DEFINE_SPINLOCK(prague_af_lock);

static int prague_queue_xmit(struct sock *sk, struct sk_buff *skb,
			     struct flowi *fl)
{
	const struct prague_af *af =
		container_of(inet_csk(sk)->icsk_af_ops, struct prague_af, ops);

	if ((inet_sk(sk)->tos & INET_ECN_MASK) == INET_ECN_ECT_0)
		__INET_ECN_xmit(sk, true);
	return af->native->queue_xmit(sk, skb, fl);
}

/* The copy that belongs to @native; made at first use, because the families'
 * own tables are not exported. Copies are never freed, not even with the
 * module: setsockopt() reads icsk_af_ops without the socket's lock, and may
 * hold the pointer after the socket has left Prague.
 */
static const struct inet_connection_sock_af_ops *
prague_af_ops(const struct inet_connection_sock_af_ops *native)
{
	const struct inet_connection_sock_af_ops *found = NULL;
	struct prague_af *af;
	int i;

	spin_lock_bh(&prague_af_lock);
	for (i = 0; i < PRAGUE_MAX_AF; i++) {
		af = prague_af[i];
		if (!af) {
			af = kzalloc_obj(*af, GFP_ATOMIC);
			if (!af)
				break;
			kmemleak_ignore(af);
			af->ops = *native;
			af->ops.queue_xmit = prague_queue_xmit;
			af->native = native;
			prague_af[i] = af;
		}
		if (af->native == native) {
			found = &af->ops;
			break;
		}
	}
	spin_unlock_bh(&prague_af_lock);
	return found;
}

static bool prague_use_ect_1(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct inet_connection_sock_af_ops *ops = icsk->icsk_af_ops;

	if (ops->queue_xmit == prague_queue_xmit)
		return true;
	ops = prague_af_ops(ops);
	if (!ops)
		return false;
	WRITE_ONCE(icsk->icsk_af_ops, ops);
	return true;
}

static void prague_leave_ect_1(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct inet_connection_sock_af_ops *ops = icsk->icsk_af_ops;

	if (ops->queue_xmit == prague_queue_xmit)
		WRITE_ONCE(icsk->icsk_af_ops,
			   container_of(ops, struct prague_af, ops)->native);
}

/* ------------------------------------------------------------------------
 * Quantities
 */

static u32 prague_now(const struct sock *sk)
{
	return (u32)tcp_sk(sk)->tcp_mstamp;
}

static u32 prague_target_us(void)
{
	return min_t(u32, READ_ONCE(prague_rtt_target), USEC_PER_SEC);
}

static u32 prague_mtu(const struct sock *sk)
{
	return tcp_mss_to_mtu((struct sock *)sk, tcp_sk(sk)->mss_cache);
}

static bool prague_past_transition(const struct prague *ca)
{
	return ca->rounds >= min_t(u32, READ_ONCE(prague_rtt_transition),
				   U16_MAX);
}

/* Short flows are better off without RTT independence, which slows them down;
 * and in slow start there is nothing to scale.
 */
static bool prague_rtt_independent(const struct sock *sk)
{
	return prague_target_us() && !tcp_in_slow_start(tcp_sk(sk)) &&
	       prague_past_transition(prague_ca(sk));
}

static bool prague_steers_rate(const struct sock *sk)
{
	return prague_ca(sk)->mode == PRAGUE_STEER_RATE &&
	       prague_rtt_independent(sk);
}

/* V, in the unit of srtt_us */
static u32 prague_virtual_rtt8(const struct sock *sk)
{
	return max(prague_target_us() << 3, tcp_sk(sk)->srtt_us);
}

static u64 prague_window_to_rate(const struct sock *sk)
{
	u64 rate = ((u64)USEC_PER_SEC << 3) * prague_mtu(sk);

	rate = div_u64(rate, max(tcp_sk(sk)->srtt_us, 1U));
	rate = mul_u64_u64_shr(rate, prague_ca(sk)->window, PRAGUE_CWND_BITS);
	return max(rate, PRAGUE_MIN_RATE);
}

/* The average round trip is used, as a window that followed each sample of
 * the RTT would turn the noise of the queue into noise of the sender.
 */
static u64 prague_rate_to_window(const struct sock *sk)
{
	const struct prague *ca = prague_ca(sk);
	u64 rtt8 = ca->slow_rtt8 >> PRAGUE_SLOW_RTT_SHIFT;
	u64 bytes;

	if (!rtt8)
		rtt8 = tcp_sk(sk)->srtt_us;
	bytes = mul_u64_u64_shr(ca->rate, rtt8,
				PRAGUE_RTT8_PER_SEC - PRAGUE_CWND_BITS);
	return DIV_U64_ROUND_UP(bytes, prague_mtu(sk));
}

/* The window TCP gets: rounded up, so that pacing and not the window holds
 * packets back.
 */
static u32 prague_whole_window(const struct sock *sk)
{
	u64 whole = (prague_ca(sk)->window + PRAGUE_CWND_ONE - 1) >>
		    PRAGUE_CWND_BITS;

	whole = max_t(u64, whole, PRAGUE_MIN_CWND);
	return min_t(u64, whole, tcp_sk(sk)->snd_cwnd_clamp);
}

static void prague_update_growth(struct sock *sk)
{
	struct prague *ca = prague_ca(sk);
	u64 rtt8 = tcp_sk(sk)->srtt_us;
	u64 target8 = prague_target_us() << 3;

	ca->growth = PRAGUE_CWND_ONE;
	if (prague_past_transition(ca) && rtt8 && rtt8 < target8 &&
	    rtt8 <= PRAGUE_MAX_SCALED_RTT8)
		ca->growth = DIV64_U64_ROUND_CLOSEST((rtt8 * rtt8) <<
						     PRAGUE_CWND_BITS,
						     target8 * target8);
}

static void prague_set_cwnd(struct sock *sk, u32 cwnd)
{
	tcp_snd_cwnd_set(tcp_sk(sk), cwnd);
	tcp_sk(sk)->snd_cwnd_stamp = tcp_jiffies32;
	prague_update_growth(sk);
}

/* ------------------------------------------------------------------------
 * Segments and bursts
 */

/* Two packets have to fit into a virtual round trip, or marks come too seldom
 * to steer by; slow flows send smaller ones.
 *
 * The kernel has no call for this. mss_cache is what segments are cut to, and
 * it is only computed anew when the path MTU changes; setting it below its
 * computed value is thus enough, and asking the kernel to compute it again
 * for the MTU it already knows restores it.
 */
static void prague_fit_segments(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_ca(sk);
	u32 headers = tcp_mss_to_mtu(sk, 0);
	u32 old = tp->mss_cache + headers;
	u32 full, mtu, cwnd;
	u64 bytes;

	if (ca->mode == PRAGUE_STEER_RATE) {
		bytes = mul_u64_u64_shr(ca->rate, prague_virtual_rtt8(sk),
					PRAGUE_RTT8_PER_SEC);
	} else {
		u64 window = ca->window;

		if (tp->srtt_us && tp->srtt_us < prague_target_us() << 3)
			window = mul_u64_u32_div(window,
						 prague_target_us() << 3,
						 tp->srtt_us);
		bytes = mul_u64_u64_shr(window, old, PRAGUE_CWND_BITS);
	}
	bytes = DIV_U64_ROUND_UP(bytes, PRAGUE_SEGS_PER_VRTT);

	full = old;
	if (ca->mss_set && ca->mss_set == tp->mss_cache)
		full = icsk->icsk_sync_mss(sk, icsk->icsk_pmtu_cookie) +
		       headers;
	ca->mss_set = 0;

	mtu = max_t(u64, bytes, PRAGUE_MIN_MSS + headers);
	if (bytes >= full || mtu >= full) {
		mtu = full;
	} else {
		ca->mss_set = mtu - headers;
		WRITE_ONCE(tp->mss_cache, ca->mss_set);
	}
	if (mtu == old)
		return;

	/* The same bytes, in segments of the new size */
	ca->window = mul_u64_u32_div(ca->window, old, mtu);
	cwnd = prague_whole_window(sk);
	if (cwnd != tcp_snd_cwnd(tp)) {
		/* This is only done past slow start, and must not lead back
		 * to it: at the smallest window, scaling ssthresh up with
		 * every reduction and not down with every increase would.
		 */
		WRITE_ONCE(tp->snd_ssthresh, min(tp->snd_ssthresh, cwnd));
		prague_set_cwnd(sk, cwnd);
	}
}

/* A burst may keep a bottleneck of the flow's own rate busy for 0.24 ms.
 * Where the kernel has a hook that sets the size of a burst (as L4STeam's has;
 * TCP_CONG_TSO_SEGS), it is used. Mainline has none: min_tso_segs() sets a
 * lower bound only, and tcp_tso_autosize() gives short round trips more. The
 * socket has an upper bound of its own, filled in from the device whenever the
 * route changes; it is lowered here, and both bounds together are exact. But
 * what is written is cut by it, too: when segments shrink, what is queued in
 * bursts of one leaves a rest of each.
 */
static void prague_set_burst(struct sock *sk, u64 rate)
{
	struct prague *ca = prague_ca(sk);
	u32 limit = READ_ONCE(prague_max_tso_segs);
	u64 burst = div_u64(rate, prague_mtu(sk));

	burst >>= min(READ_ONCE(prague_burst_shift), 31U);
	if (limit)
		burst = min_t(u64, burst, limit);
#ifdef TCP_CONG_TSO_SEGS
	ca->burst = clamp_t(u64, burst, 1, U16_MAX);
}

static u32 prague_tso_segs(struct sock *sk, unsigned int mss)
{
	return max_t(u32, prague_ca(sk)->burst, 1);
}
#else
	if (sk->sk_gso_max_segs != ca->burst)
		ca->dev_burst = sk->sk_gso_max_segs;
	burst = clamp_t(u64, burst, 1, max_t(u16, ca->dev_burst, 1));
	ca->burst = burst;
	sk->sk_gso_max_segs = burst;
}

static u32 prague_min_tso_segs(struct sock *sk)
{
	return max_t(u32, prague_ca(sk)->burst, 1);
}
#endif

/* ------------------------------------------------------------------------
 * Classic ECN queues
 *
 * A queue that marks like RFC 3168 asks for what a loss would ask for, and a
 * Prague flow in it starves others. It shows by its depth and its swings: the
 * mean deviation of the RTT and the distance of the mean from the minimum.
 */

/* lg(x) with PRAGUE_ALPHA_BITS fractional bits, of which 16 are computed */
static u32 prague_lg(u64 x)
{
	int bit, whole = fls64(x) - 1;
	u64 mantissa = whole > 31 ? x >> (whole - 31) : x << (31 - whole);
	u32 lg = whole;

	for (bit = 0; bit < 16; bit++) {
		mantissa = (mantissa * mantissa) >> 31;
		lg <<= 1;
		if (mantissa >> 32) {
			mantissa >>= 1;
			lg |= 1;
		}
	}
	return lg << (PRAGUE_ALPHA_BITS - 16);
}

static void prague_detect_classic(struct sock *sk)
{
	const u32 unit = PRAGUE_DET_BITS << PRAGUE_ALPHA_BITS;	/* lg(2^24) */
	struct prague *ca = prague_ca(sk);
	u32 min_rtt = tcp_min_rtt(tcp_sk(sk));
	s64 score = ca->score;
	u64 floor, depth;
	u32 lg;

	if (!ca->det_rtt || min_rtt == ~0U)
		return;

	/* swings above the reference speak for classic, below for L4S */
	lg = prague_lg(max(ca->det_mdev, BIT_ULL(PRAGUE_DET_BITS))) - unit;
	score += ((s64)lg - PRAGUE_LG_MDEV_REF) / 2;

	/* a shallow queue proves nothing, a deep one does */
	floor = (u64)min_rtt << PRAGUE_DET_BITS;
	if (ca->det_rtt > floor) {
		depth = max(ca->det_rtt - floor, BIT_ULL(PRAGUE_DET_BITS));
		lg = prague_lg(depth) - unit;
		if (lg > PRAGUE_LG_DEPTH_REF)
			score += (lg - PRAGUE_LG_DEPTH_REF) / 2;
	}
	WRITE_ONCE(ca->score, clamp_t(s64, score, 0, PRAGUE_SCORE_MAX));
}

/* Averages over several round trips at any window: gain 2^-(1.5 lg W + 1).
 * TCP's own srtt_us and mdev_us forget within eight samples.
 */
static void prague_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct prague *ca = prague_ca(sk);
	s64 error;
	u64 rtt;

	if (READ_ONCE(prague_ecn_fallback) == PRAGUE_FALLBACK_OFF ||
	    sample->rtt_us <= 0)
		return;

	rtt = (u64)sample->rtt_us << PRAGUE_DET_BITS;
	if (!ca->det_rtt) {
		ca->det_rtt = rtt;
		ca->det_mdev = BIT_ULL(PRAGUE_DET_BITS);
		return;
	}
	error = rtt - ca->det_rtt;
	ca->det_rtt += error >> ca->det_shift;
	ca->det_mdev += (abs(error) - (s64)ca->det_mdev) >> (ca->det_shift + 1);
}

/* In a classic queue alpha says nothing; 0.625 makes it a cut by 31 %, which
 * is what a CUBIC flow beside it would do.
 */
static u32 prague_effective_alpha(const struct prague *ca)
{
	u32 alpha = ca->alpha >> PRAGUE_GAIN_SHIFT;
	u64 x;

	if (READ_ONCE(prague_ecn_fallback) == PRAGUE_FALLBACK_CORRECT &&
	    ca->score > PRAGUE_SCORE_L4S) {
		x = min_t(u64, ca->score, PRAGUE_SCORE_CLASSIC) -
		    PRAGUE_SCORE_L4S;
		alpha = max_t(u32, alpha, x * 5 / 8);
	}
	return alpha;
}

/* ------------------------------------------------------------------------
 * The law
 */

static void prague_start_round(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_ca(sk);

	ca->round_end = tp->snd_nxt;
	ca->round_delivered = tp->delivered;
	ca->round_delivered_ce = tp->delivered_ce;
	if (!tcp_in_slow_start(tp) && ca->rounds < U16_MAX)
		ca->rounds++;
	prague_update_growth(sk);
}

static bool prague_round_is_over(const struct sock *sk)
{
	const struct prague *ca = prague_ca(sk);

	if (before(tcp_sk(sk)->snd_una, ca->round_end))
		return false;
	return !prague_rtt_independent(sk) ||
	       prague_now(sk) - ca->alpha_stamp >= prague_target_us();
}

static void prague_end_round(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_ca(sk);
	u64 marked, alpha;
	u32 delivered;

	/* Before the first mark there may be no AQM at all, and a round
	 * without marks is no evidence for a small alpha.
	 */
	if (ca->saw_ce) {
		if (READ_ONCE(prague_ecn_fallback) != PRAGUE_FALLBACK_OFF)
			prague_detect_classic(sk);

		delivered = max(tp->delivered - ca->round_delivered, 1U);
		marked = tp->delivered_ce - ca->round_delivered_ce;
		alpha = ca->alpha - (ca->alpha >> PRAGUE_GAIN_SHIFT) +
			div_u64(marked << PRAGUE_ALPHA_BITS, delivered);
		WRITE_ONCE(ca->alpha,
			   min_t(u64, alpha,
				 PRAGUE_ALPHA_ONE << PRAGUE_GAIN_SHIFT));
		ca->alpha_stamp = prague_now(sk);
		if (prague_rtt_independent(sk) && !ca->in_loss)
			prague_fit_segments(sk);
	}
	ca->slow_rtt8 += tp->srtt_us;
	ca->slow_rtt8 -= (ca->slow_rtt8 - tp->srtt_us) >> PRAGUE_SLOW_RTT_SHIFT;
	prague_start_round(sk);
}

static void prague_grow(struct sock *sk, u32 acked)
{
	struct prague *ca = prague_ca(sk);
	u64 step;

	/* At least one unit per segment, or growth would stop altogether at
	 * windows whose share of it rounds to nothing.
	 */
	if (prague_steers_rate(sk)) {
		u32 rtt8 = prague_virtual_rtt8(sk);
		u64 segs = DIV64_U64_ROUND_UP(ca->rate * rtt8,
					      (u64)prague_mtu(sk) <<
					      PRAGUE_RTT8_PER_SEC);

		step = div_u64(acked * PRAGUE_REF_MTU << PRAGUE_RTT8_PER_SEC,
			       rtt8);
		if (segs)
			ca->rate += DIV64_U64_ROUND_CLOSEST(step, segs);
		ca->window = max(ca->window + acked, prague_rate_to_window(sk));
	} else {
		step = (u64)acked * ca->growth << PRAGUE_CWND_BITS;
		step = DIV64_U64_ROUND_CLOSEST(step, max(ca->window, 1ULL));
		step = div_u64(step * PRAGUE_REF_MTU, prague_mtu(sk));
		ca->window += max_t(u64, step, acked);
		ca->rate = max(ca->rate + acked, prague_window_to_rate(sk));
	}
}

/* Growth goes on in CWR, in proportion to the segments that came back without
 * a mark: a queue that marks a few packets in every round keeps the flow in
 * CWR for good.
 */
static void prague_update_window(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_ca(sk);
	u32 marked = tp->delivered_ce - ca->seen_ce;
	u32 acked = rs->acked_sacked;
	u32 cwnd;

	ca->seen_ce = tp->delivered_ce;
	if (marked) {
		/* alpha starts at zero and could not end slow start */
		if (!ca->saw_ce && ca->halve_first)
			ca->window = (ca->window + 1) >> 1;
		ca->saw_ce = 1;
		acked -= min(acked, marked);
	}

	if (acked && !ca->in_loss && tcp_is_cwnd_limited(sk)) {
		if (tcp_in_slow_start(tp)) {
			acked = tcp_slow_start(tp, acked);
			ca->window = (u64)tcp_snd_cwnd(tp) << PRAGUE_CWND_BITS;
			if (!acked) {
				prague_set_cwnd(sk, tcp_snd_cwnd(tp));
				return;
			}
		}
		prague_grow(sk, acked);
	}

	/* One segment per ACK: a cut of n segments is spread over n ACKs, and
	 * the ACK clock does not pause.
	 */
	cwnd = prague_whole_window(sk);
	if (tcp_snd_cwnd(tp) > cwnd) {
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp) - 1);
		prague_set_cwnd(sk, tcp_snd_cwnd(tp) - 1);
	} else if (tcp_snd_cwnd(tp) < cwnd) {
		prague_set_cwnd(sk, tcp_snd_cwnd(tp) + 1);
	}
}

static void prague_update_pacing(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_ca(sk);
	u64 rate, swing, segs;

	if (prague_steers_rate(sk)) {
		rate = ca->rate;
		swing = (rate * PRAGUE_SWING) >> PRAGUE_SWING_SHIFT;
		if (prague_now(sk) - ca->alpha_stamp >=
		    prague_virtual_rtt8(sk) >> 4)
			rate -= swing;
		else
			rate += swing;
	} else {
		segs = max_t(u64, ca->window >> PRAGUE_CWND_BITS,
			     tcp_packets_in_flight(tp));
		rate = ((u64)USEC_PER_SEC << 3) * prague_mtu(sk);
		if (tp->srtt_us)
			rate = div_u64(rate, tp->srtt_us);
		rate = max(rate * segs, PRAGUE_MIN_RATE);
		ca->rate = rate;
	}
	if (tcp_snd_cwnd(tp) < tp->snd_ssthresh / 2)
		rate <<= 1;

	rate = min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate));
	WRITE_ONCE(sk->sk_pacing_rate, rate);
	prague_set_burst(sk, rate);
}

/* With a handful of segments, the window is a coarse handle and the RTT a
 * noisy one; the rate is neither.
 */
static void prague_choose_mode(struct sock *sk)
{
	struct prague *ca = prague_ca(sk);
	u64 bytes = (u64)tcp_snd_cwnd(tcp_sk(sk)) * prague_mtu(sk);

	if (!ca->by_size)
		return;
	if (ca->saw_ce &&
	    bytes <= READ_ONCE(prague_cwnd_transit) * PRAGUE_REF_MTU)
		ca->mode = PRAGUE_STEER_RATE;
	else
		ca->mode = PRAGUE_STEER_WINDOW;

	/* Of window and rate the one that is not steered follows. In slow
	 * start that is always the rate: were the window taken from a rate
	 * that had just been taken from the window, by another average of the
	 * RTT, it would be multiplied by their quotient on every ACK.
	 */
	if (prague_steers_rate(sk))
		ca->window = prague_rate_to_window(sk);
	else
		ca->rate = prague_window_to_rate(sk);
}

static void prague_cong_control(struct sock *sk, u32 ack, int flag,
				const struct rate_sample *rs)
{
	/* TCP takes the SYN-ACK for an ACK before it calls init(). */
	if (!inet_csk(sk)->icsk_ca_initialized)
		return;

	/* MPTCP's fallback and IPV6_ADDRFORM change icsk_af_ops meanwhile;
	 * this law with ECT(0) would be unfair to everyone.
	 */
	prague_use_ect_1(sk);

	prague_update_window(sk, rs);
	if (prague_round_is_over(sk))
		prague_end_round(sk);
	prague_update_pacing(sk);
	prague_choose_mode(sk);
}

/* Growth is 1/window per ACK: a window that loss after loss has halved to
 * nothing would become immense with the next one.
 */
static void prague_shrink_window(struct sock *sk, u64 cut)
{
	struct prague *ca = prague_ca(sk);
	u64 least = min_t(u64, ca->window, PRAGUE_CWND_ONE);

	ca->window = max(ca->window - cut, least);
	ca->rate = prague_window_to_rate(sk);
}

static void prague_cut_by_alpha(struct sock *sk)
{
	struct prague *ca = prague_ca(sk);
	u64 alpha, cut;

	if (prague_rtt_independent(sk) &&
	    prague_now(sk) - ca->cut_stamp < prague_target_us())
		return;
	ca->cut_stamp = prague_now(sk);

	alpha = prague_effective_alpha(ca);
	if (prague_steers_rate(sk)) {
		cut = mul_u64_u64_shr(ca->rate, alpha, PRAGUE_ALPHA_BITS + 1);
		ca->rate = max(ca->rate - cut, PRAGUE_MIN_RATE);
		ca->window = prague_rate_to_window(sk);
	} else {
		cut = mul_u64_u64_shr(ca->window, alpha, PRAGUE_ALPHA_BITS);
		prague_shrink_window(sk, (cut + 1) >> 1);
	}
}

static void prague_halve(struct sock *sk)
{
	struct prague *ca = prague_ca(sk);

	ca->undo_cwnd = tcp_snd_cwnd(tcp_sk(sk));
	ca->undo_rate = ca->rate;
	if (prague_steers_rate(sk)) {
		ca->rate -= ca->rate >> 1;
		ca->window = prague_rate_to_window(sk);
	} else {
		prague_shrink_window(sk, ca->window >> 1);
	}
	ca->in_loss = 1;
}

static void prague_set_state(struct sock *sk, u8 state)
{
	if (state == inet_csk(sk)->icsk_ca_state)
		return;

	switch (state) {
	case TCP_CA_CWR:
		prague_cut_by_alpha(sk);
		break;
	case TCP_CA_Recovery:
		prague_halve(sk);
		break;
	case TCP_CA_Open:
		prague_ca(sk)->in_loss = 0;
		break;
	}
}

static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS)
		prague_halve(sk);
}

/* The window comes down step by step and takes ssthresh along; TCP is given
 * what it has.
 */
static u32 prague_ssthresh(struct sock *sk)
{
	struct prague *ca = prague_ca(sk);
	u32 lg = ilog2(max(tcp_sk(sk)->snd_ssthresh, 1U));

	ca->det_shift = min_t(u32, lg + lg / 2 + 1, PRAGUE_DET_MAX_SHIFT);
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	struct prague *ca = prague_ca(sk);
	u64 window = (u64)ca->undo_cwnd << PRAGUE_CWND_BITS;

	ca->in_loss = 0;
	if (prague_steers_rate(sk)) {
		ca->rate = max(ca->rate, ca->undo_rate);
		ca->window = prague_rate_to_window(sk);
	} else {
		ca->window = max(ca->window, window);
		ca->rate = prague_window_to_rate(sk);
	}
	return max(tcp_snd_cwnd(tcp_sk(sk)), ca->undo_cwnd);
}

/* ------------------------------------------------------------------------
 * Life of a connection
 */

static void prague_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_ca(sk);
	unsigned int mode = READ_ONCE(prague_cwnd_mode);

	/* Without the number of marks there is no alpha. The feedback of RFC
	 * 3168 is refused at the handshake (TCP_CONG_NO_FALLBACK_RFC3168); a
	 * connection that came to Prague later may have it, and TCP then goes
	 * on sending ECT(0), to which Reno is the right answer.
	 */
	if (!tcp_ecn_mode_accecn(tp) || !prague_use_ect_1(sk)) {
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &prague_reno);
		return;
	}

	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);

	memset(ca, 0, sizeof(*ca));
	ca->halve_first = READ_ONCE(prague_alpha_mode) != 1;
	ca->alpha = ca->halve_first ? 0 : PRAGUE_ALPHA_ONE << PRAGUE_GAIN_SHIFT;
	ca->by_size = mode != PRAGUE_STEER_WINDOW && mode != PRAGUE_STEER_RATE;
	ca->mode = ca->by_size ? PRAGUE_STEER_WINDOW : mode;
	ca->saw_ce = !!tp->delivered_ce;
	ca->seen_ce = tp->delivered_ce;
	ca->alpha_stamp = prague_now(sk);
	ca->cut_stamp = prague_now(sk) - BIT(31);
	ca->window = (u64)tcp_snd_cwnd(tp) << PRAGUE_CWND_BITS;
	ca->slow_rtt8 = (u64)(tp->srtt_us ?: 8) << PRAGUE_SLOW_RTT_SHIFT;
	ca->det_shift = PRAGUE_DET_MAX_SHIFT;
#ifndef TCP_CONG_TSO_SEGS
	ca->dev_burst = sk->sk_gso_max_segs;
#endif
	ca->rate = PRAGUE_MIN_RATE;
	prague_update_pacing(sk);
	prague_start_round(sk);
}

static void prague_release(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = prague_ca(sk);

	prague_leave_ect_1(sk);
	if (sk->sk_state == TCP_CLOSE)
		return;
#ifndef TCP_CONG_TSO_SEGS
	if (sk->sk_gso_max_segs == ca->burst)
		sk->sk_gso_max_segs = ca->dev_burst;
#endif
	if (ca->mss_set && ca->mss_set == tp->mss_cache)
		icsk->icsk_sync_mss(sk, icsk->icsk_pmtu_cookie);
}

/* The structure of DCTCP, which ss knows: alpha in 1/1024. ce_state, of which
 * Prague has none, carries the detector's score in hundredths.
 */
static size_t prague_get_info(struct sock *sk, u32 ext, int *attr,
			      union tcp_cc_info *info)
{
	const struct prague *ca = prague_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!(ext & (1 << (INET_DIAG_DCTCPINFO - 1))) &&
	    !(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;

	memset(&info->dctcp, 0, sizeof(info->dctcp));
	if (READ_ONCE(inet_csk(sk)->icsk_ca_ops) != &prague_reno) {
		info->dctcp.dctcp_enabled = 1;
		info->dctcp.dctcp_ce_state =
			((u64)READ_ONCE(ca->score) * 100) >> PRAGUE_ALPHA_BITS;
		info->dctcp.dctcp_alpha =
			READ_ONCE(ca->alpha) >>
			(PRAGUE_ALPHA_BITS + PRAGUE_GAIN_SHIFT - 10);
		info->dctcp.dctcp_ab_ecn = tp->mss_cache *
			(tp->delivered_ce - ca->round_delivered_ce);
		info->dctcp.dctcp_ab_tot = tp->mss_cache *
			(tp->delivered - ca->round_delivered);
	}
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(info->dctcp);
}

static struct tcp_congestion_ops prague __read_mostly = {
	.init		= prague_init,
	.release	= prague_release,
	.cong_control	= prague_cong_control,
	.pkts_acked	= prague_pkts_acked,
	.set_state	= prague_set_state,
	.cwnd_event	= prague_cwnd_event,
	.ssthresh	= prague_ssthresh,
	.undo_cwnd	= prague_undo_cwnd,
#ifdef TCP_CONG_TSO_SEGS
	.tso_segs	= prague_tso_segs,
#else
	.min_tso_segs	= prague_min_tso_segs,
#endif
	.get_info	= prague_get_info,
	.flags		= TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN |
			  TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION |
			  TCP_CONG_NO_FALLBACK_RFC3168,
	.owner		= THIS_MODULE,
	.name		= "prague",
};

static struct tcp_congestion_ops prague_reno __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.get_info	= prague_get_info,
	.owner		= THIS_MODULE,
	.name		= "prague-reno",
};

static int __init prague_register(void)
{
	return tcp_register_congestion_control(&prague);
}

static void __exit prague_unregister(void)
{
	tcp_unregister_congestion_control(&prague);
}

module_init(prague_register);
module_exit(prague_unregister);

MODULE_DESCRIPTION("TCP Prague congestion control (L4S)");
MODULE_AUTHOR("The l4slab authors");
MODULE_LICENSE("GPL");
