// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tombstone

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
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update;patch

// LabelLocation is on every ConfigMap of this package; its value is the name of the location,
// shortened as labels are.
const LabelLocation = "grapnel.dev/seen-backups-of"

const (
	configMapSuffix  = "-seen-backups"
	maxConfigMapName = 253
	// maxDataBytes limits names and UIDs together. The API allows 1 MiB.
	maxDataBytes = 1_000_000
	// maxUIDBytes is the longest UID in bytes, with its suffix.
	maxUIDBytes = 64 + len(importedSuffix)
)

// updateBackoff is the back-off after conflicting writes of the same ConfigMap.
var updateBackoff = wait.Backoff{Steps: 8, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 1}

// ErrFull means that not all backups of a location can be recorded: the others are imported again
// when their Backups are deleted. The message says what to do.
var ErrFull = errors.New("no more backups of the location can be recorded")

// ConfigMapName returns the name of the ConfigMap of a location.
func ConfigMapName(location string) string {
	if name := location + configMapSuffix; len(name) <= maxConfigMapName {
		return name
	}
	return names.ChildName(location[:200]+configMapSuffix, maxConfigMapName, location)
}

// Records are the backups of a location that had a Backup in this cluster, by their names in the
// location. It is the data of the ConfigMap.
type Records map[string]string

// importedSuffix marks a backup that was imported.
const importedSuffix = " found"

// Add adds a backup: its name in the location, and the UID of the Backup that created it, or ""
// if that is unknown, which means any backup of that name. here means that a Backup of this
// cluster created it.
func (b Records) Add(storedName, uid string, here bool) {
	if !here {
		uid += importedSuffix
	}
	b[storedName] = uid
}

// ShouldImport reports whether a stored backup that has no Backup may be imported.
func (b Records) ShouldImport(storedName, uid string) bool {
	value, known := b[storedName]
	known = known && (strings.TrimSuffix(value, importedSuffix) == "" || strings.TrimSuffix(value, importedSuffix) == uid)
	return !known
}

// IsCreatedHere reports whether a Backup of this cluster with that UID created a stored backup.
func (b Records) IsCreatedHere(storedName, uid string) bool { return uid != "" && b[storedName] == uid }

// IsImportedHere reports whether a stored backup of that UID is recorded as imported.
func (b Records) IsImportedHere(storedName, uid string) bool {
	value, known := b[storedName]
	return known && value == uid+importedSuffix
}

// AnnotationImportsAnnotated is on ConfigMaps of versions that annotate imported Backups. A
// ConfigMap without it was written by an older version.
const AnnotationImportsAnnotated = "grapnel.dev/imports-are-annotated"

// NeedsMigration reports whether the records of a location were written by a version that did not
// annotate imported Backups. reader must not be a cache.
func NeedsMigration(ctx context.Context, reader client.Reader, namespace, location string) (bool, error) {
	noted, err := getLocationRecords(ctx, reader, namespace, location)
	if err != nil || noted.ownedData() == nil {
		return false, err
	}
	return noted.configMap.Annotations[AnnotationImportsAnnotated] == "", nil
}

// MarkMigrated records that the Backups that an older version imported are annotated now.
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

// AddRecords records that backups have a Backup in this cluster. It may be called repeatedly and
// concurrently, and writes only new records. reader must not be a cache. Invalid names and UIDs are
// omitted, and so are records that do not fit; only the latter result in ErrFull.
func AddRecords(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, more Records) error {
	left, had := 0, 0
	err := updateConfigMap(ctx, c, reader, namespace, location, func(data map[string]string) map[string]string {
		var all map[string]string
		all, left = mergeRecords(data, more)
		had = len(all)
		return all
	})
	if err == nil && left > 0 {
		err = fmt.Errorf("%w: ConfigMap %s has %d, and %d more do not fit and are imported again when their Backups are deleted; delete some backups with DeletionRuns, "+
			"or give each cluster its own prefix", ErrFull, ConfigMapName(location), had, left)
	}
	if err != nil {
		return fmt.Errorf("recording backups of BackupStorageLocation %s: %w", location, err)
	}
	return nil
}

// mergeRecords adds the records of more that fit to data, in the order of their names, and returns
// how many do not fit.
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

// PruneRecords deletes the records of a location for which keep returns false: those of backups
// that are no longer stored. It writes nothing if there are none, and may call keep several times
// for the same name. reader must not be a cache.
func PruneRecords(ctx context.Context, c client.Client, reader client.Reader, namespace, location string, keep func(storedName string) bool) error {
	err := updateConfigMap(ctx, c, reader, namespace, location, func(data map[string]string) map[string]string {
		kept := maps.Clone(data)
		maps.DeleteFunc(kept, func(storedName, _ string) bool { return !keep(storedName) })
		return kept
	})
	if err != nil {
		return fmt.Errorf("pruning the records of backups that are no longer stored: %w", err)
	}
	return nil
}

// LoadRecords returns the records of a location; nil if there are none. To see recent writes,
// reader must not be a cache.
func LoadRecords(ctx context.Context, reader client.Reader, namespace, location string) (Records, error) {
	noted, err := getLocationRecords(ctx, reader, namespace, location)
	if err != nil {
		return nil, err
	}
	return noted.ownedData(), nil
}

// locationRecords are a location and its ConfigMap, as far as they exist.
type locationRecords struct {
	// ownerReferences refer to the location, if it exists.
	ownerReferences []metav1.OwnerReference
	// configMap is the ConfigMap, nil if there is none.
	configMap *corev1.ConfigMap
}

// ownedData returns the records. A ConfigMap that the location does not own is about
// another location: a previous one, or that of the cluster from which a user copied the ConfigMap.
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

// getLocationRecords reads the records of a location.
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
	case there.Labels[LabelLocation] != names.LabelValue(location):
		return nil, fmt.Errorf("ConfigMap %s lacks the label %s and does not belong to Grapnel; rename it, because Grapnel records backups in a ConfigMap of that name",
			ConfigMapName(location), LabelLocation)
	}
	noted.configMap = there
	return noted, nil
}

// updateConfigMap writes the data that edit returns for the current data, if they differ. edit must
// not change its argument, and is called again after a conflict.
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
		if noted.ownedData() == nil { // the existing ConfigMap belongs to another location
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

// newConfigMapPatch returns a patch that changes the ConfigMap to the data after. A patch that only
// adds records has no resource version: many Backups may finish at once, and their records do not
// depend on each other.
func (n *locationRecords) newConfigMapPatch(after map[string]string) client.Patch {
	before, known := n.configMap.DeepCopy(), n.ownedData()
	forgets := known == nil // the existing data is replaced
	for name := range known {
		_, kept := after[name]
		forgets = forgets || !kept
	}
	if forgets {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	before.UID = "" // the patch then contains the UID, and cannot change another ConfigMap of the same name
	return client.MergeFrom(before)
}

// createConfigMap creates the ConfigMap of a location.
func createConfigMap(ctx context.Context, c client.Client, namespace, location string, owners []metav1.OwnerReference, data map[string]string) error {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMapName(location)}}
	made.Annotations = map[string]string{AnnotationImportsAnnotated: "true"}
	setConfigMapFields(made, location, owners, data)
	if err := c.Create(ctx, made); err != nil {
		return fmt.Errorf("creating ConfigMap %s: %w", made.Name, err)
	}
	return nil
}

// setConfigMapFields sets the data of a ConfigMap, the location as its owner, and the labels. The
// labels exclude it from backups: the records are only meaningful in this cluster.
func setConfigMapFields(m *corev1.ConfigMap, location string, owners []metav1.OwnerReference, data map[string]string) {
	m.Data, m.OwnerReferences = data, owners
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[LabelLocation] = names.LabelValue(location)
	m.Labels[selection.GrapnelExcludeLabel] = "true"
}

// dataBytes returns the size of the data as the API counts it.
func dataBytes(data map[string]string) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}
