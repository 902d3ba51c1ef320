// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
)

func deployment(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Labels: map[string]string{"app": name}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}
}

func (w *world) replicas(namespace, name string) int32 {
	w.t.Helper()
	var d appsv1.Deployment
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
		w.t.Fatal(err)
	}
	return *d.Spec.Replicas
}

// TestQuiesceExecutor_SelectedWorkloads quiesces and unquiesces only the selected workloads in the included namespaces.
func TestQuiesceExecutor_SelectedWorkloads(t *testing.T) {
	t.Parallel()
	for name, points := range map[string][2]string{
		"a Backup":  {executor.PointPreBackup, executor.PointPostBackup},
		"a Restore": {executor.PointPreRestore, executor.PointPostRestore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(namespaces("shop", "stall"), deployment("shop", "web"), deployment("shop", "cache"), deployment("stall", "web"))...)
			of := aQuiesce()
			of.Builtin.Quiesce.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			of.Builtin.Quiesce.Kinds = []v1alpha1.QuiesceKind{"Deployment"}
			kinds := [2]v1alpha1.ActionKind{v1alpha1.ActionKind(points[0] + "Action"), v1alpha1.ActionKind(points[1] + "Action")}
			plugin := pluginOf(of, kinds[0], kinds[1])
			subject := `{"kind":"` + name[2:] + `","metadata":{"uid":"b-1"},"spec":{"includedNamespaces":["shop"]}}`
			answer, err := w.build(plugin, kinds[0]).Execute(t.Context(), callFor(points[0], subject))
			if err != nil {
				t.Fatal(err)
			}
			if got := [3]int32{w.replicas("shop", "web"), w.replicas("shop", "cache"), w.replicas("stall", "web")}; got != [3]int32{0, 3, 3} {
				t.Errorf("the replicas are %v (%s)", got, answer.Message)
			}
			call := callFor(points[1], subject)
			call.Outputs = map[string]map[string]string{"freeze": answer.Outputs}
			if answer, err = w.build(plugin, kinds[1]).Execute(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			if got := w.replicas("shop", "web"); got != 3 {
				t.Errorf("unquiesce resulted in %d replicas (%s)", got, answer.Message)
			}
		})
	}
}

// TestQuiesceExecutor_TwoPlugins: a workload that one Plugin unquiesces is still held by the other. The two
// actions of a pair may have different names if they belong to one Plugin.
func TestQuiesceExecutor_TwoPlugins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(namespaces("shop"), deployment("shop", "web"))...)
	first := pluginOf(aQuiesce(), preBackup, v1alpha1.ActionKindPostBackup)
	second := pluginOf(aQuiesce(), preBackup, v1alpha1.ActionKindPostBackup)
	second.Spec.Actions[0].Name, second.Spec.Actions[1].Name = "stop", "start"
	for _, step := range []struct {
		plugin *v1alpha1.Plugin
		action int
		point  string
		want   int32
	}{
		{first, 0, executor.PointPreBackup, 0},
		{second, 0, executor.PointPreBackup, 0},
		{first, 1, executor.PointPostBackup, 0},
		{second, 1, executor.PointPostBackup, 3},
	} {
		built, err := w.Build(step.plugin)
		if err != nil {
			t.Fatal(err)
		}
		a := step.plugin.Spec.Actions[step.action]
		call := callFor(step.point, aBackup)
		call.Action = string(a.Name)
		run := built.Executors[catalog.ActionID{Kind: string(a.Kind), Name: string(a.Name)}]
		if _, err := run.Execute(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if got := w.replicas("shop", "web"); got != step.want {
			t.Fatalf("after %s of %s there are %d replicas, want %d", step.point, a.Name, got, step.want)
		}
	}
}

// TestQuiesceExecutor_RestorePhases: restored workloads may lack their data and are not started. Workloads
// that the Restore itself stopped are.
func TestQuiesceExecutor_RestorePhases(t *testing.T) {
	t.Parallel()
	for phase, started := range map[v1alpha1.RunPhase]int32{
		v1alpha1.RunPhaseCompleted: 3, v1alpha1.RunPhasePartiallyFailed: 3, v1alpha1.RunPhaseFailed: 0,
		v1alpha1.RunPhaseCancelled: 0, v1alpha1.RunPhaseFailedPreRestoreActions: 0,
	} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(namespaces("shop"), deployment("shop", "web"))...)
			plugin := pluginOf(aQuiesce(), v1alpha1.ActionKindPreRestore, v1alpha1.ActionKindPostRestore)
			subject := `{"kind":"Restore","metadata":{"uid":"r-1"},"spec":{"includedNamespaces":["shop"]},"status":{"phase":"` + string(phase) + `"}}`
			if _, err := w.build(plugin, v1alpha1.ActionKindPreRestore).Execute(t.Context(), callFor(executor.PointPreRestore, subject)); err != nil {
				t.Fatal(err)
			}
			restored := deployment("shop", "restored")
			restored.Spec.Replicas = new(int32(0))
			restored.Annotations = map[string]string{quiesce.Annotation: `{"v":1,"kind":"Deployment","uid":"elsewhere","replicas":3,"holders":[{"uid":"b-1"}]}`}
			if err := w.client.Create(t.Context(), restored); err != nil {
				t.Fatal(err)
			}
			answer, err := w.build(plugin, v1alpha1.ActionKindPostRestore).Execute(t.Context(), callFor(executor.PointPostRestore, subject))
			if err != nil {
				t.Fatal(err)
			}
			if own, other := w.replicas("shop", "web"), w.replicas("shop", "restored"); own != 3 || other != started {
				t.Errorf("the stopped workload has %d replicas, and the restored one %d, want %d", own, other, started)
			}
			if named := strings.Contains(answer.Message, "Deployment shop/restored was restored in its quiesced form"); named != (started == 0) {
				t.Errorf("the message is %q", answer.Message)
			}
		})
	}
}

// TestQuiesceExecutor_WarningEvent: only this event shows that the data of a Backup may have changed while it
// was read.
func TestQuiesceExecutor_WarningEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(namespaces("shop"), deployment("shop", "web"))...)
	plugin := pluginOf(aQuiesce(), preBackup, v1alpha1.ActionKindPostBackup)
	there := func(started bool, phase v1alpha1.RunPhase) {
		t.Helper()
		subject := `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Backup","metadata":{"namespace":"grapnel-system","name":"b","uid":"b-1"},` +
			`"status":{"phase":"` + string(phase) + `"}}`
		if _, err := w.build(plugin, preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, subject)); err != nil {
			t.Fatal(err)
		}
		if started {
			d := deployment("shop", "web")
			if err := w.client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.build(plugin, v1alpha1.ActionKindPostBackup).Execute(t.Context(), callFor(executor.PointPostBackup, subject)); err != nil {
			t.Fatal(err)
		}
	}
	there(false, v1alpha1.RunPhaseCompleted)
	there(true, v1alpha1.RunPhaseFailedPreBackupActions) // nothing was read
	there(true, v1alpha1.RunPhasePartiallyFailed)
	if got := len(w.events.Events); got != 1 {
		t.Fatalf("%d events, want one", got)
	}
	if got := <-w.events.Events; !strings.HasPrefix(got, "Warning NotQuiesced ") || !strings.Contains(got, "Deployment shop/web was set to 1 replicas") {
		t.Errorf("the event is %q", got)
	}
}

// TestQuiesceExecutor_ForgedAnnotation: a tenant may set any annotation on a workload.
func TestQuiesceExecutor_ForgedAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(namespaces("shop"), deployment("shop", "web"), deployment("shop", "api"))...)
	plugin := pluginOf(aQuiesce(), preBackup, v1alpha1.ActionKindPostBackup)
	if _, err := w.build(plugin, preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup)); err != nil {
		t.Fatal(err)
	}
	forged := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"grapnel.dev/quiesced":"?"}}}`))
	if err := w.client.Patch(t.Context(), deployment("shop", "web"), forged); err != nil {
		t.Fatal(err)
	}
	if _, err := w.build(plugin, v1alpha1.ActionKindPostBackup).Execute(t.Context(), callFor(executor.PointPostBackup, aBackup)); err != nil {
		t.Errorf("clean-up that no retry can do is owed forever: %v", err)
	}
	if web, api := w.replicas("shop", "web"), w.replicas("shop", "api"); web != 0 || api != 3 {
		t.Errorf("%d and %d replicas, want 0 and 3", web, api)
	}
	if len(w.events.Events) != 1 {
		t.Fatalf("%d events, want one", len(w.events.Events))
	}
	if got := <-w.events.Events; !strings.HasPrefix(got, "Warning NotUnquiesced ") || !strings.Contains(got, "Deployment shop/web has an annotation") {
		t.Errorf("the event is %q", got)
	}
}

func TestQuiesceExecutor_Errors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(namespaces("shop"), deployment("shop", "web"))...)
	run := w.build(pluginOf(aQuiesce(), preBackup), preBackup)
	_, err := run.Execute(t.Context(), callFor(executor.PointPreBackup, `no JSON`))
	wantError(t, err, executor.Invalid, "decoding the Backup or Restore of the call")
	w.onList = func(l client.ObjectList) error {
		if _, ok := l.(*metav1.PartialObjectMetadataList); ok {
			return apierrors.NewInternalError(errRefused)
		}
		return nil
	}
	_, err = run.Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
	wantError(t, err, executor.Unreachable, "listing the namespaces")
	if got := w.replicas("shop", "web"); got != 3 {
		t.Errorf("got %d replicas", got)
	}
}

// TestQuiesceExecutor_MaxQuiesceDuration: a Plugin without a duration has a limit, too.
func TestQuiesceExecutor_MaxQuiesceDuration(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  *metav1.Duration
		want time.Duration
	}{
		"unset":      {want: time.Hour},
		"longer":     {set: &metav1.Duration{Duration: 5 * time.Hour}, want: 5 * time.Hour},
		"turned off": {set: &metav1.Duration{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(namespaces("shop"), deployment("shop", "web"))...)
			of := aQuiesce()
			of.Builtin.Quiesce.MaxQuiesceDuration = tc.set
			began := time.Now().Truncate(time.Second)
			if _, err := w.build(pluginOf(of, preBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup)); err != nil {
				t.Fatal(err)
			}
			var d appsv1.Deployment
			if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &d); err != nil {
				t.Fatal(err)
			}
			var held struct{ Holders []quiesce.Holder }
			if err := json.Unmarshal([]byte(d.Annotations[quiesce.Annotation]), &held); err != nil || len(held.Holders) != 1 {
				t.Fatalf("the annotation is %q: %v", d.Annotations[quiesce.Annotation], err)
			}
			until := held.Holders[0].Until
			if tc.want == 0 {
				if !until.IsZero() {
					t.Errorf("the workload is stopped until %s at most, want no limit", until)
				}
				return
			}
			if got := until.Sub(began); got < tc.want || got > tc.want+time.Minute {
				t.Errorf("the workload is stopped for %s at most, want %s", got, tc.want)
			}
		})
	}
}
