// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// at returns a log line with a time in the given second.
func at(second, line string) string { return "2026-01-01T00:00:" + second + "Z " + line + "\n" }

var errBroken = io.ErrUnexpectedEOF

// logged returns the logged lines of the container.
func (w *world) logged() []string {
	w.lines.mu.Lock()
	defer w.lines.mu.Unlock()
	var logged []string
	for _, line := range w.lines.all {
		if _, rest, ok := strings.Cut(line, `"msg"="> `); ok {
			text, _, _ := strings.Cut(rest, `"`)
			logged = append(logged, text)
		}
	}
	return logged
}

func TestLogFollower_Streams(t *testing.T) {
	for name, tc := range map[string]struct {
		plays []recording
		want  []string
		calls int
	}{
		"once": {[]recording{{text: at("01", "> a") + at("02", "> b") + "2026-01-01T00:00:03Z > no newline"}}, []string{"a", "b", "no newline"}, 1},
		"broken": {[]recording{
			{text: at("01", "> a") + at("02", "> b") + "2026-01-01T00:00:03Z > c", end: errBroken},
			{text: at("01", "> a") + at("02", "> b") + at("03", "> c is longer")},
		}, []string{"a", "b", "c is longer"}, 2},
		"broken among lines of one time": {[]recording{
			{text: at("01", "> a") + at("02", "> b") + at("02", "> c"), end: errBroken},
			{text: at("01", "> a") + at("02", "> b") + at("02", "> c") + at("02", "> d") + at("03", "> e"), end: errBroken},
			{text: at("02", "> c") + at("02", "> d") + at("03", "> e") + at("04", "> f")},
		}, []string{"a", "b", "c", "d", "e", "f"}, 3},
		"not available at once": {[]recording{{open: apierrors.NewBadRequest("container is waiting to start")}, {text: at("01", "> a")}}, []string{"a"}, 2},
		"never":                 {[]recording{{open: apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "x", nil)}}, nil, 1},
		"secrets": {
			[]recording{{text: at("01", "> token=abc -----BEGIN RSA PRIVATE KEY-----") + at("02", "> MIIE") + at("03", "> -----END RSA PRIVATE KEY-----") + at("04", "> x")}},
			[]string{"token=[REDACTED] [REDACTED]", "x"},
			1,
		},
		"control characters": {[]recording{{text: at("01", "> a\x1b[31m\tred") + at("02", "> ")}}, []string{"a [31m red"}, 1},
		"a line without end": {
			[]recording{{text: at("01", "> "+strings.Repeat("x", 100<<10)) + at("02", "> b")}},
			[]string{strings.Repeat("x", executor.MaxMessageLength-len("> …")) + "…", "b"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.logs.plays = tc.plays
				x := w.run()
				w.pod(w.job(), exited(0, "done"))
				<-x.done
				if got := w.logged(); !slices.Equal(got, tc.want) {
					t.Errorf("the log is %q, want %q", got, tc.want)
				}
				if len(w.logs.calls) != tc.calls || w.logs.calls[0] != "backups/"+w.job().Name+"-x7k2p/action/true" {
					t.Errorf("the log was requested with %q, want %d calls", w.logs.calls, tc.calls)
				}
				if x.answer.Message != "done" || len(w.lines.late) > 0 {
					t.Errorf("the answer is %+v, %v; logged after it: %q", x.answer, x.err, w.lines.late)
				}
			})
		})
	}
}

// TestLogFollower_SizeLimit: a container prints far more than the limit, and continues.
func TestLogFollower_SizeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		line := at("01", "> "+strings.Repeat("x", 1000))
		w.logs.plays = []recording{{text: strings.Repeat(line, 100_000), until: make(chan struct{})}}
		x := w.run()
		w.pod(w.job(), running())
		if got, want := len(w.logged()), MaxLogBytes/len(line); got != want {
			t.Errorf("%d lines were logged, want %d", got, want)
		}
		if w.lines.with("longer than 1048576 bytes") != 1 {
			t.Error("no message says that the log was cut")
		}
		w.become(w.job(), exited(0, "done"))
		<-x.done
		if len(w.logs.calls) != 1 {
			t.Errorf("the log was requested %d times", len(w.logs.calls))
		}
	})
}

// TestLogFollower_StreamEndsEarly: the server ends the stream of a container that continues, as it does after
// some hours.
func TestLogFollower_StreamEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logs.plays = []recording{{text: at("01", "> a")}, {text: at("01", "> a") + at("02", "> b")}}
		x := w.run()
		w.pod(w.job(), running())
		time.Sleep(time.Minute)
		synctest.Wait()
		w.become(w.job(), exited(0, ""))
		<-x.done
		if got := w.logged(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("the log is %q", got)
		}
	})
}

// TestLogFollower_FollowUnavailable: a node that cannot watch files ends each stream at once, with a
// message in the stream.
func TestLogFollower_FollowUnavailable(t *testing.T) {
	const why = "failed to create fsnotify watcher: too many open files"
	for name, tc := range map[string]struct {
		// first is what the container prints at first, and then what it prints later.
		first, then string
		want        []string
	}{
		"it prints nothing": {at("01", "> a"), at("01", "> a"), []string{"a"}},
		"it prints more":    {at("01", "> a"), at("01", "> a") + at("02", "> b"), []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.logs.plays = []recording{{text: tc.first + why}}
				x := w.run()
				w.pod(w.job(), running())
				time.Sleep(time.Minute)
				synctest.Wait()
				if calls := len(w.logs.calls); calls > 10 {
					t.Errorf("the log was requested %d times in a minute", calls)
				}
				w.logs.mu.Lock()
				w.logs.plays = []recording{{text: tc.then + why}}
				w.logs.mu.Unlock()
				w.become(w.job(), exited(3, ""))
				x.fails(t, executor.Failed, "ended with exit code 3: > "+tc.want[len(tc.want)-1])
				if got := w.logged(); !slices.Equal(got, tc.want) {
					t.Errorf("the log is %q, want %q", got, tc.want)
				}
				if n := w.lines.with("fsnotify"); n != 1 {
					t.Errorf("the log says %d times why it cannot be followed", n)
				}
			})
		})
	}
}

// TestLogFollower_EndlessLog: such a log must not delay the answer.
func TestLogFollower_EndlessLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logs.plays = []recording{{text: at("01", "> a"), until: make(chan struct{})}}
		x := w.run()
		w.pod(w.job(), exited(0, "done"))
		began := time.Now()
		<-x.done
		if took := time.Since(began); x.answer.Message != "done" || took > logDrainTimeout {
			t.Errorf("it returned %+v, %v after %s", x.answer, x.err, took)
		}
	})
}

// TestPodLogs checks the requests to the API server.
func TestPodLogs(t *testing.T) {
	t.Parallel()
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		asked = in.URL.String()
		if strings.Contains(asked, "/missing/") {
			out.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(out, "2026-01-01T00:00:01Z a\n")
	}))
	defer server.Close()
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	logs := NewLogs(clients.CoreV1())
	stream, err := logs.PodLogs(t.Context(), namespace, "pod", containerName, true)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(stream)
	if closed := stream.Close(); err != nil || closed != nil || string(content) != "2026-01-01T00:00:01Z a\n" {
		t.Errorf("read %q, %v, %v", content, err, closed)
	}
	if want := "/api/v1/namespaces/backups/pods/pod/log?container=action&follow=true&timestamps=true"; asked != want {
		t.Errorf("requested %s, want %s", asked, want)
	}
	if _, err := logs.PodLogs(t.Context(), namespace, "missing", containerName, false); !apierrors.IsNotFound(err) || !isPermanentLogError(err) {
		t.Errorf("error is %v, want NotFound", err)
	}
	if isPermanentLogError(errors.New("connection reset")) {
		t.Error("a broken connection counts as permanent")
	}
}

// TestLogFollower_RunningContainer: the log is available while the container runs.
func TestLogFollower_RunningContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hold := make(chan struct{})
		w.logs.plays = []recording{{text: at("01", "> a"), until: hold}}
		x := w.run()
		w.pod(w.job(), corev1.PodStatus{Phase: corev1.PodPending})
		if len(w.logs.calls) != 0 {
			t.Error("the log of a container that does not run was requested")
		}
		w.become(w.job(), running())
		if got := w.logged(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the log is %q", got)
		}
		close(hold)
		w.become(w.job(), exited(0, ""))
		<-x.done
	})
}
