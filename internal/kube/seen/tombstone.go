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

// LabelLocation is on every ConfigMap of this package; its value is the name of the location,
// shortened as labels are.
const LabelLocation = "grapnel.dev/seen-backups-of"

const (
	configMapSuffix  = "-seen-backups"
	maxConfigMapName = 253
	// maxDataBytes bounds names and UIDs together. The API allows 1 MiB.
	maxDataBytes = 1_000_000
	// maxUIDBytes is the longest UID in bytes, with its mark.
	maxUIDBytes = 64 + len(importedSuffix)
)

// updateBackoff is how long others may be faster to write the same ConfigMap.
var updateBackoff = wait.Backoff{Steps: 8, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 1}

// ErrFull means that not all backups of a location can be remembered: the others come back
// when they are removed. The text says what to do.
var ErrFull = errors.New("no more backups of the location can be remembered")

// ConfigMapName returns the name of the ConfigMap of a location.
func ConfigMapName(location string) string {
	if name := location + configMapSuffix; len(name) <= maxConfigMapName {
		return name
	}
	return shortname.ChildName(location[:200]+configMapSuffix, maxConfigMapName, location)
}

// Records are those of a location that had a Backup in this cluster: what is remembered of
// each by its name in the location. It is the data of the ConfigMap.
type Records map[string]string

// importedSuffix marks a backup that was found in the location.
const importedSuffix = " found"

// Add adds a backup: its name in the location, and the UID of the Backup that made it; ""
// if that is not known, which means any backup of that name. Here says that a Backup of this
// cluster made it.
func (b Records) Add(storedName, uid string, here bool) {
	if !here {
		uid += importedSuffix
	}
	b[storedName] = uid
}

// ShouldImport says whether a stored backup that has no Backup may be brought into the cluster.
func (b Records) ShouldImport(storedName, uid string) bool {
	value, known := b[storedName]
	known = known && (strings.TrimSuffix(value, importedSuffix) == "" || strings.TrimSuffix(value, importedSuffix) == uid)
	return !known
}

// IsCreatedHere says whether a Backup of this cluster with that UID made a stored backup.
func (b Records) IsCreatedHere(storedName, uid string) bool { return uid != "" && b[storedName] == uid }

// IsImportedHere reports whether a stored backup of that UID was found in the location, and has been
// noted.
func (b Records) IsImportedHere(storedName, uid string) bool {
	value, known := b[storedName]
	return known && value == uid+importedSuffix
}

// AnnotationImportsAnnotated is on ConfigMaps that were written when what the operator imports was already
// annotated as such. One without it is of an older version.
const AnnotationImportsAnnotated = "grapnel.dev/imports-are-annotated"

// NeedsMigration reports whether what is noted of a location was noted by a version that did not annotate
// what it imported. Reader must not be a cache.
func NeedsMigration(ctx context.Context, reader client.Reader, namespace, location string) (bool, error) {
	noted, err := getLocationRecords(ctx, reader, namespace, location)
	if err != nil || noted.ownedData() == nil {
		return false, err
	}
	return noted.configMap.Annotations[AnnotationImportsAnnotated] == "", nil
}

// MarkMigrated notes that what the older version imported is annotated now.
func MarkMigrated(ctx context.Context, c client.Client, reader client.Reader, namespace, location string) error {
	noted, err := getLocationRecords(ctx, reader, namespace, location)
	if err != nil || noted.configMap == nil {
		return err
	}
	patch := client.MergeFromWithOptions(noted.configMap.DeepCopy(), client.MergeFromWithOptimisticLock{})
	metav1.SetMetaDataAnnotation(&noted.configMap.ObjectMeta, AnnotationImportsAnnotated, "true")
	if err := c.Patch(ctx, noted.configMap, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", noted.configMap.Name, err)
	}
	return nil
}

// AddRecords notes that backups have a Backup in this cluster. It may be repeated, and by
// several at once, and writes nothing that is noted already. Reader must not be a cache. What
// can not be noted is left out: a name or UID that no backup has, and what is too much; only
// then the error is ErrFull.
func AddRecords(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, more Records) error {
	left, had := 0, 0
	err := updateConfigMap(ctx, c, reader, namespace, location, func(data map[string]string) map[string]string {
		var all map[string]string
		all, left = mergeRecords(data, more)
		had = len(all)
		return all
	})
	if err == nil && left > 0 {
		err = fmt.Errorf("%w: ConfigMap %s has %d, and %d more do not fit, whose Backups come back if they are removed; delete some backups with DeletionRuns, "+
			"or give each cluster its own prefix", ErrFull, ConfigMapName(location), had, left)
	}
	if err != nil {
		return fmt.Errorf("remembering backups of BackupStorageLocation %s: %w", location, err)
	}
	return nil
}

// mergeRecords returns data with more in it, in the order of the names as many as fit, and how many
// do not.
func mergeRecords(data map[string]string, more Records) (all map[string]string, left int) {
	all = maps.Clone(data)
	if all == nil {
		all = map[string]string{}
	}
	total := dataBytes(all)
	for _, name := range slices.Sorted(maps.Keys(more)) {
		uid := more[name]
		if len(validation.IsConfigMapKey(name)) > 0 || len(uid) > maxUIDBytes {
			continue
		}
		grows := len(name) + len(uid)
		if before, known := all[name]; known {
			grows = len(uid) - len(before)
		}
		if grows > 0 && total+grows > maxDataBytes {
			left++
			continue
		}
		all[name] = uid
		total += grows
	}
	return all, left
}

// PruneRecords forgets all backups of a location for which keep returns false: those that are
// not stored any more. It writes nothing if there are none, and may call keep again for
// the same name. Reader must not be a cache.
func PruneRecords(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, keep func(storedName string) bool) error {
	err := updateConfigMap(ctx, c, reader, namespace, location, func(data map[string]string) map[string]string {
		kept := maps.Clone(data)
		maps.DeleteFunc(kept, func(storedName, _ string) bool { return !keep(storedName) })
		return kept
	})
	if err != nil {
		return fmt.Errorf("forgetting backups that are not stored any more: %w", err)
	}
	return nil
}

// LoadRecords returns the backups of a location that are remembered; nil if there are none. For
// what was written a moment ago reader must not be a cache.
func LoadRecords(ctx context.Context, reader client.Reader, namespace, location string) (Records, error) {
	noted, err := getLocationRecords(ctx, reader, namespace, location)
	if err != nil {
		return nil, err
	}
	return noted.ownedData(), nil
}

// locationRecords are what there is of a location.
type locationRecords struct {
	// ownerReferences are the location, if it exists.
	ownerReferences []metav1.OwnerReference
	// configMap is the ConfigMap, nil if there is none.
	configMap *corev1.ConfigMap
}

// ownedData is what is noted. What a ConfigMap says that the location does not own is about
// another one: that of before, or that of the cluster from which somebody copied it.
func (n *locationRecords) ownedData() map[string]string {
	if n.configMap == nil {
		return nil
	}
	for _, owner := range n.ownerReferences {
		if !slices.ContainsFunc(n.configMap.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
			return nil
		}
	}
	return n.configMap.Data
}

// getLocationRecords reads the notes of a location.
func getLocationRecords(ctx context.Context, reader client.Reader, namespace, location string) (*locationRecords, error) {
	noted := &locationRecords{}
	var bsl v1alpha1.BackupStorageLocation
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: location}, &bsl)
	switch {
	case err == nil:
		noted.ownerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "BackupStorageLocation", Name: bsl.Name, UID: bsl.UID,
		}}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading BackupStorageLocation %s: %w", location, err)
	}
	there := &corev1.ConfigMap{}
	err = reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ConfigMapName(location)}, there)
	switch {
	case apierrors.IsNotFound(err):
		return noted, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s: %w", ConfigMapName(location), err)
	case there.Labels[LabelLocation] != shortname.LabelValue(location):
		return nil, fmt.Errorf("ConfigMap %s is not Grapnel's, as it lacks the label %s: rename it, so that Grapnel can note there which backups were seen",
			ConfigMapName(location), LabelLocation)
	}
	noted.configMap = there
	return noted, nil
}

// updateConfigMap writes the data that edit makes of the data there are, if they differ. Edit must
// not change what it is given, and is called again if somebody else was faster.
func updateConfigMap(
	ctx context.Context, c client.Client, reader client.Reader, namespace, location string,
	edit func(map[string]string) map[string]string,
) error {
	again := func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) // another UID
	}
	return retry.OnError(updateBackoff, again, func() error {
		noted, err := getLocationRecords(ctx, reader, namespace, location)
		if err != nil {
			return err
		}
		after := edit(noted.ownedData())
		switch {
		case maps.Equal(noted.ownedData(), after):
			return nil
		case noted.configMap == nil:
			return createConfigMap(ctx, c, namespace, location, noted.ownerReferences, after)
		}
		patch := noted.newConfigMapPatch(after)
		if noted.ownedData() == nil { // what is there is of another location
			metav1.SetMetaDataAnnotation(&noted.configMap.ObjectMeta, AnnotationImportsAnnotated, "true")
		}
		setConfigMapFields(noted.configMap, location, noted.ownerReferences, after)
		if err := c.Patch(ctx, noted.configMap, patch); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("writing ConfigMap %s: %w", noted.configMap.Name, err)
		} else if err != nil {
			return createConfigMap(ctx, c, namespace, location, noted.ownerReferences, after)
		}
		return nil
	})
}

// newConfigMapPatch returns a patch from what is there to what has the data after. One that only notes
// more is sent without a resource version: many Backups may end at once, and what each of
// them notes does not depend on the others.
func (n *locationRecords) newConfigMapPatch(after map[string]string) client.Patch {
	before, known := n.configMap.DeepCopy(), n.ownedData()
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

// createConfigMap makes the ConfigMap of a location.
func createConfigMap(ctx context.Context, c client.Client, namespace, location string, owners []metav1.OwnerReference, data map[string]string) error {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMapName(location)}}
	made.Annotations = map[string]string{AnnotationImportsAnnotated: "true"}
	setConfigMapFields(made, location, owners, data)
	if err := c.Create(ctx, made); err != nil {
		return fmt.Errorf("creating ConfigMap %s: %w", made.Name, err)
	}
	return nil
}

// setConfigMapFields gives a ConfigMap the data, the location as its owner, and the labels: what was seen
// in this cluster is no data of it, which a backup would bring elsewhere.
func setConfigMapFields(m *corev1.ConfigMap, location string, owners []metav1.OwnerReference, data map[string]string) {
	m.Data, m.OwnerReferences = data, owners
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[LabelLocation] = shortname.LabelValue(location)
	m.Labels[selection.GrapnelExcludeLabel] = "true"
}

// dataBytes is what the API counts.
func dataBytes(data map[string]string) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}
