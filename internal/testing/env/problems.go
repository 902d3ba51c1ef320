// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// maxDescribed is how many problems of each severity a status has.
const maxDescribed = 10

// CheckProblemsDescribed checks that kubectl describe shows the problems of a run that are in its
// results file, if they are few enough. resource is the full name of its kind.
func (w *Env) CheckProblemsDescribed(t testing.TB, resource string, run client.Object, found results.Results) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.ControlPlane.KubectlPath(), "--kubeconfig", w.ControlPlane.KubeconfigPath(),
		"describe", resource, run.GetName(), "--namespace", run.GetNamespace())
	shown, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl describe: %v\n%s", err, shown)
	}
	for severity, problems := range map[string]results.Problems{"Error": found.Errors, "Warning": found.Warnings} {
		if len(problems) > maxDescribed {
			continue
		}
		for _, p := range problems {
			message := redact.New().String(p.Message)
			beginning := message[:min(len(message), 200)]
			// That of the run as a whole is its message.
			parts := []string{beginning, "Reason: ", p.Reason, "Severity: ", severity}
			if p.Reason == v1alpha1.ReasonFailed {
				parts = parts[:1]
			}
			if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(string(shown), part) }) {
				t.Errorf("kubectl describe does not show the %s %s %q:\n%s", severity, p.Reason, beginning, shown)
			}
		}
	}
}
