// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* First in, first out; marks packets that waited longer than 1 ms. */
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/inet_ecn.h>
#include <net/pkt_sched.h>

#define THRESHOLD (1 * NSEC_PER_MSEC)
#define LIMIT 1000 /* packets */

struct step_cb {
	u64 arrived;
};

static struct step_cb *step_cb(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct step_cb));
	return (struct step_cb *)qdisc_skb_cb(skb)->data;
}

static int step_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	if (sch->q.qlen >= LIMIT)
		return qdisc_drop(skb, sch, to_free);
	step_cb(skb)->arrived = ktime_get_ns();
	return qdisc_enqueue_tail(skb, sch);
}

static struct sk_buff *step_dequeue(struct Qdisc *sch)
{
	struct sk_buff *skb = qdisc_dequeue_head(sch);

	if (skb && ktime_get_ns() - step_cb(skb)->arrived > THRESHOLD)
		INET_ECN_set_ce(skb);
	return skb;
}

static struct Qdisc_ops step_qdisc_ops __read_mostly = {
	.id		= "step",
	.priv_size	= 0,
	.enqueue	= step_enqueue,
	.dequeue	= step_dequeue,
	.peek		= qdisc_peek_head,
	.reset		= qdisc_reset_queue,
	.owner		= THIS_MODULE,
};

static int __init step_init(void)
{
	return register_qdisc(&step_qdisc_ops);
}

static void __exit step_exit(void)
{
	unregister_qdisc(&step_qdisc_ops);
}

module_init(step_init)
module_exit(step_exit)
MODULE_LICENSE("Dual MIT/GPL");
