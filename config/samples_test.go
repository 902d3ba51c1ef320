// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	operatorprocess "github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// TestSamples applies the samples as their kustomization says to, with unknown fields forbidden
// and with an operator whose plugin directory is empty, and checks whether they are created and whether
// the Backups among them are made. Then it restores one, and moves its location.
func TestSamples(t *testing.T) {
	s := startPlane(t, controlplane.Options{CRDPaths: []string{"crd/bases"}})
	for _, name := range []string{namespace, shop, "shop-data"} {
		create(t, s.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	create(t, s.admin, prices())
	programs, err := operatorprocess.BuildPrograms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	options := operatorprocess.Options{
		Programs: operatorprocess.Programs{Operator: programs.Operator}, Kubeconfig: s.plane.KubeconfigPath(), Dir: t.TempDir(),
	}
	op := operate(t, options)
	// Twice: what is applied again after the API server filled in defaults has to
	// be what it was.
	for range 2 {
		s.kubectl(t, "", "apply", "--validate=strict", "-k", "samples")
	}
	for _, name := range []string{"shop-simple", "shop-scoped", "shop-frozen", "shop-with-data"} {
		b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		await(t, s.admin, b, "Backup "+name, func() bool { return b.Status.CompletionTimestamp != nil })
		if b.Status.Phase != v1alpha1.RunPhaseCompleted {
			t.Errorf("Backup %s is %s: %s %v", name, b.Status.Phase, b.Status.Message, b.Status.ValidationErrors)
		}
		// Parameters for a Plugin that is suspended are rightly warned of.
		if len(b.Spec.Parameters) == 0 && len(b.Status.PlanWarnings) > 0 {
			t.Errorf("Backup %s is warned of Plugins that are not for it: %q", name, b.Status.PlanWarnings)
		}
		if b.Generation != 1 {
			t.Errorf("applying sample %s again changed its spec", name)
		}
	}
	for name, object := range map[string]client.Object{
		"nightly": &v1alpha1.Schedule{}, "samples": &v1alpha1.BackupStorageLocation{}, "offsite": &v1alpha1.BackupStorageLocation{},
		"offsite-credentials": &corev1.Secret{}, "example": &v1alpha1.Plugin{},
	} {
		key := client.ObjectKey{Namespace: namespace, Name: name}
		if name == "example" {
			key.Namespace = ""
		}
		if err := s.admin.Get(t.Context(), key, object); err != nil {
			t.Errorf("sample %s: %v", name, err)
		}
	}
	s.kubectl(t, "", "apply", "--validate=strict", "-f", "samples/restore.yaml", "-f", "samples/restore_mapped.yaml")
	for _, name := range []string{"shop-again", "shop-rehearsal"} {
		s.restored(t, name)
	}
	if err := op.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Run("the location moves to a bucket", func(t *testing.T) { s.testBucket(t, options) })
}

// restored waits until a Restore has worked.
func (s *suite) restored(t *testing.T, name string) {
	t.Helper()
	r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	await(t, s.admin, r, "Restore "+name, func() bool { return r.Status.CompletionTimestamp != nil })
	if r.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("Restore %s is %s: %s %v", name, r.Status.Phase, r.Status.Message, r.Status.ValidationErrors)
	}
}

// prices are what is backed up.
func prices() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "prices"}, Data: map[string]string{"tea": "3"}}
}

// TestSamples_VersionMentions finds what was true once: samples are those of the version
// that they lie beside.
func TestSamples_VersionMentions(t *testing.T) {
	files, err := filepath.Glob("samples/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		words := strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(readText(t, file)), "#", "")), " ")
		if strings.Contains(words, "this version") {
			t.Errorf("%s says what only one version does", file)
		}
	}
}

// TestSamples_KustomizationList finds a sample that the kustomization does not list.
func TestSamples_KustomizationList(t *testing.T) {
	var list struct{ Resources []string }
	read(t, "samples/kustomization.yaml", &list)
	files, err := filepath.Glob("samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// What waits for the Backups to be made would be refused, or destroy them.
		name := filepath.Base(file)
		if later := name == "restore.yaml" || name == "restore_mapped.yaml" || name == "deletionrun.yaml"; later || name == "kustomization.yaml" {
			continue
		} else if !slices.Contains(list.Resources, name) {
			t.Errorf("%s is not in samples/kustomization.yaml", name)
		}
	}
}

// TestSamples_ActionPlan plans the sample with hooks, and a Restore, with the sample
// Plugin: a name that is written differently in two of them, or a selector that does not
// match, would leave an action out.
func TestSamples_ActionPlan(t *testing.T) {
	var plugin v1alpha1.Plugin
	var backup v1alpha1.Backup
	var restore v1alpha1.Restore
	read(t, "samples/plugin.yaml", &plugin)
	read(t, "samples/backup_hooks.yaml", &backup)
	read(t, "samples/restore.yaml", &restore)
	for _, action := range plugin.Spec.Actions {
		plugin.Status.Actions = append(plugin.Status.Actions, v1alpha1.ProvidedAction{Name: action.Name, Kind: action.Kind})
	}
	conditions.Set(&plugin, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonLoaded, "")
	plan := planOf(t, lifecycle.BackupKind, &backup, plugin)
	if len(plan.Pre) != 1 || len(plan.Post) != 1 || !plan.Post[0].Cleanup || len(plan.Skipped) != 1 || plan.Skipped[0].Name != "example.io/notify" {
		t.Errorf("want the pair planned and the notifier skipped, got %+v", plan)
	}
	if len(plan.Items) != 2 || plan.Items[0].Name != "example.io/secrets" || plan.Items[1].Name != "example.io/copy" {
		t.Errorf("want the actions on objects planned, got %+v", plan.Items)
	}
	plan = planOf(t, lifecycle.RestoreKind, &restore, plugin)
	if len(plan.Pre)+len(plan.Post) != 0 || len(plan.Items) != 1 || plan.Items[0].Name != "example.io/copy" {
		t.Errorf("want the action that copies data back planned for a Restore, got %+v", plan)
	}
}

// planOf makes the plan that the operator would make. Nothing may be wrong with it.
func planOf(t *testing.T, kind lifecycle.KindTraits, of lifecycle.Object, plugin v1alpha1.Plugin) hook.Plan {
	t.Helper()
	plan, loading := kind.BuildHookPlan(of, []v1alpha1.Plugin{plugin})
	if loading != "" || len(plan.Errors) > 0 || len(plan.Warnings) > 0 {
		t.Errorf("%s: loading %q, errors %q, warnings %q", kind.Name, loading, plan.Errors, plan.Warnings)
	}
	return plan
}

// TestSamples_RestoreSources checks that there is a sample of the backup
// that each Restore names, in the location that it names.
func TestSamples_RestoreSources(t *testing.T) {
	var backup v1alpha1.Backup
	read(t, "samples/backup.yaml", &backup)
	for _, file := range []string{"restore", "restore_mapped"} {
		var restore v1alpha1.Restore
		read(t, "samples/"+file+".yaml", &restore)
		if restore.Spec.BackupName != backup.Name {
			t.Errorf("%s: it names %q, the sample is %q", file, restore.Spec.BackupName, backup.Name)
		}
		if where := restore.Spec.StorageLocation; where != "" && where != backup.Spec.StorageLocation {
			t.Errorf("%s: it looks in %q, the sample is in %q", file, where, backup.Spec.StorageLocation)
		}
	}
}

func TestSamples_Selections(t *testing.T) {
	for _, file := range []string{"backup", "backup_scoped", "backup_hooks", "restore", "restore_mapped"} {
		var run struct{ Spec selection.Spec }
		read(t, "samples/"+file+".yaml", &run)
		if problems := selection.Validate(run.Spec); len(problems) > 0 {
			t.Errorf("%s: %v", file, problems)
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
