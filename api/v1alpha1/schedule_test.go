// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func TestScheduleAdmission(t *testing.T) {
	const line = `schedule: "0 3 * * *"`
	checkAdmission(t, "Schedule", map[string]admission{
		"the minimum":    {body: `{spec: {` + line + `, template: {}}}`},
		"a typical one":  {body: `{spec: {` + line + `, timeZone: Europe/Berlin, keepSucceeded: 30, template: {metadata: {labels: {team: shop}}, spec: {ttl: 720h}}}}`},
		"a wrong line":   {body: `{spec: {schedule: sometimes, template: {}}}`}, // its phase says so
		"a long name":    {body: `{metadata: {name: ` + strings.Repeat("n", 180) + `}, spec: {` + line + `, template: {}}}`},
		"no limits":      {body: `{spec: {` + line + `, keepSucceeded: null, keepFailed: 10000, keepLast: 0, template: {}}}`},
		"short deadline": {body: `{spec: {` + line + `, startingDeadline: 10s, template: {}}}`},

		"nothing":            {body: `{}`, rejected: "spec: Required value"},
		"no line":            {body: `{spec: {template: {}}}`, rejected: "spec.schedule: Required value"},
		"an empty line":      {body: `{spec: {schedule: "", template: {}}}`, rejected: "spec.schedule"},
		"too long a line":    {body: `{spec: {schedule: "` + strings.Repeat("*", 257) + `", template: {}}}`, rejected: "spec.schedule"},
		"no template":        {body: `{spec: {` + line + `}}`, rejected: "spec.template: Required value"},
		"too long a name":    {body: `{metadata: {name: ` + strings.Repeat("n", 181) + `}, spec: {` + line + `, template: {}}}`, rejected: "at most 180 characters"},
		"an unknown policy":  {body: `{spec: {` + line + `, concurrencyPolicy: Queue, template: {}}}`, rejected: "spec.concurrencyPolicy"},
		"no backup is kept":  {body: `{spec: {` + line + `, keepSucceeded: 0, template: {}}}`, rejected: "spec.keepSucceeded"},
		"fewer than none":    {body: `{spec: {` + line + `, keepLast: -1, template: {}}}`, rejected: "spec.keepLast"},
		"too short a time":   {body: `{spec: {` + line + `, startingDeadline: 9s, template: {}}}`, rejected: "must be at least 10s"},
		"no duration":        {body: `{spec: {` + line + `, startingDeadline: soon, template: {}}}`, rejected: "spec.startingDeadline"},
		"a ttl of zero":      {body: `{spec: {` + line + `, template: {spec: {ttl: 0s}}}}`},
		"a negative ttl":     {body: `{spec: {` + line + `, template: {spec: {ttl: -1h}}}}`, rejected: "spec.template.spec.ttl"},
		"an imported backup": {body: `{spec: {` + line + `, template: {spec: {importedFrom: {storageLocation: main}}}}}`, rejected: "importedFrom cannot be set in a template"},
		"a canceled backup":  {body: `{spec: {` + line + `, template: {spec: {desiredState: Cancel}}}}`, rejected: "desiredState can only be Run"},
		"too long a label":   {body: `{spec: {` + line + `, template: {metadata: {labels: {a: ` + strings.Repeat("n", 64) + `}}}}}`, rejected: "spec.template.metadata.labels"},
		"two ways to select": {body: `{spec: {` + line + `, template: {spec: {labelSelector: {}, orLabelSelectors: [{}]}}}}`, rejected: "exclude each other"},
		"an invalid backup":  {body: `{spec: {` + line + `, template: {spec: {deletionPolicy: Burn}}}}`, rejected: "deletionPolicy"},
	})
}

// TestScheduleDefaults checks the defaults of a minimal Schedule.
func TestScheduleDefaults(t *testing.T) {
	object := parse(t, "Schedule", newNamespace(t), `{spec: {schedule: "@daily", template: {}}}`)
	if err := admin.Create(t.Context(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"spec.concurrencyPolicy": "Forbid", "spec.keepLast": int64(1), "spec.keepFailed": int64(3), "spec.keepSucceeded": nil,
		"spec.suspend": nil, "spec.skipImmediately": nil, "spec.startingDeadline": nil, "spec.timeZone": nil,
		"spec.template.spec.desiredState": "Run", "spec.template.spec.deletionPolicy": "Retain",
	} {
		if got := at(object, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// TestScheduleChanges changes every field of a Schedule that is in use: only its Backups are
// immutable.
func TestScheduleChanges(t *testing.T) {
	object := create(t, "Schedule", newNamespace(t), `{spec: {schedule: "@daily", template: {spec: {includedNamespaces: [a]}}}}`)
	if err := admin.Status().Patch(t.Context(), object, merge(`{"status":{"phase":"Enabled","observedSchedule":"@daily"}}`)); err != nil {
		t.Fatal(err)
	}
	change := merge(`{"spec":{"schedule":"@hourly","timeZone":"Asia/Tokyo","suspend":true,"skipImmediately":true,"concurrencyPolicy":"Allow",
		"startingDeadline":"1h","keepLast":0,"keepSucceeded":1,"keepFailed":0,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"includedNamespaces":null,"ttl":"1h"}}}}`)
	if err := admin.Patch(t.Context(), object, change); err != nil {
		t.Fatal(err)
	}
	s, ok := typed(t, object).(*v1alpha1.Schedule)
	if !ok || s.Spec.Schedule != "@hourly" || len(s.Spec.Template.Spec.IncludedNamespaces) != 0 {
		t.Errorf("it became %+v", s)
	}
}
