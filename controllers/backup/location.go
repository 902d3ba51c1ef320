// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// locationGrace is how long a Backup waits for a location that does not exist:
// both may come from one kubectl apply, the Backup first.
const locationGrace = 5 * time.Second

// defaultLocation is the name that stands in where no location is marked.
const defaultLocation = "default"

// findLocation returns the usable location of a Backup, or says that it is
// waited for, or what is wrong with it.
func (r *Reconciler) findLocation(ctx context.Context, s *scope) (
	location *v1alpha1.BackupStorageLocation, waiting bool, problem []string, err error,
) {
	var list v1alpha1.BackupStorageLocationList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.Object.Namespace)); err != nil {
		return nil, false, nil, fmt.Errorf("listing the BackupStorageLocations: %w", err)
	}
	found, missing := pick(s.Object.Spec.StorageLocation, list.Items)
	if found == nil {
		if wait := s.Object.CreationTimestamp.Add(locationGrace).Sub(r.Now()); wait > 0 {
			s.Waiting(v1alpha1.ReasonWaitingForLocation, "Waiting a moment for the location: "+missing)
			s.Again(wait)
			return nil, true, nil, nil
		}
		return nil, false, []string{missing}, nil
	}
	available := conditions.Get(found, v1alpha1.ConditionAvailable)
	switch {
	case available == nil || available.ObservedGeneration != found.Generation:
		s.Waiting(v1alpha1.ReasonWaitingForLocation,
			fmt.Sprintf("Waiting until BackupStorageLocation %s has been checked", found.Name))
		return nil, true, nil, nil
	case available.Status != metav1.ConditionTrue:
		return nil, false, []string{fmt.Sprintf("BackupStorageLocation %s can not be used: %s", found.Name, available.Message)}, nil
	case found.Spec.AccessMode == v1alpha1.AccessModeReadOnly:
		return nil, false, []string{fmt.Sprintf(
			"BackupStorageLocation %s is read-only; set its spec.accessMode to ReadWrite or choose another one", found.Name)}, nil
	}
	return found, false, nil, nil
}

// pick returns the location a Backup means, or says why there is none.
func pick(name string, list []v1alpha1.BackupStorageLocation) (found *v1alpha1.BackupStorageLocation, missing string) {
	var names, defaults []string
	for i := range list {
		l := &list[i]
		if !l.DeletionTimestamp.IsZero() {
			continue
		}
		names = append(names, l.Name)
		switch {
		case name != "" && l.Name == name:
			return l, ""
		case name == "" && l.Spec.Default:
			defaults = append(defaults, l.Name)
			found = l
		case name == "" && l.Name == defaultLocation && len(defaults) == 0:
			found = l
		}
	}
	switch {
	case len(defaults) > 1:
		return nil, fmt.Sprintf("several BackupStorageLocations are marked as default (%s); set spec.storageLocation, or mark one only",
			strings.Join(defaults, ", "))
	case found != nil:
		return found, ""
	case len(names) == 0:
		return nil, "there is no BackupStorageLocation in this namespace; create one"
	case name == "":
		return nil, fmt.Sprintf("no BackupStorageLocation is marked as default; set spec.storageLocation to one of: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Sprintf("BackupStorageLocation %q does not exist in this namespace; create it, or set spec.storageLocation to one of: %s",
		name, strings.Join(names, ", "))
}
