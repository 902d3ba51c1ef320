// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

func TestMain(m *testing.M) {
	serveIfAsked()
	goleak.VerifyTestMain(m)
}

func TestReadLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLineBytes)
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"lines":           {in: "a\nb\n", want: []string{"a", "b"}},
		"no last newline": {in: "a\nb", want: []string{"a", "b"}},
		"empty lines":     {in: "\n\r\na\r\n\n", want: []string{"a"}},
		"too long":        {in: long + "yyy\nnext\n", want: []string{long + " cut", "next"}},
		"much too long":   {in: long + long + long + "\nnext\n", want: []string{long + " cut", "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collect := func(into *[]string) func([]byte, bool) {
				return func(line []byte, cut bool) {
					text := string(line)
					if cut {
						text += " cut"
					}
					*into = append(*into, text)
				}
			}
			var got []string
			readLines(strings.NewReader(tc.in), collect(&got))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("readLines (-want +got):\n%s", diff)
			}
			// The writer gets the same text in small pieces. It cannot detect that a line
			// without newline is the last one.
			var written []string
			writer := &lineWriter{handle: collect(&written)}
			if _, err := io.CopyBuffer(struct{ io.Writer }{writer}, struct{ io.Reader }{strings.NewReader(tc.in)}, make([]byte, 7)); err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if !strings.HasSuffix(tc.in, "\n") {
				want = want[:len(want)-1]
			}
			if diff := cmp.Diff(want, written); diff != "" {
				t.Errorf("lineWriter (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckHandshake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ line, want string }{
		"good":            {line: "1|2|unix|/tmp/x|grpc|"},
		"with mux":        {line: "1|2|unix|/tmp/x|grpc||true"},
		"text":            {line: "hello", want: `it printed "hello" instead`},
		"secret":          {line: "password=hunter2", want: `"password=[REDACTED]"`},
		"pipes only":      {line: "a|b|c|d", want: "instead of the plugin handshake"},
		"other core":      {line: "2|2|unix|/tmp/x|grpc", want: "core protocol"},
		"other protocol":  {line: "1|3|unix|/tmp/x|grpc", want: `version "3" of the plugin protocol`},
		"no transport":    {line: "1|2|unix|/tmp/x", want: "does not offer gRPC"},
		"control letters": {line: "\x1b[31m", want: `it printed "[31m" instead`},
		"long":            {line: strings.Repeat("z", 5000), want: "zzz…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := checkHandshake(tc.line, redact.New())
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("checkHandshake = %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestRestartDelays(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 7: time.Minute, 1000: time.Minute,
	} {
		if got := backoff.Delay(restartDelays, n); got != want {
			t.Errorf("backoff(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestBuildEnvironment(t *testing.T) {
	t.Parallel()
	host := map[string]string{"PATH": "/bin", "HOME": "/root", "KUBECONFIG": "/secret", "AWS_SECRET_ACCESS_KEY": "x"}
	lookup := func(name string) (string, bool) {
		value, ok := host[name]
		return value, ok
	}
	got := buildEnvironment(lookup, map[string]string{"VELERO_NAMESPACE": "ns", "LANG": "C"}, map[string]string{"LANG": "de", "HOME": "/plugin"})
	want := []string{"HOME=/plugin", "LANG=de", "PATH=/bin", "VELERO_NAMESPACE=ns"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestSpawner_Close(t *testing.T) {
	t.Parallel()
	s := NewSpawner()
	s.Close()
	s.Close()
	p, err := NewProcess(Settings{Spawner: s}, ProcessConfig{Name: "p", Path: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context().Done())
	if err := p.EnsureReady(t.Context()); !errors.Is(err, ErrUnloaded) {
		t.Errorf("error is %v, want ErrClosed", err)
	}
}

func TestProcess_ProgramIsNoPlugin(t *testing.T) {
	t.Parallel()
	s := NewSpawner()
	defer s.Close()
	p, err := NewProcess(Settings{Spawner: s}, ProcessConfig{Name: "p", Path: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var start *StartError
	if err := p.EnsureReady(ctx); !errors.As(err, &start) || start.Reason != ReasonExitedAtOnce {
		t.Errorf("error is %v, want ExitedAtOnce", err)
	}
	// The next call must wait for the back-off, the one after Close is rejected.
	_, err = p.Begin(ctx, Call{})
	if !errors.As(err, &start) || start.Reason != ReasonCrashLoop {
		t.Errorf("error is %v, want CrashLoop", err)
	}
	p.Close(ctx.Done())
	if _, err := p.Begin(ctx, Call{}); !errors.Is(err, ErrUnloaded) {
		t.Errorf("error after Close is %v, want ErrClosed", err)
	}
}
