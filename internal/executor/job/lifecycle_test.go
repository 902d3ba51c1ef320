// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

var errCancelled = errors.New("the run was canceled")

// there returns the current state of the Job that was created; nil if it was deleted.
func (w *world) there(name string) *batchv1.Job {
	w.t.Helper()
	var list batchv1.JobList
	w.must(w.client.List(context.Background(), &list))
	for i := range list.Items {
		if list.Items[i].Name == name {
			return &list.Items[i]
		}
	}
	return nil
}

func TestExecute_OperatorRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := context.WithCancel(t.Context())
		x := w.execute(ctx, w.options(), call())
		job := w.job()
		w.pod(job, running())
		stop()
		x.fails(t, executor.Interrupted, "was interrupted before it answered")
		if !errors.Is(x.err, context.Canceled) {
			t.Error("the error is not context.Canceled")
		}
		if left := w.there(job.Name); left == nil || left.DeletionTimestamp != nil {
			t.Fatal("the Job was deleted")
		}
		// The next operator finds the Job.
		x = w.execute(t.Context(), w.options(), call())
		x.goesOn(t)
		if w.lines.with("Following an existing Job") != 1 {
			t.Errorf("the log is %q", w.lines.all)
		}
		w.become(job, exited(0, "thawed"))
		<-x.done
		if x.err != nil || x.answer.Message != "thawed" || len(w.created) != 1 {
			t.Errorf("it returned %+v, %v after %d starts; want the answer of one", x.answer, x.err, len(w.created))
		}
		w.recorded(call())
	})
}

// TestExecute_StoppedWhileReadingLog stops the operator while the log is read.
func TestExecute_StoppedWhileReadingLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logs.plays = []recording{{until: make(chan struct{})}}
		ctx, stop := context.WithCancel(t.Context())
		x := w.execute(ctx, w.options(), call())
		w.pod(w.job(), exited(0, "done"))
		x.goesOn(t)
		stop()
		<-x.done
		if x.answer.Message != "done" || w.there(w.job().Name) == nil {
			t.Errorf("it returned %+v, %v; the Job exists: %v", x.answer, x.err, w.there(w.job().Name) != nil)
		}
	})
}

func TestExecute_CancelAndDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		cancel bool
		kind   executor.ErrorKind
		text   string
		cause  error
	}{
		"cancel": {running(), true, executor.Interrupted, "was canceled before it answered", context.Canceled},
		"deadline": {
			running(), false, executor.Timeout,
			"did not end before its deadline: raise its timeout or check what it waits for", context.DeadlineExceeded,
		},
		"deadline before it started": {
			waiting("ContainerCreating", ""), false, executor.Timeout,
			"did not start before its deadline: its container has not been started: ContainerCreating", context.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.lingers = true
				deadline, cancelDeadline := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancelDeadline()
				ctx, cancel := context.WithCancelCause(deadline)
				defer cancel(nil)
				x := w.execute(ctx, w.options(), call())
				job := w.job()
				w.pod(job, tc.status)
				if tc.cancel {
					cancel(errCancelled)
				}
				<-ctx.Done()
				synctest.Wait()
				x.goesOn(t)
				if left := w.there(job.Name); left == nil || left.DeletionTimestamp == nil {
					t.Fatal("the Job is not being deleted")
				}
				w.collect(job.Name, job.UID)
				x.fails(t, tc.kind, tc.text)
				if !errors.Is(x.err, tc.cause) {
					t.Errorf("the error is not %v", tc.cause)
				}
				if w.deleted[0] != metav1.DeletePropagationForeground {
					t.Errorf("it was deleted %s", w.deleted[0])
				}
				w.nothingLeft()
			})
		})
	}
}

// TestExecute_PodNotTerminating covers a pod on a lost node.
func TestExecute_PodNotTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lingers = true
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		x := w.execute(ctx, w.options(), call())
		job := w.job()
		w.pod(job, running())
		began := time.Now()
		<-x.done
		if executor.ErrorKindOf(x.err) != executor.Timeout || time.Since(began) > 30*time.Second+StopGrace {
			t.Errorf("it returned %v after %s", x.err, time.Since(began))
		}
		if w.lines.with("was not removed in time") != 1 {
			t.Errorf("the log is %q", w.lines.all)
		}
		// The next attempt must not run beside it.
		next := call()
		next.Attempt = 2
		x = w.execute(t.Context(), w.options(), next)
		x.goesOn(t)
		if len(w.created) != 1 {
			t.Fatal("a second Job was created while the first runs")
		}
		w.collect(job.Name, job.UID)
		synctest.Wait()
		if len(w.created) != 2 {
			t.Fatal("no second Job was created")
		}
		w.pod(w.created[1], exited(0, ""))
		<-x.done
	})
}

func TestExecute_EarlierJobNotFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		earlier := (&Options{Namespace: namespace, Plugin: "freezer"}).newJob(t.Context(), call(), nil)
		earlier.Finalizers = []string{metav1.FinalizerDeleteDependents}
		w.must(w.client.Create(t.Context(), earlier))
		w.lingers = true
		w.must(w.client.Delete(t.Context(), earlier, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		x := w.run()
		x.fails(t, executor.Timeout, "did not start before its deadline: the Job of an earlier attempt has not finished yet")
	})
}

// TestIsOperatorStopping checks what isOperatorStopping relies on: runs are canceled with
// a cause, and end with their runner without one.
func TestIsOperatorStopping(t *testing.T) {
	for name, tc := range map[string]struct {
		end      func(r *runner.Runner[executor.Answer], stop context.CancelFunc)
		wantJobs int
	}{
		"cancel": {func(r *runner.Runner[executor.Answer], _ context.CancelFunc) { r.Cancel("a", errCancelled) }, 0},
		"end":    {func(_ *runner.Runner[executor.Answer], stop context.CancelFunc) { stop() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				r := runner.New[executor.Answer](func(types.NamespacedName) {})
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = r.Start(ctx)
				}()
				synctest.Wait()
				e, err := New(w.options())
				w.must(err)
				r.EnsureStarted("a", types.NamespacedName{}, func(ctx context.Context) (executor.Answer, error) {
					ctx, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					return e.Execute(logr.NewContext(ctx, w.lines.logger()), call())
				})
				synctest.Wait()
				w.pod(w.job(), running())
				tc.end(r, stop)
				synctest.Wait()
				var jobs batchv1.JobList
				w.must(w.client.List(t.Context(), &jobs))
				if len(jobs.Items) != tc.wantJobs {
					t.Errorf("%d Jobs remain, want %d", len(jobs.Items), tc.wantJobs)
				}
				stop()
				<-ended
			})
		})
	}
}

// TestExecute_CanceledBeforeList: the Job of a previous operator is ended although it could not be
// listed.
func TestExecute_CanceledBeforeList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, end := context.WithCancel(t.Context())
		x := w.execute(ctx, w.options(), call())
		w.pod(w.job(), running())
		end()
		<-x.done
		w.refuse(func(string, any) error { return errConnection })
		ctx, cancel := context.WithCancelCause(t.Context())
		x = w.execute(ctx, w.options(), call())
		cancel(errCancelled)
		w.refuse(nil)
		x.fails(t, executor.Interrupted, "was canceled before it answered")
		w.nothingLeft()
	})
}

// TestExecute_PodDeleted deletes the pod while it runs.
func TestExecute_PodDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), running())
		var pods corev1.PodList
		w.must(w.client.List(t.Context(), &pods))
		pods.Items[0].Finalizers = []string{batchv1.JobTrackingFinalizer}
		w.must(w.client.Update(t.Context(), &pods.Items[0]))
		w.must(w.client.Delete(t.Context(), &pods.Items[0]))
		synctest.Wait()
		x.goesOn(t)
		w.become(w.job(), exited(143, "terminated"))
		x.fails(t, executor.Unreachable, "its pod was deleted before it answered")
	})
}

// TestStop_RunningJob covers a run that is canceled while no operator runs.
func TestStop_RunningJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, end := context.WithCancel(t.Context())
		x := w.execute(ctx, w.options(), call())
		w.pod(w.job(), running())
		end()
		<-x.done
		e, err := New(w.options())
		w.must(err)
		later := call()
		later.Attempt = 5
		w.must(e.Stop(t.Context(), later))
		w.nothingLeft()
		w.must(e.Stop(t.Context(), later))
	})
}

func TestStop_PodNotTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), running())
		w.lingers = true
		e, err := New(w.options())
		w.must(err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const want = "PreBackupAction(example.io/freeze): what it left running could not be stopped: its pod has not terminated"
		if err := e.Stop(ctx, call()); executor.ErrorKindOf(err) != executor.Unreachable || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		w.collect(w.job().Name, w.job().UID)
		<-x.done
	})
}
