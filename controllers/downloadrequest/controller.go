// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package downloadrequest

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=downloadrequests,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=downloadrequests/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;restores,verbs=get;list;watch

// lifetime is how long a DownloadRequest exists: long enough for slow clients, short enough that rights
// which were revoked do not live on in it.
const lifetime = 10 * time.Minute

// Reconciler makes DownloadRequests ready, and deletes them when they expire.
type Reconciler struct {
	Client client.Client
	// Reader reads the Backup or Restore past the cache: it may have been created a moment ago.
	Reader client.Reader
	// Server sends the files; nil if this operator serves no downloads.
	Server *Server
	// Now is the clock.
	Now func() time.Time
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Now == nil {
		return errors.New("downloadrequest: Client, Reader and Now are required")
	}
	return ctrl.NewControllerManagedBy(mgr).Named("downloadrequest").For(&v1alpha1.DownloadRequest{}).Complete(r)
}

// Reconcile makes a DownloadRequest ready, or deletes it when it has expired.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var d v1alpha1.DownloadRequest
	if err := r.Client.Get(ctx, req.NamespacedName, &d); err != nil || !d.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if d.Status.Phase == "" {
		if err := r.recordDecision(ctx, &d); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	left := d.Status.ExpirationTimestamp.Sub(r.Now())
	if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	uid := d.UID
	return ctrl.Result{}, client.IgnoreNotFound(r.Client.Delete(ctx, &d, client.Preconditions{UID: &uid}))
}

// recordDecision writes the status of a new DownloadRequest.
func (r *Reconciler) recordDecision(ctx context.Context, d *v1alpha1.DownloadRequest) error {
	target := findTarget(d.Spec.Target.Kind)
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.Target.Name}, target.newParent())
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the target of DownloadRequest %s: %w", d.Name, err)
	}
	before := d.DeepCopy()
	d.Status.ExpirationTimestamp = &metav1.Time{Time: r.Now().Add(lifetime)}
	switch {
	case r.Server == nil:
		setFailed(d, v1alpha1.ReasonDownloadsDisabled, "the operator does not serve downloads; set its flag --download-bind-address")
	case err != nil:
		setFailed(d, v1alpha1.ReasonTargetNotFound,
			fmt.Sprintf("%s %s does not exist in this namespace; check its name", target.parentKind(), d.Spec.Target.Name))
	default:
		d.Status.Phase, d.Status.Path = v1alpha1.DownloadRequestPhaseReady, pathPrefix+d.Name
		if r.Server.URL != "" {
			certificate, err := r.Server.certificate()
			if err != nil {
				return err
			}
			d.Status.URL, d.Status.CABundle = r.Server.URL, string(certificate.pem)
		}
		conditions.SetSummary(d, conditions.Current, v1alpha1.ReasonReadyToDownload, "The file can be downloaded with the token")
	}
	if err := r.Client.Status().Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status of DownloadRequest %s: %w", d.Name, err)
	}
	return nil
}

func setFailed(d *v1alpha1.DownloadRequest, reason, message string) {
	d.Status.Phase, d.Status.Message = v1alpha1.DownloadRequestPhaseFailed, message
	conditions.SetSummary(d, conditions.Stalled, reason, message)
}
