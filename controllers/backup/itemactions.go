// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// ActionResolver reaches the BackupItemActions of plugins.
type ActionResolver interface {
	lifecycle.PluginLoader
	// BackupItemAction returns how to reach an action of a plugin, which need not be loaded yet.
	// An empty kind means BackupItemAction.
	BackupItemAction(pluginObject, kind, action string) pluginclient.ResolveFunc[pluginclient.BackupItemAction]
}

// addRequestedLabels adds the labels that item actions requested to the Backup. Existing labels
// do not change. It reports whether it added labels: if so, the watch enqueues the Backup again.
// If the API server rejects the labels, the Backup continues without them.
func (r *Reconciler) addRequestedLabels(ctx context.Context, s *scope, labels map[string]string) (added bool, err error) {
	patched := s.Object.DeepCopy()
	if patched.Labels == nil {
		patched.Labels = map[string]string{}
	}
	for key, value := range labels {
		if _, taken := patched.Labels[key]; !taken {
			patched.Labels[key] = value
		}
	}
	if len(patched.Labels) == len(s.Object.Labels) {
		return false, nil
	}
	err = r.Client.Patch(ctx, patched, client.MergeFrom(s.Object))
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		// A policy of the cluster rejects the labels. The backup was created, and the stored
		// backup has them.
		r.Recorder.Eventf(s.Object, nil, corev1.EventTypeWarning, v1alpha1.ReasonLabelsRefused, "Label",
			"The labels requested by item actions are in the stored backup, but could not be added to this object: %s", r.Redactor.String(err.Error()))
		return false, nil
	}
	return false, fmt.Errorf("adding the labels of item actions to Backup %s: %w", s.Object.Name, err)
}
