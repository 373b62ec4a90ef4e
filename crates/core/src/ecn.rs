//! The ECN field of the IP header (RFC 3168, RFC 9331).

use serde::{Deserialize, Serialize};

/// The two ECN bits, with their values on the wire.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Ecn {
    #[default]
    NotEct = 0b00,
    Ect1 = 0b01,
    Ect0 = 0b10,
    Ce = 0b11,
}

impl Ecn {
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }
    /// Of the lower two bits of a byte.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    /// ECN-capable: anything but Not-ECT. Such a packet may be marked CE.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
    /// Carries the L4S identifier of RFC 9331: ECT(1), or CE, which may have been ECT(1).
    #[inline]
    pub const fn is_l4s(self) -> bool {
        self as u8 & 1 == 1
    }
}

/// The fate of a data packet with a certain codepoint.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Rewritten {
    /// It is lost, as on paths that do not forward the codepoint.
    Drop,
    #[serde(untagged)]
    To(Ecn),
}

/// The kind of ECN that a host's TCP supports or asks for; Linux `net.ipv4.tcp_ecn` 0, 1 and 3.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EcnSupport {
    Off,
    Classic,
    /// Classic, and its receivers echo SCE marks; nothing of that is negotiated (sysctl `tcp_sce`).
    Sce,
    AccEcn,
}
