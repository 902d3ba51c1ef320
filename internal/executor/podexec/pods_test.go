// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
)

func TestContainer(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	pod := func(annotation string) *corev1.Pod {
		p := running("shop", "db-0")
		p.Spec.Containers = []corev1.Container{{Name: "main"}, {Name: "second"}, {Name: "crashing"}, {Name: "ended"}, {Name: "new"}}
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			up("main"), up("second"),
			{Name: "crashing", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			{Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{up("sidecar")}
		if annotation != "" {
			p.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": annotation}
		}
		return p
	}
	for name, tc := range map[string]struct {
		option, annotation string
		want               string
		kind               executor.ErrorKind
		text               string
	}{
		"first":                  {want: "main"},
		"annotation":             {annotation: "second", want: "second"},
		"annotation names none":  {annotation: "none", want: "main"},
		"option":                 {option: "second", annotation: "main", want: "second"},
		"sidecar":                {option: "sidecar", want: "sidecar"},
		"not there":              {option: "none", kind: executor.Failed, text: `1 pod: 1 failed (shop/db-0: has no container "none")`},
		"init container":         {option: "init", kind: executor.Failed, text: `has no container "init"`},
		"crashes":                {option: "crashing", kind: executor.Unreachable, text: "1 pod: 1 not reached (shop/db-0: its container crashing does not run: CrashLoopBackOff)"},
		"ended":                  {option: "ended", kind: executor.Unreachable, text: "does not run: Terminated"},
		"without a status (yet)": {option: "new", kind: executor.Unreachable, text: "does not run: not started yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pod(tc.annotation))
			w.options.Container = tc.option
			_, err := w.execute(t.Context(), aCall)
			if tc.kind != "" {
				wantError(t, err, tc.kind, tc.text)
				if called := w.called(); called != nil {
					t.Errorf("%v were called", called)
				}
				return
			}
			if err != nil || w.calls()[0].container != tc.want {
				t.Errorf("error is %v, calls %+v, want container %s", err, w.calls(), tc.want)
			}
		})
	}
}

var errLost = errors.New("next reader: websocket: close 1006 (abnormal closure): unexpected EOF from 10.0.0.1:443")

// TestExecute_PodChanges changes db-0 while the command runs in it, and then ends the
// command with the matching error.
func TestExecute_PodChanges(t *testing.T) {
	t.Parallel()
	restart := func(w *world) {
		w.change("shop", "db-0", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "containerd://main2" })
	}
	vanish := func(w *world) { w.remove("shop", "db-0") }
	replaced := func(name string, phase corev1.PodPhase) func(*world) {
		return func(w *world) {
			w.remove("shop", "db-0")
			pod := running("shop", name)
			pod.UID, pod.Status.Phase = "new", phase
			w.add(owned(pod, "set"))
		}
	}
	for name, tc := range map[string]struct {
		happens func(*world)
		end     error
		called  []string
		kind    executor.ErrorKind
		text    string
	}{
		"nothing, lost": {
			happens: func(*world) {}, end: errLost, kind: executor.Failed,
			text: "2 pods: 1 ok, 1 failed (shop/db-0: the connection was lost while the command ran; whether it ended is unknown)",
		},
		"restarts, lost": {
			happens: restart, end: errLost, kind: executor.Failed,
			text: "(shop/db-0: its container main restarted while the command ran, which ended it)",
		},
		"restarts, done":     {happens: restart, text: "2 pods: 2 ok"},
		"vanishes, done":     {happens: vanish, text: "2 pods: 2 ok"},
		"vanishes, lost":     {happens: vanish, end: errLost, text: "2 pods: 1 ok, 1 gone (shop/db-0: is gone; the connection was lost while the command ran; whether it ended is unknown)"},
		"vanishes, killed":   {happens: vanish, end: exitCode(137), text: "1 gone (shop/db-0: is gone; exit code 137)"},
		"vanishes, too late": {happens: vanish, end: &podexec.NotStartedError{Err: errors.New("pod does not exist")}, text: "1 gone (shop/db-0: is gone; it no longer exists)"},
		"ends, killed": {
			happens: func(w *world) {
				w.change("shop", "db-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
			},
			end: exitCode(137), text: "2 pods: 1 ok, 1 gone",
		},
		"replaced, runs": {
			happens: replaced("db-x", corev1.PodRunning), end: errLost,
			called: []string{"shop/db-0", "shop/db-1", "shop/db-x"}, text: "3 pods: 2 ok, 1 gone",
		},
		"replaced under its name, runs": {
			happens: replaced("db-0", corev1.PodRunning), end: errLost,
			called: []string{"shop/db-0", "shop/db-1", "shop/db-0"}, text: "3 pods: 2 ok, 1 gone",
		},
		"replaced, does not run yet": {
			happens: replaced("db-x", corev1.PodPending), end: errLost, kind: executor.Unreachable,
			text: "3 pods: 1 ok, 1 gone, 1 not reached (shop/db-x: it replaces a deleted pod and does not run yet;",
		},
		"replaced after it was done": {happens: replaced("db-x", corev1.PodPending), text: "2 pods: 2 ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, owned(running("shop", "db-0"), "set"), owned(running("shop", "db-1"), "set"))
			first := true
			w.handle = func(_ context.Context, c *command) error {
				if c.pod != "db-0" || !first {
					return nil
				}
				first = false
				tc.happens(w)
				return tc.end
			}
			answer, err := w.execute(t.Context(), aCall)
			if tc.kind != "" {
				wantError(t, err, tc.kind, tc.text)
			} else if err != nil || !strings.Contains(answer.Message, tc.text) {
				t.Errorf("message is %q, error %v, want %q", answer.Message, err, tc.text)
			}
			want := tc.called
			if want == nil {
				want = []string{"shop/db-0", "shop/db-1"}
			}
			if diff := cmp.Diff(want, w.called()); diff != "" {
				t.Errorf("called pods: %s", diff)
			}
		})
	}
}

// TestExecute_OnlyPodDeleted deletes the only pod while the command runs in it, and the command fails.
func TestExecute_OnlyPodDeleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		missing podexec.MissingPolicy
		alone   bool // without a controller
		end     error
		next    corev1.PodPhase // of the pod that replaces it at once
		text    string          // of the error, which is Unreachable
	}{
		"freeze":                     {missing: podexec.Fail, end: exitCode(137), text: "the command did not complete in any pod: 1 pod: 1 gone (shop/db-0: is gone; exit code 137)"},
		"freeze, lost":               {missing: podexec.Fail, end: errLost, text: "in any pod: 1 pod: 1 gone (shop/db-0: is gone; the connection was lost"},
		"freeze, done":               {missing: podexec.Fail},
		"freeze if there is a pod":   {missing: podexec.Skip, end: errLost},
		"thaw":                       {missing: podexec.Undo, end: errLost, text: "1 pod: 1 not reached (shop/db-0: is gone and has no replacement yet; the connection was lost"},
		"thaw, done":                 {missing: podexec.Undo},
		"thaw, never comes back":     {missing: podexec.Undo, alone: true, end: errLost},
		"thaw, replaced":             {missing: podexec.Undo, end: errLost, next: corev1.PodRunning},
		"thaw, replaced, in a while": {missing: podexec.Undo, end: errLost, next: corev1.PodPending, text: "2 pods: 1 gone, 1 not reached (shop/db-x: it does not run: Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := owned(running("shop", "db-0"), "set")
			if tc.alone {
				pod.OwnerReferences = nil
			}
			w := newWorld(t, pod)
			w.options.OnMissing = tc.missing
			w.handle = func(_ context.Context, c *command) error {
				if c.pod != "db-0" {
					return nil
				}
				w.remove("shop", "db-0")
				if tc.next != "" {
					next := owned(running("shop", "db-x"), "set")
					next.Status.Phase = tc.next
					w.add(next)
				}
				return tc.end
			}
			_, err := w.execute(t.Context(), aCall)
			if tc.text != "" {
				wantError(t, err, executor.Unreachable, tc.text)
			} else if err != nil {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestExecute_NewPods(t *testing.T) {
	t.Parallel()
	late := running("shop", "db-2")
	late.Status.Phase = corev1.PodPending
	w := newWorld(t, running("shop", "db-1"), late)
	w.handle = func(_ context.Context, c *command) error {
		switch c.pod {
		case "db-1":
			w.add(running("shop", "db-0"))
		case "db-0":
			w.change("shop", "db-2", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
		}
		return nil
	}
	answer, err := w.execute(t.Context(), aCall)
	if err != nil || answer.Message != "3 pods: 3 ok" {
		t.Errorf("message is %q, error %v", answer.Message, err)
	}
	if diff := cmp.Diff([]string{"shop/db-1", "shop/db-0", "shop/db-2"}, w.called()); diff != "" {
		t.Errorf("called pods: %s", diff)
	}
}

func TestExecute_EndlessNewPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"))
	w.handle = func(context.Context, *command) error {
		w.add(running("shop", fmt.Sprintf("db-%d", len(w.calls()))))
		return nil
	}
	_, err := w.execute(t.Context(), aCall)
	wantError(t, err, executor.Unreachable, "new pods kept appearing")
	if n := len(w.called()); n > 10 {
		t.Errorf("%d pods were called", n)
	}
}

func TestExecute_AnyFirstStartable(t *testing.T) {
	t.Parallel()
	refusal := &podexec.NotStartedError{Err: errors.New(`container not found ("main")`)}
	unready := running("shop", "db-0")
	unready.Status.Conditions = nil
	broken := running("shop", "db-1")
	broken.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	const started = "whether it ended is unknown"
	for name, tc := range map[string]struct {
		ends   map[string]error
		vanish bool
		called []string
		kind   executor.ErrorKind
		text   string
	}{
		"a ready one":          {called: []string{"shop/db-2"}, text: "ok in shop/db-2"},
		"not started":          {ends: map[string]error{"db-2": refusal}, called: []string{"shop/db-2", "shop/db-3"}, text: "ok in shop/db-3"},
		"program missing":      {ends: map[string]error{"db-2": errors.New(`exec: "x": executable file not found in $PATH`)}, called: []string{"shop/db-2", "shop/db-3"}, text: "ok in shop/db-3"},
		"exit code":            {ends: map[string]error{"db-2": exitCode(3)}, called: []string{"shop/db-2"}, kind: executor.Failed, text: "shop/db-2: exit code 3"},
		"lost":                 {ends: map[string]error{"db-2": errLost}, called: []string{"shop/db-2"}, kind: executor.Failed, text: "shop/db-2: the connection was lost while the command ran; " + started},
		"lost, pod gone":       {ends: map[string]error{"db-2": errLost}, vanish: true, called: []string{"shop/db-2"}, kind: executor.Failed, text: "shop/db-2: the pod was deleted while the command ran in container main; " + started},
		"started in none":      {ends: map[string]error{"db-0": refusal, "db-2": refusal, "db-3": refusal}, called: []string{"shop/db-2", "shop/db-3", "shop/db-0"}, kind: executor.Unreachable, text: "the command could not be started in any pod: 4 pods: 4 not reached ("},
		"missing in all":       {ends: map[string]error{"db-0": refusal, "db-2": refusal, "db-3": errors.New("executable file not found")}, called: []string{"shop/db-2", "shop/db-3", "shop/db-0"}, kind: executor.Failed, text: "(shop/db-3: /bin/freeze cannot be started in container main: is it there, and executable?;"},
		"only a not ready one": {ends: map[string]error{"db-2": refusal, "db-3": refusal}, called: []string{"shop/db-2", "shop/db-3", "shop/db-0"}, text: "ok in shop/db-0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, unready.DeepCopy(), broken.DeepCopy(), running("shop", "db-3"), running("shop", "db-2"))
			w.options.Target = podexec.Any
			w.handle = func(_ context.Context, c *command) error {
				if tc.vanish {
					w.remove(c.namespace, c.pod)
				}
				return tc.ends[c.pod]
			}
			answer, err := w.execute(t.Context(), aCall)
			if tc.kind != "" {
				wantError(t, err, tc.kind, tc.text)
			} else if err != nil || answer.Message != tc.text {
				t.Errorf("message is %q, error %v, want %q", answer.Message, err, tc.text)
			}
			if diff := cmp.Diff(tc.called, w.called()); diff != "" {
				t.Errorf("called pods: %s", diff)
			}
		})
	}
}

func TestExecute_AnyNewPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"))
	w.options.Target = podexec.Any
	w.handle = func(_ context.Context, c *command) error {
		if c.pod == "db-1" {
			return nil
		}
		w.remove("shop", "db-0")
		w.add(running("shop", "db-1"))
		return &podexec.NotStartedError{Err: errors.New("pod does not exist")}
	}
	answer, err := w.execute(t.Context(), aCall)
	if err != nil || answer.Message != "ok in shop/db-1" {
		t.Errorf("message is %q, error %v", answer.Message, err)
	}
}

func TestParallel(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for i := range 6 {
		pods = append(pods, running("shop", fmt.Sprintf("db-%d", i)))
	}
	w := newWorld(t, pods...)
	w.options.Parallel = 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Every command waits for another one: on its own, none of them would end.
	meet := make(chan struct{})
	inside := make(chan struct{}, 2)
	w.handle = func(ctx context.Context, _ *command) error {
		select {
		case inside <- struct{}{}:
		default:
			t.Error("three run at once")
			cancel()
			return nil
		}
		defer func() { <-inside }()
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	answer, err := w.execute(ctx, aCall)
	if err != nil || answer.Message != "6 pods: 6 ok" {
		t.Errorf("message is %q, error %v", answer.Message, err)
	}
}
