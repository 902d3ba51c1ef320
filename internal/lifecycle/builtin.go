// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// HasBuiltinAction reports whether one of the HookRuns is executed by a part of Grapnel that matches.
func HasBuiltinAction(ctx context.Context, reader client.Reader, runs []*v1alpha1.HookRun, matches func(*v1alpha1.BuiltinExecutor) bool) (bool, error) {
	for _, run := range runs {
		var plugin v1alpha1.Plugin
		err := reader.Get(ctx, types.NamespacedName{Name: run.Spec.PluginRef.Name}, &plugin)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading Plugin %s: %w", run.Spec.PluginRef.Name, err)
		}
		if builtin := plugin.Spec.Executor.Builtin; builtin != nil && matches(builtin) {
			return true, nil
		}
	}
	return false, nil
}

// RunsVeleroHooks is a match for HasBuiltinAction: the executor of the commands of Velero's annotations.
func RunsVeleroHooks(builtin *v1alpha1.BuiltinExecutor) bool { return builtin.VeleroHooks != nil }
