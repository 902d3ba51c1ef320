// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// TestExecute_JobAlreadyExists: the Job appears between the list request and the create request.
func TestExecute_JobAlreadyExists(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*batchv1.Job)
		want   string
	}{
		"its own":             {func(*batchv1.Job) {}, ""},
		"of another owner":    {func(j *batchv1.Job) { j.Labels = nil }, "Job %s in namespace backups already exists and was not created for this action: delete it"},
		"of another key":      {func(j *batchv1.Job) { j.Annotations[AnnotationKey] = "other" }, "Job %s in namespace backups already exists and was not created for this action: delete it"},
		"of another Plugin":   {func(j *batchv1.Job) { j.Labels[LabelPlugin] = "other" }, "Job %s in namespace backups already exists and was not created for this action: delete it"},
		"of another's action": {func(j *batchv1.Job) { j.Annotations[AnnotationAction] = "a/b" }, "Job %s in namespace backups already exists and was not created for this action: delete it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				there := (&Options{Namespace: namespace, Plugin: "freezer"}).newJob(t.Context(), call(), nil)
				tc.change(there)
				w.refuse(func(verb string, o any) error {
					if job, ok := o.(*batchv1.Job); verb == "create" && ok && job != there {
						w.refuse(nil)
						w.must(w.client.Create(t.Context(), there))
					}
					return nil
				})
				x := w.run()
				if tc.want != "" {
					x.fails(t, executor.Invalid, fmt.Sprintf(tc.want, there.Name))
					if w.there(there.Name) == nil {
						t.Error("another's Job was deleted")
					}
					return
				}
				w.pod(w.job(), exited(0, "done"))
				<-x.done
				if x.err != nil || x.answer.Message != "done" {
					t.Errorf("it returned %+v, %v", x.answer, x.err)
				}
			})
		})
	}
}

// TestExecute_TransientServerErrors makes every kind of request fail twice.
func TestExecute_TransientServerErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		failed := map[string]int{}
		w.refuse(func(verb string, o any) error {
			what := fmt.Sprintf("%s %T", verb, o)
			if _, isPod := o.(*corev1.Pod); isPod {
				return nil // a request of the test itself
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if failed[what]++; failed[what] <= 2 {
				return apierrors.NewInternalError(errors.New("etcd has no leader"))
			}
			return nil
		})
		x := w.run()
		time.Sleep(30 * time.Second)
		w.pod(w.job(), exited(0, "done"))
		<-x.done
		if x.err != nil || x.answer.Message != "done" || len(w.created) != 1 {
			t.Errorf("it returned %+v, %v after %d starts", x.answer, x.err, len(w.created))
		}
		w.refuse(nil)
		w.recorded(call())
	})
}

func TestExecute_ServerUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse(func(string, any) error { return apierrors.NewInternalError(errors.New("etcd has no leader")) })
		w.run().fails(t, executor.Timeout, "did not start before its deadline: listing the Jobs of earlier attempts failed: "+
			"Internal error occurred: etcd has no leader")
	})
}

// TestExecute_WatchClosed ends all watches and changes the pod before new watches start.
func TestExecute_WatchClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.run()
		w.pod(w.job(), running())
		w.mu.Lock()
		for _, opened := range w.watches {
			opened.Stop()
		}
		w.mu.Unlock()
		w.become(w.job(), exited(0, "done"))
		<-x.done
		if x.err != nil || x.answer.Message != "done" {
			t.Errorf("it returned %+v, %v", x.answer, x.err)
		}
	})
}

func TestExecute_RejectedRequests(t *testing.T) {
	jobs, secrets := schema.GroupResource{Group: "batch", Resource: "jobs"}, schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		verb   string
		object any
		err    error
		kind   executor.ErrorKind
		want   string
	}{
		"no right to look": {
			"list", &batchv1.JobList{}, apierrors.NewForbidden(jobs, "", errors.New("no access")), executor.Unreachable,
			"listing the Jobs of earlier attempts failed: jobs.batch is forbidden: no access",
		},
		"no namespace": {
			"create", &batchv1.Job{}, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "backups"), executor.Unreachable,
			`its Job could not be created: namespaces "backups" not found`,
		},
		"no valid Job": {
			"create", &batchv1.Job{}, apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "x", nil), executor.Invalid,
			`its Job could not be created: Job "x" is invalid`,
		},
		"no room for files": {
			"create", &corev1.Secret{}, apierrors.NewForbidden(secrets, "x", errors.New("exceeded quota: few")), executor.Unreachable,
			`the files for its pod could not be stored: secrets "x" is forbidden: exceeded quota: few`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.refuse(func(verb string, o any) error {
					if verb == tc.verb && strings.EqualFold(fmt.Sprintf("%T", o), fmt.Sprintf("%T", tc.object)) {
						return tc.err
					}
					return nil
				})
				w.run().fails(t, tc.kind, tc.want)
				w.refuse(nil)
				w.nothingLeft()
			})
		})
	}
}
