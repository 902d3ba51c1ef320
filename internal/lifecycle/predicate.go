// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// locationChangedPredicate passes changes of a location that may affect a run: of its spec,
// deletion and conditions. Each check of a location writes its status, once a minute, and most
// of these writes change nothing that matters.
func locationChangedPredicate() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.BackupStorageLocation)
		after, also := e.ObjectNew.(*v1alpha1.BackupStorageLocation)
		return !ok || !also || before.UID != after.UID || before.Generation != after.Generation ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || before.Status.Phase != after.Status.Phase ||
			!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, equalIgnoringMessage)
	}}
}

// equalIgnoringMessage compares conditions except for their messages and times.
func equalIgnoringMessage(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration
}
