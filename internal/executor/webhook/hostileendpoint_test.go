// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
)

// TestExecute_EndlessAnswer uses endpoints that write until they are stopped.
func TestExecute_EndlessAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		want   string
	}{
		"done":     {200, "answered with more than 1048576 bytes"},
		"accepted": {202, "answered with more than 1048576 bytes"},
		"failed":   {400, "answered 400 Bad Request: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopped := make(chan struct{}, 1)
			e := newExecutor(t, optionsFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
				readAll(r)
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(tc.status)
				for {
					if _, err := io.WriteString(w, strings.Repeat(" more", 1000)); err != nil {
						stopped <- struct{}{}
						return
					}
				}
			})))
			_, err := e.Execute(t.Context(), newCall())
			wantError(t, err, executor.Failed, tc.want)
			<-stopped
		})
	}
}

// hang returns an endpoint that runs first and then does nothing until the caller has disconnected.
func hang(t *testing.T, first func(http.ResponseWriter)) (opts webhook.Options, called, gone chan struct{}) {
	t.Helper()
	called, gone = make(chan struct{}, 1), make(chan struct{}, 1)
	return optionsFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		first(w)
		called <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})), called, gone
}

func nothing(http.ResponseWriter) {}

// begin sends the headers of an answer and the first bytes of its body.
func begin(status int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
}

func TestExecute_Deadline(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(http.ResponseWriter){
		"no head":     nothing,
		"half a body": begin(200, `{"message":`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Closing the server waits for the end of the endpoint.
			opts, _, _ := hang(t, first)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := newExecutor(t, opts).Execute(ctx, newCall())
			wantError(t, err, executor.Timeout, "did not answer before its deadline: raise its timeout")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error does not match DeadlineExceeded")
			}
		})
	}
}

func TestExecute_Canceled(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(http.ResponseWriter){
		"no head":     nothing,
		"half a body": begin(200, `{"message":`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, called, gone := hang(t, first)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-called
				cancel()
			}()
			_, err := newExecutor(t, opts).Execute(ctx, newCall())
			wantError(t, err, executor.Interrupted, "was interrupted before it answered")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error does not match Canceled")
			}
			<-gone
		})
	}
}

func TestExecute_CanceledBeforeRequest(t *testing.T) {
	t.Parallel()
	var got seen
	ctx, cancel := context.WithCancel(t.Context())
	opts := optionsFor(serve(t, record(t, &got)))
	opts.Credentials = func(ctx context.Context) (webhook.Credentials, error) {
		cancel()
		return webhook.Credentials{}, ctx.Err()
	}
	_, err := newExecutor(t, opts).Execute(ctx, newCall())
	wantError(t, err, executor.Interrupted, "was interrupted before it answered")
	if got.line != "" {
		t.Error("it was called")
	}
}

// TestExecute_StalledBody uses endpoints that begin to answer and then wait longer than the deadline of
// ctx.
func TestExecute_StalledBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		kind   executor.ErrorKind
		want   string
	}{
		"done":   {200, executor.Unreachable, "began to answer and did not end in time"},
		"failed": {400, executor.Failed, "answered 400 Bad Request: it is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, _, gone := hang(t, begin(tc.status, "it is"))
			e := newExecutor(t, opts)
			e.SetTimeouts(0, 50*time.Millisecond)
			_, err := e.Execute(t.Context(), newCall())
			wantError(t, err, tc.kind, tc.want)
			<-gone
		})
	}
}

// listen accepts connections and passes them to handle, one after the other.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	return "https://" + faultproxy.ServeRaw(t, "tcp", "127.0.0.1:0", handle)
}

// speak answers a request over TLS with raw bytes.
func speak(t *testing.T, config *tls.Config, raw string) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		secure := tls.Server(conn, config)
		if request, err := http.ReadRequest(bufio.NewReader(secure)); err == nil {
			readAll(request)
			_, _ = io.WriteString(secure, raw)
			_ = secure.CloseWrite()
		}
	})
}

func TestExecute_MalformedResponse(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "a")
	config := &tls.Config{Certificates: []tls.Certificate{a.pair(t, nil)}, MinVersion: tls.VersionTLS12}
	for name, tc := range map[string]struct {
		raw  string
		kind executor.ErrorKind
		want string
	}{
		"other protocol": {"220 mail ESMTP\r\n", executor.Failed, "answered something that is not HTTP/1.1"},
		"odd header":     {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", executor.Failed, "answered something that is not HTTP/1.1"},
		"giant header":   {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n{}", executor.Failed, "answered with headers of more than 65536 bytes"},
		"nothing":        {"", executor.Unreachable, "the connection to 127.0.0.1:"},
		"half a head":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", executor.Unreachable, "the connection to 127.0.0.1:"},
		"half a body":    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", executor.Unreachable, "the connection to 127.0.0.1:"},
		"odd chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", executor.Unreachable, "the connection to 127.0.0.1:"},
		"other protocol requested": {
			"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", executor.Failed,
			"answered 101 Switching Protocols, which is not part of the contract",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExecutor(t, webhook.Options{URL: speak(t, config, tc.raw), CABundle: a.bundle, AllowCIDRs: []string{"127.0.0.1/32"}})
			_, err := e.Execute(t.Context(), newCall())
			wantError(t, err, tc.kind, tc.want)
		})
	}
}

// TestExecute_SwitchingProtocols: the call gives up at once. net/http leaves such a connection to
// its caller, and it ignores any deadline.
func TestExecute_SwitchingProtocols(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "a")
	config := &tls.Config{Certificates: []tls.Certificate{a.pair(t, nil)}, MinVersion: tls.VersionTLS12}
	url := listen(t, func(conn net.Conn) {
		secure := tls.Server(conn, config)
		if request, err := http.ReadRequest(bufio.NewReader(secure)); err == nil {
			readAll(request)
			_, _ = io.WriteString(secure, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, secure) // until the other side closes the connection
		}
	})
	e := newExecutor(t, webhook.Options{URL: url, CABundle: a.bundle, AllowCIDRs: []string{"127.0.0.1/32"}})
	_, err := e.Execute(t.Context(), newCall())
	wantError(t, err, executor.Failed, "answered 101 Switching Protocols, which is not part of the contract")
}

func TestExecute_ConnectionErrors(t *testing.T) {
	t.Parallel()
	closed := listen(t, func(conn net.Conn) { _ = conn.Close() })
	plain := listen(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.0 400 Bad Request\r\n\r\n") })
	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := "https://" + listener.Addr().String()
	_ = listener.Close()
	for name, tc := range map[string]struct{ url, want string }{
		"refused": {unused, "the connection to " + unused[len("https://"):] + " was refused: check that the endpoint runs"},
		"closed":  {closed, "the connection to " + closed[len("https://"):] + " broke before the answer was complete"},
		"no TLS":  {plain, plain[len("https://"):] + " does not speak TLS: check the port"},
		"silent":  {silent, "the connection to " + silent[len("https://"):] + " timed out: check firewalls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExecutor(t, webhook.Options{URL: tc.url, AllowCIDRs: []string{"127.0.0.1/32"}})
			if name == "silent" {
				e.SetTimeouts(50*time.Millisecond, 0)
			}
			_, err := e.Execute(t.Context(), newCall())
			wantError(t, err, executor.Unreachable, tc.want)
		})
	}
}
