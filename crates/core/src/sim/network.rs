//! The elements between the hosts, in the order in which packets meet them.

use crate::element::{Answer, Outbox};
use crate::net::Node;
use crate::net::access::{ChangedMedium, MediumConfig};
use crate::net::air::{Air, WAYS};
use crate::net::impair::Impair;
use crate::net::inbox::Inbox;
use crate::net::ledger::Ledger;
use crate::net::link::Link;
use crate::net::medium::{Medium, Side, Sides};
use crate::packet::Packet;
use crate::time::{Span, Time};
use crate::units::Rate;

/// An element with its arrivals and departures.
struct Station {
    node: Box<dyn Node>,
    inbox: Inbox,
    /// Departures in the current window, and for each packet the next one for the same end.
    departed: Vec<Packet>,
    links: Vec<u32>,
    /// No path goes on from here.
    is_last: bool,
}

/// Elements that send to each other without delay, so that each can run only until the next event; or a
/// single element, which can run longer.
struct Cluster {
    members: Vec<usize>,
    kind: Kind,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    Single,
    /// A medium, whose two sides do not send to each other: it can run for a whole window, too.
    Medium(usize),
    Circle,
}

/// A medium, the elements that are its sides, and the names of its stations.
pub struct Served {
    pub medium: Box<dyn Medium>,
    pub sides: [usize; 2],
    pub stations: Vec<String>,
}

/// The same, in the network.
struct Shared {
    served: Served,
    /// Somebody watches it.
    air: Option<Air>,
}

/// The elements between the hosts, in the order in which packets meet them.
pub struct Network {
    stations: Vec<Station>,
    clusters: Vec<Cluster>,
    media: Vec<Shared>,
}

impl Network {
    /// `hops`: which element is followed by which.
    pub fn new(nodes: Vec<Box<dyn Node>>, hops: &[(usize, usize)], media: Vec<Served>) -> Network {
        let sides: Vec<_> = media.iter().map(|served| served.sides).collect();
        let clusters = clusters(nodes.len(), hops, &sides);
        let shared = |served| Shared { served, air: None };
        let media = media.into_iter().map(shared).collect();
        let station = |(n, node)| Station {
            node,
            inbox: Inbox::default(),
            departed: Vec::new(),
            links: Vec::new(),
            is_last: hops.iter().all(|(from, _)| *from != n),
        };
        let stations = nodes.into_iter().enumerate().map(station).collect();
        Network { stations, clusters, media }
    }

    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.stations.iter().filter_map(|s| s.node.as_link())
    }
    pub fn impairs(&self) -> impl Iterator<Item = &Impair> {
        self.stations.iter().filter_map(|s| s.node.as_impair())
    }
    /// The counter of an element that is not a link.
    pub fn ledger(&self, n: usize) -> Option<&Ledger> {
        self.stations[n].node.ledger()
    }
    /// An element cuts packets of several segments.
    pub fn cuts(&self, n: usize) -> bool {
        self.stations[n].node.cuts()
    }
    /// Arrivals before now do not count.
    pub fn begin_measuring(&mut self, now: Time) {
        for s in &mut self.stations {
            if let Some(link) = s.node.as_link_mut() {
                link.begin_measuring(now);
            }
            if let Some(ledger) = s.node.ledger_mut() {
                *ledger = Ledger { measured_from: now, ..Ledger::default() };
            }
        }
    }
    /// Shows every packet in queues and impairments; false if a queue never releases its packets. No packet passes
    /// here afterwards.
    pub fn purge(&mut self, now: Time, show: &mut dyn FnMut(&Packet)) -> bool {
        for s in &mut self.stations {
            if let Some(link) = s.node.as_link_mut()
                && !link.purge(now, show)
            {
                return false;
            }
            if let Some(impair) = s.node.as_impair_mut() {
                impair.purge(now, show);
            }
            if let Some(port) = s.node.as_port_mut() {
                port.purge().for_each(|pkt| show(&pkt));
            }
        }
        let pulled = self.media.iter_mut().flat_map(|shared| shared.served.medium.purge());
        pulled.for_each(|pkt| show(&pkt));
        true
    }
    pub fn link(&self, n: usize) -> Option<&Link> {
        self.stations[n].node.as_link()
    }
    pub fn link_mut(&mut self, n: usize) -> &mut Link {
        self.stations[n].node.as_link_mut().expect("the number of a link")
    }
    /// Changes a link, which tells the host that it is in.
    pub fn change_link(
        &mut self,
        n: usize,
        out: &mut Outbox,
        change: impl FnOnce(&mut Link, &mut Outbox),
    ) {
        match self.stations[n].node.as_host_queue_mut() {
            Some(queue) => queue.change(out, change),
            None => change(self.link_mut(n), out),
        }
    }
    /// What a link tells the host that it is in.
    pub fn take_told(&mut self, n: usize) -> Vec<(Packet, Answer)> {
        let queue = self.stations[n].node.as_host_queue_mut();
        queue.map(|queue| std::mem::take(&mut queue.told)).unwrap_or_default()
    }
    pub fn impair_mut(&mut self, n: usize) -> &mut Impair {
        self.stations[n].node.as_impair_mut().expect("the number of an impairment")
    }
    /// Rate and burst of the slowest link among these elements.
    pub fn slowest(&self, nodes: &[usize]) -> (Rate, u64) {
        let peaks = nodes.iter().filter_map(|n| self.link(*n)).map(Link::peak);
        peaks.min_by_key(|(rate, _)| rate.bps()).expect("a path has a link")
    }

    #[inline]
    pub fn inbox(&mut self, n: usize) -> &mut Inbox {
        &mut self.stations[n].inbox
    }
    /// A packet goes on to an element. Apart, so that those which leave the network keep their registers.
    #[inline(never)]
    pub fn hand_on(&mut self, n: usize, pkt: &Packet) {
        self.inbox(n).push(*pkt);
    }
    /// No path goes on from this element.
    pub fn is_last(&self, n: usize) -> bool {
        self.stations[n].is_last
    }
    /// Departures of an element in the current window, and for each packet the next one for the same end.
    pub fn departed(&self, n: usize) -> (&[Packet], &[u32]) {
        (&self.stations[n].departed, &self.stations[n].links)
    }
    /// When its departures left its queue, if a medium is behind that.
    pub fn take_pulls(&mut self, n: usize) -> Option<Vec<Time>> {
        self.stations[n].node.as_link_mut()?.take_pulls()
    }
    /// Takes both out, with the number of packets whose links are known. `give_back` puts them back.
    pub fn take_departed(&mut self, n: usize) -> (Vec<Packet>, Vec<u32>, usize) {
        let s = &mut self.stations[n];
        let known = s.links.len();
        (std::mem::take(&mut s.departed), std::mem::take(&mut s.links), known)
    }
    pub fn give_back(&mut self, n: usize, departed: Vec<Packet>, links: Vec<u32>) {
        let s = &mut self.stations[n];
        (s.departed, s.links) = (departed, links);
    }

    /// Between two windows: a time not later than the next event.
    pub fn earliest(&self) -> Time {
        self.stations.iter().map(|s| s.node.next().min(s.inbox.earliest())).min().expect("a link")
    }
    pub fn clusters(&self) -> usize {
        self.clusters.len()
    }
    /// How many elements a cluster has.
    pub fn size(&self, cluster: usize) -> usize {
        self.clusters[cluster].members.len()
    }
    /// Changes the medium behind a link, at the time that all have reached. Gives the links of its two sides.
    pub fn change_medium(&mut self, n: usize, now: Time, to: &ChangedMedium) -> Option<[usize; 2]> {
        let served =
            self.media.iter_mut().map(|shared| &mut shared.served).find(|s| s.sides[0] == n)?;
        let stations: Vec<_> = to.stations.iter().map(MediumConfig::parameters).collect();
        served.medium.change(now, to.config.parameters(), &stations);
        // It may have something to do sooner than it said.
        let due = served.medium.next();
        for n in served.sides {
            if let Some(port) = self.stations[n].node.as_port_mut() {
                port.wait_for(due);
            }
        }
        Some(served.sides)
    }
    /// Each medium tells what it did in the `span` since the last sample.
    pub fn probe_media(&mut self, span: Span) {
        for Shared { served: Served { medium, sides, .. }, .. } in &mut self.media {
            for (n, way) in sides.iter().zip(WAYS) {
                let link = self.stations[*n].node.as_link_mut();
                if let Some(gauges) = link.and_then(Link::gauges_of_medium) {
                    medium.probe(way, span, gauges);
                }
            }
        }
    }
    /// Whether what media send is kept for who watches it.
    pub fn set_air_watched(&mut self, is_watched: bool) {
        for Shared { air, .. } in &mut self.media {
            match is_watched {
                true => drop(air.get_or_insert_default()),
                false => *air = None,
            }
        }
    }
    /// Each medium that is watched, with the links of both directions and what it sent since the last call.
    pub fn airs(&mut self) -> impl Iterator<Item = ([&Link; 2], &Served, &mut Air)> {
        let stations = &self.stations;
        self.media.iter_mut().filter_map(|Shared { served, air }| {
            let links = served.sides.map(|n| stations[n].node.as_link().expect("a side"));
            Some((links, &*served, air.as_mut()?))
        })
    }
    /// Sorts a cluster's arrivals and returns the first interval in which its elements may run.
    pub fn begin(
        &mut self,
        cluster: usize,
        now: Time,
        until: Time,
        out: &mut Outbox,
    ) -> Option<(Time, Time)> {
        for &n in &self.clusters[cluster].members {
            self.stations[n].inbox.sort(now);
        }
        match self.clusters[cluster].kind {
            Kind::Single => Some((now, until)),
            Kind::Medium(medium) => {
                self.run_medium(medium, until, out);
                Some((now, until))
            }
            Kind::Circle => self.next_step(cluster, now, until, out),
        }
    }
    #[cold]
    fn run_medium(&mut self, medium: usize, until: Time, out: &mut Outbox) {
        let Shared { served: Served { medium, sides, .. }, air } = &mut self.media[medium];
        let [down, up] =
            self.stations.get_disjoint_mut(*sides).expect("the sides are two elements");
        Sides::new([side(down), side(up)], out, air.as_mut()).run(&mut **medium, until);
    }
    /// The next interval in which they may run, from `from` on; `None` if they have reached `until`.
    pub fn next_step(
        &mut self,
        cluster: usize,
        from: Time,
        until: Time,
        out: &mut Outbox,
    ) -> Option<(Time, Time)> {
        let Cluster { members, kind } = &self.clusters[cluster];
        if *kind != Kind::Circle {
            return None;
        }
        let stations = members.iter().map(|n| &self.stations[*n]);
        let next = stations.map(|s| s.node.next().min(s.inbox.next_time())).min();
        let next = next.expect("a member").max(from);
        if next >= until {
            return None;
        }
        for medium in 0..self.media.len() {
            if self.clusters[cluster].members.contains(&self.media[medium].served.sides[0]) {
                self.run_medium(medium, next + Span(1), out);
            }
        }
        Some((next, next + Span(1)))
    }
    /// Runs a member of a cluster from `from` to `to`, exclusively. Returns the element's number.
    #[inline]
    pub fn run(
        &mut self,
        cluster: usize,
        member: usize,
        from: Time,
        to: Time,
        out: &mut Outbox,
    ) -> usize {
        let n = self.clusters[cluster].members[member];
        let s = &mut self.stations[n];
        std::mem::swap(&mut out.packets, &mut s.departed);
        s.node.run(&mut s.inbox, from, to, out);
        std::mem::swap(&mut out.packets, &mut s.departed);
        n
    }
    /// The window is over.
    pub fn close(&mut self) {
        for s in &mut self.stations {
            s.inbox.close();
            s.departed.clear();
            s.links.clear();
        }
    }
}

/// A station of the network that is a side of a medium.
fn side(Station { node, inbox, departed, .. }: &mut Station) -> Side<'_> {
    Side { port: node.as_port_mut().expect("a side"), inbox, departed }
}

/// Groups elements that reach each other, and puts the groups into an order in which packets meet them.
/// The sides of a medium reach each other.
fn clusters(n: usize, hops: &[(usize, usize)], media: &[[usize; 2]]) -> Vec<Cluster> {
    let mut followers = vec![Vec::new(); n];
    hops.iter().for_each(|&(from, to)| followers[from].push(to));
    for &[down, up] in media {
        followers[down].push(up);
        followers[up].push(down);
    }
    let reach: Vec<Vec<bool>> = (0..n)
        .map(|start| {
            let (mut seen, mut open) = (vec![false; n], vec![start]);
            while let Some(at) = open.pop() {
                for &next in &followers[at] {
                    if !std::mem::replace(&mut seen[next], true) {
                        open.push(next);
                    }
                }
            }
            seen
        })
        .collect();
    let mut placed = vec![false; n];
    let mut clusters = Vec::new();
    while let Some(first) = (0..n).find(|&b| {
        // All elements that come only before it have their place.
        !placed[b] && (0..n).all(|a| placed[a] || !reach[a][b] || reach[b][a])
    }) {
        let with = |m: &usize| *m == first || (reach[first][*m] && reach[*m][first]);
        let members: Vec<usize> = (0..n).filter(with).collect();
        members.iter().for_each(|m| placed[*m] = true);
        let is_between =
            |&(from, to): &(usize, usize)| members.contains(&from) && members.contains(&to);
        let kind = match media.iter().position(|sides| sides.contains(&first)) {
            Some(medium) if members.len() == 2 && !hops.iter().any(is_between) => {
                Kind::Medium(medium)
            }
            _ if reach[first][first] => Kind::Circle,
            _ => Kind::Single,
        };
        clusters.push(Cluster { members, kind });
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(n: usize, hops: &[(usize, usize)]) -> Vec<(Vec<usize>, bool)> {
        let all = clusters(n, hops, &[]).into_iter();
        all.map(|c| (c.members, c.kind == Kind::Circle)).collect()
    }

    /// A medium runs alone, unless it sends to itself or to what sends to it.
    #[test]
    fn sides_of_media_run_together() {
        let order = |n, hops: &[(usize, usize)], media: &[[usize; 2]]| -> Vec<(Vec<usize>, Kind)> {
            clusters(n, hops, media).into_iter().map(|c| (c.members, c.kind)).collect()
        };
        assert_eq!(
            order(4, &[(2, 0), (1, 3)], &[[0, 1]]),
            [(vec![2], Kind::Single), (vec![0, 1], Kind::Medium(0)), (vec![3], Kind::Single)]
        );
        assert_eq!(order(2, &[(1, 0)], &[[0, 1]]), [(vec![0, 1], Kind::Circle)]);
        assert_eq!(
            order(4, &[(0, 2), (3, 1)], &[[0, 1], [2, 3]]),
            [(vec![0, 1, 2, 3], Kind::Circle)]
        );
    }

    #[test]
    fn elements_stand_in_the_order_of_paths() {
        assert_eq!(
            order(3, &[(2, 0), (0, 1)]),
            [(vec![2], false), (vec![0], false), (vec![1], false)]
        );
        // 1 and 3 feed each other; 0 comes before them, 2 after.
        assert_eq!(
            order(4, &[(0, 1), (1, 3), (3, 1), (3, 2)]),
            [(vec![0], false), (vec![1, 3], true), (vec![2], false)]
        );
        assert_eq!(order(1, &[(0, 0)]), [(vec![0], true)]);
        assert_eq!(order(2, &[]), [(vec![0], false), (vec![1], false)]);
    }
}
