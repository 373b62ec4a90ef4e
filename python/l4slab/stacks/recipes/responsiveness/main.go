// Responsiveness under working conditions (draft-ietf-ippm-responsiveness-09) over TCP, TLS 1.3 and HTTP/2.
//
// `server` answers, `client` opens one load connection more per interval, probes all the while, and writes a line per
// interval: the score so far, as JSON. Times are ms, and RPM are round trips per minute. Both take the same flags.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
)

const (
	port = ":4443"
	// Intervals of a moving average, and the part of the newest average that the deviation of the last ones may have (the
	// draft's MAD and SDT).
	averaged = 4
	stable   = 0.05
	// Of round trips, the part that counts.
	kept = 0.95
	// Probes may take this part of the capacity (PTC), a pair of them has so many bytes, and they have this gap while the
	// capacity is unknown.
	probePart = 0.05
	pairBytes = 6000
	firstGap  = 100 * time.Millisecond
	// Of a frame of a load connection. An answer waits for the frames that are being written, so they are small.
	chunk = 1400
	// Of a stream, so large that the client never limits a load connection.
	window = 1 << 28
)

var (
	interval    = flag.Duration("interval", 5*time.Second, "between two looks at goodput and responsiveness")
	gap         = flag.Duration("gap", 10*time.Millisecond, "between two probes at the least")
	connections = flag.Int("connections", 16, "load connections at the most")
	notsent     = flag.Int("notsent", 16000, "bytes that the server hands to a connection before TCP sends them")
	idle        = flag.Duration("idle", 2*time.Second, "probes of the idle path before the load")
	certificate = flag.String("certificate", "cert.pem", "of the server, with key.pem beside it")
	key         = flag.String("key", "key.pem", "of the server")
)

func main() {
	words := os.Args[1:]
	err := errors.New("usage: responsiveness server FLAGS | client ADDRESS FLAGS")
	switch {
	case len(words) > 0 && words[0] == "server":
		flag.CommandLine.Parse(words[1:])
		err = serve()
	case len(words) > 1 && words[0] == "client":
		flag.CommandLine.Parse(words[2:])
		err = measure(words[1] + port)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type connection struct{} // the key of a request's context for its connection

// What waits to be sent on a connection.
type queue struct {
	socket syscall.RawConn
	room   syscall.RawConn // is readable when little waits
	epoll  *os.File
}

// Linux says that there is room when twice the bytes that wait are below TCP_NOTSENT_LOWAT. The server waits for room for
// an eighth of `notsent`, and looks itself at how much waits: Linux goes on filling its last buffer, up to 64 kB.
func newQueue(conn *tls.Conn) (*queue, error) {
	socket, err := conn.NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(epoll, true) // so that Go waits for it as for a socket
	file := os.NewFile(uintptr(epoll), "epoll")
	socket.Control(func(fd uintptr) {
		event := unix.EpollEvent{Events: unix.EPOLLOUT}
		err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, max(*notsent*7/4, 1)),
			unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, int(fd), &event))
	})
	room, fault := file.SyscallConn()
	return &queue{socket, room, file}, errors.Join(err, fault)
}

func (q *queue) bytes() (count int) {
	q.socket.Control(func(fd uintptr) { count, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) })
	return count
}

// Waits for room.
func (q *queue) await() error {
	return q.room.Read(func(epoll uintptr) bool {
		count, err := unix.EpollWait(int(epoll), make([]unix.EpollEvent, 1), 0)
		return count > 0 || err != nil && err != unix.EINTR
	})
}

func serve() error {
	http.HandleFunc("/small", func(answer http.ResponseWriter, _ *http.Request) { answer.Write([]byte("1")) })
	http.HandleFunc("/large", func(answer http.ResponseWriter, request *http.Request) {
		queue, err := newQueue(request.Context().Value(connection{}).(*tls.Conn))
		if err != nil {
			panic(err)
		}
		defer queue.epoll.Close()
		for data := make([]byte, chunk); ; {
			if queue.bytes() >= max(*notsent, 1) {
				if queue.await() != nil {
					return
				}
				continue
			}
			if _, err := answer.Write(data); err != nil {
				return
			}
			if err := http.NewResponseController(answer).Flush(); err != nil {
				return
			}
		}
	})
	listener, err := net.Listen("tcp4", port)
	if err != nil {
		return err
	}
	server := http.Server{
		TLSConfig: &tls.Config{SessionTicketsDisabled: true},
		ConnContext: func(with context.Context, conn net.Conn) context.Context {
			return context.WithValue(with, connection{}, conn)
		},
	}
	return server.ServeTLS(listener, *certificate, *key)
}

// What a round trip was for.
const (
	onTCP = iota
	onTLS
	onHTTP
	onLoad
	kinds
)

// Round trips, ms, by what they were for.
type trips [kinds][]float64

// The mean of the shortest 95 %.
func (t *trips) trimmed(kind int) float64 {
	sorted := slices.Sorted(slices.Values(t[kind]))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return mean(sorted[:max(int(float64(len(sorted))*kept), 1)])
}

func (t *trips) foreign() float64 {
	return 60000 / mean([]float64{t.trimmed(onTCP), t.trimmed(onTLS), t.trimmed(onHTTP)})
}

func (t *trips) self() float64 { return 60000 / t.trimmed(onLoad) }

// The time within which this part of the requests on new connections was answered.
func (t *trips) quantile(part float64) float64 {
	sorted := slices.Sorted(slices.Values(t[onHTTP]))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(int(math.Ceil(part*float64(len(sorted)))), 1)-1]
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return sum / float64(len(values))
}

// A value per interval.
type series struct{ values, averages []float64 }

// Adds a value and says whether the moving averages no longer change.
func (s *series) add(value float64) bool {
	push := func(list []float64, value float64) []float64 {
		list = append(list, value)
		return list[max(len(list)-averaged, 0):]
	}
	s.values = push(s.values, value)
	s.averages = push(s.averages, mean(s.values))
	middle, squares := mean(s.averages), 0.0
	for _, average := range s.averages {
		squares += (average - middle) * (average - middle)
	}
	deviation := math.Sqrt(squares / float64(len(s.averages)))
	return len(s.averages) == averaged && deviation < stable*s.averages[averaged-1]
}

type test struct {
	address  string
	received atomic.Int64
	capacity atomic.Int64 // the best goodput of an interval, bit/s

	active float64 // goodput since the load began, Mb/s

	mutex sync.Mutex
	now   trips // of this interval
	loads []*http2.ClientConn
}

func (t *test) add(kind int, since time.Time) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.now[kind] = append(t.now[kind], float64(time.Since(since))/1e6)
}

func (t *test) taken() trips {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	taken := t.now
	t.now = trips{}
	return taken
}

// A new connection; `seen` is told of each of its round trips.
func (t *test) connect(seen func(kind int, since time.Time)) (*http2.ClientConn, error) {
	begun := time.Now()
	conn, err := net.Dial("tcp4", t.address)
	if err != nil {
		return nil, err
	}
	seen(onTCP, begun)
	begun = time.Now()
	secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http2.NextProtoTLS}})
	if err := secured.Handshake(); err != nil {
		return nil, err
	}
	seen(onTLS, begun)
	return transport.NewClientConn(secured)
}

var transport = func() *http2.Transport {
	large, err := http2.ConfigureTransports(&http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}})
	if err != nil {
		panic(err)
	}
	return large
}()

// Asks for an object; the answer's body is still to be read.
func get(conn *http2.ClientConn, path string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, "https://l4slab"+path, nil)
	if err != nil {
		return nil, err
	}
	return conn.RoundTrip(request)
}

// Asks for the small object and waits until it is there.
func ask(conn *http2.ClientConn) error {
	answer, err := get(conn, "/small")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func (t *test) foreign() {
	conn, err := t.connect(t.add)
	if err != nil {
		return
	}
	defer conn.Close()
	begun := time.Now()
	if ask(conn) == nil {
		t.add(onHTTP, begun)
	}
}

func (t *test) self(conn *http2.ClientConn) {
	begun := time.Now()
	if ask(conn) == nil {
		t.add(onLoad, begun)
	}
}

func (t *test) load() {
	conn, err := t.connect(func(int, time.Time) {})
	if err != nil {
		return
	}
	answer, err := get(conn, "/large")
	if err != nil {
		return
	}
	t.mutex.Lock()
	t.loads = append(t.loads, conn)
	t.mutex.Unlock()
	for data := make([]byte, 1<<16); ; {
		count, err := answer.Body.Read(data)
		t.received.Add(int64(count))
		if err != nil {
			return
		}
	}
}

// Foreign and self probes take turns.
func (t *test) probe() {
	for number := 0; ; number++ {
		t.mutex.Lock()
		loads := t.loads
		t.mutex.Unlock()
		if len(loads) > 0 && number%2 == 1 {
			go t.self(loads[rand.Intn(len(loads))])
		} else {
			go t.foreign()
		}
		wait := firstGap
		if capacity := t.capacity.Load(); capacity > 0 {
			wait = time.Duration(pairBytes / 2 * 8 / (probePart * float64(capacity)) * 1e9)
		}
		time.Sleep(max(wait, *gap))
	}
}

func measure(address string) error {
	t := &test{address: address}
	begun := time.Now()
	look := func(number int) { time.Sleep(time.Until(begun.Add(*idle + time.Duration(number)**interval))) }
	go t.probe()
	look(0)
	atRest := t.taken()
	t.tell(&atRest, &trips{}, "low")
	go t.load()
	var last []trips
	var goodputs, scores series
	opened, before, saturated := 1, int64(0), false
	for number := 1; ; number++ {
		look(number)
		received := t.received.Load()
		t.active = float64(received) * 8e-6 / (float64(number) * interval.Seconds())
		goodput := float64(received-before) * 8 / interval.Seconds()
		before = received
		t.capacity.Store(max(t.capacity.Load(), int64(goodput)))
		last = append(last, t.taken())
		newest := &last[len(last)-1]
		last = last[max(len(last)-averaged, 0):]
		over := false
		if !saturated {
			saturated = goodputs.add(goodput)
			if !saturated && opened < *connections {
				opened++
				go t.load()
			}
		} else if score := (newest.foreign() + newest.self()) / 2; !math.IsNaN(score) {
			over = scores.add(score)
		}
		confidence := "low"
		if over {
			confidence = "high"
		} else if number >= averaged {
			confidence = "medium"
		}
		var all trips
		for _, one := range last {
			for kind := range all {
				all[kind] = append(all[kind], one[kind]...)
			}
		}
		t.tell(&atRest, &all, confidence)
		if over {
			return nil
		}
	}
}

// Writes the score so far.
func (t *test) tell(atRest, loaded *trips, confidence string) {
	score := map[string]any{"rpm_confidence": confidence}
	if t.active > 0 {
		score["active_mbps"] = t.active
	}
	for name, value := range map[string]float64{
		"rpm":           (loaded.foreign() + loaded.self()) / 2,
		"rpm_foreign":   loaded.foreign(),
		"rpm_self":      loaded.self(),
		"idle_ms_p50":   atRest.quantile(0.5),
		"loaded_ms_p50": loaded.quantile(0.5),
		"loaded_ms_p95": loaded.quantile(0.95),
	} {
		if !math.IsNaN(value) {
			score[name] = value
		}
	}
	json.NewEncoder(os.Stdout).Encode(score)
}
