// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// Opener opens a location.
type Opener interface {
	Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error)
}

// Reconciler moves Backups through their life. Every field without a default is
// required.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Opener   Opener
	Job      *job.Job
	Logs     *runlog.Book
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	Metrics  *Metrics
	// MaxConcurrent is how many Backups may run at a time; 4 by default.
	MaxConcurrent int
	// AllVersions archives every served version of a group.
	AllVersions bool
	// Now is the clock; time.Now by default.
	Now func() time.Time

	steps    *runner.Runner[stepResult]
	queue    *queue
	progress progress
	wake     func(types.NamespacedName)
}

// workers is how many Backups are looked at in parallel; a pass never blocks on
// more than the API server.
const workers = 4

// SetupWithManager registers the controller and its background steps.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Opener == nil || r.Job == nil || r.Logs == nil ||
		r.Recorder == nil || r.Redactor == nil || r.Metrics == nil {
		return errors.New("backup: a required field of the Reconciler is missing")
	}
	if r.MaxConcurrent <= 0 {
		r.MaxConcurrent = 4
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	woken := make(chan event.GenericEvent, 1024)
	r.wake = func(owner types.NamespacedName) {
		woken <- event.GenericEvent{Object: &v1alpha1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name},
		}}
	}
	r.queue = newQueue(r.MaxConcurrent, r.wake)
	r.steps = runner.New[stepResult](r.wake)
	if err := mgr.Add(r.steps); err != nil {
		return fmt.Errorf("adding the background steps: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("backup").
		For(&v1alpha1.Backup{}).
		Owns(&v1alpha1.HookRun{}).
		Watches(&v1alpha1.BackupStorageLocation{}, handler.EnqueueRequestsFromMapFunc(r.waitingBackups)).
		Watches(&v1alpha1.Plugin{}, handler.EnqueueRequestsFromMapFunc(r.waitingBackups)).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// waitingBackups returns the Backups whose plan is not recorded: those that a
// location or a Plugin can change.
func (r *Reconciler) waitingBackups(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.BackupList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache can not fail once it has started
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if b := &list.Items[i]; !planned(b) && !decided(b) {
			requests = append(requests, reconcile.Request{NamespacedName: ownerOf(b)})
		}
	}
	return requests
}

// Reconcile moves one Backup as far as it can go now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b v1alpha1.Backup
	if err := r.Client.Get(ctx, req.NamespacedName, &b); err != nil {
		if apierrors.IsNotFound(err) {
			r.drop(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if decided(&b) {
		r.queue.release(b.UID)
	}
	switch {
	case b.Spec.ImportedFrom != nil:
		return ctrl.Result{}, nil // a catalogue entry is never run
	case settled(&b):
		return ctrl.Result{}, quiet(r.letGo(ctx, &b))
	case !controllerutil.ContainsFinalizer(&b, v1alpha1.FinalizerRun):
		if !b.DeletionTimestamp.IsZero() {
			r.queue.release(b.UID)
			return ctrl.Result{}, nil
		}
		if err := r.hold(ctx, &b); err != nil {
			return ctrl.Result{}, quiet(err)
		}
	}
	s := newScope(&b)
	if err := r.advance(ctx, s); err != nil {
		if errors.Is(err, errStale) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	if err := r.write(ctx, s); err != nil {
		return ctrl.Result{}, quiet(err)
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// drop stops what runs for a Backup that was removed by force, finalizer and all.
// Each step that ends comes here again.
func (r *Reconciler) drop(owner types.NamespacedName) {
	for _, uid := range r.queue.of(owner) {
		if r.stopSteps(uid, steps()...) {
			continue
		}
		r.forget(uid)
		r.queue.release(uid)
	}
}

// forget drops what this process knows of a run.
func (r *Reconciler) forget(uid types.UID) {
	for _, step := range steps() {
		r.steps.Forget(stepID(uid, step))
	}
	r.progress.drop(uid)
	r.Logs.Remove(string(uid))
}

// hold keeps the Backup until it owes nothing.
func (r *Reconciler) hold(ctx context.Context, b *v1alpha1.Backup) error {
	patch := client.MergeFromWithOptions(b.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.AddFinalizer(b, v1alpha1.FinalizerRun)
	if err := r.Client.Patch(ctx, b, patch); err != nil {
		return fmt.Errorf("adding the finalizer of Backup %s: %w", b.Name, err)
	}
	return nil
}

// advance goes through the phases until one has to wait. Each finds out from the
// world whether it is done; none remembers anything from the pass before.
func (r *Reconciler) advance(ctx context.Context, s *scope) error {
	for _, phase := range []func(context.Context, *scope) (bool, error){
		r.plan, r.preActions, r.archive, r.abandon, r.postActions, r.finish,
	} {
		done, err := phase(ctx, s)
		if err != nil {
			return err
		}
		if !done {
			break
		}
	}
	if planned(s.backup) {
		s.recordActions()
	}
	return nil
}

// write records the pass, and then does what the record says.
func (r *Reconciler) write(ctx context.Context, s *scope) error {
	if !equality.Semantic.DeepEqual(s.before.Status, s.backup.Status) {
		patch := client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Status().Patch(ctx, s.backup, patch); err != nil {
			return fmt.Errorf("writing the status of Backup %s: %w", s.backup.Name, err)
		}
		r.tell(ctx, s.before, s.backup)
		r.Metrics.record(s.before, s.backup)
		if decided(s.backup) {
			r.queue.release(s.backup.UID) // the next one need not wait for the watch
		}
	}
	for _, f := range s.after {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// quiet drops the error of a write that lost against a newer one, or whose object
// is gone: the watch brings what is newer.
func quiet(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
