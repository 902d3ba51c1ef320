// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// people are those who try, in the stories of escalation*_test.go, to get more out of
// Grapnel than they were given. The policies of config/policy are there.
type people struct {
	once sync.Once
	err  error
	// jane may create, read, change and delete Backups and Restores in the operator's
	// namespace. joe has the widest role over Grapnel's kinds that people write there.
	jane, joe client.Client
}

var crowd people

// meet returns the shared operator, and the people.
func meet(t testing.TB) (s site, jane, joe client.Client) {
	t.Helper()
	s = site{world.SharedOperator(t)}
	crowd.once.Do(func() { crowd.err = crowd.gather(t) })
	if crowd.err != nil {
		t.Fatal(crowd.err)
	}
	return s, crowd.jane, crowd.joe
}

func (p *people) gather(t testing.TB) (err error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	p.jane, err = person(ctx, "jane", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"backups", "restores"},
		Verbs: []string{"create", "get", "list", "patch", "delete"},
	})
	if err != nil {
		return err
	}
	p.joe, err = person(ctx, "joe", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"},
	})
	if err != nil {
		return err
	}
	for _, file := range []string{"asyncoperations", "backups", "hookruns", "status"} {
		if err := installPolicy(ctx, file+".yaml"); err != nil {
			return err
		}
	}
	p.awaitPolicies(t)
	return nil
}

// person makes a user with one role in the operator's namespace.
func person(ctx context.Context, name string, rule rbacv1.PolicyRule) (client.Client, error) {
	meta := metav1.ObjectMeta{Namespace: operator.Namespace, Name: "story-" + name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if err := errors.Join(world.Client.Create(ctx, role), world.Client.Create(ctx, binding)); err != nil {
		return nil, err
	}
	config, err := world.ControlPlane.AddUser(name)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: world.Client.Scheme()})
}

// installPolicy creates what a file of config/policy has.
func installPolicy(ctx context.Context, file string) error {
	root, err := program.ModuleRoot()
	if err != nil {
		return err
	}
	content, err := os.Open(filepath.Join(root, "config", "policy", file))
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // it was only read
	for decoder := yaml.NewYAMLOrJSONDecoder(content, 4096); ; {
		var object unstructured.Unstructured
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(object.Object) == 0:
			continue
		}
		if err := world.Client.Create(ctx, &object); err != nil {
			return err
		}
	}
}

// awaitPolicies waits until the API server has taken notice of roles and policies: it learns
// of them from watches.
func (p *people) awaitPolicies(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	meta := metav1.ObjectMeta{Namespace: operator.Namespace, Name: "never-there"}
	marked := meta
	marked.Annotations = map[string]string{v1alpha1.AnnotationDeletedBy: "x"}
	location := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: env.DefaultLocation}}
	suite.Eventually(t, func() string {
		for text, err := range map[string]error{
			"creates HookRuns":        p.joe.Create(ctx, forgedRun(meta, "uid"), client.DryRunAll),
			"creates AsyncOperations": p.joe.Create(ctx, forgedOperation(meta, "uid"), client.DryRunAll),
			"sets the annotations":    p.joe.Create(ctx, &v1alpha1.Backup{ObjectMeta: marked}, client.DryRunAll),
			"writes the status": p.joe.Status().Patch(ctx, location.DeepCopy(),
				client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"mine"}}`)), client.DryRunAll),
		} {
			if !isRefused(err, "only the operator "+text) {
				return "the policy is not there by which only the operator " + text
			}
		}
		if err := p.jane.Create(ctx, &v1alpha1.Backup{ObjectMeta: meta}, client.DryRunAll); err != nil {
			return "jane may not create Backups: " + err.Error()
		}
		return ""
	})
}

// isRefused reports whether the API server refused something with a message that has a text.
func isRefused(err error, text string) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), text)
}

// forgedRun is a HookRun that is in no plan, with a valid spec.
func forgedRun(meta metav1.ObjectMeta, subject string) *v1alpha1.HookRun {
	return &v1alpha1.HookRun{ObjectMeta: meta, Spec: v1alpha1.HookRunSpec{
		Hook: v1alpha1.HookPreBackup, ActionName: pair, PluginRef: v1alpha1.PluginReference{Name: "story"},
		ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: "b", UID: subject}, Timeout: *within(patience),
		FailurePolicy: v1alpha1.FailurePolicyFail, OnInterruption: v1alpha1.InterruptionPolicyRetry, DesiredState: v1alpha1.HookDesiredStateRun,
	}}
}

// forgedOperation is an AsyncOperation that no action started, with a valid spec.
func forgedOperation(meta metav1.ObjectMeta, subject string) *v1alpha1.AsyncOperation {
	return &v1alpha1.AsyncOperation{ObjectMeta: meta, Spec: v1alpha1.AsyncOperationSpec{
		ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: "b", UID: subject},
		Kind:      v1alpha1.ActionKindAsyncBackupItem, ActionName: operates, PluginRef: v1alpha1.PluginReference{Name: "operates"},
		OperationID: "forged", Item: v1alpha1.OperationItem{Version: "v1", Resource: "configmaps", Name: "c0"}, Attempt: 1,
		Timeout: *within(patience), PollInterval: *within(patience), DesiredState: v1alpha1.DesiredStateRun,
	}}
}

// applyBy is apply by a user other than the administrator.
func (s site) applyBy(t testing.TB, who client.Client, b *v1alpha1.Backup) *v1alpha1.Backup {
	t.Helper()
	env.Create(t, who, b)
	t.Cleanup(func() { checkRules(t, s, b) })
	return b
}

// tries changes an object as a user does with kubectl patch.
func tries(t testing.TB, who client.Client, object client.Object, change string) error {
	t.Helper()
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", object)
	}
	return who.Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(change)))
}
