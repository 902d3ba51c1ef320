// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

const (
	patience  = 5 * time.Minute
	namespace = "grapnel-system"
	operator  = "system:serviceaccount:grapnel-system:grapnel-controller-manager"
)

// TestInstall installs config/default as a person does, and then asks the API
// server what the operator and others may do.
func TestInstall(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(t.Context(), plane.KubectlPath(), "apply", "-k", "default")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.KubeconfigPath())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply -k config/default: %v\n%s", err, out)
	}
	s := &suite{plane: plane}
	s.admin = s.as(t, "an-admin", "system:masters")
	s.operator = s.as(t, operator)
	s.user = s.as(t, "jane")
	s.grantEverything(t, "jane")
	s.waitForPolicies(t)

	t.Run("the operator's pod passes the restricted profile", s.testPod)
	t.Run("the operator reads and writes everything", s.testRights)
	t.Run("the commands of the document work", s.testDocument)
	t.Run("the operator may not do everything", s.testLimits)
	t.Run("the operator is refused what it never does", s.testRefusals)
	t.Run("the operator restores rights that it does not have", s.testRoles)
	t.Run("a role over its namespace gives nothing of Grapnel", s.testOutsiders)
	t.Run("the operator works with HookRuns", s.testOperator)
	t.Run("others may only cancel, retry and skip HookRuns", s.testUser)
	t.Run("only the operator writes status", s.testStatus)
	t.Run("a HookRun goes with its Backup", s.testGarbageCollection)
	t.Run("a HookRun goes with its namespace", s.testNamespace)
	t.Run("others do not say what a Schedule made", s.testBackups)
	t.Run("others do not note which backups were seen", s.testSeenBackups)
	t.Run("the operator works with AsyncOperations", s.testOperationsOfOperator)
	t.Run("others may only cancel AsyncOperations", s.testOperationsOfUser)
	t.Run("an AsyncOperation goes with its Backup", s.testOperationsAreCollected)
	t.Run("people may do what their role says", s.testPeople)
	t.Run("a team backs up its own namespaces", s.testTenancy)
	t.Run("the store moves to a volume of several nodes", s.testSharedVolume)
}

type suite struct {
	plane                 *controlplane.ControlPlane
	admin, operator, user client.Client
	// administrator is the kubeconfig with which the commands of the document are run; empty
	// means that of a member of system:masters.
	administrator string
}

// as returns a client of a user.
func (s *suite) as(t *testing.T, name string, groups ...string) client.Client {
	t.Helper()
	config, err := s.plane.AddUser(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	scheme := clientgoscheme.Scheme
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grantEverything gives a user the widest role over Grapnel's kinds that users
// write: what is still denied is denied by the policies.
func (s *suite) grantEverything(t *testing.T, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "everything-" + name}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"},
	}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := s.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// waitForPolicies waits until the API server has taken notice of them: it learns
// of them, and of a role, from a watch.
func (s *suite) waitForPolicies(t *testing.T) {
	t.Helper()
	run := create(t, s.admin, hookRun(namespace, "waiting"))
	eventually(t, "the policies", func(ctx context.Context) (bool, error) {
		create := s.user.Create(ctx, hookRun(namespace, "waiting-too"), client.DryRunAll)
		status := s.user.Status().Patch(ctx, run.DeepCopy(), patch(t, "status", "message", "mine"), client.DryRunAll)
		read := s.operator.Get(ctx, client.ObjectKeyFromObject(run), &v1alpha1.HookRun{})
		operation := s.user.Create(ctx, asyncOperation(namespace, "waiting-too"), client.DryRunAll)
		return apierrors.IsForbidden(create) && apierrors.IsForbidden(status) && apierrors.IsForbidden(operation) && read == nil, nil
	})
}

func (s *suite) testPod(t *testing.T) {
	eventually(t, "the operator's pod", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := s.admin.List(ctx, &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) > 0 {
			return len(pods.Items) == 1, err
		}
		var sets appsv1.ReplicaSetList
		if err := s.admin.List(ctx, &sets, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		for i := range sets.Items {
			for _, condition := range sets.Items[i].Status.Conditions {
				if condition.Type == appsv1.ReplicaSetReplicaFailure {
					return false, fmt.Errorf("the pod is refused: %s", condition.Message)
				}
			}
		}
		return false, nil
	})
}

func (s *suite) testOperator(t *testing.T) {
	ctx := t.Context()
	run := create(t, s.operator, hookRun(namespace, "worked-with"))
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"start", func() error { return s.operator.Patch(ctx, run, patch(t, "spec", "desiredState", "Run")) }},
		{"write status", func() error { return s.operator.Status().Patch(ctx, run, patch(t, "status", "message", "x")) }},
		{"hold", func() error {
			return s.operator.Patch(ctx, run, patch(t, "metadata", "finalizers", []string{"grapnel.dev/test"}))
		}},
		{"release", func() error { return s.operator.Patch(ctx, run, patch(t, "metadata", "finalizers", nil)) }},
		{"delete", func() error { return s.operator.Delete(ctx, run) }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

func (s *suite) testUser(t *testing.T) {
	ctx := t.Context()
	interveneFirst := func(run *v1alpha1.HookRun) {
		if err := s.user.Patch(ctx, run, patch(t, "spec", "intervention", interventionBy("jane"))); err != nil {
			t.Error(err)
		}
	}
	for name, tc := range map[string]struct {
		owed  bool
		do    func(run *v1alpha1.HookRun) error
		allow bool
	}{
		"create": {do: func(*v1alpha1.HookRun) error { return s.user.Create(ctx, hookRun(namespace, "by-a-user")) }},
		"start": {do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "spec", "desiredState", "Run"))
		}},
		"cancel": {allow: true, do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "spec", "desiredState", "Cancel"))
		}},
		"cancel owed clean-up": {owed: true, do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "spec", "desiredState", "Cancel"))
		}},
		"retry it": {allow: true, do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "spec", "intervention", interventionBy("jane")))
		}},
		"skip owed clean-up": {owed: true, allow: true, do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "spec", "intervention", interventionBy("jane")))
		}},
		"retry it in the name of another user": {do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "spec", "intervention", interventionBy("joe")))
		}},
		"take an intervention over": {do: func(run *v1alpha1.HookRun) error {
			interveneFirst(run)
			return s.user.Patch(ctx, run, patch(t, "spec", "intervention", map[string]any{"id": "2", "user": "joe"}))
		}},
		"give another reason later": {do: func(run *v1alpha1.HookRun) error {
			interveneFirst(run)
			return s.user.Patch(ctx, run, patch(t, "spec", "intervention", map[string]any{"reason": "because"}))
		}},
		"remove an intervention": {do: func(run *v1alpha1.HookRun) error {
			interveneFirst(run)
			return s.user.Patch(ctx, run, patch(t, "spec", "intervention", nil))
		}},
		"retry it with more time": {do: func(run *v1alpha1.HookRun) error {
			run.Spec.Intervention = interventionBy("jane")
			run.Spec.Retries = 10
			return s.user.Update(ctx, run)
		}},
		"retry and cancel it at once": {do: func(run *v1alpha1.HookRun) error {
			run.Spec.Intervention = interventionBy("jane")
			run.Spec.DesiredState = v1alpha1.HookDesiredStateCancel
			return s.user.Update(ctx, run)
		}},
		"say that it was retried": {do: func(run *v1alpha1.HookRun) error {
			return s.user.Status().Patch(ctx, run, patch(t, "status", "lastIntervention", map[string]any{"id": "1"}))
		}},
		"give more time": {do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "spec", "timeout", "9h"))
		}},
		"label": {allow: true, do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "metadata", "labels", map[string]string{"seen-by": "jane"}))
		}},
		"hold": {do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "metadata", "finalizers", []string{"example.com/mine"}))
		}},
		"disown": {do: func(run *v1alpha1.HookRun) error {
			return s.user.Patch(ctx, run, patch(t, "metadata", "ownerReferences", []any{}))
		}},
		"delete": {do: func(run *v1alpha1.HookRun) error { return s.user.Delete(ctx, run) }},
		"delete all": {do: func(*v1alpha1.HookRun) error {
			return s.user.DeleteAllOf(ctx, &v1alpha1.HookRun{}, client.InNamespace(namespace))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run := hookRun(namespace, "")
			run.GenerateName = "by-others-"
			run.Spec.Owed = tc.owed
			run.OwnerReferences = []metav1.OwnerReference{ownerReference(s.backup(t, namespace))}
			create(t, s.admin, run)
			err := tc.do(run)
			if tc.allow && err != nil {
				t.Errorf("want it to be allowed, got %v", err)
			}
			// Some changes are rejected by the schema already, for all users.
			if !tc.allow && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("want it to be refused, got %v", err)
			}
		})
	}
}

func (s *suite) testStatus(t *testing.T) {
	ctx := t.Context()
	for name, object := range map[string]client.Object{
		"Backup":                s.backup(t, namespace),
		"Restore":               create(t, s.admin, restore("guarded")),
		"BackupStorageLocation": create(t, s.admin, location("guarded")),
		"Plugin":                create(t, s.admin, plugin("guarded")),
		"HookRun":               create(t, s.admin, hookRun(namespace, "guarded")),
		"AsyncOperation":        create(t, s.admin, asyncOperation(namespace, "guarded")),
		"DeletionRun":           create(t, s.admin, deletionRun("guarded")),
		"Schedule":              create(t, s.admin, schedule("guarded")),
		"DownloadRequest":       create(t, s.admin, downloadRequest(v1alpha1.DownloadBackupLog)),
		"BackupPreview":         create(t, s.admin, &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded"}}),
	} {
		t.Run(name, func(t *testing.T) {
			change := patch(t, "status", "message", "all is well")
			if err := s.user.Status().Patch(ctx, object, change); !apierrors.IsForbidden(err) {
				t.Errorf("a user writes status: want Forbidden, got %v", err)
			}
			if err := s.operator.Status().Patch(ctx, object, change); err != nil {
				t.Errorf("the operator writes status: %v", err)
			}
		})
	}
}

func (s *suite) testGarbageCollection(t *testing.T) {
	backup := s.backup(t, namespace)
	run := hookRun(namespace, "collected")
	run.OwnerReferences = []metav1.OwnerReference{ownerReference(backup)}
	create(t, s.operator, run)
	if err := s.user.Delete(t.Context(), backup, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.eventuallyGone(t, run)
	s.eventuallyGone(t, backup)
}

func (s *suite) testNamespace(t *testing.T) {
	leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}}
	create(t, s.admin, leaving)
	create(t, s.admin, hookRun("leaving", "left"))
	if err := s.admin.Delete(t.Context(), leaving); err != nil {
		t.Fatal(err)
	}
	s.eventuallyGone(t, leaving)
}

func create[T client.Object](t *testing.T, c client.Client, o T) T {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func (s *suite) backup(t *testing.T, namespace string) *v1alpha1.Backup {
	t.Helper()
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "backup-"},
		Spec:       v1alpha1.BackupSpec{StorageLocation: "somewhere"},
	}
	create(t, s.admin, backup)
	return backup
}

func (s *suite) eventuallyGone(t *testing.T, o client.Object) {
	t.Helper()
	key, empty := client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)
	eventually(t, "the end of "+key.String(), func(ctx context.Context) (bool, error) {
		err := s.admin.Get(ctx, key, empty)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func eventually(t *testing.T, what string, check wait.ConditionWithContextFunc) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, check)
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func ownerReference(backup *v1alpha1.Backup) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Backup", Name: backup.Name, UID: backup.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// interventionBy returns a request to retry an action.
func interventionBy(user string) *v1alpha1.HookIntervention {
	return &v1alpha1.HookIntervention{ID: "1", Type: v1alpha1.HookInterventionRetry, User: user, Reason: "the server is repaired"}
}

func hookRun(namespace, name string) *v1alpha1.HookRun {
	return &v1alpha1.HookRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.HookRunSpec{
			Hook:           v1alpha1.HookPreBackup,
			ActionName:     "quiesce",
			PluginRef:      v1alpha1.PluginReference{Name: "quiesce"},
			ParentRef:      v1alpha1.ParentReference{Kind: "Backup", Name: "b", UID: "u"},
			Timeout:        metav1.Duration{Duration: time.Minute},
			FailurePolicy:  v1alpha1.FailurePolicyFail,
			OnInterruption: v1alpha1.InterruptionPolicyRetry,
			DesiredState:   v1alpha1.HookDesiredStateWait,
		},
	}
}

func patch(t *testing.T, section, field string, value any) client.Patch {
	t.Helper()
	content, err := json.Marshal(map[string]any{section: map[string]any{field: value}})
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch("application/merge-patch+json", content)
}

func location(name string) *v1alpha1.BackupStorageLocation {
	return &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BackupStorageLocationSpec{
			Filesystem: &v1alpha1.FilesystemLocation{},
		},
	}
}

func plugin(name string) *v1alpha1.Plugin {
	return &v1alpha1.Plugin{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.PluginSpec{
			Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{Command: "example"}},
		},
	}
}
