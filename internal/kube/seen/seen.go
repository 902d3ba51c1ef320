// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package seen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update;patch

// Label is on every ConfigMap of this package; its value is the name of the location,
// shortened as labels are.
const Label = "grapnel.dev/seen-backups-of"

const (
	suffix  = "-seen-backups"
	maxName = 253
	// maxBytes bounds names and UIDs together. The API allows 1 MiB.
	maxBytes = 1_000_000
	// maxUID is the longest UID in bytes, with its mark.
	maxUID = 64 + len(found)
)

// ErrFull means that no more backups of a location can be remembered: those that are removed
// come back. The text says what to do.
var ErrFull = errors.New("no more backups of the location can be remembered")

// Name returns the name of the ConfigMap of a location.
func Name(location string) string {
	if name := location + suffix; len(name) <= maxName {
		return name
	}
	return shortname.Of(location[:200]+suffix, maxName, location)
}

// Backups are those of a location that had a Backup in this cluster: what is remembered of
// each by its name in the location. It is the data of the ConfigMap.
type Backups map[string]string

// found marks a backup that was found in the location.
const found = " found"

// Add adds a backup: its name in the location, and the UID of the Backup that made it; ""
// if that is not known, which means any backup of that name. Here says that a Backup of this
// cluster made it.
func (b Backups) Add(storedName, uid string, here bool) {
	if !here {
		uid += found
	}
	b[storedName] = uid
}

// Wants says whether a stored backup that has no Backup may be brought into the cluster.
func (b Backups) Wants(storedName, uid string) bool {
	value, known := b[storedName]
	known = known && (strings.TrimSuffix(value, found) == "" || strings.TrimSuffix(value, found) == uid)
	return !known
}

// MadeHere says whether a Backup of this cluster with that UID made a stored backup.
func (b Backups) MadeHere(storedName, uid string) bool { return uid != "" && b[storedName] == uid }

// Remember notes that backups have a Backup in this cluster. It may be repeated, and by
// several at once, and writes nothing that is noted already. Reader must not be a cache. The
// error is ErrFull if there are too many.
func Remember(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, more Backups) error {
	for name, uid := range more {
		if problems := validation.IsConfigMapKey(name); len(problems) > 0 || len(uid) > maxUID {
			return fmt.Errorf("remembering backup %q (UID %q): no backup has such a name or UID", name, uid)
		}
	}
	err := change(ctx, c, reader, namespace, location, func(data map[string]string) (map[string]string, error) {
		all := maps.Clone(data)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, more)
		if size(all) > maxBytes {
			return nil, fmt.Errorf("%w: ConfigMap %s has %d already; destroy some with DeletionRuns", ErrFull, Name(location), len(data))
		}
		return all, nil
	})
	if err != nil {
		return fmt.Errorf("remembering backups of BackupStorageLocation %s: %w", location, err)
	}
	return nil
}

// Prune forgets all backups of a location for which keep returns false: those that are
// not stored any more. It writes nothing if there are none, and may call keep again for
// the same name. Reader must not be a cache.
func Prune(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, keep func(storedName string) bool) error {
	err := change(ctx, c, reader, namespace, location, func(data map[string]string) (map[string]string, error) {
		kept := maps.Clone(data)
		maps.DeleteFunc(kept, func(storedName, _ string) bool { return !keep(storedName) })
		return kept, nil
	})
	if err != nil {
		return fmt.Errorf("forgetting backups that are not stored any more: %w", err)
	}
	return nil
}

// Load returns the backups of a location that are remembered; nil if there are none. For
// what was written a moment ago reader must not be a cache.
func Load(ctx context.Context, reader client.Reader, namespace, location string) (Backups, error) {
	found, err := get(ctx, reader, namespace, location)
	if err != nil || found == nil {
		return nil, err
	}
	return found.Data, nil
}

// get reads the ConfigMap of a location; it is nil if there is none.
func get(ctx context.Context, reader client.Reader, namespace, location string) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Name(location)}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s: %w", Name(location), err)
	case found.Labels[Label] != shortname.Label(location):
		return nil, fmt.Errorf("ConfigMap %s is not Grapnel's, as it lacks the label %s: rename it, so that Grapnel can note there which backups were seen",
			Name(location), Label)
	}
	return found, nil
}

// change writes the data that edit makes of the data there are, if they differ. Edit must
// not change what it is given, and is called again if somebody else was faster.
func change(
	ctx context.Context, c client.Client, reader client.Reader, namespace, location string,
	edit func(map[string]string) (map[string]string, error),
) error {
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultBackoff, again, func() error {
		found, err := get(ctx, reader, namespace, location)
		if err != nil {
			return err
		}
		var before map[string]string
		if found != nil {
			before = found.Data
		}
		after, err := edit(before)
		switch {
		case err != nil:
			return err
		case maps.Equal(before, after):
			return nil
		case found == nil:
			return create(ctx, c, reader, namespace, location, after)
		}
		patch := client.MergeFromWithOptions(found.DeepCopy(), client.MergeFromWithOptimisticLock{})
		found.Data = after
		if err := c.Patch(ctx, found, patch); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("writing ConfigMap %s: %w", found.Name, err)
		} else if err != nil {
			return create(ctx, c, reader, namespace, location, after)
		}
		return nil
	})
}

// create makes the ConfigMap of a location, which owns it if it exists.
func create(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, data map[string]string) error {
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: Name(location), Labels: map[string]string{Label: shortname.Label(location)},
		},
		Data: data,
	}
	var bsl v1alpha1.BackupStorageLocation
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: location}, &bsl)
	switch {
	case err == nil:
		made.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "BackupStorageLocation", Name: bsl.Name, UID: bsl.UID,
		}}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading BackupStorageLocation %s: %w", location, err)
	}
	if err := c.Create(ctx, made); err != nil {
		return fmt.Errorf("creating ConfigMap %s: %w", made.Name, err)
	}
	return nil
}

// size is what the API counts.
func size(data map[string]string) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}
