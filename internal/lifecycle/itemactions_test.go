// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// TestToPlannedItemActions checks that the status of the run follows the declaration of an item
// action.
func TestToPlannedItemActions(t *testing.T) {
	p := plugin("a",
		func(p *v1alpha1.Plugin) {
			p.Status.Actions = []v1alpha1.ProvidedAction{
				{Name: "x/tag", Kind: v1alpha1.ActionKindBackupItem},
				{Name: "x/plain", Kind: v1alpha1.ActionKindBackupItem},
				{Name: "x/block", Kind: v1alpha1.ActionKindItemBlock},
				{Name: "x/tag", Kind: v1alpha1.ActionKindAsyncBackupItem},
				{Name: "x/move", Kind: v1alpha1.ActionKindAsyncRestoreItem},
				{Name: "x/tag", Kind: v1alpha1.ActionKindRestoreItem},
				{Name: "x/store", Kind: v1alpha1.ActionKindObjectStore},
			}
		},
		declare(v1alpha1.PluginAction{
			Name: "x/tag", Kind: v1alpha1.ActionKindBackupItem, Order: 7, Timeout: &metav1.Duration{Duration: time.Minute},
			FailurePolicy: v1alpha1.FailurePolicyIgnore,
		}),
		declare(v1alpha1.PluginAction{
			Name: "x/tag", Kind: v1alpha1.ActionKindAsyncBackupItem, Order: -9,
			Operation: &v1alpha1.OperationPolicy{StallTimeout: &metav1.Duration{Duration: time.Hour}},
		}),
	)
	for kind, want := range map[KindTraits]string{
		BackupKind:  "ItemBlockAction x/block a 10m0s Fail; BackupItemAction x/plain a 10m0s Fail; BackupItemAction x/tag a 1m0s Ignore; AsyncBackupItemAction x/tag a 10m0s Fail stall 1h0m0s",
		RestoreKind: "RestoreItemAction x/tag a 10m0s Fail; AsyncRestoreItemAction x/move a 10m0s Fail",
	} {
		plan, loading := kind.BuildHookPlan(queued("b", 0), []v1alpha1.Plugin{p})
		if loading != "" || len(plan.Errors) > 0 {
			t.Fatalf("%s: loading %q, errors %q", kind.Name, loading, plan.Errors)
		}
		var got []string
		for _, a := range ToPlannedItemActions(plan.Items) {
			text := fmt.Sprintf("%s %s %s %s %s", a.Kind, a.Name, a.Plugin, a.Timeout.Duration, a.FailurePolicy)
			if a.Operation != nil {
				text += " stall " + a.Operation.StallTimeout.Duration.String()
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: planned %q, want %q", kind.Name, text, want)
		}
		if described := kind.describePlan(plan); !strings.Contains(described, kind.Name+"Item actions are planned") {
			t.Errorf("the condition says %q", described)
		}
	}
}

func TestBuildHookPlan_TooManyItemActions(t *testing.T) {
	p := plugin("a", func(p *v1alpha1.Plugin) {
		p.Status.Actions = nil
		for n := range maxItemActions + 1 {
			p.Status.Actions = append(p.Status.Actions, v1alpha1.ProvidedAction{
				Name: fmt.Sprintf("x/%d", n), Kind: v1alpha1.ActionKindBackupItem,
			})
		}
	})
	plan, _ := BackupKind.BuildHookPlan(queued("b", 0), []v1alpha1.Plugin{p})
	contain(t, "errors", plan.Errors, [][]string{{"257 BackupItem actions", "at most 256", "suspend"}})
}

// loads has channels by name.
type loads map[string]chan struct{}

func (l loads) LoadAttempted(name string) <-chan struct{} { return l[name] }

func TestWaitForPlugins(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	there := plugin("open")
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&there).Build()
	tried, open := make(chan struct{}), make(chan struct{})
	close(tried)
	all := loads{"tried": tried, "open": open, "gone": make(chan struct{})}
	of := func(names ...string) (planned []v1alpha1.PlannedItemAction) {
		for _, name := range names {
			planned = append(planned, v1alpha1.PlannedItemAction{Name: "x/a", Plugin: name})
		}
		return planned
	}
	if err := WaitForPlugins(t.Context(), reader, all, of("tried", "gone")); err != nil {
		t.Errorf("a Plugin with a finished load attempt, and one that does not exist: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the run was canceled")
	cancel(stop)
	if err := WaitForPlugins(ctx, reader, all, of("tried", "open")); !errors.Is(err, stop) || !strings.Contains(err.Error(), "Plugin open") {
		t.Errorf("a Plugin that is still starting: %v, want the cause and the name", err)
	}
	close(open)
	if err := WaitForPlugins(t.Context(), reader, all, of("open")); err != nil {
		t.Errorf("a Plugin that started meanwhile: %v", err)
	}
}

// TestNewItemActionSpecs checks that each action has its kind, which the operations that it
// starts need.
func TestNewItemActionSpecs(t *testing.T) {
	planned := []v1alpha1.PlannedItemAction{{Name: "x/new", Kind: v1alpha1.ActionKindAsyncBackupItem, Plugin: "a"}, {Name: "x/old", Plugin: "a"}}
	asked := ""
	resolve := func(plugin, kind, action string) pluginclient.ResolveFunc[pluginclient.BackupItemAction] {
		asked += fmt.Sprintf("%s %q %s; ", plugin, kind, action)
		return nil
	}
	for subject, want := range map[Object]string{&v1alpha1.Backup{}: "BackupItemAction", &v1alpha1.Restore{}: "RestoreItemAction"} {
		asked = ""
		subject.Run().ItemActions = planned
		specs := NewItemActionSpecs(subject, resolve)
		if len(specs) != 2 || specs[0].Kind != "AsyncBackupItemAction" || specs[1].Kind != want {
			t.Errorf("%T: the specs are %+v", subject, specs)
		}
		if want := `a "AsyncBackupItemAction" x/new; a "" x/old; `; asked != want {
			t.Errorf("%T: the action is reached by %s, want %s", subject, asked, want)
		}
	}
}
