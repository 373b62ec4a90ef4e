// SPDX-License-Identifier: MIT OR Apache-2.0
/* The kernel's side of the page in um_clock.h. */
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/pvclock_gtod.h>
#include <linux/sched.h>
#include <linux/time-internal.h>
#include <linux/timekeeper_internal.h>
#include "um_clock.h"

struct vm_area_struct *um_clock_map(struct mm_struct *mm, unsigned long vdso);
void um_clock_set(unsigned long long ns);
void um_clock_add(void);
void um_clock_call(void);

static struct um_clock *shared;

/* The time of the clock source, whenever it changes. */
void um_clock_set(unsigned long long ns)
{
	if (shared)
		shared->now = ns / UM_CLOCK_NS * UM_CLOCK_NS;
}

/* A process has entered the kernel. */
void um_clock_add(void)
{
	unsigned long long reads;

	if (!shared)
		return;
	reads = shared->reads;
	shared->reads = 0;
	/* Whatever a process writes there, time goes on by no more than it may read. */
	if (reads)
		time_travel_ndelay(min_t(unsigned long long, reads, UM_CLOCK_READS) * UM_CLOCK_NS);
}

/* A process has made a system call. */
void um_clock_call(void)
{
	struct um_clock_calls *calls = &current->thread.calls;

	if (calls->sleeps != current->nvcsw) {
		calls->sleeps = current->nvcsw;
		calls->count = 0;
	}
	if (calls->count < UM_CALLS)
		calls->count++;
	else if (time_travel_mode == TT_MODE_INFCPU || time_travel_mode == TT_MODE_EXTERNAL)
		time_travel_ndelay(UM_CALL_NS);
}

static vm_fault_t um_clock_fault(const struct vm_special_mapping *mapping, struct vm_area_struct *vma,
				 struct vm_fault *fault)
{
	return vmf_insert_pfn(vma, fault->address, page_to_pfn(virt_to_page(shared)));
}

struct vm_area_struct *um_clock_map(struct mm_struct *mm, unsigned long vdso)
{
	static const struct vm_special_mapping mapping = { .name = "[vvar]", .fault = um_clock_fault };

	return _install_special_mapping(mm, vdso - PAGE_SIZE, PAGE_SIZE,
					VM_READ | VM_WRITE | VM_MAYREAD | VM_MAYWRITE | VM_SHARED | VM_MAYSHARE |
					VM_DONTDUMP | VM_PFNMAP, &mapping);
}

static int um_clock_update(struct notifier_block *block, unsigned long was_set, void *keeper)
{
	const struct timekeeper *tk = keeper;
	const struct tk_read_base *base = &tk->tkr_mono;
	u64 last = base->cycle_last * UM_CLOCK_NS;

	shared->monotonic = ktime_to_ns(base->base) + (base->xtime_nsec >> base->shift) - last;
	shared->realtime = shared->monotonic + ktime_to_ns(tk->offs_real);
	/* Else a cycle is not UM_CLOCK_NS. */
	shared->is_valid = (time_travel_mode == TT_MODE_INFCPU || time_travel_mode == TT_MODE_EXTERNAL) &&
			   base->mult == UM_CLOCK_NS << base->shift;
	return NOTIFY_OK;
}

static struct notifier_block um_clock_block = { .notifier_call = um_clock_update };

static int __init um_clock_init(void)
{
	shared = (struct um_clock *)get_zeroed_page(GFP_KERNEL);
	if (!shared)
		panic("no page for the clock\n");
	return pvclock_gtod_register_notifier(&um_clock_block);
}
subsys_initcall(um_clock_init);
