// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package seen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/selection"
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

// patience is how long others may be faster to write the same ConfigMap.
var patience = wait.Backoff{Steps: 8, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 1}

// ErrFull means that not all backups of a location can be remembered: the others come back
// when they are removed. The text says what to do.
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
// several at once, and writes nothing that is noted already. Reader must not be a cache. What
// can not be noted is left out: a name or UID that no backup has, and what is too much; only
// then the error is ErrFull.
func Remember(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, more Backups) error {
	left, had := 0, 0
	err := change(ctx, c, reader, namespace, location, func(data map[string]string) map[string]string {
		var all map[string]string
		all, left = add(data, more)
		had = len(all)
		return all
	})
	if err == nil && left > 0 {
		err = fmt.Errorf("%w: ConfigMap %s has %d, and %d more do not fit, whose Backups come back if they are removed; destroy some backups with DeletionRuns, "+
			"or give each cluster its own prefix", ErrFull, Name(location), had, left)
	}
	if err != nil {
		return fmt.Errorf("remembering backups of BackupStorageLocation %s: %w", location, err)
	}
	return nil
}

// add returns data with more in it, in the order of the names as many as fit, and how many
// do not.
func add(data map[string]string, more Backups) (all map[string]string, left int) {
	all = maps.Clone(data)
	if all == nil {
		all = map[string]string{}
	}
	total := size(all)
	for _, name := range slices.Sorted(maps.Keys(more)) {
		uid := more[name]
		if len(validation.IsConfigMapKey(name)) > 0 || len(uid) > maxUID {
			continue
		}
		grows := len(name) + len(uid)
		if before, known := all[name]; known {
			grows = len(uid) - len(before)
		}
		if grows > 0 && total+grows > maxBytes {
			left++
			continue
		}
		all[name] = uid
		total += grows
	}
	return all, left
}

// Prune forgets all backups of a location for which keep returns false: those that are
// not stored any more. It writes nothing if there are none, and may call keep again for
// the same name. Reader must not be a cache.
func Prune(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, keep func(storedName string) bool) error {
	err := change(ctx, c, reader, namespace, location, func(data map[string]string) map[string]string {
		kept := maps.Clone(data)
		maps.DeleteFunc(kept, func(storedName, _ string) bool { return !keep(storedName) })
		return kept
	})
	if err != nil {
		return fmt.Errorf("forgetting backups that are not stored any more: %w", err)
	}
	return nil
}

// Load returns the backups of a location that are remembered; nil if there are none. For
// what was written a moment ago reader must not be a cache.
func Load(ctx context.Context, reader client.Reader, namespace, location string) (Backups, error) {
	noted, err := get(ctx, reader, namespace, location)
	if err != nil {
		return nil, err
	}
	return noted.data(), nil
}

// notes are what there is of a location.
type notes struct {
	// owners are the location, if it exists.
	owners []metav1.OwnerReference
	// there is the ConfigMap, nil if there is none.
	there *corev1.ConfigMap
}

// data is what is noted. What a ConfigMap says that the location does not own is about
// another one: that of before, or that of the cluster from which somebody copied it.
func (n *notes) data() map[string]string {
	if n.there == nil {
		return nil
	}
	for _, owner := range n.owners {
		if !slices.ContainsFunc(n.there.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
			return nil
		}
	}
	return n.there.Data
}

// get reads the notes of a location.
func get(ctx context.Context, reader client.Reader, namespace, location string) (*notes, error) {
	noted := &notes{}
	var bsl v1alpha1.BackupStorageLocation
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: location}, &bsl)
	switch {
	case err == nil:
		noted.owners = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "BackupStorageLocation", Name: bsl.Name, UID: bsl.UID,
		}}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading BackupStorageLocation %s: %w", location, err)
	}
	there := &corev1.ConfigMap{}
	err = reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Name(location)}, there)
	switch {
	case apierrors.IsNotFound(err):
		return noted, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s: %w", Name(location), err)
	case there.Labels[Label] != shortname.Label(location):
		return nil, fmt.Errorf("ConfigMap %s is not Grapnel's, as it lacks the label %s: rename it, so that Grapnel can note there which backups were seen",
			Name(location), Label)
	}
	noted.there = there
	return noted, nil
}

// change writes the data that edit makes of the data there are, if they differ. Edit must
// not change what it is given, and is called again if somebody else was faster.
func change(
	ctx context.Context, c client.Client, reader client.Reader, namespace, location string,
	edit func(map[string]string) map[string]string,
) error {
	again := func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) // another UID
	}
	return retry.OnError(patience, again, func() error {
		noted, err := get(ctx, reader, namespace, location)
		if err != nil {
			return err
		}
		after := edit(noted.data())
		switch {
		case maps.Equal(noted.data(), after):
			return nil
		case noted.there == nil:
			return create(ctx, c, namespace, location, noted.owners, after)
		}
		patch := noted.patch(after)
		fill(noted.there, location, noted.owners, after)
		if err := c.Patch(ctx, noted.there, patch); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("writing ConfigMap %s: %w", noted.there.Name, err)
		} else if err != nil {
			return create(ctx, c, namespace, location, noted.owners, after)
		}
		return nil
	})
}

// patch returns a patch from what is there to what has the data after. One that only notes
// more is sent without a resource version: many Backups may end at once, and what each of
// them notes does not depend on the others.
func (n *notes) patch(after map[string]string) client.Patch {
	before, known := n.there.DeepCopy(), n.data()
	forgets := known == nil // and what is there is replaced
	for name := range known {
		_, kept := after[name]
		forgets = forgets || !kept
	}
	if forgets {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	before.UID = "" // so that the patch has it, and does not change another one of the name
	return client.MergeFrom(before)
}

// create makes the ConfigMap of a location.
func create(ctx context.Context, c client.Client, namespace, location string, owners []metav1.OwnerReference, data map[string]string) error {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name(location)}}
	fill(made, location, owners, data)
	if err := c.Create(ctx, made); err != nil {
		return fmt.Errorf("creating ConfigMap %s: %w", made.Name, err)
	}
	return nil
}

// fill gives a ConfigMap the data, the location as its owner, and the labels: what was seen
// in this cluster is no data of it, which a backup would bring elsewhere.
func fill(m *corev1.ConfigMap, location string, owners []metav1.OwnerReference, data map[string]string) {
	m.Data, m.OwnerReferences = data, owners
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[Label] = shortname.Label(location)
	m.Labels[selection.GrapnelExcludeLabel] = "true"
}

// size is what the API counts.
func size(data map[string]string) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}
