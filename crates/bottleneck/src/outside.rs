//! The way from the server's namespace to the networks of this machine.
//!
//! * [`Way::Pasta`] needs no rights: `pasta` (of passt) takes the packets from a device in the namespace, and opens sockets
//!   of this machine in their place. TCP goes through a [relay](crate::relay).
//! * [`Way::Nat`] needs root: a pair of virtual cards, and address translation at both ends of it. Packets keep their ECN
//!   field, and TCP has its two real ends. The cards go with the namespace. The table belongs to a process of `nft`, and
//!   the kernel deletes it when that ends, for whatever reason.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::relay::Relay;
use crate::setup::sysctl_path;
use crate::{Refused, system};

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Pasta,
    Nat,
}

/// The device in the server's namespace.
const DEVICE: &str = "out0";
/// Pairs of addresses in 169.254.128.0/17, which nobody gives out: so many bottlenecks at once.
const PAIRS: u32 = 8192;
const IPV6: &str = "fd6c:3473:6c61:62::";
/// Whether a network namespace passes packets on, of IPv4 and of IPv6.
const FORWARDING: [&str; 2] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];
const NFT_STARTS: Duration = Duration::from_secs(3);

/// What keeps the way open while it lives.
pub struct Outside(Option<Child>);

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(nft) = &mut self.0 {
            let _ = nft.kill();
            let _ = nft.wait();
        }
    }
}

/// The list of name servers, and the one that systemd-resolved makes of those outside.
pub const RESOLVER: &str = "/etc/resolv.conf";
const UPSTREAM: &str = "/run/systemd/resolve/resolv.conf";

/// What the command has to read in place of [`RESOLVER`], if that names only servers on this machine's loopback.
pub fn resolver(notes: &mut Vec<String>) -> Option<String> {
    let servers = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let servers = text.lines().filter_map(|line| line.strip_prefix("nameserver"));
        servers.map(|name| name.trim().to_owned()).collect::<Vec<_>>()
    };
    let is_local = |name: &String| name.starts_with("127.") || name == "::1";
    let is_reached = |file: &str| servers(file).iter().any(|name| !is_local(name));
    if is_reached(RESOLVER) {
        return None;
    }
    if is_reached(UPSTREAM) {
        return Some(UPSTREAM.to_owned());
    }
    notes.push(format!(
        "names are not resolved: {RESOLVER} has no server that is reached from outside this machine"
    ));
    None
}

/// The addresses of a pair: of this machine's end, and of the namespace's.
struct Pair {
    ipv4: [String; 2],
    ipv6: [String; 2],
}

fn pair(n: u32) -> Pair {
    let base = (n % PAIRS) * 4;
    let ipv4 = |k: u32| format!("169.254.{}.{}", 128 + (base + k) / 256, (base + k) % 256);
    let ipv6 = |k: u32| format!("{IPV6}{:x}", base + k);
    Pair { ipv4: [ipv4(1), ipv4(2)], ipv6: [ipv6(1), ipv6(2)] }
}

/// A way that is to be opened. It is made while this process is still in the machine's network namespace, into which it
/// may not return unless it is root.
pub enum Plan {
    Pasta(Porter),
    /// With the machine's namespace, and a number that no other bottleneck of this machine has.
    Nat(File, u32),
}

impl Plan {
    /// # Errors
    /// One sentence.
    pub fn new(way: Way, number: u32) -> Result<Plan, Refused> {
        let plan = match way {
            Way::Pasta => Porter::new(move || pasta(&pair(number))).map(Plan::Pasta),
            Way::Nat => File::open(system::NAMESPACE)
                .map(|machine| Plan::Nat(machine, number))
                .map_err(|e| format!("{}: {e}", system::NAMESPACE)),
        };
        plan.map_err(|what| refused(way, &what))
    }

    /// Opens the way. This process is in the server's namespace and stays there.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn open(self, notes: &mut Vec<String>) -> Result<Outside, Refused> {
        for name in FORWARDING {
            let _ = fs::write(sysctl_path(name), "1");
        }
        let (way, opened) = match self {
            Plan::Pasta(porter) => (Way::Pasta, porter.work().map(|()| None)),
            Plan::Nat(machine, number) => (Way::Nat, nat(&machine, number, notes).map(Some)),
        };
        opened
            .and_then(|kept| inner_table(way).map(|()| kept))
            .map(Outside)
            .map_err(|what| refused(way, &what))
    }
}

fn refused(way: Way, what: &str) -> Refused {
    let name = match way {
        Way::Pasta => "pasta",
        Way::Nat => "nat",
    };
    Refused::machine(format!("--outside {name}: {what}"))
}

/// What the namespace does with packets from the bottleneck to the outside.
fn inner_table(way: Way) -> Result<(), String> {
    let mut chains = translation(&format!("oifname {DEVICE} masquerade"));
    if way == Way::Pasta {
        chains += &redirection(start_relay()?);
    }
    aside(|| {
        system::hand_down_privileges().map_err(|e| format!("nft cannot be started: {e}"))?;
        feed("nft", &["-f", "-"], &format!("table inet l4slab {{ {chains} }}"))
    })
}

/// Starts the relay in a process of its own; its ports.
fn start_relay() -> Result<[Option<u16>; 2], String> {
    let failed = |e: std::io::Error| format!("the relay of TCP cannot be started: {e}");
    let (relay, ports) = Relay::open().map_err(failed)?;
    if system::fork().map_err(failed)?.is_none() {
        if system::die_with_parent(None).and_then(|()| system::drop_privileges()).is_ok() {
            relay.run();
        }
        system::exit(1);
    }
    Ok(ports)
}

/// A process of its own for one task, with the namespaces and rights that this one has when it starts.
pub struct Porter {
    child: i32,
    go: File,
    answer: File,
}

impl Porter {
    fn new(task: impl FnOnce() -> Result<(), String>) -> Result<Porter, String> {
        let failed = |e: std::io::Error| format!("a process cannot be started: {e}");
        let (mut begins, go) = system::pipe().map_err(failed)?;
        let (answer, mut to) = system::pipe().map_err(failed)?;
        if let Some(child) = system::fork().map_err(failed)? {
            return Ok(Porter { child, go, answer });
        }
        drop((go, answer));
        let has_begun = begins.read(&mut [0]).is_ok_and(|n| n == 1);
        if has_begun && let Err(sentence) = task() {
            let _ = to.write_all(sentence.as_bytes());
        }
        system::exit(0)
    }

    /// Lets it do its task.
    fn work(mut self) -> Result<(), String> {
        let mut sentence = String::new();
        let _ = self.go.write_all(b"1").and_then(|()| self.answer.read_to_string(&mut sentence));
        system::reap(Some(self.child));
        if sentence.is_empty() { Ok(()) } else { Err(sentence) }
    }
}

/// Does something in a process of its own, whose namespaces and rights end with it.
fn aside(task: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    Porter::new(task)?.work()
}

/// Gives a program its input and waits for its end.
fn feed(program: &str, arguments: &[&str], input: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| missing(program, &e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read on says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(complaint(program, &output.stderr)) }
}

fn missing(program: &str, error: &std::io::Error) -> String {
    let package = match program {
        "ip" => "iproute2",
        "nft" => "nftables",
        _ => "passt",
    };
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{program} is not installed; install {package} (apt install {package}, or dnf)")
        }
        _ => format!("{program} cannot be started: {error}"),
    }
}

/// What a program that has failed says.
fn complaint(program: &str, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    // pasta cannot reach the system's log from here, and says so for each of its lines.
    let is_said = |line: &&str| !line.is_empty() && !line.ends_with("to syslog");
    let said: Vec<_> = text.lines().map(str::trim).filter(is_said).take(3).collect();
    if said.is_empty() {
        return format!("{program} has failed");
    }
    format!("{program}: {}", said.join("; "))
}

/// It goes into the background when the parent's namespace is connected, and ends with the PID namespace.
fn pasta(addresses: &Pair) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("pasta cannot be started: {e}");
    // It opens a namespace by its path, and has fewer rights than it takes to do so in /proc.
    let server = system::namespace_of_parent().map_err(failed)?;
    system::own_mounts().map_err(failed)?;
    let path = system::name_namespace("server", &server).map_err(failed)?;
    system::hand_down_privileges().map_err(failed)?;
    let ([gateway, address], [gateway6, address6]) = (&addresses.ipv4, &addresses.ipv6);
    let mut words = vec!["--netns-only", "--netns", &path, "--config-net", "--quiet"];
    words.extend(["--ns-ifname", DEVICE, "--mtu", "1500"]);
    // Nobody outside reaches the namespace, and it does not reach the ports of this machine's loopback.
    words.extend(["-t", "none", "-u", "none", "-T", "none", "-U", "none", "--no-map-gw"]);
    words.extend(["-a", address, "-n", "30", "-g", gateway, "-a", address6, "-g", gateway6]);
    if system::ids().0 == 0 {
        words.extend(["--runas", "0"]);
    }
    feed("pasta", &words, "")
}

/// A pair of virtual cards, and a table at each end of it. The process that keeps the outer one.
fn nat(machine: &File, number: u32, notes: &mut Vec<String>) -> Result<Child, String> {
    let addresses = pair(number);
    let here = |e: std::io::Error| format!("the network namespace: {e}");
    let server = File::open(system::NAMESPACE).map_err(here)?;
    let is_on = |name| fs::read_to_string(sysctl_path(name)).is_ok_and(|text| text.trim() == "1");
    system::setns(machine, libc::CLONE_NEWNET).map_err(|_| {
        "it needs root, who may change the network of this machine; run it as root, or take --outside pasta"
    })?;
    let [forwards, forwards6] = FORWARDING.map(is_on);
    system::setns(&server, libc::CLONE_NEWNET).map_err(here)?;
    if !forwards {
        return Err("this machine does not forward packets; let it (sysctl -w net.ipv4.ip_forward=1), or take \
                    --outside pasta"
            .to_owned());
    }
    if !forwards6 {
        notes.push(
            "IPv6 stays inside: this machine does not forward it (sysctl -w net.ipv6.conf.all.forwarding=1)".to_owned(),
        );
    }
    let card = format!("l4s{number}");
    let ([outer, inner], [outer6, inner6]) = (&addresses.ipv4, &addresses.ipv6);
    aside(|| {
        system::setns(machine, libc::CLONE_NEWNET).map_err(here)?;
        // This process's parent is the first one of the PID namespace, and in the server's network.
        let mut lines = format!(
            "link add {card} type veth peer name {DEVICE} netns 1\naddr add {outer}/30 dev {card}\n"
        );
        if forwards6 {
            lines += &format!("addr add {outer6}/126 dev {card} nodad\n");
        }
        feed("ip", &["-batch", "-"], &(lines + &format!("link set {card} up\n")))
    })?;
    let mut lines = format!(
        "addr add {inner}/30 dev {DEVICE}\nlink set {DEVICE} up\nroute add default via {outer}\n"
    );
    if forwards6 {
        lines +=
            &format!("addr add {inner6}/126 dev {DEVICE} nodad\nroute add ::/0 via {outer6}\n");
    }
    feed("ip", &["-batch", "-"], &lines)?;
    system::setns(machine, libc::CLONE_NEWNET).map_err(here)?;
    let held = hold(
        &card,
        &translation(&format!("ip saddr {inner} masquerade; ip6 saddr {inner6} masquerade")),
    );
    system::setns(&server, libc::CLONE_NEWNET).map_err(here)?;
    held
}

/// Nothing outside has a route to the hosts of the bottleneck, only to the address of the pair.
fn translation(rules: &str) -> String {
    format!("chain out {{ type nat hook postrouting priority srcnat; {rules}; }}; ")
}

/// Connections from the bottleneck to the outside end at these ports.
fn redirection(ports: [Option<u16>; 2]) -> String {
    let own = ["ip daddr != 10.0.0.0/24", "ip6 daddr != fd00::/64"];
    let rules = own.into_iter().zip(ports).filter_map(|(outside, port)| {
        let device = system::DEVICE;
        port.map(|port| {
            format!("iifname {device} {outside} meta l4proto tcp redirect to :{port}; ")
        })
    });
    let rules: String = rules.collect();
    format!("chain in {{ type nat hook prerouting priority dstnat; {rules}}}; ")
}

/// A process with a table of this namespace, which goes with it.
fn hold(table: &str, rules: &str) -> Result<Child, String> {
    let text = format!("table inet {table} {{ flags owner; {rules} }}\n");
    feed("nft", &["--check", "-f", "-"], &text)?;
    let mut command = Command::new("nft");
    command.arg("--interactive").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut nft = command.spawn().map_err(|e| missing("nft", &e))?;
    let written = nft.stdin.as_mut().map(|to| to.write_all(text.as_bytes()));
    let begun = Instant::now();
    while matches!(written, Some(Ok(()))) && begun.elapsed() < NFT_STARTS {
        if feed("nft", &["list", "chain", "inet", table, "out"], "").is_ok() {
            return Ok(nft);
        }
        thread::sleep(Duration::from_millis(10));
    }
    drop(Outside(Some(nft)));
    Err("nft keeps no table; a kernel from Linux 5.12 on and nftables from 1.0 on can".to_owned())
}
