// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// The channels of v5.channel.k8s.io: the first byte of every message.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3
	channelClose  = 255
)

const (
	opBinary = 2
	opClose  = 8
)

// socket is the server side of a WebSocket (RFC 6455), as much of it as exec needs. It is
// hand-written so that it can also do what a server must not do.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
}

// accept opens the WebSocket of a request.
func accept(w http.ResponseWriter, r *http.Request) *socket {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if !strings.Contains(r.Header.Get("Sec-WebSocket-Protocol"), "v5.channel.k8s.io") {
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
		return &socket{conn: conn, in: buffered.Reader}
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	return &socket{conn: conn, in: buffered.Reader}
}

// read returns the next frame of a client.
func (s *socket) read() (opcode byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1] & 0x7f)
	if size >= 126 {
		long := make([]byte, map[uint64]int{126: 2, 127: 8}[size])
		if _, err := io.ReadFull(s.in, long); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(append(make([]byte, 8-len(long)), long...))
	}
	masked := make([]byte, 4+size)
	if _, err := io.ReadFull(s.in, masked); err != nil {
		return 0, nil, err
	}
	mask, payload := masked[:4], masked[4:]
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return head[0] & 0x0f, payload, nil
}

// readStdin returns what the client sends until it closes its standard input.
func (s *socket) readStdin() string {
	var text strings.Builder
	for {
		opcode, message, err := s.read()
		switch {
		case err != nil || opcode == opClose:
			return text.String()
		case opcode != opBinary || len(message) == 0:
		case message[0] == channelStdin:
			text.Write(message[1:])
		case message[0] == channelClose:
			return text.String()
		}
	}
}

// send sends a message, of less than 64 KiB, on a channel.
func (s *socket) send(channel byte, text string) {
	s.frame(opBinary, append([]byte{channel}, text...))
}

func (s *socket) frame(opcode byte, payload []byte) {
	head := []byte{0x80 | opcode, 126, 0, 0}
	binary.BigEndian.PutUint16(head[2:], uint16(len(payload)))
	if len(payload) < 126 {
		head = []byte{0x80 | opcode, byte(len(payload))}
	}
	_, _ = s.conn.Write(append(head, payload...))
}

// close ends the connection properly: it waits for the client's answer.
func (s *socket) close() {
	s.frame(opClose, []byte{0x03, 0xe8})
	for {
		if opcode, _, err := s.read(); err != nil || opcode == opClose {
			_ = s.conn.Close()
			return
		}
	}
}
