// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
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
	if err := job.ValidateName(o.Name); err != nil {
		errs = append(errs, "metadata.name: "+err.Error())
	}
	for _, err := range selection.Validate(selectionOf(&o.Spec)) {
		errs = append(errs, err.Error())
	}
	return append(errs, validateMapping(&o.Spec)...)
}

// validateMapping says what is wrong with the mapping of namespaces.
func validateMapping(spec *v1alpha1.RestoreSpec) []string {
	var errs []string
	wrong := func(from, format string, args ...any) {
		errs = append(errs, fmt.Sprintf("spec.namespaceMapping[%s]: ", from)+fmt.Sprintf(format, args...))
	}
	sources := map[v1alpha1.NamespaceName]string{}
	for _, from := range sortedKeys(spec.NamespaceMapping) {
		to := spec.NamespaceMapping[from]
		for _, name := range []string{from, string(to)} {
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
				wrong(from, "%q is not the name of a namespace: %s", name, problems[0])
			}
		}
		if other, taken := sources[to]; taken {
			wrong(from, "%s and %s would both be restored into %s; choose different namespaces", other, from, to)
		}
		sources[to] = from
		if excluded(spec, from) {
			wrong(from, "the namespace is not restored, because spec.includedNamespaces and spec.excludedNamespaces leave it out; remove one of them")
		}
	}
	return errs
}

// excluded says whether the selection leaves a namespace out.
func excluded(spec *v1alpha1.RestoreSpec, namespace string) bool {
	return !selection.IncludesNamespace(selectionOf(spec), namespace)
}

// priorities returns which API versions a person prefers, and what is wrong with
// how they said it.
func (r *Reconciler) priorities(ctx context.Context, s *scope) (version.Priorities, []string, error) {
	if !r.UseVersions {
		return nil, nil, nil
	}
	priorities, faults := version.ParsePriorities(s.Object.Spec.APIVersionPriorities)
	errs := located("spec.apiVersionPriorities", faults)
	var config corev1.ConfigMap
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: s.Object.Namespace, Name: prioritiesConfigMap}, &config)
	if apierrors.IsNotFound(err) {
		return priorities, errs, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading ConfigMap %s: %w", prioritiesConfigMap, err)
	}
	general, faults := version.ParsePriorities(config.Data[prioritiesKey])
	errs = append(errs, located(fmt.Sprintf("ConfigMap %s, %s", prioritiesConfigMap, prioritiesKey), faults)...)
	for resource, versions := range general {
		if _, own := priorities[resource]; !own {
			priorities[resource] = versions
		}
	}
	return priorities, errs, nil
}

func located(where string, faults []error) []string {
	var errs []string
	for _, fault := range faults {
		errs = append(errs, where+": "+fault.Error())
	}
	return errs
}

// requestOf returns what the job is told about a Restore.
func (r *Reconciler) requestOf(s *scope) job.Request {
	o := s.Object
	engine := restore.Request{
		Selection: selectionOf(&o.Spec), NamespaceMapping: run.PlainMap(o.Spec.NamespaceMapping),
		Policy:            restore.ExistingPolicy(o.Spec.ExistingResourcePolicy),
		PreserveNodePorts: o.Spec.PreserveNodePorts != nil && *o.Spec.PreserveNodePorts,
		BackupName:        o.Status.BackupName, RestoreName: o.Name, RestoreUID: string(o.UID), DryRun: o.Spec.DryRun,
	}
	if status := o.Spec.RestoreStatus; status != nil {
		engine.RestoreStatus = &restore.StatusFilter{
			Included: run.Plain(status.IncludedResources), Excluded: run.Plain(status.ExcludedResources),
		}
	}
	return job.Request{
		Name: o.Name, Namespace: o.Namespace, UID: string(o.UID), BackupName: o.Status.BackupName,
		Engine: engine, UseVersions: r.UseVersions,
		Warnings: append(run.Ignored(s.Pre), o.Status.PlanWarnings...),
	}
}
