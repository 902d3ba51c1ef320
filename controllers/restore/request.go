// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// The ConfigMap with the priorities of a whole installation, as Velero has it.
const (
	prioritiesConfigMap = "enableapigroupversions"
	prioritiesKey       = "restoreResourcesVersionPriority"
)

// maxLineWarnings is how many lines of the ConfigMap get a warning of their own.
const maxLineWarnings = 20

// toSelectionSpec converts the part of the spec that selects objects.
func toSelectionSpec(spec *v1alpha1.RestoreSpec) selection.Spec {
	return selection.Spec{
		IncludedNamespaces:      lifecycle.ToStrings(spec.IncludedNamespaces),
		ExcludedNamespaces:      lifecycle.ToStrings(spec.ExcludedNamespaces),
		IncludedResources:       lifecycle.ToStrings(spec.IncludedResources),
		ExcludedResources:       lifecycle.ToStrings(spec.ExcludedResources),
		IncludeClusterResources: spec.IncludeClusterResources,
		LabelSelector:           spec.LabelSelector,
		OrLabelSelectors:        spec.OrLabelSelectors,
	}
}

// validateSpec returns everything that is wrong with the spec on its own.
func validateSpec(o *v1alpha1.Restore) []string {
	var errs []string
	if err := storage.ValidateName(o.Name); err != nil {
		errs = append(errs, "metadata.name: "+err.Error())
	}
	for _, err := range restore.Validate(newEngineRequest(o)) {
		errs = append(errs, err.Error())
	}
	return errs
}

// versionPriorities are the API versions that a user prefers.
type versionPriorities struct {
	all version.Priorities
	// named are the resources in the spec of the Restore.
	named []string
	// warnings are about invalid lines of the ConfigMap. They are ignored, because the ConfigMap
	// is for all Restores, and must not fail one of them.
	warnings []string
}

// loadVersionPriorities returns the preferred API versions, and the errors in those of the spec.
func (r *Reconciler) loadVersionPriorities(ctx context.Context, s *scope) (versionPriorities, []string, error) {
	own, faults := version.ParsePriorities(s.Object.Spec.APIVersionPriorities)
	errs := prefixErrors("spec.apiVersionPriorities", faults)
	preferred := versionPriorities{all: own, named: slices.Sorted(maps.Keys(own))}
	if !r.UseVersions {
		return preferred, errs, nil
	}
	var config corev1.ConfigMap
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: s.Object.Namespace, Name: prioritiesConfigMap}, &config)
	if apierrors.IsNotFound(err) {
		return preferred, errs, nil
	}
	if err != nil {
		return versionPriorities{}, nil, fmt.Errorf("reading ConfigMap %s: %w", prioritiesConfigMap, err)
	}
	general, faults := version.ParsePriorities(config.Data[prioritiesKey])
	where := fmt.Sprintf("ConfigMap %s, %s", prioritiesConfigMap, prioritiesKey)
	preferred.warnings = prefixErrors(where, faults[:min(len(faults), maxLineWarnings)])
	if more := len(faults) - maxLineWarnings; more > 0 {
		preferred.warnings = append(preferred.warnings, fmt.Sprintf("%s: %d more lines are ignored", where, more))
	}
	maps.Copy(general, own)
	preferred.all = general
	return preferred, errs, nil
}

func prefixErrors(where string, faults []error) []string {
	var errs []string
	for _, fault := range faults {
		errs = append(errs, where+": "+fault.Error())
	}
	return errs
}

// newEngineRequest returns the request to the engine for a Restore.
func newEngineRequest(o *v1alpha1.Restore) restore.Request {
	engine := restore.Request{
		Selection: toSelectionSpec(&o.Spec), NamespaceMapping: lifecycle.ToStringMap(o.Spec.NamespaceMapping),
		Policy:            restore.ExistingPolicy(o.Spec.ExistingResourcePolicy),
		TakeOver:          o.Spec.TakeOver,
		PreserveNodePorts: o.Spec.PreserveNodePorts != nil && *o.Spec.PreserveNodePorts,
		BackupName:        o.Status.BackupName, RestoreName: o.Name, RestoreUID: string(o.UID), DryRun: o.Spec.DryRun,
	}
	if status := o.Spec.RestoreStatus; status != nil {
		engine.RestoreStatus = &restore.StatusFilter{
			IncludedResources: lifecycle.ToStrings(status.IncludedResources), ExcludedResources: lifecycle.ToStrings(status.ExcludedResources),
		}
	}
	return engine
}

// newRunnerRequest returns the request to the runner for a Restore.
func (r *Reconciler) newRunnerRequest(s *scope) (restore.RunRequest, error) {
	o := s.Object
	spec, err := json.Marshal(o.Spec)
	if err != nil {
		return restore.RunRequest{}, fmt.Errorf("encoding the spec: %w", err)
	}
	request := restore.RunRequest{
		Name: o.Name, Namespace: o.Namespace, UID: string(o.UID), BackupName: o.Status.BackupName,
		Labels: o.Labels, Annotations: o.Annotations, Spec: spec,
		Engine: newEngineRequest(o), UseVersions: r.UseVersions,
		OnOperationStarted: r.driver.NewOperationRecorder(s),
		OperationTimeout:   r.Operations.Timeout,
		ItemActions:        lifecycle.NewItemActionSpecs(o, r.Actions.RestoreItemAction),
		Warnings:           append(lifecycle.IgnoredFailureWarnings(s.Pre), o.Status.PlanWarnings...),
	}
	if o.Status.StartTimestamp != nil {
		request.Start = o.Status.StartTimestamp.Time
	}
	return request, nil
}
