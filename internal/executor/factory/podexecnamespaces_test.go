// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// TestNewPodExecExecutor_OperatorNamespace includes the operator's own namespace, by name and together
// with all others.
func TestNewPodExecExecutor_OperatorNamespace(t *testing.T) {
	t.Parallel()
	for name, included := range map[string]string{
		"by its name": `["grapnel-system","shop"]`, "with all": `["*"]`, "without names": `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(namespaces("shop", operatorNamespace), runningPod("shop", "db-0"), runningPod(operatorNamespace, "db-0"))...)
			of := aPodExec()
			of.PodExec.Target = v1alpha1.PodTargetEach
			call := callFor(executor.PointPreBackup, `{"kind":"Backup","spec":{"includedNamespaces":`+included+`}}`)
			if _, err := w.build(pluginOf(of, preBackup), preBackup).Execute(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"shop/db-0"}, w.ran()); diff != "" {
				t.Errorf("commands ran in (-want +got):\n%s", diff)
			}
		})
	}
}
