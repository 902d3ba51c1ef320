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
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// The ConfigMap with the priorities of a whole installation, as Velero has it.
const (
	prioritiesConfigMap = "enableapigroupversions"
	prioritiesKey       = "restoreResourcesVersionPriority"
)

// selectionOf translates the part of the spec that selects objects.
func selectionOf(spec *v1alpha1.RestoreSpec) selection.Spec {
	return selection.Spec{
		IncludedNamespaces:      run.Plain(spec.IncludedNamespaces),
		ExcludedNamespaces:      run.Plain(spec.ExcludedNamespaces),
		IncludedResources:       run.Plain(spec.IncludedResources),
		ExcludedResources:       run.Plain(spec.ExcludedResources),
		IncludeClusterResources: spec.IncludeClusterResources,
		LabelSelector:           spec.LabelSelector,
		OrLabelSelectors:        spec.OrLabelSelectors,
	}
}

// validate returns everything that is wrong with the spec by itself.
func validate(o *v1alpha1.Restore) []string {
	var errs []string
	if err := backupstore.ValidateName(o.Name); err != nil {
		errs = append(errs, "metadata.name: "+err.Error())
	}
	for _, err := range restore.Validate(engineRequest(o)) {
		errs = append(errs, err.Error())
	}
	return errs
}

// priorities are the API versions that a person prefers.
type priorities struct {
	all version.Priorities
	// named are the resources that the Restore itself names.
	named []string
}

// priorities returns which API versions a person prefers, and what is wrong with
// how they said it.
func (r *Reconciler) priorities(ctx context.Context, s *scope) (priorities, []string, error) {
	own, faults := version.ParsePriorities(s.Object.Spec.APIVersionPriorities)
	errs := located("spec.apiVersionPriorities", faults)
	preferred := priorities{all: own, named: slices.Sorted(maps.Keys(own))}
	if !r.UseVersions {
		return preferred, errs, nil
	}
	var config corev1.ConfigMap
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: s.Object.Namespace, Name: prioritiesConfigMap}, &config)
	if apierrors.IsNotFound(err) {
		return preferred, errs, nil
	}
	if err != nil {
		return priorities{}, nil, fmt.Errorf("reading ConfigMap %s: %w", prioritiesConfigMap, err)
	}
	general, faults := version.ParsePriorities(config.Data[prioritiesKey])
	errs = append(errs, located(fmt.Sprintf("ConfigMap %s, %s", prioritiesConfigMap, prioritiesKey), faults)...)
	maps.Copy(general, own)
	preferred.all = general
	return preferred, errs, nil
}

func located(where string, faults []error) []string {
	var errs []string
	for _, fault := range faults {
		errs = append(errs, where+": "+fault.Error())
	}
	return errs
}

// engineRequest returns what the engine is told about a Restore.
func engineRequest(o *v1alpha1.Restore) restore.Request {
	engine := restore.Request{
		Selection: selectionOf(&o.Spec), NamespaceMapping: run.PlainMap(o.Spec.NamespaceMapping),
		Policy:            restore.ExistingPolicy(o.Spec.ExistingResourcePolicy),
		PreserveNodePorts: o.Spec.PreserveNodePorts != nil && *o.Spec.PreserveNodePorts,
		BackupName:        o.Status.BackupName, RestoreName: o.Name, RestoreUID: string(o.UID), DryRun: o.Spec.DryRun,
	}
	if status := o.Spec.RestoreStatus; status != nil {
		engine.RestoreStatus = &restore.StatusFilter{
			IncludedResources: run.Plain(status.IncludedResources), ExcludedResources: run.Plain(status.ExcludedResources),
		}
	}
	return engine
}

// requestOf returns what the job is told about a Restore.
func (r *Reconciler) requestOf(s *scope) (job.Request, error) {
	o := s.Object
	spec, err := json.Marshal(o.Spec)
	if err != nil {
		return job.Request{}, fmt.Errorf("encoding the spec: %w", err)
	}
	request := job.Request{
		Name: o.Name, Namespace: o.Namespace, UID: string(o.UID), BackupName: o.Status.BackupName,
		Labels: o.Labels, Annotations: o.Annotations, Spec: spec,
		Engine: engineRequest(o), UseVersions: r.UseVersions,
		Started:          r.started(s),
		OperationTimeout: r.Operations.Timeout,
		ItemActions:      run.ItemSpecs(o, r.Actions.RestoreItemAction),
		Warnings:         append(run.Ignored(s.Pre), o.Status.PlanWarnings...),
	}
	if o.Status.StartTimestamp != nil {
		request.Start = o.Status.StartTimestamp.Time
	}
	return request, nil
}
