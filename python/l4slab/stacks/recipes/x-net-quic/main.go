// A transfer over QUIC with golang.org/x/net/quic: `server`, `client ADDRESS BYTES`; qlog into QLOGDIR.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/quic"
	"golang.org/x/net/quic/qlog"
)

const (
	port     = "4433"
	protocol = "transfer"
	window   = 1 << 28 // that never limits
)

func main() {
	var err error
	switch words := os.Args[1:]; {
	case len(words) == 1 && words[0] == "server":
		err = server()
	case len(words) == 3 && words[0] == "client":
		err = client(words[1], words[2])
	default:
		err = errors.New("usage: x-net-quic-transfer server | client ADDRESS BYTES")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func settings(own *tls.Config) *quic.Config {
	config := &quic.Config{
		TLSConfig:                own,
		MaxStreamReadBufferSize:  window,
		MaxStreamWriteBufferSize: 1 << 24,
		MaxConnReadBufferSize:    window,
	}
	if folder := os.Getenv("QLOGDIR"); folder != "" {
		config.QLogLogger = slog.New(qlog.NewJSONHandler(qlog.HandlerOptions{Level: quic.QLogLevelPacket, Dir: folder}))
	}
	return config
}

// Takes what comes on each stream and answers how much it was.
func server() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, made, made, &key.PublicKey, key)
	if err != nil {
		return err
	}
	pair := tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
	own := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13}
	endpoint, err := quic.Listen("udp4", "0.0.0.0:"+port, settings(own))
	if err != nil {
		return err
	}
	for {
		connection, err := endpoint.Accept(context.Background())
		if err != nil {
			return err
		}
		go answer(connection)
	}
}

func answer(connection *quic.Conn) {
	stream, err := connection.AcceptStream(context.Background())
	if err != nil {
		return
	}
	came, _ := io.Copy(io.Discard, stream)
	binary.Write(stream, binary.BigEndian, came)
	stream.CloseWrite()
	fmt.Println(came, "bytes came")
}

type zeros struct{}

func (zeros) Read(to []byte) (int, error) {
	clear(to)
	return len(to), nil
}

// Sends so many bytes, and waits until the other end has them.
func client(address, bytes string) error {
	size, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return err
	}
	begun := time.Now()
	// The two are alone in their network.
	anybody := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13}
	endpoint, err := quic.Listen("udp4", "0.0.0.0:0", settings(anybody))
	if err != nil {
		return err
	}
	connection, err := endpoint.Dial(context.Background(), "udp4", net.JoinHostPort(address, port), settings(anybody))
	if err != nil {
		return err
	}
	ready := time.Since(begun)
	stream, err := connection.NewStream(context.Background())
	if err != nil {
		return err
	}
	if _, err := io.CopyN(stream, zeros{}, size); err != nil {
		return err
	}
	stream.CloseWrite()
	var came int64
	if err := binary.Read(stream, binary.BigEndian, &came); err != nil {
		return err
	}
	if came != size {
		return fmt.Errorf("%d of %d bytes came", came, size)
	}
	fmt.Printf("{\"handshake_s\": %.6f, \"transfer_s\": %.6f, \"bytes\": %d}\n", ready.Seconds(), time.Since(begun).Seconds(), size)
	return nil
}
