// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A user's programs as the ends of a flow: servers and clients as processes of their own, in the namespaces of their
 * hosts and in the file system of the user's machine, which init.sh has mounted, read only. Part of lab.c.
 *
 * OUTDIR/programs gets what they say: NAME.ROLE.N.out and .err.
 */

#define USERS_ROOT "/run/host"
#define LISTENER_STATE 0x0a	/* of /proc/net/tcp */
#define LOOK_NS 20000000ull	/* how often it is looked who reads the clock in a loop */

enum role { SERVER, CLIENT };
static const char *const roles[] = { "server", "client" };

struct program {
	u32 flow, number;
	enum role role;
	char ns[32], *name, **argv, **settings;	/* of its environment, besides what all have */
	int n_settings;
	u64 start_ns, stop_ns;
	pid_t pid;
	int pidfd, was_stopped;
	u64 ran_ns, ran_before_ns;	/* since its start, now and when it was last looked at */
	int spun;
	struct handle handle;
};

/* A connection of a program: a pair of ports. Times are those at the client's host; 0: not yet. */
struct pair {
	u32 flow;
	u8 protocol;
	u16 sender_port, receiver_port;
	u64 first_ns, ready_ns, last_ns;
	int was_opened;
};

#define MOST_PAIRS 65535u	/* with the number of a connection in 16 bits */
static struct program *programs[65536];
static int n_programs;
static pid_t programs_from;
static char **environment;
static int n_environment;
static char directory[4096] = "/";
static struct pair *pairs;
static u32 n_pairs, *pair_heads, *pair_next;
static u8 client_sends[65536], is_program[65536];

/* A word of the plan: %XX is a byte, and - alone is an empty one. */
static char *unescaped(const char *word)
{
	char *text = copied(word), *to = text;

	for (const char *from = word; *from; from++) {
		unsigned byte;

		if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) {
			*to++ = byte;
			from += 2;
		} else {
			*to++ = *from;
		}
	}
	*to = 0;
	return text;
}

static void plan_environment(char *line)
{
	environment = grown(environment, n_environment + 2, sizeof *environment);
	strtok(line, " \n");
	environment[n_environment++] = unescaped(strtok(NULL, " \n"));
	environment[n_environment] = NULL;
}

/* program FLOW NAME ROLE NUMBER SENDS NAMESPACE START STOP WORD... */
static void plan_program(char *line)
{
	struct program *p = had(calloc(1, sizeof *p));
	unsigned long long start, stop;
	char name[1024], role[8];
	int sends, n = 0, words = 0;

	if (sscanf(line, "%*s %u %1023s %7s %u %d %31s %llu %llu %n", &p->flow, name, role, &p->number, &sends, p->ns,
		   &start, &stop, &n) != 8)
		fail("plan: %s", line);
	group_of(p->flow);
	p->name = unescaped(name);
	p->role = strcmp(role, "server") ? CLIENT : SERVER;
	p->start_ns = start;
	p->stop_ns = stop;
	is_program[p->flow] = 1;
	client_sends[p->flow] = sends == (p->role == CLIENT);
	for (char *word = strtok(line + n, " \n"); word; word = strtok(NULL, " \n")) {
		p->argv = grown(p->argv, words + 2, sizeof *p->argv);
		p->argv[words++] = unescaped(word);
		p->argv[words] = NULL;
	}
	if (!words)
		fail("plan: a program without a command: %s", name);
	programs[next_place(&n_programs, PLACES(programs), "programs")] = p;
}

/* setting KEY=VALUE, of the program before */
static void plan_setting(char *line)
{
	if (!n_programs)
		fail("plan: a setting before a program");
	struct program *p = programs[n_programs - 1];

	p->settings = grown(p->settings, p->n_settings + 1, sizeof *p->settings);
	strtok(line, " \n");
	p->settings[p->n_settings++] = unescaped(strtok(NULL, " \n"));
}

static int output_of(const struct program *p, const char *what)
{
	char path[1200];
	int fd, folder = snprintf(path, sizeof path, "%s/programs/", out_dir);

	snprintf(path + folder, sizeof path - folder, "%s.%s.%u.%s", p->name, roles[p->role], p->number, what);
	for (char *slash = path + folder; (slash = strchr(slash, '/'));)
		*slash = '_';
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		fail("%s cannot be written: %s", path, strerror(errno));
	return fd;
}

static void start_program(struct program *p)
{
	struct rlimit files = { 4096, 1 << 20 };
	int out = output_of(p, "out"), err = output_of(p, "err");

	enter(p->ns);
	fflush(NULL);
	p->pid = fork();
	if (!p->pid) {
		setsid();
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(out, 1);
		dup2(err, 2);
		setrlimit(RLIMIT_NOFILE, &files);
		/* On a host that is no virtual machine, its file system is the user's already. */
		if (!access(USERS_ROOT "/proc", F_OK) && chroot(USERS_ROOT))
			_exit(126);
		if (chdir(directory) && chdir("/"))
			_exit(126);
		environ = environment;
		for (int i = 0; i < p->n_settings; i++)
			putenv(p->settings[i]);
		execve(p->argv[0], p->argv, environ);
		dprintf(2, "%s cannot be started: %s\n", p->argv[0], strerror(errno));
		_exit(127);
	}
	close(out);
	close(err);
	if (!programs_from)
		programs_from = p->pid;
	p->pidfd = syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pid < 0 || p->pidfd < 0)
		fail("the %s of flow \"%s\" cannot be started: %s", roles[p->role], p->name, strerror(errno));
	fcntl(p->pidfd, F_SETFD, FD_CLOEXEC);
	p->handle = (struct handle){ PROGRAM, p };
	watch(p->pidfd, EPOLLIN, &p->handle);
}

/* Whether a file of /proc/net has a socket in this state; without a state, any. */
static int has_socket(const char *file, unsigned wanted)
{
	char path[64], line[512];
	unsigned state;
	int found = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/thread-self/net/%s", file);
	f = fopen(path, "r");
	while (f && !found && fgets(line, sizeof line, f))
		found = sscanf(line, "%*d: %*s %*s %x", &state) == 1 && (!wanted || state == wanted);
	if (f)
		fclose(f);
	return found;
}

static int is_listening(const char *ns)
{
	enter(ns);
	return has_socket("tcp", LISTENER_STATE) || has_socket("tcp6", LISTENER_STATE) || has_socket("udp", 0) ||
	       has_socket("udp6", 0);
}

static void start_client(struct program *p)
{
	for (int i = 0; i < n_programs; i++) {
		const struct program *server = programs[i];

		if (server->flow != p->flow || server->role != SERVER)
			continue;
		if (server->pid && !is_listening(server->ns))
			fail("the server of flow \"%s\" listens on no port when its client starts, at %.3f s and %.1f s "
			     "after the server; start the flow later, or see what the server says",
			     p->name, p->start_ns * 1e-9, (p->start_ns + SETTLE_MS * 1e6) * 1e-9);
	}
	fprintf(events, "%llu\tprogram\t%u\t%u\t%s\tstart\n", (unsigned long long)p->start_ns, p->flow, p->number,
		roles[p->role]);
	start_program(p);
}

static void stop_program(struct program *p)
{
	p->was_stopped = 1;
	if (p->pid > 0)
		kill(-p->pid, SIGTERM);
}

static void program_ended(struct program *p)
{
	int status;

	if (waitpid(p->pid, &status, WNOHANG) != p->pid)
		return;
	epoll_ctl(ep, EPOLL_CTL_DEL, p->pidfd, NULL);
	close(p->pidfd);
	fprintf(events, "%llu\tprogram\t%u\t%u\t%s\t%s\t%d\n", (unsigned long long)now(), p->flow, p->number,
		roles[p->role], p->was_stopped ? "stopped" : WIFSIGNALED(status) ? "signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	p->pid = -1;
}

/* Time of this clock that the processes of each program have run for: a process is of the session of its program. */
static void add_processor_time(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name), session;
		struct timespec ran;
		clockid_t clock;

		/* What is older than the first program is the laboratory's. */
		if (pid < programs_from || (session = getsid(pid)) < 0)
			continue;
		for (int i = 0; i < n_programs; i++)
			if (programs[i]->pid == session && !clock_getcpuclockid(pid, &clock) &&
			    !clock_gettime(clock, &ran))
				programs[i]->ran_ns += ran.tv_sec * 1000000000ull + ran.tv_nsec;
	}
	if (proc)
		closedir(proc);
}

/* Time of this clock in which nobody has run, in steps of 10 ms. */
static double idle_s(void)
{
	static int fd = -1;
	char text[64];
	double idle = 0;
	ssize_t n;

	if (fd < 0)
		fd = open("/proc/uptime", O_RDONLY | O_CLOEXEC);
	n = pread(fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	if (sscanf(text, "%*f %lf", &idle) != 1)
		fail("/proc/uptime cannot be read: %s", strerror(errno));
	return idle;
}

/*
 * A program that computes takes none of this clock's time. One that reads the clock until it shows what it waits for
 * takes all of it, 256 ns a reading, which cost the machine a hundred times as much or more: it is looked at often, so
 * that it is found in seconds. Time is counted in ticks of 4 ms, so a busy program may seem to take all of it once.
 */
static void look_for_spinning(void)
{
	static double idle_before_s;
	static int is_followed;	/* whether it was looked at every process the last time, too */
	double idle = idle_s();
	int was_idle = idle - idle_before_s > 0.005;

	idle_before_s = idle;
	/* To look at every process takes long. */
	if (was_idle) {
		is_followed = 0;
		return;
	}
	for (int i = 0; i < n_programs; i++) {
		programs[i]->ran_before_ns = programs[i]->ran_ns;
		programs[i]->ran_ns = 0;
	}
	add_processor_time();
	for (int i = 0; i < n_programs; i++) {
		struct program *p = programs[i];

		p->spun = is_followed && p->ran_ns > p->ran_before_ns + LOOK_NS * 3 / 4 ? p->spun + 1 : 0;
		if (p->spun == 3)
			fail("the %s of flow \"%s\" waits by reading the clock in a loop, which takes for ever in virtual "
			     "time; let it sleep, or wait for its socket",
			     roles[p->role], p->name);
	}
	is_followed = 1;
}

/* The number of the connection that a packet belongs to, from 0; `sender` and `receiver` are its ports. */
static u32 pair_of(u32 flow, u8 protocol, u16 sender, u16 receiver)
{
	u64 key = (u64)flow << 40 | (u64)protocol << 32 | (u32)sender << 16 | receiver;
	u32 slot, i;

	if (!pairs) {
		pairs = had(calloc(MOST_PAIRS, sizeof *pairs));
		pair_heads = had(calloc(1 << 16, sizeof *pair_heads));
		pair_next = had(calloc(MOST_PAIRS + 1, sizeof *pair_next));
	}
	slot = (key * 0x9e3779b97f4a7c15ull) >> 48;
	for (i = pair_heads[slot]; i; i = pair_next[i]) {
		const struct pair *p = &pairs[i - 1];

		if (p->flow == flow && p->protocol == protocol && p->sender_port == sender &&
		    p->receiver_port == receiver)
			return i - 1;
	}
	if (n_pairs == MOST_PAIRS)
		fail("the programs have more than %u connections; make the run shorter", MOST_PAIRS);
	pairs[n_pairs] = (struct pair){ .flow = flow, .protocol = protocol, .sender_port = sender,
					.receiver_port = receiver };
	pair_next[++n_pairs] = pair_heads[slot];
	pair_heads[slot] = n_pairs;
	return n_pairs - 1;
}

/* What is known of a frame of a program: its connection, and whether it is the first packet or a later one. */
struct program_frame {
	u32 pair, headers, seq;
	u64 hash;
	int opens, goes_on;
};

static struct program_frame program_frame(const struct ip *ip, u32 captured, u32 flow, int ack)
{
	const u8 *l4 = ip->l4;
	int is_first = ip->is_first, protocol = ip->protocol;
	u16 src = 0, dst = 0;
	struct program_frame f = { .headers = ip->header, .hash = 0xcbf29ce484222325 };

	if (is_first && (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)) {
		src = l4[0] << 8 | l4[1];
		dst = l4[2] << 8 | l4[3];
		f.headers += protocol == IPPROTO_TCP ? (l4[12] >> 4) * 4 : 8;
	}
	f.pair = ack ? pair_of(flow, protocol, dst, src) : pair_of(flow, protocol, src, dst);
	/* Unconnected sockets number none of their datagrams: a packet is known by all that no router changes. */
	for (u32 i = 2; i < captured; i++)
		if (ip->is_six ? i != 7 : i != 8 && i != 10 && i != 11)
			f.hash = (f.hash ^ ip->at[i]) * 0x100000001b3;
	f.hash ^= (u64)flow << 1 | ack;
	f.seq = f.hash;
	if (protocol == IPPROTO_TCP && is_first) {
		f.seq = (u32)l4[4] << 24 | l4[5] << 16 | l4[6] << 8 | l4[7];
		f.opens = l4[13] & 2;
		f.goes_on = !f.opens;
	} else if (protocol == IPPROTO_UDP && is_first && captured > f.headers) {
		/* QUIC's long headers are those of the handshake (RFC 9000, section 17). */
		f.opens = (l4[8] & 0xc0) == 0xc0;
		f.goes_on = (l4[8] & 0xc0) == 0x40;
	}
	return f;
}

/* What the client's host sends tells when a connection began and when it was there. */
static void see_at_client(const struct program_frame *f, int from_client, u64 t_ns)
{
	struct pair *p = &pairs[f->pair];

	p->last_ns = t_ns;
	if (!from_client)
		return;
	if (!p->first_ns) {
		p->first_ns = t_ns;
		p->was_opened = f->opens;
	}
	if (p->was_opened && f->goes_on && !p->ready_ns)
		p->ready_ns = t_ns;
}

static void write_pairs(void)
{
	for (u32 i = 0; i < n_pairs; i++) {
		const struct pair *p = &pairs[i];

		fprintf(events, "%llu\tconnection\t%u\t%u\t%s\t%u\t%u\t%llu\t%llu\n", (unsigned long long)p->first_ns,
			p->flow, i, p->protocol == IPPROTO_TCP ? "tcp" : p->protocol == IPPROTO_UDP ? "udp" : "ip",
			p->sender_port, p->receiver_port, (unsigned long long)p->ready_ns,
			(unsigned long long)p->last_ns);
	}
}
