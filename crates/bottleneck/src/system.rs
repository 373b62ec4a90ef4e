//! The calls to Linux, each as a small safe function.

use std::ffi::{CString, OsStr, c_int, c_void};
use std::fs::{self, File};
use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::frame::{VLAN, VNET};

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub fn clock() -> u64 {
    // SAFETY: it fills the struct that it is given.
    let now = unsafe {
        let mut now: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of this thread, user and system, in nanoseconds.
pub fn processor_time() -> [u64; 2] {
    // SAFETY: it fills the struct that it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    [ns(usage.ru_utime), ns(usage.ru_stime)]
}

pub fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::unshare(flags) }).map(drop)
}
pub fn setns(of: &File, kind: c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::setns(of.as_raw_fd(), kind) }).map(drop)
}
/// A mount namespace for this process; the machine sees nothing of what is mounted in it.
fn unshare_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)?;
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE)
}
/// A mount namespace for this process, in which only its own network namespaces have names.
pub fn own_mounts() -> io::Result<()> {
    unshare_mounts()?;
    // Nothing is made on the machine itself.
    let there = if Path::new(NAMED).is_dir() { NAMED } else { "/run" };
    mount("tmpfs", there, "tmpfs", 0)?;
    fs::create_dir_all(NAMED)
}
/// Gives a network namespace a name, as `ip netns` does; its path.
pub fn name_namespace(name: &str, namespace: &str) -> io::Result<String> {
    let path = format!("{NAMED}/{name}");
    File::create(&path)?;
    mount(namespace, &path, "", libc::MS_BIND)?;
    Ok(path)
}
/// The network namespace of this thread.
pub const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// That of the parent process. /proc may be that of another PID namespace than this process's.
pub fn namespace_of_parent() -> io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let parent = parent.map(str::trim).ok_or(io::ErrorKind::NotFound)?;
    Ok(format!("/proc/{parent}/ns/net"))
}
/// In a mount namespace for this process, a file is another one.
pub fn replace_file(file: &str, by: &str) -> io::Result<()> {
    unshare_mounts()?;
    mount(by, file, "", libc::MS_BIND)
}
const NAMED: &str = "/run/netns";
fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let text =
        |text: &str| CString::new(text).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (source, target, kind) = (text(source)?, text(target)?, text(kind)?);
    // SAFETY: the strings live until the call returns, and this needs no data.
    check(unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null())
    })
    .map(drop)
}
/// The programs that this process starts have the capabilities that it has, whoever its user is.
pub fn hand_down_privileges() -> io::Result<()> {
    // Each set has two words: effective, permitted and inheritable, and once more.
    let mut sets = [0_u32; 6];
    // SAFETY: the kernel reads a head, and writes and reads two times three words.
    unsafe {
        let head = CapabilityHead { version: CAPABILITIES, pid: 0 };
        check(libc::syscall(libc::SYS_capget, &raw const head, sets.as_mut_ptr()) as c_int)?;
        (sets[2], sets[5]) = (sets[1], sets[4]);
        check(libc::syscall(libc::SYS_capset, &raw const head, sets.as_ptr()) as c_int)?;
    }
    for capability in (0..64).filter(|n| sets[1 + n / 32 * 3] >> (n % 32) & 1 == 1) {
        // SAFETY: no memory is involved.
        check(unsafe {
            libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0)
        })?;
    }
    Ok(())
}
#[repr(C)]
struct CapabilityHead {
    version: u32,
    pid: c_int,
}
/// _LINUX_CAPABILITY_VERSION_3, which has two words of each set.
const CAPABILITIES: u32 = 0x2008_0522;
/// This process keeps no capability, and none of its programs gets one.
pub fn drop_privileges() -> io::Result<()> {
    let (head, none) = (CapabilityHead { version: CAPABILITIES, pid: 0 }, [0_u32; 6]);
    // SAFETY: the kernel reads a head and two times three words.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::syscall(libc::SYS_capset, &raw const head, none.as_ptr()) as c_int).map(drop)
    }
}
pub fn ids() -> (u32, u32) {
    // SAFETY: these cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}
/// The kernel kills this process when its parent ends; an error if that has happened already.
pub fn die_with_parent(parent: Option<i32>) -> io::Result<()> {
    // SAFETY: no memory is involved.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        match parent {
            Some(parent) if libc::getppid() != parent => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(()),
        }
    }
}
/// Wakes of this thread are not delayed to save power.
pub fn wake_sharply() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
/// Before all ordinary programs of the machine, but not what this process starts later.
pub fn run_in_real_time() -> io::Result<()> {
    // SAFETY: the struct is valid.
    unsafe {
        let mut parameters: libc::sched_param = zeroed();
        parameters.sched_priority = 10;
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        check(libc::sched_setscheduler(0, policy, &parameters)).map(drop)
    }
}
/// No page of this process is fetched from disk again.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: no memory is touched.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT) }).map(drop)
}

/// A child process, in which `None` is returned.
///
/// # Safety of the call
/// The process has one thread.
pub fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the caller has one thread, so no lock is held by another one.
    check(unsafe { libc::fork() }).map(|pid| (pid != 0).then_some(pid))
}
pub fn exit(status: i32) -> ! {
    // SAFETY: it does not return, and runs no handlers.
    unsafe { libc::_exit(status) }
}
pub fn own_process_group() {
    // SAFETY: no memory is involved.
    unsafe { libc::setpgid(0, 0) };
}
pub fn kill(pid: i32, signal: c_int) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid, signal) };
}
/// A child that has ended with this wait status; with a `pid`, waits for that one.
pub fn reap(pid: Option<i32>) -> Option<(i32, i32)> {
    let mut status = 0;
    loop {
        let flags = if pid.is_some() { 0 } else { libc::WNOHANG };
        // SAFETY: it writes the status.
        let ended = unsafe { libc::waitpid(pid.unwrap_or(-1), &mut status, flags) };
        match ended {
            1.. => return Some((ended, status)),
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
}
/// The exit status as a shell tells it.
pub fn exit_status(wait_status: i32) -> i32 {
    if libc::WIFEXITED(wait_status) {
        libc::WEXITSTATUS(wait_status)
    } else {
        128 + libc::WTERMSIG(wait_status)
    }
}

/// A descriptor that reports the end of a child instead of the signal.
pub fn children() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before it is used, and the descriptor is new.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}
/// Signals have no effect, or the usual one.
pub fn set_signals(signals: &[c_int], ignored: bool) {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler of ours is involved.
    signals.iter().for_each(|signal| unsafe {
        libc::signal(*signal, action);
    });
}
pub fn unblock_signals() {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}
/// Replaces this process by a program, which is looked for in PATH.
pub fn execute(command: &[String]) -> io::Error {
    let words: Result<Vec<_>, _> =
        command.iter().map(|word| CString::new(OsStr::new(word).as_bytes())).collect();
    let Ok(words) = words else { return io::ErrorKind::InvalidInput.into() };
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the array ends with a null pointer, and its strings live until the call returns.
    unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
    io::Error::last_os_error()
}
/// Standard output becomes standard error.
pub fn output_to_error() {
    // SAFETY: both descriptors are numbers.
    unsafe { libc::dup2(2, 1) };
}
/// Two ends of a pipe, to read and to write.
pub fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors, which are new.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])))
    }
}

/// The events to wait for at a descriptor.
#[repr(transparent)]
pub struct Poll(libc::pollfd);

impl Poll {
    pub fn new(fd: &impl AsRawFd) -> Poll {
        Poll(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
    }
    pub fn listen(&mut self, is_wanted: bool) {
        self.0.events = if is_wanted { libc::POLLIN } else { 0 };
    }
}
impl Poll {
    /// As the last wait has found.
    pub fn is_ready(&self) -> bool {
        self.0.revents != 0
    }
}
/// Takes all signals that have come.
pub fn drain(signals: &OwnedFd) {
    let mut bytes = [0_u8; 1024];
    // SAFETY: the buffer is as long as it is said to be.
    while unsafe { libc::read(signals.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {}
}
/// Waits until there is something to read, or for so many nanoseconds.
pub fn wait(polls: &mut [Poll], ns: u64) {
    let timeout = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `Poll` is `pollfd` and nothing else.
    unsafe {
        let polls_ptr = polls.as_mut_ptr().cast::<libc::pollfd>();
        libc::ppoll(polls_ptr, polls.len() as libc::nfds_t, &timeout, std::ptr::null());
    }
}

fn piece(of: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: of.as_ptr().cast_mut().cast::<c_void>(), iov_len: of.len() }
}
/// Reads a packet; its length, 0 if there is none.
pub fn read_packet(fd: &impl AsRawFd, vnet: &mut [u8; VNET], into: &mut [u8]) -> usize {
    let piece = |of: &mut [u8]| libc::iovec { iov_base: of.as_mut_ptr().cast(), iov_len: of.len() };
    let pieces = [piece(vnet), piece(into)];
    // SAFETY: the pieces are exclusively borrowed for the call.
    let n = unsafe { libc::readv(fd.as_raw_fd(), pieces.as_ptr(), 2) };
    usize::try_from(n).unwrap_or(0).saturating_sub(VNET)
}
/// Pieces of one write.
pub struct Gather(Vec<libc::iovec>);
impl Gather {
    pub fn new() -> Gather {
        Gather(Vec::with_capacity(80))
    }
    /// Writes a packet of pieces, those that follow each other in memory as one.
    pub fn write<'a>(
        &mut self,
        fd: &impl AsRawFd,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        self.0.clear();
        for slice in pieces {
            let next = piece(slice);
            match self.0.last_mut() {
                Some(last) if last.iov_base as usize + last.iov_len == next.iov_base as usize => {
                    last.iov_len += next.iov_len;
                }
                _ => self.0.push(next),
            }
        }
        // SAFETY: the slices live until the call returns.
        let n = unsafe { libc::writev(fd.as_raw_fd(), self.0.as_ptr(), self.0.len() as c_int) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
impl Default for Gather {
    fn default() -> Gather {
        Gather::new()
    }
}

const TUN_F_CSUM: u32 = 0x01;
const TUN_F_TSO4: u32 = 0x02;
const TUN_F_TSO6: u32 = 0x04;
/// Since Linux 6.2.
const TUN_F_USO4: u32 = 0x20;
const TUN_F_USO6: u32 = 0x40;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
pub const DEVICE: &str = "l4s0";

fn request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Makes a TUN device in this network namespace that takes super-packets; whether those of UDP, too. Super-packets whose
/// first segment has CWR are split by the kernel: they differ with and without AccECN.
pub fn open_tun() -> io::Result<(OwnedFd, bool)> {
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    let fd = file.as_raw_fd();
    let mut device = request(DEVICE);
    device.ifr_ifru.ifru_flags =
        (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: the arguments are what these requests take.
    unsafe {
        check(libc::ioctl(fd, TUNSETIFF, &device))?;
        let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
        let both = libc::ioctl(fd, TUNSETOFFLOAD, (tcp | TUN_F_USO4 | TUN_F_USO6) as libc::c_ulong);
        if both < 0 {
            check(libc::ioctl(fd, TUNSETOFFLOAD, tcp as libc::c_ulong))?;
        }
        let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
        Ok((file.into(), both >= 0))
    }
}

#[repr(C)]
struct In6Request {
    address: [u8; 16],
    prefix: u32,
    index: c_int,
}

fn socket(family: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is new.
    unsafe {
        let fd = check(libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn ioctl(socket: RawFd, number: libc::Ioctl, argument: *mut c_void) -> io::Result<()> {
    // SAFETY: the callers give what the request takes.
    check(unsafe { libc::ioctl(socket, number, argument) }).map(drop)
}

/// Brings a device of this network namespace up.
pub fn bring_up(device: &str) -> io::Result<()> {
    let socket = socket(libc::AF_INET)?;
    let mut up = request(device);
    // A TUN device has no neighbours. Without this flag, IPv6 would report the group in which they look for it.
    let more = if device == DEVICE { libc::IFF_NOARP } else { 0 };
    up.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING | more) as libc::c_short;
    ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, (&raw mut up).cast())
}

/// Gives the TUN device of this network namespace its addresses, MTU and queue length.
pub fn configure(ipv4: [u8; 4], netmask: [u8; 4], mtu: c_int, queue: c_int) -> io::Result<()> {
    let socket = socket(libc::AF_INET)?;
    let fd = socket.as_raw_fd();
    let mut r = request(DEVICE);
    for (number, value) in [(libc::SIOCSIFADDR, ipv4), (libc::SIOCSIFNETMASK, netmask)] {
        // SAFETY: a sockaddr_in fits into a sockaddr.
        unsafe {
            let mut address: libc::sockaddr_in = zeroed();
            address.sin_family = libc::AF_INET as _;
            address.sin_addr.s_addr = u32::from_ne_bytes(value);
            r.ifr_ifru.ifru_addr =
                std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address);
        }
        ioctl(fd, number, (&raw mut r).cast())?;
    }
    r.ifr_ifru.ifru_mtu = mtu;
    ioctl(fd, libc::SIOCSIFMTU, (&raw mut r).cast())?;
    set_queue(index_of(fd)?, queue)
}

/// The index of the TUN device of this network namespace.
fn index_of(socket: RawFd) -> io::Result<c_int> {
    let mut r = request(DEVICE);
    ioctl(socket, libc::SIOCGIFINDEX, (&raw mut r).cast())?;
    // SAFETY: the request has filled it in.
    Ok(unsafe { r.ifr_ifru.ifru_ifindex })
}

/// The length of a device's queue. Unlike the request SIOCSIFTXQLEN, a user namespace may do that.
fn set_queue(index: c_int, queue: c_int) -> io::Result<()> {
    const IFLA_TXQLEN: u16 = 13;
    // nlmsghdr, ifinfomsg, rtattr with a number.
    let mut message = [0_u8; 40];
    let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &40_u32.to_ne_bytes());
    put(4, &libc::RTM_NEWLINK.to_ne_bytes());
    put(6, &((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    put(20, &index.to_ne_bytes());
    put(32, &8_u16.to_ne_bytes());
    put(34, &IFLA_TXQLEN.to_ne_bytes());
    put(36, &queue.to_ne_bytes());
    let mut answer = [0_u8; 128];
    // SAFETY: the descriptor is new, and both buffers are as long as it is said.
    let n = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?;
        let socket = OwnedFd::from_raw_fd(fd);
        let fd = socket.as_raw_fd();
        check(libc::send(fd, message.as_ptr().cast(), message.len(), 0) as c_int)?;
        check(libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) as c_int)?
    };
    // NLMSG_ERROR with 0 is the acknowledgement.
    let error = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    match error {
        0 if n >= 20 => Ok(()),
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Gives the TUN device an IPv6 address, if the kernel has IPv6.
pub fn configure_ipv6(address: [u8; 16]) -> io::Result<()> {
    let socket = socket(libc::AF_INET6)?;
    let fd = socket.as_raw_fd();
    let mut wanted = In6Request { address, prefix: 64, index: index_of(fd)? };
    ioctl(fd, libc::SIOCSIFADDR, (&raw mut wanted).cast())
}

/// `struct in6_rtmsg`, whose fields the crate libc keeps to itself.
#[repr(C)]
struct In6Route {
    destination: [u8; 16],
    source: [u8; 16],
    gateway: [u8; 16],
    kind: u32,
    lengths: [u16; 2],
    metric: u32,
    info: libc::c_ulong,
    flags: u32,
    index: c_int,
}

/// What is in no network of this host leaves by its TUN device.
pub fn route_everything() -> io::Result<()> {
    let socket = socket(libc::AF_INET)?;
    let name = CString::new(DEVICE).unwrap_or_default();
    // SAFETY: all-zero bytes are a valid rtentry.
    let mut route: libc::rtentry = unsafe { zeroed() };
    route.rt_dst.sa_family = libc::AF_INET as _;
    route.rt_genmask.sa_family = libc::AF_INET as _;
    route.rt_flags = libc::RTF_UP as _;
    route.rt_dev = name.as_ptr().cast_mut();
    ioctl(socket.as_raw_fd(), libc::SIOCADDRT, (&raw mut route).cast())
}

/// The same for IPv6.
pub fn route_everything_ipv6() -> io::Result<()> {
    let socket = socket(libc::AF_INET6)?;
    let fd = socket.as_raw_fd();
    // SAFETY: all-zero bytes are a valid In6Route.
    let mut route: In6Route = unsafe { zeroed() };
    (route.flags, route.metric, route.index) = (u32::from(libc::RTF_UP), 1, index_of(fd)?);
    ioctl(fd, libc::SIOCADDRT, (&raw mut route).cast())
}

/// Where a connection that the kernel has turned to this socket was to go.
pub fn original_destination(connection: &std::net::TcpStream) -> io::Result<SocketAddr> {
    // SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST are the same number.
    const ORIGINAL: c_int = 80;
    let is_v4 = connection.local_addr()?.is_ipv4();
    let level = if is_v4 { libc::SOL_IP } else { libc::SOL_IPV6 };
    // SAFETY: the kernel writes an address of the family into a struct that has room for it.
    unsafe {
        let mut at: libc::sockaddr_in6 = zeroed();
        let mut length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        let into = (&raw mut at).cast();
        let fd = connection.as_raw_fd();
        check(libc::getsockopt(fd, level, ORIGINAL, into, &raw mut length))?;
        if !is_v4 {
            return Ok((at.sin6_addr.s6_addr, u16::from_be(at.sin6_port)).into());
        }
        let at = into.cast::<libc::sockaddr_in>().read();
        Ok((at.sin_addr.s_addr.to_ne_bytes(), u16::from_be(at.sin_port)).into())
    }
}

/// A network card whose frames this process reads and writes, as Ethernet has them.
pub struct Card {
    pub socket: OwnedFd,
    pub is_ethernet: bool,
    pub is_up: bool,
    pub has_address: bool,
    pub mtu: c_int,
}

/// `struct tpacket_auxdata`.
#[repr(C)]
struct AuxData {
    status: u32,
    length: u32,
    captured: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_kind: u16,
}

const VLAN_IS_THERE: u32 = 1 << 4;
const VLAN_KIND_IS_THERE: u32 = 1 << 6;
/// What may wait to be read, bytes: an interface at 10 Gbit/s fills it in some 10 ms.
const CARD_BUFFER: c_int = 16 << 20;
/// The type of device in `struct sockaddr_ll`.
const ETHERNET: u16 = 1;

fn set_option<T>(socket: RawFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is as long as it is said to be.
    check(unsafe {
        libc::setsockopt(socket, level, option, std::ptr::from_ref(value).cast(), length)
    })
    .map(drop)
}

/// Opens a card of this network namespace. It takes every frame that comes, whoever it is for, until it is closed.
pub fn open_card(name: &str) -> io::Result<Card> {
    // SAFETY: the descriptor is new, and the structs are valid.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let socket = OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?);
        let fd = socket.as_raw_fd();
        let mut r = request(name);
        ioctl(fd, libc::SIOCGIFINDEX, (&raw mut r).cast())?;
        let index = r.ifr_ifru.ifru_ifindex;
        ioctl(fd, libc::SIOCGIFMTU, (&raw mut r).cast())?;
        let mtu = r.ifr_ifru.ifru_mtu;
        ioctl(fd, libc::SIOCGIFFLAGS, (&raw mut r).cast())?;
        let is_up = c_int::from(r.ifr_ifru.ifru_flags) & libc::IFF_UP != 0;
        let has_address = ioctl(fd, libc::SIOCGIFADDR, (&raw mut r).cast()).is_ok();
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)?;
        set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
        // Its own queue would be one more.
        set_option(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        // Since Linux 4.20; what it has sent itself is passed over in any case.
        let _ = set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
            if set_option(fd, libc::SOL_SOCKET, option, &CARD_BUFFER).is_ok() {
                break;
            }
        }
        let mut member: libc::packet_mreq = zeroed();
        (member.mr_ifindex, member.mr_type) = (index, libc::PACKET_MR_PROMISC as libc::c_ushort);
        set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)?;
        let mut place: libc::sockaddr_ll = zeroed();
        place.sll_family = libc::AF_PACKET as libc::c_ushort;
        place.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        place.sll_ifindex = index;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::bind(fd, (&raw const place).cast(), length))?;
        let mut known = length;
        check(libc::getsockname(fd, (&raw mut place).cast(), &raw mut known))?;
        Ok(Card { socket, is_ethernet: place.sll_hatype == ETHERNET, is_up, has_address, mtu })
    }
}

/// Frames that came while the buffer of a card's socket was full.
pub fn card_drops(socket: &impl AsRawFd) -> Option<u64> {
    let mut counts = [0_u32; 2];
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes two words.
    let told = check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut length,
        )
    });
    told.ok().map(|_| u64::from(counts[1]))
}

/// Reads a frame that has come to a card: its length, 0 if there is none, and how long ago it came, ns. The kernel takes the
/// VLAN tag out of it; here it is put back.
pub fn read_frame(fd: &impl AsRawFd, vnet: &mut [u8; VNET], into: &mut [u8]) -> (usize, u64) {
    const TAG: usize = 4;
    loop {
        let mut control = [0_u64; 16];
        let room = into.len() - TAG;
        // SAFETY: all that the message points to lives until the call returns, and the control messages are read
        // within what the kernel has written.
        unsafe {
            let mut from: libc::sockaddr_ll = zeroed();
            let mut pieces = [
                libc::iovec { iov_base: vnet.as_mut_ptr().cast(), iov_len: VNET },
                libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: room },
            ];
            let mut message: libc::msghdr = zeroed();
            message.msg_name = (&raw mut from).cast();
            message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            (message.msg_iov, message.msg_iovlen) = (pieces.as_mut_ptr(), 2);
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            let n = libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0);
            let Some(mut length) = usize::try_from(n).ok().and_then(|n| n.checked_sub(VNET)) else {
                return (0, 0);
            };
            if from.sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            let mut waited = 0;
            let mut next = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(head) = next.as_ref() {
                let data = libc::CMSG_DATA(next);
                if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
                    let at = data.cast::<libc::timespec>().read_unaligned();
                    waited = wall_clock().saturating_sub(nanoseconds(&at));
                }
                if (head.cmsg_level, head.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
                    let about = data.cast::<AuxData>().read_unaligned();
                    if about.status & VLAN_IS_THERE != 0 && length >= 12 {
                        put_tag(vnet, into, length, &about);
                        length += TAG;
                    }
                }
                next = libc::CMSG_NXTHDR(&raw const message, next);
            }
            return (length, waited);
        }
    }
}

fn put_tag(vnet: &mut [u8; VNET], frame: &mut [u8], length: usize, about: &AuxData) {
    let has_kind = about.status & VLAN_KIND_IS_THERE != 0;
    let kind = if has_kind { about.vlan_kind } else { VLAN };
    frame.copy_within(12..length, 16);
    frame[12..14].copy_from_slice(&kind.to_be_bytes());
    frame[14..16].copy_from_slice(&about.vlan_tci.to_be_bytes());
    // Where the checksum begins is counted from the frame's beginning.
    let start = u16::from_ne_bytes([vnet[6], vnet[7]]) + 4;
    vnet[6..8].copy_from_slice(&start.to_ne_bytes());
}

fn nanoseconds(at: &libc::timespec) -> u64 {
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}
fn wall_clock() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut at) };
    nanoseconds(&at)
}

/// A descriptor that this process was started with, and none of its children gets.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: nobody else owns it.
    unsafe {
        check(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}
/// Somebody who has connected to a socket that listens.
pub fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none = std::ptr::null_mut();
    // SAFETY: the address is not asked for, and the descriptor is new.
    unsafe {
        let fd = libc::accept4(listener.as_raw_fd(), none, none.cast(), flags);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}
/// The next message; `None` if there is none, an empty one at the end.
pub fn receive(fd: &OwnedFd, into: &mut [u8]) -> Option<usize> {
    // SAFETY: the buffer is as long as it is said to be.
    let n = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
    match usize::try_from(n) {
        Ok(n) => Some(n),
        Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(0),
    }
}
/// Sends a message, as far as there is somebody who takes it.
pub fn send(fd: &OwnedFd, bytes: &[u8]) {
    // SAFETY: the buffer is as long as it is said to be.
    unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
}
