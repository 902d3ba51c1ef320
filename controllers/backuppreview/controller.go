// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backuppreview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=backuppreviews,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=backuppreviews/status,verbs=get;update;patch

const (
	// previewLifetime is how long a BackupPreview exists. It includes the time that it takes.
	previewLifetime = 10 * time.Minute
	// previewGracePeriod is how long a canceled preview has to end.
	previewGracePeriod = time.Minute
)

var errPreviewStopped = errors.New("the BackupPreview was deleted or has expired")

// Reconciler reconciles BackupPreviews, of which it reads the objects of one at a time. Every
// field without a default is required.
type Reconciler struct {
	Client client.Client
	// Engine writes the archive, which is discarded.
	Engine   backup.ArchiveWriter
	Redactor *redact.Redactor
	// Actions reaches the actions of plugins, which are only called to determine which data they
	// would capture.
	Actions ActionResolver
	// Journal detects that a preview crashed the operator. If it is nil, crashes are not noticed.
	Journal *lifecycle.Journal
	// AllVersions counts every served version of a group.
	AllVersions bool
	Now         func() time.Time

	previews *runner.Runner[previewResult]
	events   chan event.GenericEvent
	// active is the BackupPreview whose objects are being read; nil if there is none. Only the worker of
	// the controller uses it.
	active *activePreview
}

// ActionResolver reaches the actions of plugins.
type ActionResolver interface {
	// BackupItemAction returns how to reach an action of a plugin, which need not be loaded yet.
	BackupItemAction(pluginObject, kind, action string) pluginclient.ResolveFunc[pluginclient.BackupItemAction]
}

// activePreview identifies a BackupPreview: another one may get its name.
type activePreview struct {
	name types.NamespacedName
	uid  types.UID
}

// previewResult is what a preview found.
type previewResult struct {
	backup.ArchiveResult
	archiveBytes int64
}

// SetupWithManager registers the controller and what runs in its background.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Engine == nil || r.Redactor == nil || r.Actions == nil || r.Now == nil {
		return errors.New("backuppreview: a required field of the Reconciler is missing")
	}
	r.events = make(chan event.GenericEvent, 1024)
	r.previews = runner.New[previewResult](r.enqueuePreview)
	r.previews.GracePeriod = previewGracePeriod
	if err := mgr.Add(r.previews); err != nil {
		return fmt.Errorf("adding the background tasks of BackupPreviews: %w", err)
	}
	unfinished := handler.EnqueueRequestsFromMapFunc(r.mapToUnfinishedPreviews)
	return ctrl.NewControllerManagedBy(mgr).
		Named("backuppreview").
		For(&v1alpha1.BackupPreview{}).
		Watches(&v1alpha1.Plugin{}, unfinished).
		Watches(&v1alpha1.BackupStorageLocation{}, unfinished).
		WatchesRawSource(source.Channel(r.events, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile advances one BackupPreview, or deletes it when it has expired.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var p v1alpha1.BackupPreview
	if err := r.Client.Get(ctx, req.NamespacedName, &p); err != nil {
		if apierrors.IsNotFound(err) {
			r.stopPreview(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !p.DeletionTimestamp.IsZero() || r.active != nil && r.active.name == req.NamespacedName && r.active.uid != p.UID {
		r.stopPreview(ctx, req.NamespacedName)
	}
	switch {
	case !p.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case isPreviewExpired(&p, r.Now()):
		r.Journal.ForgetCrash(previewTaskID(p.UID))
		uid := p.UID
		return ctrl.Result{}, client.IgnoreNotFound(r.Client.Delete(ctx, &p, client.Preconditions{UID: &uid}))
	case hasPreviewEnded(&p):
		r.releasePreview(ctx, p.UID) // the answer to the write of its end may have been lost
		return ctrl.Result{RequeueAfter: p.Status.ExpirationTimestamp.Sub(r.Now())}, nil
	}
	return r.advancePreview(ctx, &p)
}

// advancePreview advances a BackupPreview that has not ended.
func (r *Reconciler) advancePreview(ctx context.Context, p *v1alpha1.BackupPreview) (ctrl.Result, error) {
	observed, err := r.observePreview(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := p.DeepCopy()
	start := decidePreview(p, observed, r.Now())
	// The write before a start is made in any case: it fails if the cache is stale.
	if start || !equality.Semantic.DeepEqual(before.Status, p.Status) {
		if err := r.Client.Status().Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	switch {
	case start && !r.startPreview(p, observed.plugins): //nolint:contextcheck // it outlives the reconcile
		return ctrl.Result{RequeueAfter: time.Second}, nil
	case hasPreviewEnded(p):
		r.releasePreview(ctx, p.UID)
	}
	return ctrl.Result{RequeueAfter: p.Status.ExpirationTimestamp.Sub(r.Now())}, nil
}

// observePreview reads everything on which the decision about a BackupPreview depends.
func (r *Reconciler) observePreview(ctx context.Context, p *v1alpha1.BackupPreview) (observedPreview, error) {
	o := observedPreview{redactor: r.Redactor}
	o.outcome, o.running = r.previews.LookupOutcome(previewTaskID(p.UID))
	o.busy = r.active != nil && r.active.uid != p.UID
	o.crashed = !o.running && r.Journal.HasCrashed(previewTaskID(p.UID))
	var plugins v1alpha1.PluginList
	err := r.Client.List(ctx, &plugins)
	if o.plugins = plugins.Items; err != nil {
		return o, fmt.Errorf("listing the Plugins: %w", err)
	}
	o.location, err = location.Choose(ctx, r.Client, p.Namespace, p.Spec.Template.Spec.StorageLocation, location.ForWriting)
	return o, err
}

// startPreview starts reading the objects of a BackupPreview. It returns false if the background tasks
// have not started, or are stopping.
func (r *Reconciler) startPreview(p *v1alpha1.BackupPreview, plugins []v1alpha1.Plugin) bool {
	id, name := previewTaskID(p.UID), client.ObjectKeyFromObject(p)
	request := backup.ArchiveRequest{
		Selection: lifecycle.ToSelectionSpec(&p.Spec.Template.Spec), AllVersions: r.AllVersions, StartTime: r.Now(),
		OnOperationStarted: backup.AcceptCaptureCheck,
	}
	checked, checkErr := r.newCaptureChecks(p, plugins)
	request.Actions = checked
	started := r.previews.EnsureStarted(id, name, func(ctx context.Context) (result previewResult, err error) {
		defer r.Journal.Begin(id)()
		if checkErr != nil {
			return result, checkErr
		}
		var stored byteCounter
		// What a run logs is not of interest: the problems are in the result.
		result.ArchiveResult, err = r.Engine.WriteArchive(logr.NewContext(ctx, logr.Discard()), request, &stored)
		result.archiveBytes = int64(stored)
		return result, err
	})
	if !started {
		return false
	}
	r.active = &activePreview{name: name, uid: p.UID}
	r.previews.CancelAfter(id, p.Status.ExpirationTimestamp.Sub(r.Now()), errPreviewStopped)
	return true
}

// newCaptureChecks returns what determines which claims the Backup would capture.
func (r *Reconciler) newCaptureChecks(p *v1alpha1.BackupPreview, plugins []v1alpha1.Plugin) ([]itemaction.BackupAction, error) {
	previewed := newPreviewedBackup(p)
	hooks, _ := lifecycle.BackupKind.BuildHookPlan(previewed, plugins)
	previewed.Status.ItemActions = lifecycle.ToPlannedItemActions(hooks.Items)
	spec, err := json.Marshal(previewed.Spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the spec: %w", err)
	}
	return backup.NewCaptureChecks(backup.Request{
		Name: previewed.Name, Namespace: previewed.Namespace, UID: string(p.UID), Labels: previewed.Labels, Annotations: previewed.Annotations,
		Spec: spec, StorageLocation: p.Status.StorageLocation, Start: r.Now(),
		ItemActions: lifecycle.NewItemActionSpecs(previewed, r.Actions.BackupItemAction),
	}, r.Redactor)
}

// stopPreview stops the active BackupPreview if it had that name. It is called again when that has ended.
func (r *Reconciler) stopPreview(ctx context.Context, name types.NamespacedName) {
	if r.active == nil || r.active.name != name {
		return
	}
	id := previewTaskID(r.active.uid)
	r.previews.Cancel(id, errPreviewStopped)
	if outcome, known := r.previews.LookupOutcome(id); outcome != nil || !known {
		r.releasePreview(ctx, r.active.uid)
	}
}

// releasePreview lets the next BackupPreview begin after the active one has ended.
func (r *Reconciler) releasePreview(ctx context.Context, uid types.UID) {
	r.Journal.ForgetCrash(previewTaskID(uid))
	if r.active == nil || r.active.uid != uid {
		return
	}
	r.previews.Forget(previewTaskID(uid))
	r.active = nil
	for _, request := range r.mapToUnfinishedPreviews(ctx, nil) {
		r.enqueuePreview(request.NamespacedName)
	}
}

// enqueuePreview requests that a BackupPreview is reconciled.
func (r *Reconciler) enqueuePreview(name types.NamespacedName) {
	r.events <- event.GenericEvent{Object: &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}}
}

// mapToUnfinishedPreviews returns the BackupPreviews that wait or work.
func (r *Reconciler) mapToUnfinishedPreviews(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.BackupPreviewList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache cannot fail once it has started
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if p := &list.Items[i]; !hasPreviewEnded(p) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		}
	}
	return requests
}

func previewTaskID(uid types.UID) string { return string(uid) + "-preview" }

// byteCounter discards what is written to it, and counts the bytes.
type byteCounter int64

// Write implements io.Writer.
func (c *byteCounter) Write(p []byte) (int, error) {
	*c += byteCounter(len(p))
	return len(p), nil
}
