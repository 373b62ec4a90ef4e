//! Deficit round robin over flows that are new or old (RFC 8290, 3.2 and 4.2): what
//! `fq_codel`, `fq_pie` and `fq` share.
//!
//! A flow that has something to send joins the new flows. Whoever's turn it is sends until its
//! deficit is used up, gets a quantum and moves behind the old flows. New flows go first; so a flow
//! that sends less than a quantum per round is never queued behind the others.

/// The flows with their states; a flow is known by its number.
#[derive(Debug)]
pub struct Drr<S> {
    flows: Vec<Flow<S>>,
    new: List,
    old: List,
    quantum: i64,
}

#[derive(Debug)]
struct Flow<S> {
    state: S,
    /// Bytes that it may still send in this turn; its turn ends at zero.
    deficit: i64,
    listed: bool,
    /// The flow behind it in its list.
    next: Option<u32>,
}

/// Bytes of so many flows.
pub const fn bytes<S>(flows: u32) -> u64 {
    flows as u64 * size_of::<Flow<S>>() as u64
}

#[derive(Debug, Default)]
struct List {
    first: Option<u32>,
    last: u32,
    len: u32,
}

impl<S> Drr<S> {
    pub fn new(quantum: u32) -> Self {
        let quantum = i64::from(quantum);
        Drr { flows: Vec::new(), new: List::default(), old: List::default(), quantum }
    }

    /// Adds a flow that has nothing to send; its number is the count of flows before it.
    pub fn add(&mut self, state: S) -> usize {
        self.flows.push(Flow { state, deficit: self.quantum, listed: false, next: None });
        self.flows.len() - 1
    }
    /// The state of flow `i`. Adds the flows up to it that are not there yet, so that a queue without packets has none.
    #[inline]
    pub fn reach(&mut self, i: usize, new: impl Fn() -> S) -> &mut S {
        if i >= self.flows.len() {
            self.add_up_to(i, new);
        }
        self.flow_mut(i)
    }
    #[cold]
    fn add_up_to(&mut self, i: usize, new: impl Fn() -> S) {
        while self.flows.len() <= i {
            self.add(new());
        }
    }
    /// For the turns to come.
    pub fn set_quantum(&mut self, quantum: u32) {
        self.quantum = i64::from(quantum);
    }
    #[inline]
    pub fn flow(&self, i: usize) -> &S {
        &self.flows[i].state
    }
    #[inline]
    pub fn flow_mut(&mut self, i: usize) -> &mut S {
        &mut self.flows[i].state
    }
    pub fn flows(&self) -> impl Iterator<Item = &S> {
        self.flows.iter().map(|f| &f.state)
    }
    #[inline]
    pub fn deficit_mut(&mut self, i: usize) -> &mut i64 {
        &mut self.flows[i].deficit
    }
    /// How many flows are listed as new and as old.
    pub fn listed(&self) -> (u32, u32) {
        (self.new.len, self.old.len)
    }

    /// Flow `i` has something to send: it becomes a new flow with a full quantum, unless it is
    /// listed already.
    #[inline]
    pub fn activate(&mut self, i: usize) {
        if self.join_new(i) {
            self.flows[i].deficit = self.quantum;
        }
    }
    /// Lists flow `i` as new and says true, unless it is listed already. Keeps its deficit.
    #[inline]
    pub fn join_new(&mut self, i: usize) -> bool {
        let joins = !self.flows[i].listed;
        if joins {
            Self::push(&mut self.flows, &mut self.new, i);
        }
        joins
    }
    /// Lists flow `i`, which is not listed, as old.
    #[inline]
    pub fn join_old(&mut self, i: usize) {
        Self::push(&mut self.flows, &mut self.old, i);
    }

    /// The flow whose turn it is.
    #[inline]
    pub fn turn(&mut self) -> Option<usize> {
        loop {
            let head = self.new.first.or(self.old.first)? as usize;
            if self.flows[head].deficit > 0 {
                return Some(head);
            }
            self.flows[head].deficit += self.quantum;
            self.demote();
        }
    }
    /// Is it the turn of a new flow?
    #[inline]
    pub fn serves_new(&self) -> bool {
        self.new.first.is_some()
    }
    #[inline]
    pub fn charge(&mut self, i: usize, bytes: u32) {
        self.flows[i].deficit -= i64::from(bytes);
    }

    /// The flow whose turn it is had nothing to send. A new flow has to wait behind the old ones
    /// before it can be new again, lest a flow of single packets starve them (RFC 8290, 4.2).
    pub fn found_empty(&mut self) {
        if self.serves_new() && self.old.len > 0 { self.demote() } else { self.leave() }
    }
    /// The flow whose turn it is goes behind the old flows.
    #[inline]
    fn demote(&mut self) {
        if let Some(i) = self.pop() {
            Self::push(&mut self.flows, &mut self.old, i);
        }
    }
    /// The flow whose turn it is leaves the lists.
    #[inline]
    pub fn leave(&mut self) {
        self.pop();
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        let list = if self.serves_new() { &mut self.new } else { &mut self.old };
        let i = list.first? as usize;
        list.first = self.flows[i].next.take();
        list.len -= 1;
        self.flows[i].listed = false;
        Some(i)
    }
    #[inline]
    fn push(flows: &mut [Flow<S>], list: &mut List, i: usize) {
        match list.first {
            Some(_) => flows[list.last as usize].next = Some(i as u32),
            None => list.first = Some(i as u32),
        }
        list.last = i as u32;
        list.len += 1;
        flows[i].listed = true;
    }
}
