// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/backup/action"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// cluster has ClusterRoleBindings.
type cluster struct {
	items []rawclient.Item
	err   error
	asked []schema.GroupResource
}

// ListAll implements itemaction.Reader.
func (c *cluster) ListAll(_ context.Context, resource schema.GroupResource) ([]rawclient.Item, error) {
	c.asked = append(c.asked, resource)
	return c.items, c.err
}

// clusterRoleBinding is a ClusterRoleBinding of a role to subjects, "kind/namespace/name" each.
func clusterRoleBinding(name, roleKind, role string, subjects ...string) rawclient.Item {
	var texts []string
	for _, subject := range subjects {
		parts := strings.Split(subject, "/")
		texts = append(texts, fmt.Sprintf(`{"kind":%q,"namespace":%q,"name":%q}`, parts[0], parts[1], parts[2]))
	}
	return rawclient.Item{Name: name, JSON: fmt.Appendf(nil, `{"metadata":{"name":%q},"roleRef":{"kind":%q,"name":%q},"subjects":[%s]}`,
		name, roleKind, role, strings.Join(texts, ","))}
}

// related returns what is named for an account: "resource name", with a question
// mark for what need not exist, and "with object" for what comes along.
func related(t *testing.T, a *action.ServiceAccountAction, namespace, name string) []string {
	t.Helper()
	got, err := a.Execute(t.Context(), itemaction.BackupItem{Namespace: namespace, Name: name, JSON: []byte(`{}`)})
	if err != nil || got.JSON != nil {
		t.Fatalf("Execute: %+v, %v", got, err)
	}
	var texts []string
	for _, ref := range got.RelatedItems {
		text := ref.Resource.Resource + " " + ref.Name
		if ref.Optional {
			text += "?"
		}
		if ref.Item != nil {
			text += " with object " + ref.Item.Name
		}
		if ref.Namespace != "" || !slices.Contains(a.RelatedResources(), ref.Resource) {
			t.Errorf("%+v is not what the action may name", ref)
		}
		texts = append(texts, text)
	}
	return texts
}

func TestServiceAccountAction_Execute(t *testing.T) {
	t.Parallel()
	c := &cluster{items: []rawclient.Item{
		clusterRoleBinding("a", "ClusterRole", "view", "ServiceAccount/shop/robot", "ServiceAccount/other/robot"),
		clusterRoleBinding("b", "ClusterRole", "edit", "User//robot", "Group//system:serviceaccounts:shop", "ServiceAccount/shop/other"),
		clusterRoleBinding("c", "ClusterRole", "admin", "User/shop/jane", "ServiceAccount/shop/robot"),
		clusterRoleBinding("d", "Role", "strange", "ServiceAccount/shop/strange"),
		clusterRoleBinding("e", "ClusterRole", "missing"),
		{Name: "f", JSON: []byte(`{"roleRef":{"kind":"ClusterRole","name":"x"}}`)},
	}}
	a := action.NewServiceAccountAction()
	if err := a.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(c.asked) != 1 || c.asked[0].String() != "clusterrolebindings.rbac.authorization.k8s.io" {
		t.Errorf("the cluster was asked for %v", c.asked)
	}
	for account, want := range map[string][]string{
		"shop/robot":    {"clusterrolebindings a with object a", "clusterroles view?", "clusterrolebindings c with object c", "clusterroles admin?"},
		"other/robot":   {"clusterrolebindings a with object a", "clusterroles view?"},
		"shop/other":    {"clusterrolebindings b with object b", "clusterroles edit?"},
		"shop/strange":  {"clusterrolebindings d with object d"},
		"shop/default":  nil,
		"shop/jane":     nil,
		"another/robot": nil,
	} {
		namespace, name, _ := strings.Cut(account, "/")
		if diff := cmp.Diff(want, related(t, a, namespace, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", account, diff)
		}
	}
}

func TestServiceAccountAction_PrepareFailure(t *testing.T) {
	t.Parallel()
	errDenied := errors.New("denied")
	if err := action.NewServiceAccountAction().Prepare(t.Context(), &cluster{err: errDenied}); !errors.Is(err, errDenied) {
		t.Errorf("Prepare: %v, want that it was denied", err)
	}
	broken := &cluster{items: []rawclient.Item{{Name: "broken", JSON: []byte(`{"subjects":`)}}}
	if err := action.NewServiceAccountAction().Prepare(t.Context(), broken); err == nil || !strings.Contains(err.Error(), `"broken"`) {
		t.Errorf("Prepare: %v, want an error that names the binding", err)
	}
	// A cluster without RBAC has no bindings.
	a := action.NewServiceAccountAction()
	if err := a.Prepare(t.Context(), &cluster{}); err != nil {
		t.Error(err)
	}
	if got := related(t, a, "shop", "robot"); got != nil {
		t.Errorf("related objects %v", got)
	}
}

func TestServiceAccountAction_AppliesTo(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{"serviceaccounts": true, "serviceaccounts.example.com": false, "clusterroles.rbac.authorization.k8s.io": false} {
		if got := action.NewServiceAccountAction().AppliesTo(schema.ParseGroupResource(resource)); got != want {
			t.Errorf("AppliesTo(%s) = %v, want %v", resource, got, want)
		}
	}
}
