// Calls of one way with pion: `server` answers, `client ADDRESS NUMBER RATE_MIN RATE_START RATE_MAX FPS` sends.
//
// Rates are bit/s. Frames are zeros, of the size that the target bitrate asks for. Each end writes a line per frame, the
// client when it is made, and the server when all of it is there: the call's number, the RTP timestamp, ns of the realtime
// clock, bytes. The client's first line is about its start. Offer and answer cross a TCP connection, and candidates are
// those of the host.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

const (
	port = ":5055"
	// What an RTP packet has of media: 1200 B of IP packet.
	most = 1200 - 20 - 8 - 12 - 8 - 10
	// Of a frame, before its media: its bytes, how many packets it has, which one this is.
	head = 8
	// RTP's clock, per second.
	clock = 90000
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func tell(number, timestamp string, size int) {
	fmt.Println(number, timestamp, time.Now().UnixNano(), size)
}

// An end of a call. With rates, it sends, and `estimators` gets its congestion control.
func connection(estimators chan cc.BandwidthEstimator, rates ...int) *webrtc.PeerConnection {
	var settings webrtc.SettingEngine
	settings.SetIncludeLoopbackCandidate(true) // in the laboratory a host has its address on "lo"
	settings.SetIPFilter(func(ip net.IP) bool { return !ip.IsLoopback() })
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	media, registry := &webrtc.MediaEngine{}, &interceptor.Registry{}
	check(media.RegisterDefaultCodecs())
	if rates != nil {
		control, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) {
			return gcc.NewSendSideBWE(gcc.SendSideBWEMinBitrate(rates[0]), gcc.SendSideBWEInitialBitrate(rates[1]),
				gcc.SendSideBWEMaxBitrate(rates[2]))
		})
		check(err)
		control.OnNewPeerConnection(func(_ string, estimator cc.BandwidthEstimator) { estimators <- estimator })
		registry.Add(control)
		check(webrtc.ConfigureTWCCHeaderExtensionSender(media, registry))
	}
	check(webrtc.RegisterDefaultInterceptors(media, registry))
	api := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry),
		webrtc.WithSettingEngine(settings))
	pc, err := api.NewPeerConnection(webrtc.Configuration{})
	check(err)
	return pc
}

// Sends the description of this end, with all its candidates.
func describe(pc *webrtc.PeerConnection, own webrtc.SessionDescription, to net.Conn) {
	gathered := webrtc.GatheringCompletePromise(pc)
	check(pc.SetLocalDescription(own))
	<-gathered
	check(json.NewEncoder(to).Encode(pc.LocalDescription()))
}

// Takes the description of the other end.
func described(pc *webrtc.PeerConnection, from *bufio.Reader) {
	var other webrtc.SessionDescription
	check(json.NewDecoder(from).Decode(&other))
	check(pc.SetRemoteDescription(other))
}

// Answers one call.
func answer(conn net.Conn) {
	reader := bufio.NewReader(conn)
	number, err := reader.ReadString('\n')
	check(err)
	number = strings.TrimSpace(number)
	pc := connection(nil)
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		came := map[uint32]map[byte]bool{}
		for {
			packet, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			data := packet.Payload
			if len(data) < head {
				continue // padding
			}
			parts := came[packet.Timestamp]
			if parts == nil {
				parts = map[byte]bool{}
				came[packet.Timestamp] = parts
			}
			if parts[data[5]] {
				continue
			}
			parts[data[5]] = true
			if len(parts) == int(data[4]) {
				size := int(data[0])<<24 | int(data[1])<<16 | int(data[2])<<8 | int(data[3])
				tell(number, strconv.FormatUint(uint64(packet.Timestamp), 10), size)
			}
		}
	})
	described(pc, reader)
	own, err := pc.CreateAnswer(nil)
	check(err)
	describe(pc, own, conn)
}

func call(address, number string, rates []int, fps float64) {
	tell(number, "0", 0)
	conn, err := net.Dial("tcp", address+port)
	check(err)
	fmt.Fprintln(conn, number)
	estimators := make(chan cc.BandwidthEstimator, 1)
	pc := connection(estimators, rates...)
	track, err := webrtc.NewTrackLocalStaticRTP(
		webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: clock}, "video", "call")
	check(err)
	sender, err := pc.AddTrack(track)
	check(err)
	connected := make(chan struct{})
	pc.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		if state == webrtc.PeerConnectionStateConnected {
			close(connected)
		}
	})
	own, err := pc.CreateOffer(nil)
	check(err)
	describe(pc, own, conn)
	described(pc, bufio.NewReader(conn))
	<-connected
	go func() { // reports pass the interceptors while they are read
		buffer := make([]byte, 1500)
		for {
			if _, _, err := sender.Read(buffer); err != nil {
				return
			}
		}
	}()
	control := <-estimators
	start, sequence := time.Now(), uint16(0)
	for index := 0; ; index++ {
		time.Sleep(time.Until(start.Add(time.Duration(float64(index) / fps * 1e9))))
		size := max(int(float64(control.GetTargetBitrate())/8/fps), head)
		count := (size + most - 1) / most
		timestamp := uint32(float64(index) * clock / fps)
		tell(number, strconv.FormatUint(uint64(timestamp), 10), size)
		for part, left := 0, size; part < count; part++ {
			bytes := (left + count - part - 1) / (count - part)
			left -= bytes
			payload := make([]byte, max(bytes, head))
			copy(payload, []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size), byte(count), byte(part)})
			header := rtp.Header{Version: 2, Marker: part == count-1, SequenceNumber: sequence, Timestamp: timestamp}
			sequence++
			check(track.WriteRTP(&rtp.Packet{Header: header, Payload: payload}))
		}
	}
}

func main() {
	log.SetFlags(0)
	if os.Args[1] == "server" {
		listener, err := net.Listen("tcp4", port)
		check(err)
		for {
			conn, err := listener.Accept()
			check(err)
			go answer(conn)
		}
	}
	rates := make([]int, 3)
	for n := range rates {
		var err error
		rates[n], err = strconv.Atoi(os.Args[4+n])
		check(err)
	}
	fps, err := strconv.ParseFloat(os.Args[7], 64)
	check(err)
	call(os.Args[2], os.Args[3], rates, fps)
}
