// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// csiAction is the name of the actions of the CSI plugin.
const csiAction = "grapnel.dev/csi"

// newVolumeSite starts a site with a CSI driver and its sidecars, whose operators have the CSI plugin. A
// snapshot takes a moment, and another one until it is ready.
func newVolumeSite(t *testing.T) *site {
	t.Helper()
	crds, err := csi.FindCRDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := startSite(t, controlplane.Options{CRDPaths: []string{crds}, ControllerManager: true})
	s.stack, err = csi.Start(t.Context(), s.plane, csi.Options{SnapshotDelay: 300 * time.Millisecond, ReadyDelay: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.csiPlugin = filepath.Join(t.TempDir(), "csi")
	if err := program.Build(t.Context(), "../../plugins/csi", s.csiPlugin); err != nil {
		t.Fatal(err)
	}
	return s
}

// installCSIPlugin gives the plugin to the operator of a lane, as its only one beside that of the lane: all lanes have actions of
// the same name.
func (l *testOperator) installCSIPlugin(t *testing.T) {
	t.Helper()
	l.csi = newServerProxy(t, l.plane.Config().Host, l.transport)
	l.api.plugins = labels.SelectorFromSet(l.labels()).String()
	l.api.arm(nil)
	manifest, err := os.ReadFile("../../config/components/csi/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	installed := &v1alpha1.Plugin{}
	err = errors.Join(yaml.UnmarshalStrict(manifest, installed),
		os.MkdirAll(filepath.Dir(l.csiProgram()), 0o755), os.Link(l.csiPlugin, l.csiProgram()))
	if err != nil {
		t.Fatal(err)
	}
	installed.Name, installed.Labels = "csi-"+l.name, l.labels()
	installed.Spec.Executor.Process.Env = []v1alpha1.EnvVar{{Name: "KUBECONFIG", Value: l.writeKubeconfig(t, "csi-kubeconfig", l.csi)}}
	l.create(t, installed)
}

// csiProgram is the path of the plugin of a lane.
func (l *testOperator) csiProgram() string { return filepath.Join(l.dir, "plugins", "csi") }

// killCSIPlugin kills the plugin of a lane, which the operator starts again when it needs it, and reports whether it was running.
func (l *testOperator) killCSIPlugin() bool {
	programs, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, path := range programs {
		if program, err := os.Readlink(path); err != nil || program != l.csiProgram() {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		return err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil
	}
	return false
}

// checkEnded checks that nothing of a run goes on, and that the last freeze, if there is any among its calls, was followed by a
// thaw. The HookRuns of a deleted run may no longer exist.
func (l *testOperator) checkEnded(t *testing.T, o lifecycle.Object, earlierCalls int) {
	t.Helper()
	l.checkScratch(t)
	if conditions.IsTrue(o, v1alpha1.ConditionCleanupOwed) {
		t.Error("clean-up is still owed")
	}
	for _, run := range l.hookRuns(t, o) {
		if len(run.Finalizers) > 0 || run.Status.CompletionTimestamp == nil {
			t.Errorf("HookRun %s has not ended: %v, %+v", run.Name, run.Finalizers, run.Status)
		}
	}
	var operations v1alpha1.AsyncOperationList
	err := l.client.List(t.Context(), &operations, client.InNamespace(l.name), client.MatchingLabels{v1alpha1.LabelParentUID: string(o.GetUID())})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range operations.Items {
		if op.Status.CompletionTimestamp == nil {
			t.Errorf("AsyncOperation %s is still running: %+v", op.Name, op.Status)
		}
	}
	calls, err := l.readCalls()
	if err != nil {
		t.Fatal(err)
	}
	kind, isFrozen := l.work.kind(), false
	for _, c := range calls[min(earlierCalls, len(calls)):] {
		if c.Action == l.pair() {
			isFrozen = c.Point == string(kind.PreHookPoint)
		}
	}
	if isFrozen && !kind.HasSingleHookPoint() {
		t.Errorf("the clean-up of %s was not paid: %+v", l.pair(), calls[earlierCalls:])
	}
}

// killSidecar kills a sidecar of the driver, which is started again at once. Its callers continue.
func (l *testOperator) killSidecar(name csi.Program) bool {
	_ = l.stack.KillProgram(name) // it may just be starting again
	return false
}
