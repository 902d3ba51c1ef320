// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestSecretAction_Execute(t *testing.T) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	account := itemaction.RelatedItem{Resource: accounts, Namespace: "a", Name: "robot"}
	const opaque = `{"metadata":{"name":"robot-token-x7k2p","namespace":"a"},"type":"Opaque","data":{"token":"eA=="}}`
	RunCases(t, NewSecretAction(), map[string]Case{
		"the key of another operator": {
			Resource: resource, Archived: `{"metadata":{"name":"k","namespace":"a"},"type":"grapnel.dev/restore-stamp-key","data":{"key":"eA=="}}`,
			Result: itemaction.Result{Skip: "the operator of this cluster has its own key"},
		},
		"no token": {Resource: resource, Archived: opaque, Want: opaque},
		"generated token": {
			Resource: resource,
			Archived: `{"metadata":{"name":"robot-token-x7k2p","namespace":"a","annotations":{"kubernetes.io/service-account.name":"robot"}},
				"type":"kubernetes.io/service-account-token","data":{"token":"eA=="}}`,
			Result: itemaction.Result{Skip: "Kubernetes generated it for ServiceAccount robot"},
		},
		"token that was asked for": {
			Resource: resource, InArchive: []itemaction.RelatedItem{account},
			Archived: `{"metadata":{"name":"robot-token","namespace":"a","labels":{"kubernetes.io/legacy-token-last-used":"2026-01-01","x":"y"},
				"annotations":{"kubernetes.io/service-account.name":"robot","kubernetes.io/service-account.uid":"u"}},
				"type":"kubernetes.io/service-account-token","data":{"token":"eA==","ca.crt":"eA==","namespace":"YQ==","extra":"eA=="}}`,
			Want: `{"metadata":{"name":"robot-token","namespace":"a","labels":{"x":"y"},
				"annotations":{"kubernetes.io/service-account.name":"robot"}},
				"type":"kubernetes.io/service-account-token","data":{"extra":"eA=="}}`,
			Result: itemaction.Result{RelatedItems: []itemaction.RelatedItem{account}},
		},
		"token and nothing else, of an account that is not in the archive": {
			Resource: resource,
			Archived: `{"metadata":{"name":"t","namespace":"a","annotations":{"kubernetes.io/service-account.name":"robot"}},
				"type":"kubernetes.io/service-account-token","data":{"token":"eA=="}}`,
			Want: `{"metadata":{"name":"t","namespace":"a","annotations":{"kubernetes.io/service-account.name":"robot"}},
				"type":"kubernetes.io/service-account-token"}`,
		},
	})
}

func TestIsGeneratedToken(t *testing.T) {
	for name, tc := range map[string]struct {
		account, name string
		want          bool
	}{
		"generated":                      {"robot", "robot-token-x7k2p", true},
		"no suffix":                      {"robot", "robot-token-", false},
		"suffix of a person":             {"robot", "robot-token-prod1", false},
		"suffix too long":                {"robot", "robot-token-x7k2px", false},
		"of another account":             {"robot", "other-token-x7k2p", false},
		"of a longer named one":          {"robot", "robot-two-token-x7k2p", false},
		"no account, no prefix":          {"", "-token-x7k2p", false},
		"of an account with a long name": {strings.Repeat("a", 60), strings.Repeat("a", 58) + "x7k2p", true},
		"account with same words":        {"a-token-b", "a-token-b-token-zzzzz", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsGeneratedToken(tc.account, tc.name); got != tc.want {
				t.Errorf("IsGeneratedToken(%q, %q) = %v, want %v", tc.account, tc.name, got, tc.want)
			}
		})
	}
}
