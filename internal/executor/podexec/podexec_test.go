// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
)

func TestNew_InvalidOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*podexec.Options)
		want   string
	}{
		"no reader":       {func(o *podexec.Options) { o.Reader = nil }, "needs Reader"},
		"no stream":       {func(o *podexec.Options) { o.CommandRunner = nil }, "needs Reader, CommandRunner"},
		"no namespaces":   {func(o *podexec.Options) { o.Namespaces = nil }, "and Namespaces"},
		"no selector":     {func(o *podexec.Options) { o.Selector = nil }, "has no selector"},
		"selector of all": {func(o *podexec.Options) { o.Selector = labels.Everything() }, "has no selector"},
		"no command":      {func(o *podexec.Options) { o.Command = nil }, "has no command"},
		"no program":      {func(o *podexec.Options) { o.Command = []string{""} }, "has no command"},
		"two commands": {func(o *podexec.Options) {
			o.CommandFor = func(*corev1.Pod) *podexec.PodCommand { return nil }
		}, "remove one of them"},
		"unknown target":     {func(o *podexec.Options) { o.Target = "all" }, `target "all"`},
		"unknown on missing": {func(o *podexec.Options) { o.OnMissing = "Wait" }, `policy "Wait"`},
		"too parallel":       {func(o *podexec.Options) { o.Parallel = 65 }, "use 1 to 64"},
		"negative":           {func(o *podexec.Options) { o.Parallel = -1 }, "use 1 to 64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := newWorld(t).options
			tc.change(&options)
			if _, err := podexec.New(options); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

func TestExecute_CommandAndStdin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, running("shop", "db-0"))
	w.options.Command = []string{"/bin/freeze", "$(parameters.mode)", "{{.}}"}
	call := aCall
	call.Attempt = 2
	call.Parameters = map[string]string{"mode": "; rm -rf / <&>\n"}
	call.Outputs = map[string]map[string]string{"a.io/other": {"k": "v"}}
	call.BackupName = "nightly"
	call.BackupOutputs = map[string]map[string]string{"a.io/b": {"lsn": "1"}}
	if _, err := w.execute(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	got := w.calls()[0]
	if diff := cmp.Diff([]string{"/bin/freeze", "$(parameters.mode)", "{{.}}"}, got.command); diff != "" {
		t.Errorf("the command changed: %s", diff)
	}
	if strings.Count(got.stdin, "\n") != 1 || !strings.HasSuffix(got.stdin, "\n") || !strings.Contains(got.stdin, "<&>") {
		t.Errorf("what it read is not one readable line: %q", got.stdin)
	}
	var read, want any
	if err := json.Unmarshal([]byte(got.stdin), &read); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"version":1,"key":"k","attempt":2,"point":"PreBackup","action":"a.io/b",
		"pod":{"namespace":"shop","name":"db-0","container":"main"},
		"parameters":{"mode":"; rm -rf / <&>\n"},"outputs":{"a.io/other":{"k":"v"}},
		"backupName":"nightly","backupOutputs":{"a.io/b":{"lsn":"1"}}}`), &want)
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("what it read: %s", diff)
	}
}

func TestExecute_PodSelection(t *testing.T) {
	t.Parallel()
	unready := running("shop", "db-1")
	unready.Status.Conditions = nil
	pending := running("shop", "db-2")
	pending.Status.Phase = corev1.PodPending
	ended := running("shop", "db-3")
	ended.Status.Phase = corev1.PodSucceeded
	other := running("shop", "web-0")
	other.Labels = map[string]string{"app": "web"}
	w := newWorld(t, running("shop", "db-9"), running("shop", "db-0"), unready, pending, ended, other,
		terminating(running("shop", "db-4")), running("bank", "db-0"), running("evil", "db-0"))
	w.options.Namespaces = func(context.Context, executor.Call) ([]string, error) {
		return []string{"shop", "none", "bank", "shop"}, nil
	}
	answer, err := w.execute(t.Context(), aCall)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bank/db-0", "shop/db-0", "shop/db-1", "shop/db-9"}, w.called()); diff != "" {
		t.Errorf("called pods: %s", diff)
	}
	if want := "4 pods: 4 ok"; answer.Message != want || answer.Outputs != nil || answer.RetryAfter != 0 {
		t.Errorf("answer is %+v, want %q", answer, want)
	}
	if !strings.Contains(w.logged(), `"shop/db-2" "why"="Pending"`) || !strings.Contains(w.logged(), `"shop/db-4" "why"="being deleted"`) {
		t.Errorf("the log does not say why pods were skipped:\n%s", w.logged())
	}
}

func TestExecute_PodsOutsideNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Reader = podexec.ReaderFunc(func(context.Context, string, labels.Selector) ([]corev1.Pod, error) {
		return []corev1.Pod{*running("evil", "db-0"), *running("shop", "db-0")}, nil
	})
	if _, err := w.execute(t.Context(), aCall); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/db-0"}, w.called()); diff != "" {
		t.Errorf("called pods: %s", diff)
	}
}

func TestExecute_NamespaceErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		names []string
		err   error
		want  executor.ErrorKind
		text  string
	}{
		"all of them": {names: []string{"shop", ""}, want: executor.Invalid, text: "a namespace without a name"},
		"unknown":     {err: errors.New("dial 10.0.0.1"), want: executor.Unreachable, text: "could not be determined"},
		"own error":   {err: executor.NewError(executor.Invalid, aCall, "the subject is odd", nil), want: executor.Invalid, text: "the subject is odd"},
		"none":        {want: executor.Unreachable, text: "0 namespaces included"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, running("shop", "db-0"))
			w.options.Namespaces = func(context.Context, executor.Call) ([]string, error) { return tc.names, tc.err }
			_, err := w.execute(t.Context(), aCall)
			wantError(t, err, tc.want, tc.text)
			if strings.Contains(err.Error(), "10.0.0.1") {
				t.Errorf("the error holds an address: %v", err)
			}
			if called := w.called(); called != nil {
				t.Errorf("%v were called", called)
			}
		})
	}
}

func TestExecute_InvalidCalls(t *testing.T) {
	t.Parallel()
	many := map[string]map[string]string{}
	for i := range 200 {
		many[strings.Repeat("x", i+1)] = map[string]string{"k": strings.Repeat("v", 4<<10), "l": strings.Repeat("v", 4<<10-2)}
	}
	for name, tc := range map[string]struct {
		change func(*executor.Call)
		want   string
	}{
		"no key":         {func(c *executor.Call) { c.Key = "" }, "no idempotency key"},
		"no attempt":     {func(c *executor.Call) { c.Attempt = 0 }, "attempt number 0"},
		"parameters":     {func(c *executor.Call) { c.Parameters = map[string]string{"k": strings.Repeat("v", 64<<10)} }, "65537 bytes of parameters"},
		"outputs":        {func(c *executor.Call) { c.Outputs = map[string]map[string]string{"a.io/x": {"/": ""}} }, `the outputs of "a.io/x"`},
		"backup outputs": {func(c *executor.Call) { c.BackupOutputs = map[string]map[string]string{"a.io/x": {"/": ""}} }, `the backup's outputs of "a.io/x"`},
		"too much":       {func(c *executor.Call) { c.Outputs = many }, "can be passed to a command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, running("shop", "db-0"))
			call := aCall
			tc.change(&call)
			_, err := w.execute(t.Context(), call)
			wantError(t, err, executor.Invalid, tc.want)
			if called := w.called(); called != nil {
				t.Errorf("%v were called", called)
			}
		})
	}
}

func TestExecute_NoRunningPod(t *testing.T) {
	t.Parallel()
	pending := running("shop", "db-0")
	pending.Status.Phase = corev1.PodPending
	for name, target := range map[string]podexec.Target{"each": podexec.Each, "any": podexec.Any} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pending.DeepCopy())
			w.options.Target = target
			_, err := w.execute(t.Context(), aCall)
			wantError(t, err, executor.Unreachable, `no pod that matches "app=db" runs in the 1 namespace included (1 pod found: Pending)`)
			w.options.OnMissing = podexec.Skip
			answer, err := w.execute(t.Context(), aCall)
			if err != nil || !strings.HasSuffix(answer.Message, "(1 pod found: Pending): nothing was done") {
				t.Errorf("answer is %+v, error %v, want a skipped one", answer, err)
			}
		})
	}
}

// TestExecute_UndoPendingPods: an action that undoes another one finds db-0 in each of these states.
func TestExecute_UndoPendingPods(t *testing.T) {
	t.Parallel()
	const began = 1000
	waiting := func(phase corev1.PodPhase, created int64) *corev1.Pod {
		pod := running("shop", "db-0")
		pod.Status.Phase, pod.CreationTimestamp = phase, metav1.Unix(created, 0)
		return pod
	}
	for name, tc := range map[string]struct {
		pod *corev1.Pod
		// each and any are the texts of the errors; "" stands for an answer.
		each, any string
	}{
		"none":                       {},
		"ended":                      {pod: waiting(corev1.PodSucceeded, began)},
		"failed":                     {pod: waiting(corev1.PodFailed, began)},
		"waiting since before":       {pod: waiting(corev1.PodPending, began-1)},
		"waiting":                    {waiting(corev1.PodPending, began), "1 not reached (shop/db-0: it does not run: Pending)", "in any pod: 1 pod: 1 not reached"},
		"on a node that is lost":     {waiting(corev1.PodUnknown, 1), "(shop/db-0: it does not run: Unknown)", "(shop/db-0: it does not run: Unknown)"},
		"being deleted":              {pod: terminating(running("shop", "db-0"))},
		"being deleted and replaced": {owned(terminating(running("shop", "db-0")), "set"), "it does not run: being deleted", "it does not run: being deleted"},
	} {
		for _, other := range []bool{false, true} {
			for target, text := range map[podexec.Target]string{podexec.Each: tc.each, podexec.Any: tc.any} {
				if target == podexec.Any && other {
					continue // That is sufficient.
				}
				t.Run(fmt.Sprintf("%s, %s, another one runs: %v", name, target, other), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					if tc.pod != nil {
						w = newWorld(t, tc.pod.DeepCopy())
					}
					if other {
						w.add(running("shop", "db-1"))
					}
					w.options.Target, w.options.OnMissing = target, podexec.Undo
					call := aCall
					call.Subject = fmt.Appendf(nil, `{"metadata":{"creationTimestamp":%q}}`, time.Unix(began, 0).UTC().Format(time.RFC3339))
					_, err := w.execute(t.Context(), call)
					if text != "" {
						wantError(t, err, executor.Unreachable, text)
					} else if err != nil {
						t.Errorf("error is %v", err)
					}
					if called := w.called(); (len(called) > 0) != other {
						t.Errorf("%v were called", called)
					}
				})
			}
		}
	}
}

func TestExecute_ListErrors(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("at 10.0.0.1"))
	for name, tc := range map[string]struct {
		errs []error
		want executor.ErrorKind
		text string
	}{
		"forbidden": {errs: []error{forbidden}, want: executor.Unreachable, text: "the pods of namespace shop could not be listed: the operator is not allowed to"},
		"once":      {errs: []error{errors.New("away")}},
		"afterwards": {
			errs: []error{nil, forbidden}, want: executor.Unreachable,
			text: "the pods of namespace shop could not be listed: the operator is not allowed to",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, running("shop", "db-0"))
			reader, n := w.options.Reader, 0
			w.options.Reader = podexec.ReaderFunc(func(ctx context.Context, namespace string, s labels.Selector) ([]corev1.Pod, error) {
				n++
				if n <= len(tc.errs) && tc.errs[n-1] != nil {
					return nil, tc.errs[n-1]
				}
				return reader.ListPods(ctx, namespace, s)
			})
			_, err := w.execute(t.Context(), aCall)
			if tc.want == "" {
				if err != nil || len(w.called()) != 1 {
					t.Errorf("error is %v after %v, want none after one call", err, w.called())
				}
				return
			}
			wantError(t, err, tc.want, tc.text)
		})
	}
}

func TestExecute_ContextDone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause error
		want  executor.ErrorKind
		text  string
	}{
		"deadline": {context.DeadlineExceeded, executor.Timeout, "did not end before its deadline: raise its timeout or check what it waits for; the command may still run in pod shop/db-0"},
		"canceled": {context.Canceled, executor.Interrupted, "was interrupted before it ended; the command may still run in pod shop/db-0"},
	} {
		for _, target := range []podexec.Target{podexec.Each, podexec.Any} {
			t.Run(name+" "+string(target), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, running("shop", "db-0"), running("shop", "db-1"))
				w.options.Target = target
				ctx, cancel := context.WithCancel(t.Context())
				if errors.Is(tc.cause, context.DeadlineExceeded) {
					ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				}
				defer cancel()
				w.handle = func(ctx context.Context, _ *command) error {
					if errors.Is(tc.cause, context.Canceled) {
						cancel()
					}
					<-ctx.Done()
					return ctx.Err()
				}
				_, err := w.execute(ctx, aCall)
				wantError(t, err, tc.want, tc.text)
				if !errors.Is(err, tc.cause) || !slices.Equal(w.called(), []string{"shop/db-0"}) {
					t.Errorf("error is %v after %v", err, w.called())
				}
			})
		}
	}
}
