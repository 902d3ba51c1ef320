// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
)

// withCommands gives the pods of a world commands of their own, and returns their outcomes.
func (w *world) withCommands(commands map[string]*podexec.PodCommand) map[string]podexec.PodOutcome {
	outcomes := map[string]podexec.PodOutcome{}
	w.options.Selector, w.options.Command = nil, nil
	w.options.CommandFor = func(pod *corev1.Pod) *podexec.PodCommand { return commands[pod.Name] }
	w.options.OnOutcome = func(pod *corev1.Pod, outcome podexec.PodOutcome) { outcomes[pod.Name] = outcome }
	return outcomes
}

func podCommand(change func(*podexec.PodCommand)) *podexec.PodCommand {
	c := &podexec.PodCommand{Container: "main", Command: []string{"freeze", "--now"}, Timeout: time.Minute}
	if change != nil {
		change(c)
	}
	return c
}

func TestExecute_PodCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command *podexec.PodCommand
		pod     func(*corev1.Pod)
		fails   error
		// kind is that of the error, "" for an answer; text is in either.
		kind    executor.ErrorKind
		text    string
		outcome podexec.PodOutcome
		again   bool
	}{
		"succeeds":               {command: podCommand(nil), text: "1 pod: 1 ok", outcome: podexec.PodOutcome{Started: true, Done: true}},
		"fails":                  {command: podCommand(nil), fails: exitCode(3), kind: executor.Failed, text: "1 failed (shop/db-0: exit code 3", outcome: podexec.PodOutcome{Started: true, Failed: "exit code 3"}},
		"fails, ignored":         {command: podCommand(func(c *podexec.PodCommand) { c.IgnoreFailure = true }), fails: exitCode(3), text: "1 failed and ignored (shop/db-0: exit code 3", outcome: podexec.PodOutcome{Started: true, Done: true, Ignored: "exit code 3"}},
		"cannot be run":          {command: podCommand(func(c *podexec.PodCommand) { c.Problem = "no program" }), kind: executor.Failed, text: "shop/db-0: no program", outcome: podexec.PodOutcome{Failed: "no program"}},
		"cannot be run, ignored": {command: podCommand(func(c *podexec.PodCommand) { c.Problem, c.IgnoreFailure = "no program", true }), text: "shop/db-0: no program", outcome: podexec.PodOutcome{Done: true, Ignored: "no program"}},
		"no such container":      {command: podCommand(func(c *podexec.PodCommand) { c.Container = "other" }), kind: executor.Failed, text: `has no container "other"`, outcome: podexec.PodOutcome{Failed: `has no container "other"`}},
		"container crashes": {
			command: podCommand(nil), kind: executor.Unreachable, text: "its container main does not run: CrashLoopBackOff",
			pod: func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			},
		},
		"pod has ended": {command: podCommand(nil), pod: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }, text: "no pod with a command runs in the 1 namespace included (1 pod found: Succeeded): nothing was done"},
		"waits": {
			command: podCommand(func(c *podexec.PodCommand) { c.Wait = &podexec.ContainerWait{} }),
			pod:     func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: corev1.PodPending} },
			text:    "1 not done yet (shop/db-0: its container main does not run yet)", again: true,
		},
		"waits no longer": {
			command: podCommand(func(c *podexec.PodCommand) {
				c.Wait = &podexec.ContainerWait{Timeout: time.Minute, Since: time.Now().Add(-time.Minute)}
			}),
			pod:  func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: corev1.PodPending} },
			kind: executor.Failed, text: "its container main does not run after 1m0s",
			outcome: podexec.PodOutcome{Failed: "its container main does not run after 1m0s"},
		},
		"is not ready": {
			command: podCommand(func(c *podexec.PodCommand) {
				c.Wait = &podexec.ContainerWait{Ready: true, Timeout: time.Hour, Since: time.Now()}
			}),
			text: "1 not done yet (shop/db-0: its container main is not ready yet)", again: true,
		},
		"is ready": {
			command: podCommand(func(c *podexec.PodCommand) { c.Wait = &podexec.ContainerWait{Ready: true} }),
			pod:     func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Ready = true },
			text:    "1 pod: 1 ok", outcome: podexec.PodOutcome{Started: true, Done: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := running("shop", "db-0")
			if tc.pod != nil {
				tc.pod(pod)
			}
			w := newWorld(t, pod, running("shop", "without"))
			w.options.OnMissing = podexec.Skip
			outcomes := w.withCommands(map[string]*podexec.PodCommand{"db-0": tc.command})
			w.handle = func(context.Context, *command) error { return tc.fails }
			answer, err := w.execute(t.Context(), aCall)
			if tc.kind != "" {
				wantError(t, err, tc.kind, tc.text)
			} else if err != nil || !strings.Contains(answer.Message, tc.text) {
				t.Errorf("got %+v, %v; want %q", answer, err, tc.text)
			}
			if answer.Ignored != (tc.outcome.Ignored != "") || (answer.RetryAfter > 0) != tc.again {
				t.Errorf("answer is %+v", answer)
			}
			if got, want := outcomes["db-0"], tc.outcome; got != want {
				t.Errorf("outcome is %+v, want %+v", got, want)
			}
			for _, c := range w.calls() {
				if diff := cmp.Diff([]string{"freeze", "--now"}, c.command); diff != "" || c.pod != "db-0" || c.stdin != "" {
					t.Errorf("in pod %s with input %q: %s", c.pod, c.stdin, diff)
				}
			}
		})
	}
}

// TestExecute_PodCommandBackoff: the longer a call waits for containers, the less often it lists pods.
func TestExecute_PodCommandBackoff(t *testing.T) {
	t.Parallel()
	for waited, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 20 * time.Second: 20 * time.Second, time.Hour: time.Minute} {
		pod := running("shop", "db-0")
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
		w := newWorld(t, pod)
		w.withCommands(map[string]*podexec.PodCommand{"db-0": podCommand(func(c *podexec.PodCommand) {
			c.Wait = &podexec.ContainerWait{Since: time.Now().Add(-waited)}
		})})
		if answer, err := w.execute(t.Context(), aCall); err != nil || answer.RetryAfter.Truncate(5*time.Second) != want {
			t.Errorf("after %s: %+v, %v", waited, answer, err)
		}
	}
}

// TestExecute_PodCommandTimeout: a command that hangs does not hold the others, and is not taken for
// a lost connection.
func TestExecute_PodCommandTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"), running("shop", "db-1"))
	outcomes := w.withCommands(map[string]*podexec.PodCommand{
		"db-0": podCommand(func(c *podexec.PodCommand) { c.Timeout = time.Millisecond }), "db-1": podCommand(nil),
	})
	w.handle = func(ctx context.Context, c *command) error {
		if c.pod == "db-1" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := w.execute(t.Context(), aCall)
	wantError(t, err, executor.Failed, "2 pods: 1 ok, 1 failed (shop/db-0: the command did not end within 1ms; it may still run in container main)")
	if !outcomes["db-0"].Started || outcomes["db-0"].Done || !outcomes["db-1"].Done {
		t.Errorf("outcomes are %+v", outcomes)
	}
}

// TestExecute_PodCommandSecrets: the errors of container runtimes and of connections contain the command.
func TestExecute_PodCommandSecrets(t *testing.T) {
	t.Parallel()
	const line = "mysql -uroot -pS3cret"
	for name, tc := range map[string]struct {
		fails error
		kind  executor.ErrorKind
		want  string
	}{
		"no such program": {
			errors.New(`OCI runtime exec failed: exec failed: exec: "` + line + `": executable file not found in $PATH`),
			executor.Failed, "the command of its annotation pre.hook.backup.velero.io/command cannot be started in container main",
		},
		"too long a name": {
			errors.New(`OCI runtime exec failed: exec: "` + line + `": file name too long`),
			executor.Unreachable, "the command of its annotation pre.hook.backup.velero.io/command could not be started",
		},
		"no connection": {
			&podexec.NotStartedError{Err: errors.New("Get https://10.0.0.1/exec?command=mysql+-uroot+-pS3cret: EOF")},
			executor.Unreachable, "the command of its annotation pre.hook.backup.velero.io/command could not be started",
		},
		"connection lost": {
			errors.New("Get https://10.0.0.1/exec?command=mysql+-uroot+-pS3cret: EOF"), executor.Failed, "the connection was lost while the command ran",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, running("shop", "db-0"))
			w.withCommands(map[string]*podexec.PodCommand{"db-0": podCommand(func(c *podexec.PodCommand) {
				c.Annotation, c.Command = "pre.hook.backup.velero.io/command", []string{line}
			})})
			w.handle = func(context.Context, *command) error { return tc.fails }
			_, err := w.execute(t.Context(), aCall)
			wantError(t, err, tc.kind, tc.want)
			if strings.Contains(err.Error()+w.logged(), "S3cret") {
				t.Errorf("the password is in the error %v or the log %s", err, w.logged())
			}
		})
	}
}

// TestExecute_PodCommandMaxTimeout: the owner of a pod does not decide how long an action waits for it.
func TestExecute_PodCommandMaxTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"))
	w.withCommands(map[string]*podexec.PodCommand{
		"db-0": podCommand(func(c *podexec.PodCommand) { c.Timeout, c.MaxTimeout = 24*time.Hour, time.Millisecond }),
	})
	w.handle = func(ctx context.Context, _ *command) error {
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := w.execute(t.Context(), aCall)
	wantError(t, err, executor.Failed, "the command did not end within 1ms, the most that the action allows; it may still run in container main")
}

// TestExecute_PodCommandUntriedFirst: commands that hung in an earlier attempt do not come before others.
func TestExecute_PodCommandUntriedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"), running("shop", "db-1"), running("shop", "db-2"))
	w.withCommands(map[string]*podexec.PodCommand{
		"db-0": podCommand(func(c *podexec.PodCommand) { c.Tried = true }), "db-1": podCommand(nil), "db-2": podCommand(nil),
	})
	if _, err := w.execute(t.Context(), aCall); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/db-1", "shop/db-2", "shop/db-0"}, w.called()); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestExecute_ParallelInNamespace: commands that hang in one namespace do not keep those of another from
// being run.
func TestExecute_ParallelInNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("evil", "db-0"), running("evil", "db-1"), running("shop", "db-2"))
	w.options.Namespaces = func(context.Context, executor.Call) ([]string, error) { return []string{"evil", "shop"}, nil }
	w.options.Parallel, w.options.ParallelInNamespace = 2, 1
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ran := make(chan struct{})
	w.handle = func(ctx context.Context, c *command) error {
		if c.namespace == "shop" {
			close(ran)
			return nil
		}
		select {
		case <-ran:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	if _, err := w.execute(ctx, aCall); err != nil {
		t.Error(err)
	}
}

// TestExecute_PodCommandInterrupted: the end of the call is no failure that a pod may ignore.
func TestExecute_PodCommandInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"))
	outcomes := w.withCommands(map[string]*podexec.PodCommand{"db-0": podCommand(func(c *podexec.PodCommand) { c.IgnoreFailure = true })})
	ctx, cancel := context.WithCancel(t.Context())
	w.handle = func(context.Context, *command) error {
		cancel()
		return errors.New("closed")
	}
	_, err := w.execute(ctx, aCall)
	wantError(t, err, executor.Interrupted, "may still run in pod shop/db-0")
	if got := outcomes["db-0"]; !got.Started || got.Done || got.Ignored != "" {
		t.Errorf("outcome is %+v", outcomes["db-0"])
	}
}
