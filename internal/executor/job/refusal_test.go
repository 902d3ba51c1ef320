// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

var (
	errNoRight = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no access"))
	errQuota   = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("exceeded quota: few"))
	// errRace is the error of quota admission if the quota was changed concurrently.
	errRace    = apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "few", errors.New("the object has been modified"))
	errWebhook = apierrors.NewInternalError(errors.New(`failed calling webhook "jobs.example.io": connection refused`))
)

// fail makes the first requests of a kind, such as "create *v1.Job", fail. It returns the number of
// requests.
func (w *world) fail(what string, times int, err error) *int {
	n := new(int)
	w.refuse(func(verb string, o any) error {
		if fmt.Sprintf("%s %T", verb, o) != what {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if *n++; *n > times {
			return nil
		}
		return err
	})
	return n
}

// left starts a Job in the given state, and stops the operator.
func (w *world) left(status corev1.PodStatus) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	x := w.execute(ctx, w.options(), call())
	w.pod(w.job(), status)
	stop()
	<-x.done
}

// answers ends the container and fails the test if the answer is wrong, or if something was deleted
// before it.
func (w *world) answers(x *execution) {
	w.t.Helper()
	time.Sleep(30 * time.Second)
	synctest.Wait()
	x.goesOn(w.t)
	if len(w.deleted) > 0 {
		w.t.Error("the Job was deleted while it ran")
	}
	w.become(w.job(), exited(0, "done"))
	<-x.done
	if x.err != nil || x.answer.Message != "done" || len(w.created) != 1 {
		w.t.Errorf("it returned %+v, %v after %d starts", x.answer, x.err, len(w.created))
	}
	w.refuse(nil)
	w.recorded(call())
}

// TestEnsureFilesSecret_Takeover: an operator takes over while no more files may be created.
func TestEnsureFilesSecret_Takeover(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		gone   bool
		err    error
	}{
		"a quota that is used up":                {running(), false, errQuota},
		"it has not started":                     {waiting("ContainerCreating", ""), false, errQuota},
		"a quota that changes":                   {waiting("ContainerCreating", ""), false, errRace},
		"it runs, and they were deleted":         {running(), true, errQuota},
		"it runs, they were deleted, no webhook": {running(), true, errWebhook},
		"it runs, and they have another owner":   {running(), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.left(tc.status)
				files := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: filesSecretName(w.job())}}
				if tc.gone {
					w.must(w.client.Delete(t.Context(), files))
				}
				if tc.err == nil {
					w.must(w.client.Create(t.Context(), files))
					defer func() { w.must(w.client.Delete(context.Background(), files)) }()
				}
				w.fail("create *v1.Secret", 1000, tc.err)
				x := w.run()
				if tc.err == nil {
					w.become(w.job(), exited(0, "done"))
					if <-x.done; x.err != nil {
						t.Error(x.err)
					}
					return
				}
				w.answers(x)
			})
		})
	}
}

// TestEnsureFilesSecret_LostResponse: the files are created, but the response is lost.
func TestEnsureFilesSecret_LostResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse(func(verb string, o any) error {
			secret, ok := o.(*corev1.Secret)
			if verb != "create" || !ok {
				return nil
			}
			w.refuse(nil)
			w.must(w.client.Create(t.Context(), secret.DeepCopy()))
			w.fail("create *v1.Secret", 1000, errQuota)
			return errConnection
		})
		x := w.run()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.pod(w.job(), running())
		w.answers(x)
	})
}

// TestExecute_QuotaConflict retries if the quota changed: the error does not mean that the quota is exhausted.
func TestExecute_QuotaConflict(t *testing.T) {
	for _, what := range []string{"create *v1.Job", "create *v1.Secret"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.fail(what, 2, errRace)
				x := w.run()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				w.pod(w.job(), running())
				w.answers(x)
			})
		})
	}
}

// TestExecute_TemporarilyForbidden recreates a role binding while a Job runs.
func TestExecute_TemporarilyForbidden(t *testing.T) {
	unauthorized := apierrors.NewUnauthorized("the token is too old")
	for name, tc := range map[string]struct {
		what     string
		takeover bool
		err      error
	}{
		"pods":             {"list *v1.PodList", false, errNoRight},
		"the Job":          {"get *v1.Job", false, errNoRight},
		"no valid token":   {"list *v1.PodList", false, unauthorized},
		"a takeover":       {"list *v1.JobList", true, errNoRight},
		"a takeover, 401":  {"list *v1.JobList", true, unauthorized},
		"a takeover, pods": {"list *v1.PodList", true, errNoRight},
		"its files":        {"get *v1.Secret", true, errNoRight},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var x *execution
				if tc.takeover {
					w.left(running())
					w.fail(tc.what, 1, tc.err)
					x = w.run()
				} else {
					x = w.run()
					w.fail(tc.what, 1, tc.err)
					w.pod(w.job(), running())
				}
				w.answers(x)
			})
		})
	}
}

// TestExecute_Forbidden: missing permissions end the attempt well before its deadline.
func TestExecute_Forbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := time.Now()
		x := w.run()
		w.refuse(func(verb string, o any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, pods := o.(*corev1.PodList); pods && verb == "list" && len(w.deleted) == 0 {
				return errNoRight
			}
			return nil
		})
		w.pod(w.job(), running())
		x.fails(t, executor.Unreachable, `reading its Job failed: things "x" is forbidden: no access`)
		if took := time.Since(began); took < stuckTimeout || took > stuckTimeout+StopGrace {
			t.Errorf("it was given up after %s, want %s", took, stuckTimeout)
		}
		w.nothingLeft()
	})
}

// TestExecute_AdmissionWebhookUnavailable: a required admission webhook does not respond.
func TestExecute_AdmissionWebhookUnavailable(t *testing.T) {
	const refusal = `Internal error occurred: failed calling webhook "jobs.example.io": connection refused`
	for what, want := range map[string]string{
		"create *v1.Job":    "its Job could not be created: " + refusal,
		"create *v1.Secret": "the files for its pod could not be stored: " + refusal,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.fail(what, 1000, errWebhook)
				began := time.Now()
				x := w.run()
				if w.lines.with("failed calling webhook") != 1 {
					t.Errorf("no message says what it waits for: %q", w.lines.all)
				}
				x.fails(t, executor.Unreachable, want)
				if took := time.Since(began); took != DefaultStartTimeout {
					t.Errorf("it was given up after %s, want %s", took, DefaultStartTimeout)
				}
				if w.lines.with("failed calling webhook") != 1 {
					t.Errorf("it is logged more than once: %q", w.lines.all)
				}
				w.refuse(nil)
				w.nothingLeft()
			})
		})
	}
}

// TestExecute_TransientCreateErrors waits as long as nothing indicates that waiting is useless.
func TestExecute_TransientCreateErrors(t *testing.T) {
	for name, err := range map[string]error{
		"a busy server":        apierrors.NewTooManyRequests("too many requests", 1),
		"a broken connection":  errConnection,
		"a webhook, some time": errWebhook,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				back := time.Now().Add(DefaultStartTimeout + time.Minute)
				if errors.Is(err, errWebhook) {
					back = time.Now().Add(DefaultStartTimeout - time.Minute)
				}
				w.refuse(func(verb string, o any) error {
					if _, ok := o.(*corev1.Secret); ok && verb == "create" && time.Now().Before(back) {
						return err
					}
					return nil
				})
				x := w.run()
				time.Sleep(time.Until(back) + 10*time.Second)
				synctest.Wait()
				w.pod(w.job(), running())
				w.answers(x)
			})
		})
	}
}
