// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// parentObject has the fields that are read from a Backup or Restore of Grapnel or velero.io/v1.
type parentObject struct {
	Kind string `json:"kind"`
	Spec struct {
		IncludedNamespaces []string          `json:"includedNamespaces"`
		ExcludedNamespaces []string          `json:"excludedNamespaces"`
		NamespaceMapping   map[string]string `json:"namespaceMapping"`
	} `json:"spec"`
	Status struct {
		// BackupNamespaces are the namespaces in the backup of a Restore, names or globs. A
		// Restore that an earlier release started has none.
		BackupNamespaces []string `json:"backupNamespaces"`
		// BackupExcludedNamespaces are exceptions from BackupNamespaces.
		BackupExcludedNamespaces []string `json:"backupExcludedNamespaces"`
	} `json:"status"`
}

// TargetNamespaces returns the namespaces of the cluster that the Backup or Restore of a call
// includes, sorted. A Backup does not include namespaces with the label that excludes them from
// backups, and a Restore does not include namespaces that are missing in its backup.
// reader should not be a cache, because a namespace that was just restored counts.
func TargetNamespaces(ctx context.Context, reader client.Reader, call executor.Call) ([]string, error) {
	var of parentObject
	if err := json.Unmarshal(call.Subject, &of); err != nil {
		return nil, fmt.Errorf("decoding which namespaces are included: %w", err)
	}
	if of.Kind != "Backup" && of.Kind != "Restore" {
		return nil, errors.New("the call has no Backup or Restore that determines which namespaces are included")
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the namespaces: %w", err)
	}
	return of.matchNamespaces(list.Items)
}

// matchNamespaces returns the names of the included namespaces.
func (of parentObject) matchNamespaces(namespaces []metav1.PartialObjectMetadata) ([]string, error) {
	spec := selection.Spec{
		IncludedNamespaces: of.Spec.IncludedNamespaces, ExcludedNamespaces: of.Spec.ExcludedNamespaces, FromBackup: of.Kind == "Restore",
	}
	var originals []string
	there := map[string][]string{} // by their name in the backup
	for i := range namespaces {
		name := namespaces[i].Name
		// A Restore writes into excluded namespaces, too.
		if of.Kind == "Backup" && selection.IsExcludedByLabel(namespaces[i].Labels) {
			spec.OptedOutNamespaces = append(spec.OptedOutNamespaces, name)
			continue
		}
		for _, original := range of.sourceNamespaces(name) {
			originals = append(originals, original)
			there[original] = append(there[original], name)
		}
	}
	originals, err := of.selectNamespaces(spec, originals)
	if err != nil {
		return nil, fmt.Errorf("determining which namespaces are included: %w", err)
	}
	var names []string
	for _, original := range originals {
		names = append(names, there[original]...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// selectNamespaces returns the names that are included and, for a Restore, in its backup: a Restore
// that names no namespaces must not include all namespaces of this cluster.
func (of parentObject) selectNamespaces(spec selection.Spec, names []string) ([]string, error) {
	specs := []selection.Spec{spec}
	if has := of.Status.BackupNamespaces; of.Kind == "Restore" && len(has) > 0 {
		specs = append(specs, selection.Spec{
			IncludedNamespaces: has, ExcludedNamespaces: of.Status.BackupExcludedNamespaces, FromBackup: true,
		})
	}
	for _, spec := range specs {
		chosen, err := selection.Compile(spec, emptyResolver{}, names)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !chosen.IncludesNamespace(name) })
	}
	return names, nil
}

// sourceNamespaces returns the names that a namespace of the cluster has in the backup that is
// restored into it. For a Backup, that is its own name.
func (of parentObject) sourceNamespaces(name string) []string {
	if of.Kind != "Restore" || len(of.Spec.NamespaceMapping) == 0 {
		return []string{name}
	}
	var originals []string
	if _, moved := of.Spec.NamespaceMapping[name]; !moved {
		originals = append(originals, name)
	}
	for original, target := range of.Spec.NamespaceMapping {
		if target == name && original != name {
			originals = append(originals, original)
		}
	}
	if of.Spec.NamespaceMapping[name] == name {
		originals = append(originals, name)
	}
	slices.Sort(originals)
	return originals
}

// emptyResolver is a cluster without resources: only namespaces are selected.
type emptyResolver struct{}

// Resolve implements selection.Resolver.
func (emptyResolver) Resolve(string) (schema.GroupResource, bool) {
	return schema.GroupResource{}, false
}

// Scopes implements selection.Resolver.
func (emptyResolver) Scopes() map[schema.GroupResource]bool { return nil }
