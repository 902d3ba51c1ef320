// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/exec"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
)

// apiServer answers exec requests, and records their methods.
type apiServer struct {
	*httptest.Server
	remote *podexec.Remote

	mu      sync.Mutex
	methods []string
}

func newAPIServer(t *testing.T, handler http.HandlerFunc) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.methods = append(s.methods, r.Method)
		s.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	var err error
	if s.remote, err = podexec.NewRemote(&rest.Config{Host: s.URL, BearerToken: "secret"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// asked returns the methods of all requests so far.
func (s *apiServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.methods)
}

// exec runs a command and returns its output.
func (s *apiServer) exec(ctx context.Context, stdin string) (stdout, stderr string, err error) {
	var out, errs printed
	err = s.remote.Exec(ctx, "shop", "db-0", "main", []string{"freeze", "a b", "&c=d"}, strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), err
}

// printed is the output of a command, which may continue after Exec has returned.
type printed struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (p *printed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, text...)
	return len(text), nil
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.text)
}

const (
	statusOK   = `{"status":"Success"}`
	statusExit = `{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`
	// statusNodeAway is the error of an API server that translates WebSocket to SPDY.
	statusNodeAway = `{"status":"Failure","reason":"InternalError","code":500,"message":"Internal error occurred: error sending request: ` +
		`Post \"https://10.0.0.7:10250/exec/shop/db-0/db?command=freeze\": dial tcp 10.0.0.7:10250: connect: connection refused"}`
	statusNode = `{"status":"Failure","reason":"InternalError","message":"error dialing backend: dial tcp 10.0.0.7:10250"}`
)

func TestRemote_Exec(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		want := "/api/v1/namespaces/shop/pods/db-0/exec?command=freeze&command=a+b&command=%26c%3Dd&container=main&stderr=true&stdin=true&stdout=true"
		if got := r.URL.RequestURI(); got != want || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "requested "+got, http.StatusTeapot)
			return
		}
		socket := accept(w, r)
		socket.send(channelStdout, "read "+socket.readStdin())
		socket.send(channelStderr, "noise")
		socket.send(channelStdout, " and done")
		socket.send(channelError, statusOK)
		socket.close()
	})
	stdout, stderr, err := s.exec(t.Context(), "the call")
	if err != nil || stdout != "read the call and done" || stderr != "noise" {
		t.Errorf("it printed %q and %q, error %v", stdout, stderr, err)
	}
	if diff := cmp.Diff([]string{"GET"}, s.asked()); diff != "" {
		t.Errorf("requests: %s", diff)
	}
}

func TestRemote_Errors(t *testing.T) {
	t.Parallel()
	ends := func(status string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			socket := accept(w, r)
			socket.send(channelError, status)
			socket.close()
		}
	}
	for name, tc := range map[string]struct {
		handler    http.HandlerFunc
		code       int
		notStarted bool
		methods    []string
		text       string
	}{
		"exit code": {handler: ends(statusExit), code: 3, methods: []string{"GET"}, text: "exit code 3"},
		"node away": {handler: ends(statusNode), methods: []string{"GET"}, text: "error dialing backend"},
		"lost": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				socket := accept(w, r)
				socket.send(channelStdout, "working")
				_ = socket.conn.Close()
			},
			methods: []string{"GET"}, text: "EOF",
		},
		"forbidden": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods \"db-0\" is forbidden"}`))
			},
			notStarted: true, methods: []string{"GET", "POST"}, text: `pods "db-0" is forbidden`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, tc.handler)
			_, _, err := s.exec(t.Context(), "the call")
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("error is %v, want %q", err, tc.text)
			}
			var exit exec.ExitError
			if code := 0; errors.As(err, &exit) {
				code = exit.ExitStatus()
				if code != tc.code {
					t.Errorf("exit code is %d, want %d", code, tc.code)
				}
			} else if tc.code != 0 {
				t.Errorf("error is %v, want an exit code", err)
			}
			var notStarted *podexec.NotStartedError
			if errors.As(err, &notStarted) != tc.notStarted {
				t.Errorf("not started is %v, want %v: %v", !tc.notStarted, tc.notStarted, err)
			}
			if diff := cmp.Diff(tc.methods, s.asked()); diff != "" {
				t.Errorf("requests: %s", diff)
			}
		})
	}
}

func TestRemote_ServerUnavailable(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, http.NotFound)
	s.Close()
	_, _, err := s.exec(t.Context(), "")
	var notStarted *podexec.NotStartedError
	if !errors.As(err, &notStarted) {
		t.Errorf("error is %v, want that it was not started", err)
	}
	w := newWorld(t, running("shop", "db-0"))
	w.options.Target, w.options.CommandRunner = podexec.Any, s.remote
	_, err = w.execute(t.Context(), aCall)
	wantError(t, err, executor.Unreachable, "the command could not be started; see the log")
}

func TestRemote_ContextCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	closed := make(chan struct{})
	s := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(closed)
		socket := accept(w, r)
		_ = socket.readStdin()
		cancel()
		for {
			if _, _, err := socket.read(); err != nil {
				return
			}
		}
	})
	_, _, err := s.exec(ctx, "the call")
	var notStarted *podexec.NotStartedError
	if !errors.Is(err, context.Canceled) || errors.As(err, &notStarted) {
		t.Errorf("error is %v, want a cancellation after the start", err)
	}
	<-closed
}

func TestRemote_CanceledDuringHandshake(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Error(w, "no WebSocket here", http.StatusBadRequest)
			return
		}
		cancel()
		<-release
	})
	_, _, err := s.exec(ctx, "the call")
	close(release)
	var notStarted *podexec.NotStartedError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &notStarted) {
		t.Errorf("error is %v, want a cancellation before the start", err)
	}
	if !slices.Equal(s.asked(), []string{"GET", "POST"}) {
		t.Errorf("requests: %v", s.asked())
	}
}

// TestExecute_APIServer covers one call from end to end.
func TestExecute_APIServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status string
		want   executor.ErrorKind
		text   string
	}{
		"ok":        {status: statusOK, text: "frozen"},
		"exit code": {status: statusExit, want: executor.Failed, text: "shop/db-0: exit code 3: frozen"},
		"lost":      {want: executor.Failed, text: "the connection was lost while the command ran"},
		"node away": {status: statusNode, want: executor.Unreachable, text: "the API server cannot reach the node"},
		"node lost": {status: statusNodeAway, want: executor.Unreachable, text: "the API server cannot reach the node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
				socket := accept(w, r)
				if strings.Contains(socket.readStdin(), `"key":"k"`) {
					socket.send(channelStdout, `{"message":"frozen"}`)
				}
				if tc.status == "" {
					_ = socket.conn.Close()
					return
				}
				socket.send(channelError, tc.status)
				socket.close()
			})
			w := newWorld(t, running("shop", "db-0"))
			w.options.Target, w.options.CommandRunner = podexec.Any, s.remote
			answer, err := w.execute(t.Context(), aCall)
			if tc.want != "" {
				wantError(t, err, tc.want, tc.text)
			} else if err != nil || answer.Message != tc.text {
				t.Errorf("message is %q, error %v", answer.Message, err)
			}
			if strings.Contains(w.logged(), "Copying") {
				t.Errorf("the client wrote to the log:\n%s", w.logged())
			}
		})
	}
}
