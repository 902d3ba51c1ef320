// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// fixed has two values for each field of a Backup that may not change once it
// has started.
var fixed = map[string][2]string{
	"includedNamespaces":               {`["a"]`, `["a","b"]`},
	"excludedNamespaces":               {`["a"]`, `["b"]`},
	"includedResources":                {`["pods"]`, `["*"]`},
	"excludedResources":                {`["pods"]`, `["secrets"]`},
	"includedClusterScopedResources":   {`["nodes"]`, `["*"]`},
	"excludedClusterScopedResources":   {`["nodes"]`, `["*"]`},
	"includedNamespaceScopedResources": {`["pods"]`, `["*"]`},
	"excludedNamespaceScopedResources": {`["pods"]`, `["*"]`},
	"includeClusterResources":          {`true`, `false`},
	"labelSelector":                    {`{"matchLabels":{"a":"b"}}`, `{"matchLabels":{"a":"c"}}`},
	"orLabelSelectors":                 {`[{"matchLabels":{"a":"b"}}]`, `[{"matchLabels":{"a":"c"}}]`},
	"orderedResources":                 {`{"pods":"a/b"}`, `{"pods":"a/c"}`},
	"storageLocation":                  {`"here"`, `"there"`},
	"itemOperationTimeout":             {`"1h"`, `"2h"`},
	"metadata":                         {`{"labels":{"a":"b"}}`, `{"labels":{"a":"c"}}`},
	"parameters":                       {`{"p":{"a":"b"}}`, `{"p":{"a":"c"}}`},
}

// free are the other fields; they have tests of their own.
var free = map[string]bool{"ttl": true, "deletionPolicy": true, "desiredState": true, "importedFrom": true}

// TestEveryFieldHasARule fails when a field is added to the spec and nobody
// decided whether it may change.
func TestEveryFieldHasARule(t *testing.T) {
	for field := range reflect.TypeFor[v1alpha1.BackupSpec]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, known := fixed[name]; !known && !free[name] {
			t.Errorf("field %s is neither fixed nor free once a Backup has started: add it to the table", name)
		}
	}
}

func TestFixedOnceStarted(t *testing.T) {
	namespace := newNamespace(t)
	for field, values := range fixed {
		t.Run(field, func(t *testing.T) {
			rejected := "spec." + field + ": Invalid value: "
			with := create(t, "Backup", namespace, fmt.Sprintf(`{"spec":{%q:%s}}`, field, values[0]))
			without := create(t, "Backup", namespace, `{"spec":{}}`)
			attempts := map[string]struct {
				object *unstructured.Unstructured
				value  string
			}{
				"change": {with, values[1]},
				"remove": {with, "null"},
				"set":    {without, values[0]},
			}
			try := func(object *unstructured.Unstructured, value string) error {
				change := merge(fmt.Sprintf(`{"spec":{%q:%s}}`, field, value))
				return admin.Patch(t.Context(), object.DeepCopy(), change, client.DryRunAll)
			}
			for name, a := range attempts {
				if err := try(a.object, a.value); err != nil {
					t.Errorf("%s before the start: want it to be accepted, got %v", name, err)
				}
			}
			start(t, with)
			start(t, without)
			for name, a := range attempts {
				err := try(a.object, a.value)
				if err == nil || !strings.Contains(err.Error(), rejected) ||
					!strings.Contains(err.Error(), "is immutable once the backup has started; create a new Backup instead") {
					t.Errorf("%s after the start: want a message about %s, got: %v", name, field, err)
				}
			}
			if err := try(with, values[0]); err != nil {
				t.Errorf("applying the same value again: want it to be accepted, got %v", err)
			}
		})
	}
}

// change is a change of an object and what the API server answers.
type change struct {
	body, patch, rejected string
}

func checkChanges(t *testing.T, kind string, prepare func(*testing.T, *unstructured.Unstructured), table map[string]change) {
	t.Helper()
	namespace := newNamespace(t)
	for name, tc := range table {
		t.Run(name, func(t *testing.T) {
			object := create(t, kind, namespace, tc.body)
			prepare(t, object)
			wantMessage(t, admin.Patch(t.Context(), object, merge(tc.patch)), tc.rejected)
		})
	}
}

func TestFreeOnceStarted(t *testing.T) {
	const cancelled = "a cancelled backup can not be started again; create a new Backup instead"
	checkChanges(t, "Backup", start, map[string]change{
		"longer ttl":          {body: `{spec: {ttl: 1h}}`, patch: `{"spec":{"ttl":"2h"}}`},
		"no ttl any more":     {body: `{spec: {ttl: 1h}}`, patch: `{"spec":{"ttl":null}}`},
		"deletion policy":     {patch: `{"spec":{"deletionPolicy":"Delete"}}`},
		"and back":            {body: `{spec: {deletionPolicy: Delete}}`, patch: `{"spec":{"deletionPolicy":"Retain"}}`},
		"cancel":              {patch: `{"spec":{"desiredState":"Cancel"}}`},
		"cancel again":        {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":{"desiredState":"Cancel"}}`},
		"take a cancel back":  {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":{"desiredState":"Run"}}`, rejected: cancelled},
		"forget a cancel":     {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":{"desiredState":null}}`, rejected: cancelled},
		"drop the whole spec": {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":null}`, rejected: cancelled},
		"labels":              {patch: `{"metadata":{"labels":{"a":"b"}}}`},
	})
}

func TestImportedFromIsFixed(t *testing.T) {
	const rejected = "importedFrom is immutable"
	checkChanges(t, "Backup", func(*testing.T, *unstructured.Unstructured) {}, map[string]change{
		"set":           {body: `{spec: {}}`, patch: `{"spec":{"importedFrom":{"storageLocation":"a"}}}`, rejected: rejected},
		"set, no spec":  {patch: `{"spec":{"importedFrom":{"storageLocation":"a"}}}`, rejected: rejected},
		"change":        {body: `{spec: {importedFrom: {storageLocation: a}}}`, patch: `{"spec":{"importedFrom":{"storageLocation":"b"}}}`, rejected: rejected},
		"add a UID":     {body: `{spec: {importedFrom: {storageLocation: a}}}`, patch: `{"spec":{"importedFrom":{"backupUID":"u"}}}`, rejected: rejected},
		"remove":        {body: `{spec: {importedFrom: {storageLocation: a}}}`, patch: `{"spec":{"importedFrom":null}}`, rejected: rejected},
		"drop the spec": {body: `{spec: {importedFrom: {storageLocation: a}}}`, patch: `{"spec":null}`, rejected: rejected},
		"leave it":      {body: `{spec: {importedFrom: {storageLocation: a}}}`, patch: `{"spec":{"ttl":"1h"}}`},
	})
}

func TestHookRunChanges(t *testing.T) {
	const oneWay, only = "goes from Wait to Run to Cancel and never back", "only desiredState can be changed"
	body := func(state string) string {
		return `{spec: {` + hookRun + `, timeout: 10m, order: 1, retries: 1, owed: true, runOn: [Failed], parameters: {a: b}, desiredState: ` + state + `}}`
	}
	bare := `{spec: {` + hookRun + `, timeout: 10m, desiredState: Wait}}`
	table := map[string]change{
		"start":                  {body: body("Wait"), patch: `{"spec":{"desiredState":"Run"}}`},
		"cancel":                 {body: body("Run"), patch: `{"spec":{"desiredState":"Cancel"}}`},
		"cancel before it runs":  {body: body("Wait"), patch: `{"spec":{"desiredState":"Cancel"}}`},
		"pause":                  {body: body("Run"), patch: `{"spec":{"desiredState":"Wait"}}`, rejected: oneWay},
		"start what was stopped": {body: body("Cancel"), patch: `{"spec":{"desiredState":"Run"}}`, rejected: oneWay},
		"wait after a stop":      {body: body("Cancel"), patch: `{"spec":{"desiredState":"Wait"}}`, rejected: oneWay},
	}
	for field, value := range map[string]string{
		"hook": `"PostBackup"`, "pluginName": `"other"`, "pluginRef": `{"name":"other"}`, "subject": `{"uid":"other"}`,
		"order": `2`, "timeout": `"9h"`, "retries": `2`, "failurePolicy": `"Ignore"`, "onInterruption": `"Fail"`,
		"owed": `false`, "runOn": `["Completed"]`, "parameters": `{"a":"c"}`,
	} {
		table["change "+field] = change{body: body("Wait"), patch: fmt.Sprintf(`{"spec":{%q:%s}}`, field, value), rejected: only}
	}
	for field, value := range map[string]string{
		"order": `2`, "retries": `2`, "owed": `true`, "runOn": `["Completed"]`, "parameters": `{"a":"c"}`,
	} {
		table["add "+field] = change{body: bare, patch: fmt.Sprintf(`{"spec":{%q:%s}}`, field, value), rejected: only}
		table["remove "+field] = change{body: body("Wait"), patch: fmt.Sprintf(`{"spec":{%q:null}}`, field), rejected: only}
	}
	checkChanges(t, "HookRun", func(*testing.T, *unstructured.Unstructured) {}, table)
}

// TestOddBackupsCanBeFinished does to oddly written Backups what the operator does
// to every one: hold it, start it, write its status, let it go. A rule that can
// not be evaluated, or sees a change where there is none, would hold it for ever.
func TestOddBackupsCanBeFinished(t *testing.T) {
	namespace := newNamespace(t)
	name := strings.Repeat("n", 250)
	for title, body := range map[string]string{
		"no spec":     `{}`,
		"empty lists": `{spec: {includedNamespaces: [], orLabelSelectors: [], orderedResources: {}, parameters: {}, metadata: {}, storageLocation: ""}}`,
		"nulls":       `{spec: {includeClusterResources: null, labelSelector: null, orLabelSelectors: null, orderedResources: null}}`,
		"large":       `{spec: {includedNamespaces: [` + strings.Repeat(name+",", 2048) + `], excludedNamespaces: [` + strings.Repeat(name+",", 2048) + `]}}`,
	} {
		t.Run(title, func(t *testing.T) {
			ctx, key := t.Context(), client.ObjectKeyFromObject(create(t, "Backup", namespace, body))
			update := func(what string, change func(*v1alpha1.Backup), write func(client.Object, client.Patch) error) {
				t.Helper()
				var backup v1alpha1.Backup
				if err := admin.Get(ctx, key, &backup); err != nil {
					t.Fatal(err)
				}
				before := backup.DeepCopy()
				change(&backup)
				if err := write(&backup, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			main := func(o client.Object, p client.Patch) error { return admin.Patch(ctx, o, p) }
			status := func(o client.Object, p client.Patch) error { return admin.Status().Patch(ctx, o, p) }
			update("hold", func(b *v1alpha1.Backup) { controllerutil.AddFinalizer(b, v1alpha1.FinalizerRun) }, main)
			update("start", func(b *v1alpha1.Backup) { b.Status.Phase = v1alpha1.BackupPhaseInProgress }, status)
			update("end", func(b *v1alpha1.Backup) { b.Status.Phase = v1alpha1.BackupPhaseCompleted }, status)
			if err := admin.Delete(ctx, &v1alpha1.Backup{ObjectMeta: objectMeta(key)}); err != nil {
				t.Fatal(err)
			}
			update("let go", func(b *v1alpha1.Backup) { controllerutil.RemoveFinalizer(b, v1alpha1.FinalizerRun) }, main)
			if err := admin.Get(ctx, key, &v1alpha1.Backup{}); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("want the Backup to be gone, got %v", err)
			}
		})
	}
}
