// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestCRDAction_Execute(t *testing.T) {
	v1 := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	v1beta1 := v1
	v1beta1.Version = "v1beta1"
	const modern = `{"metadata":{"name":"w.example.org"},"spec":{"group":"example.org","versions":[
		{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	const old = `{"metadata":{"name":"w.example.org"},"spec":{"group":"example.org","preserveUnknownFields":true,"versions":[
		{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2"}]}}`
	const conversion = `{"metadata":{"name":"w.example.org"},"spec":{"group":"example.org","versions":[],
		"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"Q0E=","service":{"namespace":"a","name":"hook"}}}}}}`
	RunCases(t, NewCRDAction(), map[string]Case{
		"nothing to do": {Resource: v1, Archived: modern, Want: modern},
		"status is not restored": {
			Resource: v1,
			Archived: `{"metadata":{"name":"w"},"spec":{"versions":[]},"status":{"storedVersions":["v1alpha1"]}}`,
			Want:     `{"metadata":{"name":"w"},"spec":{"versions":[]}}`,
		},
		"unknown fields were preserved": {
			Resource: v1, Archived: old,
			Want: `{"metadata":{"name":"w.example.org"},"spec":{"group":"example.org","versions":[
				{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
				{"name":"v2","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		},
		"unknown fields were dropped": {
			Resource: v1,
			Archived: `{"metadata":{"name":"w"},"spec":{"preserveUnknownFields":false,"versions":[
				{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
			Want: `{"metadata":{"name":"w"},"spec":{"versions":[
				{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		},
		"v1beta1 takes it as it is": {Resource: v1beta1, Archived: old, Want: old},
		"conversion is kept":        {Resource: v1, Archived: conversion, Want: conversion},
		"conversion in a mapped namespace": {
			Resource: v1, Archived: conversion,
			Restore: itemaction.RestoreContext{NamespaceMapping: map[string]string{"a": "b"}},
			Want: `{"metadata":{"name":"w.example.org"},"spec":{"group":"example.org","versions":[],
				"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"Q0E=","service":{"namespace":"b","name":"hook"}}}}}}`,
			Result: itemaction.Result{Warnings: []string{
				"Service a/hook is now called as b/hook: its certificate must be valid for hook.b.svc",
			}},
		},
		"of Grapnel": {
			Resource: v1,
			Archived: `{"metadata":{"name":"backups.grapnel.dev"},"spec":{"group":"grapnel.dev"}}`,
			Result:   itemaction.Result{Skip: "the installation of Grapnel includes its own definitions"},
		},
	})
}
