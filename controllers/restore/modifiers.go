// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/modifier"
)

// The labels of the ConfigMaps that configure actions of Velero; see
// docs/adr/0020-changes-by-configmaps.md.
const (
	pluginConfigLabel = "velero.io/plugin-config"
	storageClassLabel = "velero.io/change-storage-class"
	imageNameLabel    = "velero.io/change-image-name"
	actionLabelValue  = "RestoreItemAction"
)

// loadResourceModifiers returns the rules in the ConfigMap that a Restore refers to, nil if it
// refers to none, or everything that is wrong with them. It reads past the cache, because the
// ConfigMap may be created right before the Restore.
func (r *Reconciler) loadResourceModifiers(ctx context.Context, namespace string, ref *v1alpha1.ConfigMapReference) (*modifier.Rules, []string, error) {
	if ref == nil {
		return nil, nil, nil
	}
	where := fmt.Sprintf("spec.resourceModifier: ConfigMap %s", ref.Name)
	var config corev1.ConfigMap
	switch err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &config); {
	case apierrors.IsNotFound(err):
		return nil, []string{fmt.Sprintf("%s does not exist in namespace %s; create it, and then a new Restore", where, namespace)}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading ConfigMap %s: %w", ref.Name, err)
	}
	rules, errs := modifier.Parse(config.Data)
	return rules, prefixErrors(where, errs), nil
}

// configuredChanges are what ConfigMaps of Velero change in the objects of all Restores.
type configuredChanges struct {
	storageClasses action.StorageClassChanges
	images         []action.ImageChange
	// warnings are about entries that are ignored, because the ConfigMap is for all Restores.
	warnings []string
}

// loadConfiguredChanges reads the ConfigMaps with Velero's labels. Two for the same action are an
// error, because which one applies would be a guess.
func (r *Reconciler) loadConfiguredChanges(ctx context.Context, namespace string) (configuredChanges, []string, error) {
	var list corev1.ConfigMapList
	if err := r.Reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{pluginConfigLabel}); err != nil {
		return configuredChanges{}, nil, fmt.Errorf("listing the ConfigMaps with the label %s: %w", pluginConfigLabel, err)
	}
	var errs []string
	findConfig := func(label string) (config corev1.ConfigMap) {
		var found []string
		for i := range list.Items {
			if list.Items[i].Labels[label] == actionLabelValue {
				config = list.Items[i]
				found = append(found, config.Name)
			}
		}
		if len(found) > 1 {
			slices.Sort(found)
			errs = append(errs, fmt.Sprintf("the ConfigMaps %s have the label %s; remove it from all but one", strings.Join(found, ", "), label))
		}
		return config
	}
	var changes configuredChanges
	classes, images := findConfig(storageClassLabel), findConfig(imageNameLabel)
	changes.storageClasses = action.StorageClassChanges{ConfigMap: classes.Name, Names: map[string]string{}}
	for before, after := range classes.Data {
		changes.storageClasses.Names[before] = strings.TrimSpace(after)
	}
	parsed, problems := action.ParseImageChanges(images.Data)
	changes.images = parsed
	for _, problem := range problems[:min(len(problems), maxLineWarnings)] {
		changes.warnings = append(changes.warnings, fmt.Sprintf("ConfigMap %s: %s", images.Name, problem))
	}
	return changes, errs, nil
}

// addChanges adds what ConfigMaps change in the restored objects to a request. It reads them
// again, so they may have become invalid since the Restore was validated.
func (r *Reconciler) addChanges(ctx context.Context, request *restore.RunRequest, namespace string, ref *v1alpha1.ConfigMapReference) error {
	rules, invalid, err := r.loadResourceModifiers(ctx, namespace, ref)
	if err != nil {
		return err
	}
	changes, ambiguous, err := r.loadConfiguredChanges(ctx, namespace)
	if err != nil {
		return err
	}
	if invalid = slices.Concat(invalid, ambiguous); len(invalid) > 0 {
		return errors.New(strings.Join(invalid, "; "))
	}
	request.Engine.Modifiers, request.Engine.StorageClasses, request.Engine.Images = rules, changes.storageClasses, changes.images
	request.Warnings = append(request.Warnings, changes.warnings...)
	return nil
}
