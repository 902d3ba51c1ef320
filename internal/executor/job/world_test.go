// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

const namespace = "backups"

// call is the call of most tests.
func call() executor.Call {
	return executor.Call{
		Point: executor.PointPreBackup, Action: "example.io/freeze", Key: "0d1e-uid", Attempt: 1,
		Subject: []byte(`{"kind":"Backup"}`),
	}
}

// world is a cluster in which the test acts as the Job controller, the scheduler and the kubelet.
// It lives in a synctest bubble.
type world struct {
	t      *testing.T
	client client.WithWatch
	logs   *fakeLogs
	lines  *lines

	mu sync.Mutex
	// count is the number of created objects.
	count int
	// created are the Jobs that were created; deleted is how Jobs were deleted.
	created []*batchv1.Job
	deleted []metav1.DeletionPropagation
	watches []watch.Interface
	// before is called before each request: "create", "delete", "get", "list", "watch".
	before func(verb string, object any) error
	// lingers keeps objects that are deleted in the foreground until collect.
	lingers bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, logs: &fakeLogs{}, lines: &lines{}}
	base := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
			return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
		}).Build()
	w.client = interceptor.NewClient(base, interceptor.Funcs{
		Create: w.create, Delete: w.delete,
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := w.ask("get", o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := w.ask("list", list); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			if err := w.ask("watch", list); err != nil {
				return nil, err
			}
			opened, err := c.Watch(ctx, list, opts...)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.watches = append(w.watches, opened)
			return opened, err
		},
	})
	return w
}

func (w *world) ask(verb string, object any) error {
	w.mu.Lock()
	before := w.before
	w.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(verb, object)
}

// refuse makes requests fail from now on; nil ends that.
func (w *world) refuse(before func(verb string, object any) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

func (w *world) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if err := w.ask("create", o); err != nil {
		return err
	}
	o.SetCreationTimestamp(metav1.Now())
	w.mu.Lock()
	w.count++
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.count)))
	w.mu.Unlock()
	if err := c.Create(ctx, o, opts...); err != nil {
		return err
	}
	if job, ok := o.(*batchv1.Job); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.created = append(w.created, job.DeepCopy())
	}
	return nil
}

func (w *world) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	if err := w.ask("delete", o); err != nil {
		return err
	}
	job, ok := o.(*batchv1.Job)
	if !ok {
		return c.Delete(ctx, o, opts...)
	}
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	w.mu.Lock()
	w.deleted = append(w.deleted, *options.PropagationPolicy)
	w.mu.Unlock()
	if *options.PropagationPolicy == metav1.DeletePropagationForeground {
		var there batchv1.Job
		if err := c.Get(ctx, client.ObjectKeyFromObject(job), &there); err != nil {
			return err
		}
		there.Finalizers = []string{metav1.FinalizerDeleteDependents}
		if err := c.Update(ctx, &there); err != nil {
			return err
		}
	}
	if err := c.Delete(ctx, job, opts...); err != nil {
		return err
	}
	if !w.lingers || *options.PropagationPolicy == metav1.DeletePropagationBackground {
		w.collect(job.Name, job.UID)
	}
	return nil
}

// collect acts as the garbage collector: it removes a deleted Job and what it owns.
func (w *world) collect(name string, uid types.UID) {
	ctx := context.Background()
	var pods corev1.PodList
	w.must(w.client.List(ctx, &pods))
	for i := range pods.Items {
		if owner := metav1.GetControllerOf(&pods.Items[i]); owner != nil && owner.UID == uid {
			w.must(w.client.Delete(ctx, &pods.Items[i]))
		}
	}
	var job batchv1.Job
	if w.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &job) == nil {
		job.Finalizers = nil
		w.must(w.client.Update(ctx, &job))
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) options() Options {
	return Options{
		Client: w.client, Logs: w.logs, Plugin: "freezer", Namespace: namespace, Image: "registry.example/freeze:1", Redactor: redact.New(),
	}
}

// execution is a call of Execute that runs in the background.
type execution struct {
	answer executor.Answer
	err    error
	done   chan struct{}
}

// execute calls Execute and returns when Execute waits for something.
func (w *world) execute(ctx context.Context, options Options, call executor.Call) *execution {
	w.t.Helper()
	e, err := New(options)
	if err != nil {
		w.t.Fatal(err)
	}
	x := &execution{done: make(chan struct{})}
	ctx = logr.NewContext(ctx, w.lines.logger())
	go func() {
		defer close(x.done)
		x.answer, x.err = e.Execute(ctx, call)
		w.lines.close()
	}()
	synctest.Wait()
	return x
}

// run calls Execute with a deadline of ten minutes.
func (w *world) run() *execution {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
	w.t.Cleanup(cancel)
	return w.execute(ctx, w.options(), call())
}

// goesOn fails the test if Execute has returned.
func (x *execution) goesOn(t *testing.T) {
	t.Helper()
	select {
	case <-x.done:
		t.Fatalf("it returned %+v, %v; want it to go on", x.answer, x.err)
	default:
	}
}

// fails waits for the end and fails the test unless it is an error of that kind and text.
func (x *execution) fails(t *testing.T, kind executor.ErrorKind, text string) {
	t.Helper()
	<-x.done
	const tag = "PreBackupAction(example.io/freeze): "
	if x.err == nil || executor.ErrorKindOf(x.err) != kind || x.err.Error() != tag+text {
		t.Errorf("error is %s %q,\nwant     %s %q", executor.ErrorKindOf(x.err), x.err, kind, tag+text)
	}
}

// job returns the only Job that was created.
func (w *world) job() *batchv1.Job {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.created) != 1 {
		w.t.Fatalf("%d Jobs were created, want one", len(w.created))
	}
	return w.created[0]
}
