// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"maps"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/seen"
)

// remember notes which of the stored backups have a Backup now, so that those whose Backup
// is removed are not brought back.
func (l *look) remember(ctx context.Context, listed map[string]bool) error {
	more := seen.Backups{}
	for name, objects := range l.view.backups {
		for _, b := range objects {
			if listed[name] && isTrusted(b) {
				l.note(more, name, b)
			}
		}
	}
	maps.Copy(more, l.brought) // which is newer than the view
	for name, value := range more {
		if known, noted := l.view.seen[name]; noted && known == value {
			delete(more, name)
		}
	}
	if len(more) == 0 {
		return nil
	}
	err := seen.Remember(ctx, l.Client, l.Reader, l.bsl.Namespace, l.bsl.Name, more)
	if errors.Is(err, seen.ErrFull) {
		l.report.Full = err.Error()
		return nil
	}
	return err
}

// note notes a Backup, unless more is known of what it stands for.
func (l *look) note(more seen.Backups, name string, b *v1alpha1.Backup) {
	uid := uidOf(b)
	_, noted := l.view.seen[name]
	if (uid == "" && noted) || l.view.seen.MadeHere(name, uid) || more.MadeHere(name, uid) {
		return
	}
	more.Add(name, uid, b.Spec.ImportedFrom == nil)
}

// watchEnds adds the controller that notes a Backup of this cluster as soon as it has ended:
// it may be removed before the next look.
func (r *Reconciler) watchEnds(mgr ctrl.Manager) error {
	ends := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // the first look notes those
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.Backup)
			b, also := e.ObjectNew.(*v1alpha1.Backup)
			return ok && also && !isTrusted(before) && isTrusted(b) && b.Spec.ImportedFrom == nil
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("backupsync-seen").
		For(&v1alpha1.Backup{}, builder.WithPredicates(ends)).
		Complete(reconcile.Func(r.noteEnd))
}

// noteEnd notes one Backup of this cluster.
func (r *Reconciler) noteEnd(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b v1alpha1.Backup
	if err := r.Client.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isTrusted(&b) || locationOf(&b) == "" {
		return ctrl.Result{}, nil
	}
	one := seen.Backups{}
	one.Add(b.StoredName(), uidOf(&b), true)
	err := seen.Remember(ctx, r.Client, r.Reader, b.Namespace, locationOf(&b), one)
	if err != nil && !errors.Is(err, seen.ErrFull) {
		return ctrl.Result{}, fmt.Errorf("noting Backup %s: %w", b.Name, err)
	}
	return ctrl.Result{}, nil
}
