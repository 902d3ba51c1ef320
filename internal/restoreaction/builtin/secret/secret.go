// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secret deals with the tokens of ServiceAccounts: a token is signed by
// the cluster that issued it, for the UID of its account, so an old one is worth
// nothing here. A Secret that Kubernetes generated for an account, as it did
// before 1.24, is left out. One that somebody asked for is restored without its
// token, and the cluster fills in a new one. All other Secrets stay as they are.
package secret

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// StampKeyType is the type of the Secret with which an operator proves what its Restores
// wrote. It is never restored: whoever made the backup would know the key of this cluster.
const StampKeyType = "grapnel.dev/restore-stamp-key"

const (
	serviceAccountTokenType = "kubernetes.io/service-account-token" //nolint:gosec // a type of Secrets, not a credential
	// suffixAlphabet and suffixLength are those of the names Kubernetes
	// generates.
	suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength   = 5
)

var accounts = schema.GroupResource{Resource: "serviceaccounts"}

// Action is the action; see New.
type Action struct{}

var _ restoreaction.Action = Action{}

// New returns the action.
func New() Action { return Action{} }

// Name implements restoreaction.Action.
func (Action) Name() string { return "grapnel.dev/secret" }

// AppliesTo implements restoreaction.Action.
func (Action) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "secrets"}
}

// Execute implements restoreaction.Action.
func (Action) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	archived := item.Archived.Object
	if field.Get[string](archived, "type") == StampKeyType {
		return restoreaction.Result{Skip: "the operator of this cluster has a key of its own"}, nil
	}
	if field.Get[string](archived, "type") != serviceAccountTokenType {
		return restoreaction.Result{}, nil
	}
	account := field.Get[string](archived, "metadata", "annotations", "kubernetes.io/service-account.name")
	if IsGeneratedToken(account, item.Archived.GetName()) {
		return restoreaction.Result{Skip: "Kubernetes generated it for ServiceAccount " + account}, nil
	}
	object := item.Object.Object
	field.RemoveKeys(object, []string{"data"}, "token", "ca.crt", "namespace")
	field.RemoveKeys(object, []string{"metadata", "annotations"}, "kubernetes.io/service-account.uid")
	// With the second label the cluster would refuse the new token at once.
	field.RemoveKeys(object, []string{"metadata", "labels"},
		"kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since")

	var result restoreaction.Result
	namespace := item.Archived.GetNamespace()
	if item.Restore.IsArchived(accounts, namespace, account) {
		// A token of an account that does not exist is deleted.
		result.RelatedItems = []restoreaction.ItemRef{{Resource: accounts, Namespace: namespace, Name: account}}
	}
	return result, nil
}

// IsGeneratedToken reports whether a name is one that Kubernetes before 1.24
// generated for the Secret with the token of a ServiceAccount.
func IsGeneratedToken(account, name string) bool {
	suffix, ok := strings.CutPrefix(name, account+"-token-")
	return ok && account != "" && len(suffix) == suffixLength &&
		strings.Trim(suffix, suffixAlphabet) == ""
}
