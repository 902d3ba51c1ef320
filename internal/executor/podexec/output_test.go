// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
)

// prints returns a command that prints a text and ends with the given error.
func prints(stdout, stderr string, end error) func(context.Context, *command) error {
	return func(_ context.Context, c *command) error {
		_, _ = io.WriteString(c.stdout, stdout)
		_, _ = io.WriteString(c.stderr, stderr)
		return end
	}
}

func TestExecute_Answers(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("v", 4096)
	for name, tc := range map[string]struct {
		stdout  string
		require bool
		want    executor.Answer
		err     string
	}{
		"nothing":             {want: executor.Answer{Message: "ok in shop/db-0"}},
		"no answer":           {stdout: "done\n", want: executor.Answer{Message: "ok in shop/db-0"}},
		"message":             {stdout: `{"message":"frozen at\n7"}`, want: executor.Answer{Message: "frozen at 7"}},
		"message, secret":     {stdout: `{"message":"password=hunter2 works"}`, want: executor.Answer{Message: "password=[REDACTED] works"}},
		"outputs":             {stdout: "log\n{\"outputs\":{\"lsn\":\"1\"}}\r\n\n \n", want: executor.Answer{Message: "ok in shop/db-0", Outputs: map[string]string{"lsn": "1"}}},
		"largest output":      {stdout: `{"outputs":{"a":"` + value + `"}}`, want: executor.Answer{Message: "ok in shop/db-0", Outputs: map[string]string{"a": value}}},
		"again":               {stdout: `{"message":"copying","retryAfterSeconds":1.5,"outputs":{"a":"b"}}`, want: executor.Answer{Message: "copying", RetryAfter: 1500 * time.Millisecond}},
		"again, very soon":    {stdout: `{"retryAfterSeconds":0.001}`, want: executor.Answer{Message: "ok in shop/db-0", RetryAfter: executor.MinRetryAfter}},
		"not again":           {stdout: `{"retryAfterSeconds":0}`, want: executor.Answer{Message: "ok in shop/db-0"}},
		"not the last line":   {stdout: "{\"outputs\":{\"a\":\"b\"}}\nbye\n", want: executor.Answer{Message: "ok in shop/db-0"}},
		"another object":      {stdout: `{"level":"info","message":"done"}`, want: executor.Answer{Message: "ok in shop/db-0"}},
		"other case":          {stdout: `{"Message":"done"}`, want: executor.Answer{Message: "ok in shop/db-0"}},
		"empty object":        {stdout: `{}`, want: executor.Answer{Message: "ok in shop/db-0"}},
		"two objects":         {stdout: `{"message":"a"}{"message":"b"}`, want: executor.Answer{Message: "ok in shop/db-0"}},
		"nulls":               {stdout: `{"message":null,"outputs":null,"retryAfterSeconds":null}`, want: executor.Answer{Message: "ok in shop/db-0"}},
		"too long":            {stdout: `{"message":"` + strings.Repeat("m", 64<<10) + `"}`, want: executor.Answer{Message: "ok in shop/db-0"}},
		"required, there":     {stdout: `{"message":"yes"}`, require: true, want: executor.Answer{Message: "yes"}},
		"required, missing":   {stdout: "done", require: true, err: "it ended without an answer"},
		"message is a number": {stdout: `{"message":1}`, err: "its answer's message is not a string"},
		"output is a number":  {stdout: `{"outputs":{"replicas":3}}`, err: "its answer's outputs are not an object whose values are strings"},
		"again is a text":     {stdout: `{"retryAfterSeconds":"5s"}`, err: "its answer's retryAfterSeconds is not a number"},
		"again before":        {stdout: `{"retryAfterSeconds":-1}`, err: "is not between 0 and 86400"},
		"again much later":    {stdout: `{"retryAfterSeconds":86401}`, err: "is not between 0 and 86400"},
		"bad key":             {stdout: `{"outputs":{"a/b":"c"}}`, err: `the output's key "a/b" is not allowed`},
		"large output":        {stdout: `{"outputs":{"a":"` + value + `v"}}`, err: `its answer has outputs that are not allowed: the output "a" has 4097 bytes, at most 4096`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, running("shop", "db-0"))
			w.options.Target, w.options.RequireAnswer = podexec.Any, tc.require
			w.handle = prints(tc.stdout, "", nil)
			answer, err := w.execute(t.Context(), aCall)
			if tc.err != "" {
				wantError(t, err, executor.Failed, tc.err)
				return
			}
			if diff := cmp.Diff(tc.want, answer); err != nil || diff != "" {
				t.Errorf("error is %v, answer: %s", err, diff)
			}
		})
	}
}

func TestExecute_MultiplePodOutputs(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{running("shop", "db-0"), running("shop", "db-1"), running("bank", "db-0")}
	many := func(_ context.Context, c *command) error {
		values := make([]string, 11)
		for i := range values {
			values[i] = fmt.Sprintf(`"k%d":"v"`, i)
		}
		_, err := fmt.Fprintf(c.stdout, `{"outputs":{%s}}`, strings.Join(values, ","))
		return err
	}
	for name, tc := range map[string]struct {
		handle func(context.Context, *command) error
		want   executor.Answer
		err    string
	}{
		"one each": {
			handle: func(_ context.Context, c *command) error {
				_, err := fmt.Fprintf(c.stdout, `{"message":"m","outputs":{"lsn":"%s"}}`, c.name())
				return err
			},
			want: executor.Answer{
				Message: "3 pods: 3 ok (bank/db-0: m; shop/db-0: m; shop/db-1: m)",
				Outputs: map[string]string{"bank.db-0.lsn": "bank/db-0", "shop.db-0.lsn": "shop/db-0", "db-1.lsn": "shop/db-1"},
			},
		},
		"too many": {handle: many, err: "the outputs of 3 pods together, each with the pod's name in front, are not allowed: 33 outputs, at most 32 are allowed"},
		"one is not done": {
			handle: func(_ context.Context, c *command) error {
				answer := map[string]string{
					"bank/db-0": `{"retryAfterSeconds":2}`, "shop/db-0": `{"retryAfterSeconds":7,"message":"copying"}`, "shop/db-1": `{"outputs":{"a":"b"}}`,
				}[c.name()]
				_, err := io.WriteString(c.stdout, answer)
				return err
			},
			want: executor.Answer{Message: "3 pods: 1 ok, 2 not done yet (shop/db-0: copying)", RetryAfter: 7 * time.Second},
		},
		"a failure is more than that": {
			handle: func(_ context.Context, c *command) error {
				if c.pod == "db-1" {
					return exitCode(1)
				}
				_, err := io.WriteString(c.stdout, `{"retryAfterSeconds":2}`)
				return err
			},
			err: "3 pods: 2 not done yet, 1 failed (shop/db-1: exit code 1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pods[0].DeepCopy(), pods[1].DeepCopy(), pods[2].DeepCopy())
			w.options.Namespaces = func(context.Context, executor.Call) ([]string, error) { return []string{"shop", "bank"}, nil }
			w.handle = tc.handle
			answer, err := w.execute(t.Context(), aCall)
			if tc.err != "" {
				wantError(t, err, executor.Failed, tc.err)
				return
			}
			if diff := cmp.Diff(tc.want, answer); err != nil || diff != "" {
				t.Errorf("error is %v, answer: %s", err, diff)
			}
		})
	}
}

func TestExecute_Failures(t *testing.T) {
	t.Parallel()
	notStarted := func(text string) error { return &podexec.NotStartedError{Err: errors.New(text)} }
	for name, tc := range map[string]struct {
		stdout, stderr string
		end            error
		want           executor.ErrorKind
		text           string
	}{
		"exit code":            {end: exitCode(3), want: executor.Failed, text: "exit code 3"},
		"says why":             {stdout: "working\n", stderr: "a\ndisk\tfull\n\n", end: exitCode(3), want: executor.Failed, text: "exit code 3: disk full"},
		"says why on stdout":   {stdout: "no disk\n", end: exitCode(3), want: executor.Failed, text: "exit code 3: no disk"},
		"says why in answer":   {stdout: `{"message":"no disk"}`, end: exitCode(3), want: executor.Failed, text: "exit code 3: no disk"},
		"says a secret":        {stderr: "wrong password=hunter2\n", end: exitCode(1), want: executor.Failed, text: "exit code 1: wrong password=[REDACTED]"},
		"no program":           {end: errors.New(`Internal error occurred: OCI runtime exec failed: exec failed: unable to start container process: exec: "/bin/freeze": stat /bin/freeze: no such file or directory`), want: executor.Failed, text: "/bin/freeze cannot be started in container main: is it there, and executable?"},
		"forbidden":            {end: notStarted(`pods "db-0" is forbidden: User "x" cannot create resource "pods/exec"`), want: executor.Unreachable, text: "the operator may not run commands in it: grant get and create of pods/exec"},
		"API server is away":   {end: notStarted("dial tcp 10.0.0.1:443: connect: connection refused"), want: executor.Unreachable, text: "the command could not be started; see the log"},
		"node is away":         {end: errors.New("error dialing backend: dial tcp 10.0.0.7:10250: i/o timeout"), want: executor.Unreachable, text: "the API server cannot reach the node that it runs on"},
		"container crashes":    {end: errors.New(`unable to upgrade connection: container not found ("main")`), want: executor.Unreachable, text: "its container main does not run"},
		"container has exited": {end: errors.New("container is in CONTAINER_EXITED state"), want: executor.Unreachable, text: "its container main does not run"},
		"connection lost":      {end: errLost, want: executor.Failed, text: "the connection was lost while the command ran; whether it ended is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, running("shop", "db-0"))
			w.handle = prints(tc.stdout, tc.stderr, tc.end)
			_, err := w.execute(t.Context(), aCall)
			outcome := map[executor.ErrorKind]string{executor.Failed: "failed", executor.Unreachable: "not reached"}[tc.want]
			wantError(t, err, tc.want, "PreBackupAction(a.io/b): 1 pod: 1 "+outcome+" (shop/db-0: "+tc.text+")")
			if !errors.Is(err, tc.end) {
				t.Errorf("the cause %v is not kept in %v", tc.end, err)
			}
			if strings.Contains(err.Error()+w.logged(), "hunter2") {
				t.Errorf("a secret is in the error or in the log: %v\n%s", err, w.logged())
			}
		})
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"))
	var late *command
	w.handle = func(_ context.Context, c *command) error {
		late = c
		for _, part := range []string{"fre", "ezing\nnow\r\n\n", "token=abcdef\n", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\nlast"} {
			_, _ = io.WriteString(c.stdout, part)
		}
		_, _ = io.WriteString(c.stderr, "oh\x1b[0m\n")
		return nil
	}
	if _, err := w.execute(t.Context(), aCall); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(late.stdout, "too late\n")
	want := []string{
		`"freezing" "pod"="shop/db-0" "container"="main" "stream"="stdout"`, `"now"`, `"token=[REDACTED]"`, `"[REDACTED]"`, `"last"`,
		`"oh [0m" "pod"="shop/db-0" "container"="main" "stream"="stderr"`,
	}
	for _, line := range want {
		if strings.Count(w.logged(), line) != 1 {
			t.Errorf("%s is not once in the log:\n%s", line, w.logged())
		}
	}
	if strings.Contains(w.logged(), "MIIB") || strings.Contains(w.logged(), "too late") {
		t.Errorf("the log holds what it must not:\n%s", w.logged())
	}
}

func TestExecute_LargeOutput(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string][]byte{
		"lines":    bytes.Repeat([]byte(strings.Repeat("x", 127)+"\n"), 512),
		"one line": bytes.Repeat([]byte("x"), 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, running("shop", "db-0"))
			w.handle = func(_ context.Context, c *command) error {
				for range 1600 {
					if n, err := c.stdout.Write(piece); n != len(piece) || err != nil {
						return fmt.Errorf("it took %d bytes: %w", n, err)
					}
				}
				_, err := io.WriteString(c.stdout, "\n"+`{"outputs":{"a":"b"}}`)
				return err
			}
			answer, err := w.execute(t.Context(), aCall)
			if err != nil || answer.Outputs["db-0.a"] != "b" {
				t.Errorf("answer is %+v, error %v: what it printed last is lost", answer, err)
			}
			if size := len(w.logged()); size > 3*podexec.MaxLogBytes {
				t.Errorf("the log has %d bytes", size)
			}
			if !strings.Contains(w.logged(), `the rest was dropped" "pod"="shop/db-0" "container"="main" "bytes"=10`) {
				t.Errorf("the log does not say how much was dropped: …%s", w.logged()[max(0, len(w.logged())-500):])
			}
		})
	}
}
