//! Which hosts send and receive the flows of a run, where it matters to a queue whose packets are whose.

use std::sync::Arc;

use crate::rng::spread;

/// The hosts of flow groups. Without more, each group has two of its own.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Option<Arc<[[u32; 2]]>>);

/// One host.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Host(u32);

impl Host {
    /// The named host with this number.
    fn numbered(number: u32) -> Host {
        Host(number << 1)
    }
    /// The same for all its packets, spread over 32 bits. None of a flow has it: a queue may look at flows first, then at
    /// hosts.
    #[inline]
    pub fn hash(self) -> u32 {
        spread(self.0 | 1 << 31)
    }
}

impl Hosts {
    /// Of each group the numbers of the named hosts that send and receive its data.
    pub fn named(groups: impl Iterator<Item = [Option<u32>; 2]>) -> Hosts {
        let named = |(group, hosts): (usize, [Option<u32>; 2])| {
            let own = |receiving| Hosts::default().of(group as u16, receiving);
            let [sender, receiver] = hosts.map(|number| number.map(Host::numbered));
            [sender.unwrap_or(own(false)).0, receiver.unwrap_or(own(true)).0]
        };
        Hosts(Some(groups.enumerate().map(named).collect()))
    }
    /// The named host with this number, or else the one that sends the data of the flow group with this number.
    pub fn find(&self, number: u32) -> Host {
        let group = self.0.as_ref().and_then(|groups| groups.get(number as usize));
        group.map_or(Host::numbered(number), |[sender, _]| Host(*sender))
    }
    /// The host that sends a group's data, or that receives them.
    #[inline]
    pub fn of(&self, group: u16, receiving: bool) -> Host {
        Host(match &self.0 {
            None => u32::from(group) << 1 | u32::from(receiving),
            Some(groups) => groups[usize::from(group)][usize::from(receiving)],
        })
    }
}
