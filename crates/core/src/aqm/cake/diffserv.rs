//! CAKE's tins: which codepoint belongs where, and each tin's share of the rate and of the turns.

/// The keyword of `tc` that says how many tins there are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Diffserv {
    Besteffort,
    Precedence,
    Diffserv3,
    Diffserv4,
    Diffserv8,
}

/// Codepoints that are told apart (RFC 4594, RFC 5865, RFC 8622, and RFC 1349's bits of ToS).
const LE: u8 = 1;
const TOS2: u8 = 2;
const TOS4: u8 = 4;
const VA: u8 = 44;
const EF: u8 = 46;
const fn cs(class: u8) -> u8 {
    class << 3
}
const CS1: u8 = cs(1);
const CS2: u8 = cs(2);
const CS3: u8 = cs(3);
const CS4: u8 = cs(4);
const CS5: u8 = cs(5);
const CS6: u8 = cs(6);
const CS7: u8 = cs(7);

/// The share that a tin may use before other tins have priority.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// Bytes per second; 0 where the whole is unlimited.
    pub rate: u64,
    /// Bytes per turn where the rate is unlimited.
    pub quantum: u32,
}

impl Diffserv {
    /// The tin of a codepoint. A tin with a higher number comes first while it is below its share; of
    /// three or four, number 0 is best effort and 1 the background.
    #[inline]
    pub fn tin(self, dscp: u8) -> usize {
        let assured = |class: u8| dscp >> 3 == class && matches!(dscp & 7, 2 | 4 | 6);
        match self {
            Diffserv::Besteffort => 0,
            Diffserv::Precedence => usize::from((dscp >> 3) & 7),
            Diffserv::Diffserv3 => match dscp {
                LE | CS1 => 1,
                TOS4 | VA | EF | CS6 | CS7 => 2,
                _ => 0,
            },
            Diffserv::Diffserv4 => match dscp {
                LE | CS1 => 1,
                TOS4 | CS2 | CS3 => 2,
                VA | EF | CS4 | CS5 | CS6 | CS7 => 3,
                _ if assured(2) || assured(3) || assured(4) => 2,
                _ => 0,
            },
            Diffserv::Diffserv8 => match dscp {
                LE => 0,
                TOS2 | CS1 => 1,
                TOS4 => 4,
                CS2 => 5,
                CS3 => 3,
                VA | EF | CS4 | CS5 => 6,
                CS6 | CS7 => 7,
                _ if assured(1) => 1,
                _ if assured(2) => 4,
                _ if assured(3) || assured(4) => 3,
                _ => 2,
            },
        }
    }

    /// The tins' shares: of the whole, parts of it, or each 7/8 of the one before.
    pub fn shares(self, rate: u64) -> Vec<Share> {
        let part = |shift: u32| Share { rate: rate >> shift, quantum: 1024 >> shift };
        match self {
            Diffserv::Besteffort => vec![Share { rate, quantum: 65_535 }],
            Diffserv::Diffserv3 => [0, 4, 2].map(part).to_vec(),
            Diffserv::Diffserv4 => [0, 4, 1, 2].map(part).to_vec(),
            Diffserv::Precedence | Diffserv::Diffserv8 => {
                let first = Share { rate, quantum: 256 };
                let next =
                    |s: &Share| Share { rate: (s.rate * 7) >> 3, quantum: (s.quantum * 7) >> 3 };
                std::iter::successors(Some(first), |s| Some(next(s))).take(8).collect()
            }
        }
    }

    /// The tins as `tc` heads its columns.
    pub fn bands(self) -> &'static [&'static str] {
        match self {
            Diffserv::Besteffort => &[],
            Diffserv::Diffserv3 => &["Bulk", "Best Effort", "Voice"],
            Diffserv::Diffserv4 => &["Bulk", "Best Effort", "Video", "Voice"],
            Diffserv::Precedence | Diffserv::Diffserv8 => {
                &["Tin 0", "Tin 1", "Tin 2", "Tin 3", "Tin 4", "Tin 5", "Tin 6", "Tin 7"]
            }
        }
    }

    /// The column of a tin: the background comes first.
    #[inline]
    pub fn band(self, tin: usize) -> usize {
        match (self, tin) {
            (Diffserv::Diffserv3 | Diffserv::Diffserv4, 0 | 1) => 1 - tin,
            _ => tin,
        }
    }
}
