//! Namespaces, devices and programs.
//!
//! The process of [`run`] starts a child in a PID namespace, which is the forwarder and there process 1. When that ends,
//! for whatever reason, the kernel kills all other processes of the namespace, and with them go the network namespaces and
//! their devices. The forwarder in turn ends with its parent.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use l4slab_core::scenario::Run;
use l4slab_core::sim::transit::Transit;
use l4slab_core::units::Rate;
use serde::{Deserialize, Serialize};

use crate::forward::{Answer, Control, Device, Forwarder, LogWriter, Manner, Summary};
use crate::{Refused, log, outside, probe, system};

/// Its task.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// A run whose flow groups have the paths, as JSON.
    run: String,
    /// The build, for the log.
    build: String,
    command: Vec<String>,
    /// For a shell in the other namespace.
    server: Option<String>,
    log: Option<String>,
    /// The rate at which each host hands its packets over; without, from the links.
    access_bps: Option<u64>,
    /// So long a packet that is due may wait for another one to leave with.
    hold_ns: u64,
    /// Priority of real time, if it can be had.
    realtime: bool,
    /// The data of the path are the server's.
    reverse: bool,
    /// For both namespaces.
    sysctls: Vec<(String, String)>,
    /// Like these, but it does not matter if the kernel has no such value: the sentence is said then.
    wishes: Vec<(String, String, String)>,
    /// The process that must be the parent.
    parent: i32,
    /// For an engine, whose command enters the namespaces itself, as /run/netns/NAME. Without, there is one pair.
    #[serde(default)]
    hosts: Vec<[HostOptions; 2]>,
    /// So long after the command's start the time of the run is zero, in whole milliseconds. The word `ZERO` of the command
    /// becomes this time by `CLOCK_MONOTONIC`, ns.
    #[serde(default)]
    lead_ns: Option<u64>,
    /// The log has what happens between the elements of a path.
    #[serde(default)]
    steps: bool,
    /// The log has the headers of packets.
    #[serde(default)]
    headers: bool,
    /// Two network cards of this machine, between which it stands in place of two namespaces.
    #[serde(default)]
    between: Option<[String; 2]>,
    /// How the server's namespace reaches the networks of this machine.
    #[serde(default)]
    outside: Option<outside::Way>,
    /// A socket that listens to those who watch it and change it.
    #[serde(default)]
    control: Option<RawFd>,
}

/// A namespace of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostOptions {
    name: String,
    ipv4: [u8; 4],
    #[serde(default)]
    ipv6: Option<[u8; 16]>,
    mtu: i32,
    /// Files of /proc/sys, what to write, and what to say where the kernel refuses it; if nothing, it does not matter.
    settings: Vec<(String, String, String)>,
}

/// Addresses of client and server.
const IPV4: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
const NAMES: [&str; 2] = ["client", "server"];
const MTU: i32 = 1500;
const NETMASK: [u8; 4] = [255, 255, 255, 0];
/// All hosts of a run are beside each other.
const NETMASK_OF_RUN: [u8; 4] = [255, 0, 0, 0];
/// Super-packets that the ring of a device holds: long, because it is read empty before anything else.
const RING: i32 = 1000;
/// A host's access line if the links are not faster than a quarter of it.
const ACCESS: u64 = 1_000_000_000;
/// So long what is under way is still forwarded when the command has ended, and the server may take to end, ns.
const DRAIN: u64 = 100_000_000;
const SERVER_ENDS: u64 = 500_000_000;
const SERVER_STARTS: Duration = Duration::from_millis(2_000);

#[derive(Serialize, Deserialize)]
enum Outcome {
    Summary(serde_json::Value),
    Refused { sentence: String, is_input: bool },
}

/// Does it; the summary as JSON. The process has one thread, and is of no other use afterwards.
///
/// # Errors
/// One sentence: what the machine refuses, or what is wrong with the command.
pub fn run(options: &str) -> Result<String, Refused> {
    let options: Options =
        serde_json::from_str(options).map_err(|e| Refused::input(format!("options: {e}")))?;
    let failed =
        |e: std::io::Error| Refused::machine(format!("the forwarder cannot be started: {e}"));
    system::die_with_parent(Some(options.parent)).map_err(failed)?;
    system::set_signals(&[libc::SIGINT, libc::SIGQUIT], true);
    // In the namespaces it would have no right to them.
    let cards = options.between.as_ref().map(open_cards).transpose()?;
    enter_namespaces(!options.hosts.is_empty())?;
    let (mut from, to) = system::pipe().map_err(failed)?;
    let Some(child) = system::fork().map_err(failed)? else {
        drop(from);
        let status = catch_unwind(AssertUnwindSafe(|| as_first_process(&options, cards, to)));
        system::exit(status.unwrap_or(101));
    };
    drop(to);
    let mut text = String::new();
    let _ = from.read_to_string(&mut text);
    let status = system::reap(Some(child)).map_or(1, |(_, status)| system::exit_status(status));
    match serde_json::from_str(&text) {
        Ok(Outcome::Summary(summary)) => Ok(summary.to_string()),
        Ok(Outcome::Refused { sentence, is_input }) => Err(Refused { sentence, is_input }),
        Err(_) => Err(Refused::machine(format!("the forwarder has ended with status {status}"))),
    }
}

/// A user namespace, unless privileges make it needless, and a PID namespace for the children.
fn enter_namespaces(as_root: bool) -> Result<(), Refused> {
    let (uid, gid) = system::ids();
    if uid == 0 && system::unshare(libc::CLONE_NEWPID).is_ok() {
        return Ok(());
    }
    system::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID).map_err(|e| {
        Refused::machine(format!(
            "this machine refuses user namespaces ({e}); run it as root, or allow them \
             (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, docker run --privileged in a container)"
        ))
    })?;
    let write = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    let inside = |id| if as_root { 0 } else { id };
    let maps = write("setgroups", "deny".to_owned())
        .and_then(|()| write("uid_map", format!("{} {uid} 1", inside(uid))))
        .and_then(|()| write("gid_map", format!("{} {gid} 1", inside(gid))));
    maps.map_err(|e| Refused::machine(format!("the user namespace cannot be set up: {e}")))
}

fn as_first_process(options: &Options, cards: Option<Cards>, mut to: File) -> i32 {
    let told = match system::die_with_parent(None)
        .map_err(machine("prctl"))
        .and_then(|()| inside(options, cards))
    {
        Ok(summary) => serde_json::to_value(summary).map(Outcome::Summary),
        Err(Refused { sentence, is_input }) => Ok(Outcome::Refused { sentence, is_input }),
    };
    let written = told.and_then(|told| serde_json::to_vec(&told)).map(|bytes| to.write_all(&bytes));
    i32::from(!matches!(written, Ok(Ok(()))))
}

fn machine(what: &str) -> impl Fn(std::io::Error) -> Refused {
    move |e| Refused::machine(format!("{what}: {e}"))
}

/// A namespace with its device, and a socket in it for probes.
struct Host {
    namespace: File,
    tun: OwnedFd,
    joins_udp: bool,
    probe: std::net::UdpSocket,
    /// Its table of devices: it can be read without entering the namespace.
    devices: File,
}

/// Two cards, and what is to be said of them.
struct Cards {
    sockets: [OwnedFd; 2],
    notes: Vec<String>,
}

fn open_cards(names: &[String; 2]) -> Result<Cards, Refused> {
    let [a, b] = names;
    if a == b {
        return Err(Refused::input(format!("--between {a} {b} is one card twice; name two")));
    }
    let open = |name: &String| {
        let card = system::open_card(name).map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Refused::machine(format!(
                "--between needs the right to raw packets (CAP_NET_RAW), which this process has not ({e}); run it as \
                 root, or in a container with --cap-add NET_RAW"
            )),
            Some(libc::ENODEV) => Refused::input(format!(
                "--between {name}: this machine has no such network card; ip link lists them"
            )),
            _ => Refused::machine(format!("--between {name} cannot be opened: {e}")),
        })?;
        match card {
            system::Card { is_ethernet: false, .. } => Err(Refused::input(format!(
                "--between {name} is no Ethernet device; name one that is"
            ))),
            system::Card { is_up: false, .. } => Err(Refused::input(format!(
                "--between {name} is down; bring it up with: ip link set {name} up"
            ))),
            card => Ok(card),
        }
    };
    let (first, second) = (open(a)?, open(b)?);
    if first.mtu != second.mtu {
        return Err(Refused::input(format!(
            "--between: {a} has an MTU of {} bytes and {b} of {}; give both the same (ip link set {a} mtu {})",
            first.mtu, second.mtu, second.mtu
        )));
    }
    let of_own = [(a, &first), (b, &second)].into_iter().filter(|(_, card)| card.has_address);
    let notes = of_own.map(|(name, _)| {
        format!("{name} has an address, so this machine answers there besides; a bridge needs none")
    });
    let notes = notes.collect();
    Ok(Cards { sockets: [first.socket, second.socket], notes })
}

fn inside(options: &Options, cards: Option<Cards>) -> Result<Summary, Refused> {
    let wrong = |e: l4slab_core::error::ScenarioError| Refused::input(e.to_string());
    let run = Run::from_json(&options.run).map_err(wrong)?;
    let mut transit = Transit::new(&run).map_err(wrong)?;
    let log = options.log.as_ref().map(create_log).transpose()?;
    let mut notes = Vec::new();
    let number = options.parent.unsigned_abs();
    let way = options.outside.map(|way| outside::Plan::new(way, number)).transpose()?;
    let hosts = if cards.is_some() { Vec::new() } else { hosts(options, &mut notes)? };
    // The process that keeps a table lives as long as this one.
    let _way = way.map(|way| way.open(&mut notes)).transpose()?;
    let children = system::children().map_err(machine("signalfd"))?;
    let server = options.server.as_ref().map(|line| start_server(&hosts, line)).transpose()?;
    let access = options.access_bps.unwrap_or(ACCESS.max(4 * transit.peak().bps()));
    transit.steps = options.steps.then(Vec::new);
    let writer = log.map(|file| start_log(file, options)).transpose()?;
    let joins_udp = cards.is_none() && hosts.iter().flatten().all(|host| host.joins_udp);
    let mut ends = Devices::of(hosts, cards, &mut notes);
    system::wake_sharply();
    let realtime = options.realtime && system::run_in_real_time().is_ok();
    if realtime && let Err(e) = system::lock_memory() {
        notes.push(format!("pages may be swapped out: mlockall: {e}"));
    }
    let zero = options.lead_ns.map(|lead| (system::clock() + lead).next_multiple_of(1_000_000));
    let manner = Manner {
        reversed: options.reverse,
        access: Rate::from_bps(access.max(1)),
        hold: options.hold_ns,
        joins_udp,
        keeps_headers: options.headers,
        zero,
    };
    let control = options.control.map(system::inherited).transpose().map_err(machine("control"))?;
    let control = control.map(|listener| Control::new(listener, &options.run));
    let mut forwarder = Forwarder::new(transit, ends.ends, manner, writer, control);
    // Last of all: what it sends is read at once.
    let word = |word: &String| match zero {
        Some(zero) if word == "ZERO" => zero.to_string(),
        _ => word.clone(),
    };
    let command: Vec<_> = options.command.iter().map(word).collect();
    let resolver = options.outside.and_then(|_| outside::resolver(&mut notes));
    let command = start(ends.namespaces.first(), &command, false, resolver.as_deref())?;
    drop(ends.namespaces);
    // It has all that it needs.
    system::drop_privileges().map_err(machine("the forwarder cannot give up its privileges"))?;
    let stop = Arc::new(AtomicBool::new(false));
    let probes = probe::start(ends.probes, Arc::clone(&stop));
    let probes = probes.map_err(machine("the thread of the probes"))?;
    let mut programs = Programs { command, server, status: None, ended: 0 };
    forwarder.run(&children, |now| programs.ask(now));
    stop.store(true, Ordering::Relaxed);
    // The devices are there until the forwarder ends.
    let drops: Vec<_> = match &mut ends.tables {
        None => forwarder.card_drops(),
        Some(tables) => tables.iter_mut().map(device_drops).collect(),
    };
    let mut summary = forwarder.finish(&mut notes);
    let _ = probes.join();
    for (n, drops) in drops.into_iter().enumerate() {
        match drops {
            Some(drops) => summary.directions[n % 2].device_drops += drops,
            None => notes.push("the drops of the devices are not known".to_owned()),
        }
    }
    summary.command_status = programs.status.unwrap_or(0);
    summary.realtime = realtime;
    summary.notes = notes;
    Ok(summary)
}

fn create_log(path: &String) -> Result<File, Refused> {
    File::create(path).map_err(|e| {
        Refused::input(format!(
            "{path} cannot be written: {e}; give --log a file in a folder that you may write"
        ))
    })
}

fn start_log(file: File, options: &Options) -> Result<LogWriter, Refused> {
    let header = log::header(&options.build, &options.run)?;
    LogWriter::start(file, header).map_err(machine("the log"))
}

/// Client and server of a command, or of each program of a run.
fn hosts(options: &Options, notes: &mut Vec<String>) -> Result<Vec<[Host; 2]>, Refused> {
    if options.hosts.is_empty() {
        let client = plain_host(0, options, notes)?;
        return Ok(vec![[client, plain_host(1, options, notes)?]]);
    }
    system::own_mounts().map_err(machine("/run/netns cannot be made for the programs"))?;
    let both = options.hosts.iter();
    both.map(|[client, server]| Ok([named_host(client)?, named_host(server)?])).collect()
}

/// The process of the command that serves in the first server's namespace.
fn start_server(hosts: &[[Host; 2]], line: &str) -> Result<i32, Refused> {
    let command = ["sh", "-c", line].map(str::to_owned);
    let pid = start(Some(&hosts[0][1].namespace), &command, true, None)?;
    wait_for_server(pid, line)?;
    Ok(pid)
}

/// What the forwarder reads from and writes to, and what belongs to namespaces.
struct Devices {
    ends: Vec<[Device; 2]>,
    probes: Vec<std::net::UdpSocket>,
    namespaces: Vec<File>,
    /// None between network cards.
    tables: Option<Vec<File>>,
}

impl Devices {
    fn of(hosts: Vec<[Host; 2]>, cards: Option<Cards>, notes: &mut Vec<String>) -> Devices {
        let (mut ends, mut probes, mut namespaces, mut tables) = (vec![], vec![], vec![], vec![]);
        for pair in hosts {
            ends.push(pair.map(|host| {
                probes.push(host.probe);
                namespaces.push(host.namespace);
                tables.push(host.devices);
                Device::Tun(host.tun)
            }));
        }
        let tables = cards.is_none().then_some(tables);
        if let Some(cards) = cards {
            ends.push(cards.sockets.map(Device::Card));
            notes.extend(cards.notes);
        }
        Devices { ends, probes, namespaces, tables }
    }
}

/// The programs in the namespaces.
struct Programs {
    command: i32,
    server: Option<i32>,
    status: Option<i32>,
    /// When the command has ended.
    ended: u64,
}

impl Programs {
    fn ask(&mut self, now: u64) -> Answer {
        while let Some((pid, status)) = system::reap(None) {
            if pid == self.command {
                (self.status, self.ended) = (Some(system::exit_status(status)), now);
            } else if self.server == Some(pid) {
                self.server = None;
            }
        }
        match (self.status, self.server) {
            (None, _) => Answer::GoOn,
            (Some(_), _) if now < self.ended + DRAIN => Answer::AskAgain,
            (Some(_), Some(server)) if now < self.ended + SERVER_ENDS => {
                system::kill(-server, libc::SIGTERM);
                Answer::AskAgain
            }
            _ => Answer::Over,
        }
    }
}

/// One of the two hosts of a command and its server.
fn plain_host(side: usize, options: &Options, notes: &mut Vec<String>) -> Result<Host, Refused> {
    let (host, failed) = new_host()?;
    for (name, value, otherwise) in &options.wishes {
        let is_taken = fs::write(sysctl_path(name), value).is_ok();
        if !is_taken && !otherwise.is_empty() && !notes.contains(otherwise) {
            notes.push(otherwise.clone());
        }
    }
    for (name, value) in &options.sysctls {
        fs::write(sysctl_path(name), value).map_err(|e| {
            Refused::input(format!("--sysctl {name}={value} is refused by this kernel: {e}"))
        })?;
    }
    let host = connect(host, IPV4[side], NETMASK, MTU).map_err(&failed)?;
    let mut ipv6 = [0; 16];
    (ipv6[0], ipv6[15]) = (0xfd, side as u8 + 1);
    if system::configure_ipv6(ipv6).is_err() {
        let note = "this kernel has no IPv6".to_owned();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    if side == 0 && options.outside.is_some() {
        system::route_everything().map_err(failed)?;
        // Where there is no IPv6, this is said above.
        let _ = system::route_everything_ipv6();
    }
    Ok(host)
}

/// A host of a run, with the name of its namespace.
fn named_host(options: &HostOptions) -> Result<Host, Refused> {
    let (host, failed) = new_host()?;
    for (name, value, otherwise) in &options.settings {
        let is_taken = fs::write(sysctl_path(name), value).is_ok();
        if !is_taken && !otherwise.is_empty() {
            return Err(Refused::input(otherwise.clone()));
        }
    }
    let _ = system::name_namespace(&options.name, system::NAMESPACE).map_err(&failed)?;
    let host = connect(host, options.ipv4, NETMASK_OF_RUN, options.mtu).map_err(&failed)?;
    if let Some(ipv6) = options.ipv6 {
        system::configure_ipv6(ipv6).map_err(machine("this machine's kernel has no IPv6"))?;
    }
    Ok(host)
}

/// A network namespace with its device.
struct NewHost {
    namespace: File,
    devices: File,
    tun: OwnedFd,
    joins_udp: bool,
}

/// A network namespace, in which this process stays, with a device; and what to say when the rest fails.
fn new_host() -> Result<(NewHost, impl Fn(std::io::Error) -> Refused), Refused> {
    system::unshare(libc::CLONE_NEWNET)
        .map_err(machine("this machine refuses network namespaces; run it as root"))?;
    let open = |what: &str| {
        let path = format!("/proc/thread-self/{what}");
        File::open(&path).map_err(|e| Refused::machine(format!("{path}: {e}")))
    };
    let (namespace, devices) = (open("ns/net")?, open("net/dev")?);
    let (tun, joins_udp) = system::open_tun().map_err(|e| {
        Refused::machine(format!(
            "/dev/net/tun cannot be opened: {e}; load it (modprobe tun), make it accessible (chmod 666 /dev/net/tun), \
             or pass it to the container (docker run --device /dev/net/tun)"
        ))
    })?;
    let device = system::DEVICE;
    for (name, value) in
        [("accept_dad", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")]
    {
        let _ = fs::write(sysctl_path(&format!("net/ipv6/conf/{device}/{name}")), value);
    }
    let failed = machine("the network namespace cannot be set up");
    Ok((NewHost { namespace, devices, tun, joins_udp }, failed))
}

/// Gives the host of this namespace its address.
fn connect(host: NewHost, ipv4: [u8; 4], netmask: [u8; 4], mtu: i32) -> std::io::Result<Host> {
    let NewHost { namespace, devices, tun, joins_udp } = host;
    system::bring_up("lo")?;
    system::configure(ipv4, netmask, mtu, RING)?;
    system::bring_up(system::DEVICE)?;
    Ok(Host { namespace, tun, joins_udp, probe: probe::socket(ipv4)?, devices })
}

pub(crate) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Starts a program in a host's namespace, with a list of name servers of its own.
fn start(
    namespace: Option<&File>,
    command: &[String],
    is_server: bool,
    resolver: Option<&str>,
) -> Result<i32, Refused> {
    let (mut from, mut to) = system::pipe().map_err(machine("pipe"))?;
    let Some(pid) = system::fork().map_err(machine("fork"))? else {
        let failed = || {
            system::die_with_parent(None)?;
            if let Some(namespace) = namespace {
                system::setns(namespace, libc::CLONE_NEWNET)?;
            }
            if let Some(resolver) = resolver {
                system::replace_file(outside::RESOLVER, resolver)?;
            }
            if is_server {
                system::own_process_group();
                system::output_to_error();
            }
            system::set_signals(&[libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE], false);
            system::unblock_signals();
            Err::<(), _>(system::execute(command))
        };
        if let Err(e) = failed() {
            let _ = to.write_all(e.to_string().as_bytes());
        }
        system::exit(127);
    };
    drop(to);
    let mut error = String::new();
    let _ = from.read_to_string(&mut error);
    if error.is_empty() {
        return Ok(pid);
    }
    let name = command.first().map_or("", String::as_str);
    Err(Refused::input(format!(
        "{name} cannot be started: {error}; name a program that is installed"
    )))
}

/// Until the server listens, or has had its time. This process is in its namespace.
fn wait_for_server(pid: i32, line: &str) -> Result<(), Refused> {
    let begun = std::time::Instant::now();
    while begun.elapsed() < SERVER_STARTS {
        if let Some((_, status)) = system::reap(None).filter(|(ended, _)| *ended == pid) {
            let status = system::exit_status(status);
            let name = NAMES[1];
            return Err(Refused::input(format!(
                "the {name} has ended with status {status} before it listened; check --server {line:?}"
            )));
        }
        // In the table of sockets, 0A is a socket of TCP that listens, 07 one of UDP that takes datagrams.
        let listens = [("tcp", " 0A "), ("tcp6", " 0A "), ("udp", " 07 "), ("udp6", " 07 ")];
        if listens.iter().any(|(table, state)| {
            let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
            text.is_ok_and(|text| text.lines().skip(1).any(|line| line.contains(state)))
        }) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Packets that the ring of the device had no room for.
fn device_drops(devices: &mut File) -> Option<u64> {
    let mut table = String::new();
    devices.seek(SeekFrom::Start(0)).and_then(|_| devices.read_to_string(&mut table)).ok()?;
    let row = table.lines().find_map(|line| line.trim().strip_prefix(system::DEVICE))?;
    row.trim_start_matches(':').split_whitespace().nth(11)?.parse().ok()
}
