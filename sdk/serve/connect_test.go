// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/grapnel-dev/grapnel/sdk/proto"
)

// logBuffer is the log of a server.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns the lines so far, decoded.
func (l *logBuffer) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []map[string]any
	for text := range strings.Lines(l.text.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("the line %q is not JSON: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// connect serves the actions registered with s until the test ends. It returns a connection
// to the server and its log.
func connect(t *testing.T, s *Server) (grpc.ClientConnInterface, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	s.SetLogOutput(log)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(proto.MaxRequestBytes))
	if err := s.Install(g); err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.GracefulStop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn, log
}

// asOperator adds the metadata that the operator sends beside a message.
func asOperator(ctx context.Context, callID, key, parameters string) context.Context {
	return metadata.AppendToOutgoingContext(ctx,
		proto.MetadataCall, callID, proto.MetadataKey, key, proto.MetadataParameters, parameters)
}
