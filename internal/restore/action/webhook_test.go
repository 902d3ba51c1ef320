// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestWebhookAction_Execute(t *testing.T) {
	mutating := schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations",
	}
	validating := mutating
	validating.Resource = "validatingwebhookconfigurations"
	v1beta1 := validating
	v1beta1.Version = "v1beta1"
	const old = `{"metadata":{"name":"x"},"webhooks":[{"name":"a","sideEffects":"Unknown"},{"name":"b","sideEffects":"Some"},
		{"name":"c"},{"name":"d","sideEffects":"NoneOnDryRun"},{"name":"e","sideEffects":"None"}]}`
	const fine = `{"metadata":{"name":"x"},"webhooks":[{"name":"a","sideEffects":"None",
		"clientConfig":{"caBundle":"Q0E=","service":{"namespace":"a","name":"hook"}}}]}`
	changed := func(name, effects string) string {
		return `webhook "` + name + `" declared side effects "` + effects + `", which v1 does not accept: they are None now`
	}
	RunCases(t, NewWebhookAction(), map[string]Case{
		"nothing to do": {Resource: mutating, Archived: fine, Want: fine},
		"side effects that v1 does not take": {
			Resource: validating, Archived: old,
			Want: `{"metadata":{"name":"x"},"webhooks":[{"name":"a","sideEffects":"None"},{"name":"b","sideEffects":"None"},
				{"name":"c","sideEffects":"None"},{"name":"d","sideEffects":"NoneOnDryRun"},{"name":"e","sideEffects":"None"}]}`,
			Result: itemaction.Result{Warnings: []string{changed("a", "Unknown"), changed("b", "Some"), changed("c", "")}},
		},
		"v1beta1 takes them": {Resource: v1beta1, Archived: old, Want: old},
		"mapped namespace": {
			Resource: mutating, Archived: fine,
			Restore: itemaction.RestoreContext{NamespaceMapping: map[string]string{"a": "b"}},
			Want: `{"metadata":{"name":"x"},"webhooks":[{"name":"a","sideEffects":"None",
				"clientConfig":{"caBundle":"Q0E=","service":{"namespace":"b","name":"hook"}}}]}`,
			Result: itemaction.Result{Warnings: []string{
				`webhook "a": Service a/hook is now called as b/hook: its certificate must be valid for hook.b.svc`,
			}},
		},
	})
}
