// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	operatorprocess "github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// shop is a namespace that is backed up.
const shop = "shop"

// life is an installation with an operator that has the rights of its account, and no others.
type life struct {
	*suite
	dir        string
	programs   operatorprocess.Programs
	kubeconfig string
	op         *operatorprocess.Operator
}

// TestInstallation_Lifecycle installs an older version, upgrades it while a Backup runs, takes rights away, goes
// back to an older operator, uninstalls it, and looks for what is left; then it does the same
// without an operator that could help. The commands are those of docs/installation.md.
func TestInstallation_Lifecycle(t *testing.T) {
	l := newLife(t)
	before := l.everything(t)
	l.kubectl(t, "", "apply", "-k", "crd")
	l.kubectl(t, readText(t, "testdata/older.yaml"), "apply", "--validate=strict", "-f", "-")
	l.operateWithOlderCRD(t)
	l.operate(t)
	l.configure(t)
	kept := l.backUp(t, "kept", v1alpha1.RunPhaseCompleted)
	running := l.hold(t)

	l.upgrade(t)
	l.restart(t)
	l.backUp(t, "later", v1alpha1.RunPhaseCompleted)
	l.restore(t, kept, v1alpha1.RunPhaseCompleted)
	l.backUpOnly(t, kept)
	l.downgrade(t)
	if phase := l.phaseOf(t, running); phase != v1alpha1.RunPhaseInProgress {
		t.Errorf("the Backup that ran before the upgrade is %s", phase)
	}

	l.uninstall(t)
	l.wantNothingBut(t, before)
	for _, name := range []string{"kept", "later"} {
		if _, err := os.Stat(filepath.Join(l.dir, "store", "main", "backups", name, "velero-backup.json")); err != nil {
			t.Errorf("the stored backup is gone: %v", err)
		}
	}
	l.abandon(t)
	l.wantNothingBut(t, before)
}

func newLife(t *testing.T) *life {
	t.Helper()
	programs, err := operatorprocess.BuildPrograms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &life{suite: startPlane(t, controlplane.Options{ControllerManager: true}), dir: t.TempDir(), programs: programs}
	l.kubeconfig = filepath.Join(l.dir, "kubeconfig")
	l.writeKubeconfig(t, l.kubeconfig, operator, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	// Most administrators are none of system:masters, whom the policies let pass.
	l.administrator, l.user = filepath.Join(l.dir, "administrator"), l.as(t, "jane")
	l.writeKubeconfig(t, l.administrator, "jane")
	create(t, l.admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "administrators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
	})
	create(t, l.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}})
	create(t, l.admin, prices())
	return l
}

func (l *life) writeKubeconfig(t *testing.T, path, user string, groups ...string) {
	t.Helper()
	config, err := l.plane.AddUser(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	file := clientcmdapi.NewConfig()
	file.Clusters["it"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["it"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	file.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
}

// operate starts the operator.
func (l *life) operate(t *testing.T) {
	t.Helper()
	l.op = operate(t, operatorprocess.Options{
		Programs: l.programs, Kubeconfig: l.kubeconfig, Dir: l.dir, Args: []string{"--leader-elect"},
	})
}

// operateWithOlderCRD starts an operator whose Backups have a field that the cluster would drop.
func (l *life) operateWithOlderCRD(t *testing.T) {
	t.Helper()
	const ttl = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ttl"
	l.kubectl(t, "", "patch", "crd", "backups.grapnel.dev", "--type=json", "-p", `[{"op":"remove","path":"`+ttl+`"}]`)
	op, err := operatorprocess.Start(t.Context(), operatorprocess.Options{Programs: l.programs, Kubeconfig: l.kubeconfig, Dir: l.dir})
	const want = "the CRD backups.grapnel.dev is older than the operator: it lacks .spec.ttl; apply the CRDs of the operator's version (config/crd)"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with an older CRD: %v", err)
	}
	if op != nil {
		t.Error(op.Stop())
	}
	l.kubectl(t, "", "apply", "-k", "crd")
}

// operate starts an operator until the test ends.
func operate(t *testing.T, options operatorprocess.Options) *operatorprocess.Operator {
	t.Helper()
	op, err := operatorprocess.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", op.LastLogLines())
		}
		if err := op.Stop(); err != nil {
			t.Error(err)
		}
	})
	return op
}

// restart replaces the operator, as an update of the Deployment does.
func (l *life) restart(t *testing.T) {
	t.Helper()
	if err := l.op.Stop(); err != nil {
		t.Fatal(err)
	}
	l.operate(t)
}

// configure makes what people make: a location, a Schedule and a Plugin whose pair runs for
// Backups that ask for it, and does not end by itself.
func (l *life) configure(t *testing.T) {
	t.Helper()
	main := location("main")
	main.Spec.Default, main.Spec.Filesystem.Path = true, "main"
	create(t, l.admin, main)
	create(t, l.admin, schedule("yearly"))
	holder := plugin("hold")
	holder.Spec.Executor.Process.Command = "fault"
	holder.Spec.Executor.Process.Env = []v1alpha1.EnvVar{
		{Name: "FAULT_ACTIONS", Value: "PreBackupAction:example.io/hold,PostBackupAction:example.io/hold"},
		{Name: "FAULT_CALL", Value: "PreBackup=wait"},
		{Name: "FAULT_CALL_LOG", Value: l.calls()},
	}
	for _, kind := range []v1alpha1.ActionKind{v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostBackup} {
		holder.Spec.Actions = append(holder.Spec.Actions, v1alpha1.PluginAction{
			Name: "example.io/hold", Kind: kind, Timeout: &metav1.Duration{Duration: time.Hour},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"hold": "yes"}},
		})
	}
	create(t, l.admin, holder)
	await(t, l.admin, main, "the location", func() bool { return conditions.IsTrue(main, v1alpha1.ConditionReady) })
	await(t, l.admin, holder, "the Plugin", func() bool { return conditions.IsTrue(holder, v1alpha1.ConditionReady) })
}

// calls is where the plugin writes what it was called for.
func (l *life) calls() string { return filepath.Join(l.dir, "calls") }

// await waits until an object is as it should be.
func await(t *testing.T, c client.Client, object client.Object, what string, right func() bool) {
	t.Helper()
	eventually(t, what, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		return err == nil && right(), err
	})
}

// backUp makes a Backup that would take its data with it, and waits for its end.
func (l *life) backUp(t *testing.T, name string, want v1alpha1.RunPhase, namespaces ...v1alpha1.NamePattern) *v1alpha1.Backup {
	t.Helper()
	if len(namespaces) == 0 {
		namespaces = []v1alpha1.NamePattern{shop}
	}
	b := create(t, l.admin, &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BackupSpec{
			IncludedNamespaces: namespaces, DeletionPolicy: v1alpha1.DeletionPolicyDelete,
			IncludedClusterScopedResources: []v1alpha1.NamePattern{"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"},
		},
	})
	await(t, l.admin, b, "Backup "+name, func() bool { return b.Status.CompletionTimestamp != nil })
	if b.Status.Phase != want {
		t.Errorf("Backup %s is %s, want %s: %v", name, b.Status.Phase, want, b.Status.ValidationErrors)
	}
	return b
}

// restore makes a Restore of the ConfigMap, which is not there, and waits for its end.
func (l *life) restore(t *testing.T, of *v1alpha1.Backup, want v1alpha1.RunPhase, options ...func(*v1alpha1.RestoreSpec)) {
	t.Helper()
	prices := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "prices"}}
	if err := client.IgnoreNotFound(l.admin.Delete(t.Context(), prices)); err != nil {
		t.Fatal(err)
	}
	spec := v1alpha1.RestoreSpec{BackupName: of.Name, IncludedResources: []v1alpha1.NamePattern{"configmaps"}}
	for _, option := range options {
		option(&spec)
	}
	r := create(t, l.admin, &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "again-"}, Spec: spec})
	await(t, l.admin, r, "Restore "+r.Name, func() bool { return r.Status.CompletionTimestamp != nil })
	if r.Status.Phase != want {
		t.Errorf("the Restore is %s, want %s: %v", r.Status.Phase, want, r.Status.ValidationErrors)
	}
	err := l.admin.Get(t.Context(), client.ObjectKeyFromObject(prices), prices)
	if (err == nil) != (want == v1alpha1.RunPhaseCompleted) {
		t.Errorf("the Restore is %s, and reading what is restored: %v", want, err)
	}
}

// hold makes a Backup whose first action does not end, and waits until it has begun.
func (l *life) hold(t *testing.T) *v1alpha1.Backup {
	t.Helper()
	b := create(t, l.admin, &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "running", Labels: map[string]string{"hold": "yes"}},
		Spec:       v1alpha1.BackupSpec{IncludedNamespaces: []v1alpha1.NamePattern{shop}},
	})
	eventually(t, "the call of the action", func(context.Context) (bool, error) {
		content, err := os.ReadFile(l.calls())
		if os.IsNotExist(err) {
			err = nil
		}
		return strings.Contains(string(content), `"PreBackup"`), err
	})
	return b
}

func (l *life) phaseOf(t *testing.T, b *v1alpha1.Backup) v1alpha1.RunPhase {
	t.Helper()
	if err := l.admin.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
		t.Fatal(err)
	}
	return b.Status.Phase
}

// backUpOnly takes the right to restore away, and gives it back.
func (l *life) backUpOnly(t *testing.T, of *v1alpha1.Backup) {
	t.Helper()
	change := func(name string, allowed bool) {
		l.apply(t, installations[name])
		l.wantAccess(t, allowed, reviewOf("create", "", "configmaps", shop))
	}
	change("for backups only", false)
	everything := l.backUp(t, "read-only", v1alpha1.RunPhaseCompleted, shop, namespace)
	l.restore(t, of, v1alpha1.RunPhasePartiallyFailed)
	change("default", true)
	l.restore(t, of, v1alpha1.RunPhaseCompleted)
	// It has the rights of an operator that may only read.
	for _, policy := range []v1alpha1.ExistingResourcePolicy{v1alpha1.ExistingResourcePolicyUpdate, v1alpha1.ExistingResourcePolicyRecreate} {
		l.restore(t, everything, v1alpha1.RunPhaseCompleted, func(spec *v1alpha1.RestoreSpec) {
			spec.ExistingResourcePolicy = policy
			spec.IncludedResources = append(spec.IncludedResources, "clusterroles.rbac.authorization.k8s.io",
				"clusterrolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
				"serviceaccounts", "deployments.apps")
		})
		l.wantAccess(t, true, reviewOf("create", "", "configmaps", shop))
	}
}
