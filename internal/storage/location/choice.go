// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// Choice is the location that a run uses. At most one field is set.
type Choice struct {
	// Location is usable.
	Location *v1alpha1.BackupStorageLocation
	// Missing says that there is no such location, and what to do. It may still be created.
	Missing string
	// Waiting says what is not known about the location yet.
	Waiting string
	// Problem says why the location cannot be used, and what to do.
	Problem string
}

// Use is what a run does in a location.
type Use int

// The uses of a location. A full location can be read, and backups in it can be deleted.
const (
	ForReading Use = iota
	ForDeleting
	ForWriting
)

// Choose finds the location of that name in a namespace, or the default location if
// the name is empty, for a use of it.
func Choose(ctx context.Context, reader client.Reader, namespace, name string, use Use) (Choice, error) {
	var list v1alpha1.BackupStorageLocationList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return Choice{}, fmt.Errorf("listing the BackupStorageLocations: %w", err)
	}
	found, missing := selectLocation(name, list.Items)
	if found == nil {
		return Choice{Missing: missing}, nil
	}
	available := conditions.Get(found, v1alpha1.ConditionAvailable)
	switch {
	case available == nil || available.ObservedGeneration != found.Generation:
		return Choice{Waiting: fmt.Sprintf("Waiting until BackupStorageLocation %s has been checked", found.Name)}, nil
	case available.Status != metav1.ConditionTrue:
		return Choice{Problem: fmt.Sprintf("BackupStorageLocation %s cannot be used: %s", found.Name, available.Message)}, nil
	case use != ForReading && found.Spec.AccessMode == v1alpha1.AccessModeReadOnly:
		return Choice{Problem: fmt.Sprintf(
			"BackupStorageLocation %s is read-only; set its spec.accessMode to ReadWrite or choose another one", found.Name)}, nil
	case use == ForWriting && isLocationFull(found):
		return Choice{Problem: fmt.Sprintf("BackupStorageLocation %s cannot be used: %s",
			found.Name, conditions.Get(found, v1alpha1.ConditionWritable).Message)}, nil
	}
	return Choice{Location: found}, nil
}

// isLocationFull reports whether a location has no space for new backups.
func isLocationFull(l *v1alpha1.BackupStorageLocation) bool {
	writable := conditions.Get(l, v1alpha1.ConditionWritable)
	return writable != nil && writable.Status == metav1.ConditionFalse && writable.Reason == v1alpha1.ReasonFull
}

// WithOpenStore opens the location of that name for the duration of a function.
func WithOpenStore[R any](
	ctx context.Context, reader client.Reader, opener *Opener, key types.NamespacedName, work func(*Store) (R, error),
) (result R, err error) {
	var bsl v1alpha1.BackupStorageLocation
	if err := reader.Get(ctx, key, &bsl); err != nil {
		return result, fmt.Errorf("reading BackupStorageLocation %s: %w", key.Name, err)
	}
	opened, err := opener.Open(ctx, &bsl)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return work(opened)
}

// defaultLocationName is the name of the default location if none is marked.
const defaultLocationName = "default"

// selectLocation returns the selected location, or why there is none.
func selectLocation(name string, list []v1alpha1.BackupStorageLocation) (found *v1alpha1.BackupStorageLocation, missing string) {
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
		case name == "" && l.Name == defaultLocationName && len(defaults) == 0:
			found = l
		}
	}
	switch {
	case len(defaults) > 1:
		return nil, fmt.Sprintf("several BackupStorageLocations are marked as default (%s); set spec.storageLocation, or mark only one",
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
