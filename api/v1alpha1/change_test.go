// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// rules lists the fields of a kind that may and may not change once it has started.
type rules struct {
	spec reflect.Type
	// needed are the fields that every object has.
	needed string
	// fixed has two values for each immutable field.
	fixed map[string][2]string
	// free are the other fields; they have tests of their own.
	free []string
}

var ruled = map[string]rules{
	"Backup": {
		spec: reflect.TypeFor[v1alpha1.BackupSpec](),
		fixed: map[string][2]string{
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
			"volumes":                          {`{"requireCaptured":true}`, `{"group":"app"}`},
		},
		free: []string{"ttl", "deletionPolicy", "desiredState", "importedFrom", "timeouts"},
	},
	"Restore": {
		spec: reflect.TypeFor[v1alpha1.RestoreSpec](), needed: `"backupName":"b",`,
		fixed: map[string][2]string{
			"includedNamespaces":      {`["a"]`, `["a","b"]`},
			"excludedNamespaces":      {`["a"]`, `["b"]`},
			"includedResources":       {`["pods"]`, `["*"]`},
			"excludedResources":       {`["pods"]`, `["secrets"]`},
			"includeClusterResources": {`true`, `false`},
			"namespaceMapping":        {`{"a":"b"}`, `{"a":"c"}`},
			"labelSelector":           {`{"matchLabels":{"a":"b"}}`, `{"matchLabels":{"a":"c"}}`},
			"orLabelSelectors":        {`[{"matchLabels":{"a":"b"}}]`, `[{"matchLabels":{"a":"c"}}]`},
			"existingResourcePolicy":  {`"update"`, `"recreate"`},
			"restoreStatus":           {`{"includedResources":["pods"]}`, `{"includedResources":["*"]}`},
			"preserveNodePorts":       {`true`, `false`},
			"storageLocation":         {`"here"`, `"there"`},
			"itemOperationTimeout":    {`"1h"`, `"2h"`},
			"apiVersionPriorities":    {`"jobs.batch=v1"`, `"jobs.batch=v2"`},
			"resourceModifier":        {`{"kind":"configmap","name":"a"}`, `{"name":"b"}`},
			"parameters":              {`{"p":{"a":"b"}}`, `{"p":{"a":"c"}}`},
			"dryRun":                  {`true`, `false`},
			"takeOver":                {`true`, `false`},
		},
		free: []string{"backupName", "scheduleName", "desiredState", "timeouts"},
	},
}

// TestChangeRules_AllFields fails when a field is added to a spec and no rule says
// whether it may change.
func TestChangeRules_AllFields(t *testing.T) {
	for kind, rules := range ruled {
		for field := range rules.spec.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if _, known := rules.fixed[name]; !known && !slices.Contains(rules.free, name) {
				t.Errorf("field %s is neither fixed nor free once a %s has started: add it to the table", name, kind)
			}
		}
	}
}

func TestImmutableFields(t *testing.T) {
	namespace := newNamespace(t)
	for kind, rules := range ruled {
		for field, values := range rules.fixed {
			t.Run(kind+" "+field, func(t *testing.T) {
				with := create(t, kind, namespace, fmt.Sprintf(`{"spec":{%s%q:%s}}`, rules.needed, field, values[0]))
				without := create(t, kind, namespace, fmt.Sprintf(`{"spec":{%s}}`, rules.needed))
				checkFixed(t, field, values, with, without)
			})
		}
	}
}

// checkFixed changes, removes and sets a field before and after the start.
func checkFixed(t *testing.T, field string, values [2]string, with, without *unstructured.Unstructured) {
	t.Helper()
	kind := with.GetKind()
	try := func(object *unstructured.Unstructured, value string) error {
		change := merge(fmt.Sprintf(`{"spec":{%q:%s}}`, field, value))
		return admin.Patch(t.Context(), object.DeepCopy(), change, client.DryRunAll)
	}
	attempts := map[string]struct {
		object *unstructured.Unstructured
		value  string
	}{
		"change": {with, values[1]},
		"remove": {with, "null"},
		"set":    {without, values[1]},
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
		if err == nil || !strings.Contains(err.Error(), "spec."+field+": Invalid value: ") || !strings.Contains(err.Error(),
			fmt.Sprintf("is immutable once the %s has started; create a new %s instead", strings.ToLower(kind), kind)) {
			t.Errorf("%s after the start: want a message about spec.%s, got: %v", name, field, err)
		}
	}
	if err := try(with, values[0]); err != nil {
		t.Errorf("applying the same value again: want it to be accepted, got %v", err)
	}
}

// change is a change of an object and the expected answer of the API server.
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

func TestBackupChanges_MutableFields(t *testing.T) {
	const cancelled = "a canceled backup cannot be restarted; create a new Backup instead"
	checkChanges(t, "Backup", start, map[string]change{
		"longer ttl":          {body: `{spec: {ttl: 1h}}`, patch: `{"spec":{"ttl":"2h"}}`},
		"no ttl any more":     {body: `{spec: {ttl: 1h}}`, patch: `{"spec":{"ttl":null}}`},
		"deletion policy":     {patch: `{"spec":{"deletionPolicy":"Delete"}}`},
		"and back":            {body: `{spec: {deletionPolicy: Delete}}`, patch: `{"spec":{"deletionPolicy":"Retain"}}`},
		"more time":           {body: `{spec: {timeouts: {run: 1h}}}`, patch: `{"spec":{"timeouts":{"run":"2h","archive":"1h"}}}`},
		"cancel":              {patch: `{"spec":{"desiredState":"Cancel"}}`},
		"cancel again":        {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":{"desiredState":"Cancel"}}`},
		"revert a cancel":     {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":{"desiredState":"Run"}}`, rejected: cancelled},
		"unset a cancel":      {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":{"desiredState":null}}`, rejected: cancelled},
		"drop the whole spec": {body: `{spec: {desiredState: Cancel}}`, patch: `{"spec":null}`, rejected: cancelled},
		"labels":              {patch: `{"metadata":{"labels":{"a":"b"}}}`},
	})
}

// TestRestoreChanges_Source changes the source of a restore. Exactly one of the two fields is set,
// so neither field can change alone in all the ways that the other fields can.
func TestRestoreChanges_Source(t *testing.T) {
	const fixed = "is immutable once the restore has started; create a new Restore instead"
	const backup, schedule = `{spec: {backupName: a}}`, `{spec: {scheduleName: a}}`
	changes := map[string]change{
		"another backup":            {body: backup, patch: `{"spec":{"backupName":"b"}}`, rejected: "spec.backupName"},
		"another schedule":          {body: schedule, patch: `{"spec":{"scheduleName":"b"}}`, rejected: "spec.scheduleName"},
		"a schedule for the backup": {body: backup, patch: `{"spec":{"backupName":null,"scheduleName":"a"}}`, rejected: "spec.scheduleName"},
		"a backup for the schedule": {body: schedule, patch: `{"spec":{"backupName":"a","scheduleName":null}}`, rejected: "spec.backupName"},
	}
	unstarted := map[string]change{}
	for name, c := range changes {
		c.rejected += ": Invalid value: "
		changes[name] = c
		c.rejected = ""
		unstarted[name] = c
	}
	checkChanges(t, "Restore", start, changes)
	checkChanges(t, "Restore", func(*testing.T, *unstructured.Unstructured) {}, unstarted)
	checkChanges(t, "Restore", start, map[string]change{
		"why not":       {body: backup, patch: `{"spec":{"backupName":"b"}}`, rejected: fixed},
		"the same":      {body: backup, patch: `{"spec":{"backupName":"a"}}`},
		"none":          {body: backup, patch: `{"spec":{"backupName":null}}`, rejected: "set exactly one of backupName and scheduleName"},
		"both":          {body: backup, patch: `{"spec":{"scheduleName":"a"}}`, rejected: "set exactly one of backupName and scheduleName"},
		"drop the spec": {body: backup, patch: `{"spec":null}`, rejected: "spec: Required value"},
	})
}

// TestRestoreChanges_MutableFields changes the mutable fields of a running Restore.
func TestRestoreChanges_MutableFields(t *testing.T) {
	const cancelled = "a canceled restore cannot be restarted; create a new Restore instead"
	const stopped = `{spec: {backupName: a, desiredState: Cancel}}`
	checkChanges(t, "Restore", start, map[string]change{
		"more time":       {body: `{spec: {backupName: a, timeouts: {run: 1h}}}`, patch: `{"spec":{"timeouts":{"run":"2h","restore":"1h"}}}`},
		"cancel":          {body: `{spec: {backupName: a}}`, patch: `{"spec":{"desiredState":"Cancel"}}`},
		"cancel again":    {body: stopped, patch: `{"spec":{"desiredState":"Cancel"}}`},
		"revert a cancel": {body: stopped, patch: `{"spec":{"desiredState":"Run"}}`, rejected: cancelled},
		"unset a cancel":  {body: stopped, patch: `{"spec":{"desiredState":null}}`, rejected: cancelled},
		"labels":          {body: stopped, patch: `{"metadata":{"labels":{"a":"b"}}}`},
	})
}

func TestBackupChanges_ImportedFrom(t *testing.T) {
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
	const oneWay, only = "goes from Wait to Run to Cancel and never back", "only desiredState and intervention can be changed"
	const newID = "intervention cannot be removed, and a new one needs a new id"
	retry := `intervention: {id: a, type: Retry, user: jane, reason: repaired}`
	body := func(state string) string {
		return `{spec: {` + hookRun + `, timeout: 10m, order: 1, retries: 1, owed: true, runOn: [Failed], runAfter: DataCaptured, parameters: {a: b}, desiredState: ` + state + `}}`
	}
	bare := `{spec: {` + hookRun + `, timeout: 10m, desiredState: Wait}}`
	table := map[string]change{
		"start":                  {body: body("Wait"), patch: `{"spec":{"desiredState":"Run"}}`},
		"cancel":                 {body: body("Run"), patch: `{"spec":{"desiredState":"Cancel"}}`},
		"cancel before it runs":  {body: body("Wait"), patch: `{"spec":{"desiredState":"Cancel"}}`},
		"pause":                  {body: body("Run"), patch: `{"spec":{"desiredState":"Wait"}}`, rejected: oneWay},
		"start what was stopped": {body: body("Cancel"), patch: `{"spec":{"desiredState":"Run"}}`, rejected: oneWay},
		"wait after a stop":      {body: body("Cancel"), patch: `{"spec":{"desiredState":"Wait"}}`, rejected: oneWay},
		"retry":                  {body: body("Run"), patch: `{"spec":{"intervention":{"id":"a","type":"Retry","user":"jane","reason":"repaired"}}}`},
		"retry a second time":    {body: body("Run, " + retry), patch: `{"spec":{"intervention":{"id":"b"}}}`},
		"start a retried one":    {body: body("Wait, " + retry), patch: `{"spec":{"desiredState":"Run"}}`},
		"change a request":       {body: body("Run, " + retry), patch: `{"spec":{"intervention":{"reason":"other"}}}`, rejected: newID},
		"withdraw a request":     {body: body("Run, " + retry), patch: `{"spec":{"intervention":null}}`, rejected: newID},
	}
	for field, value := range map[string]string{
		"hook": `"PostBackup"`, "actionName": `"other"`, "pluginRef": `{"name":"other"}`, "parentRef": `{"uid":"other"}`,
		"order": `2`, "timeout": `"9h"`, "retries": `2`, "failurePolicy": `"Ignore"`, "onInterruption": `"Fail"`,
		"owed": `false`, "runAfter": `"BackupCompleted"`, "runOn": `["Completed"]`, "parameters": `{"a":"c"}`,
	} {
		table["change "+field] = change{body: body("Wait"), patch: fmt.Sprintf(`{"spec":{%q:%s}}`, field, value), rejected: only}
	}
	for field, value := range map[string]string{
		"order": `2`, "retries": `2`, "owed": `true`, "runAfter": `"DataCaptured"`, "runOn": `["Completed"]`, "parameters": `{"a":"c"}`,
	} {
		table["add "+field] = change{body: bare, patch: fmt.Sprintf(`{"spec":{%q:%s}}`, field, value), rejected: only}
		table["remove "+field] = change{body: body("Wait"), patch: fmt.Sprintf(`{"spec":{%q:null}}`, field), rejected: only}
	}
	checkChanges(t, "HookRun", func(*testing.T, *unstructured.Unstructured) {}, table)
}

func TestAsyncOperationChanges(t *testing.T) {
	const only = "only desiredState can be changed"
	body := func(state string) string {
		return `{spec: {` + operation + `, timeout: 4h, pollInterval: 10s, stallTimeout: 1h, postOperationItems: [{resource: pods, name: p}], desiredState: ` + state + `}}`
	}
	table := map[string]change{
		"cancel":          {body: body("Run"), patch: `{"spec":{"desiredState":"Cancel","cancelReason":"why"}}`},
		"revert it":       {body: body("Cancel"), patch: `{"spec":{"desiredState":"Run"}}`, rejected: "Cancel cannot be reverted"},
		"another reason":  {body: body("Cancel"), patch: `{"spec":{"cancelReason":"why"}}`},
		"without a stall": {body: body("Run"), patch: `{"spec":{"stallTimeout":null}}`, rejected: only},
		"without items":   {body: body("Run"), patch: `{"spec":{"postOperationItems":null}}`, rejected: only},
	}
	for field, value := range map[string]string{
		"parentRef": `{"uid":"other"}`, "kind": `"BackupItemAction"`, "actionName": `"other"`, "pluginRef": `{"name":"other"}`,
		"operationID": `"other"`, "item": `{"name":"other"}`, "attempt": `2`, "timeout": `"9h"`, "pollInterval": `"9s"`, "stallTimeout": `"9h"`,
		"postOperationItems": `[{"resource":"pods","name":"q"}]`,
	} {
		table["change "+field] = change{body: body("Run"), patch: fmt.Sprintf(`{"spec":{%q:%s}}`, field, value), rejected: only}
	}
	checkChanges(t, "AsyncOperation", func(*testing.T, *unstructured.Unstructured) {}, table)
}

// TestArgoCDActions sends what Argo CD sends when a user runs an action on a live object; test/health checks that
// the actions have this effect.
func TestArgoCDActions(t *testing.T) {
	content, err := os.ReadFile("../../test/health/testdata/actions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Kind, Action  string
		Object, Patch json.RawMessage
	}
	if err := yaml.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	namespace := newNamespace(t)
	for _, tc := range cases {
		t.Run(tc.Kind+" "+tc.Action, func(t *testing.T) {
			object := create(t, tc.Kind, namespace, string(tc.Object))
			if tc.Kind != "Schedule" {
				start(t, object)
			}
			before := object.GetResourceVersion()
			wantMessage(t, admin.Patch(t.Context(), object, merge(string(tc.Patch))), "")
			if object.GetResourceVersion() == before {
				t.Error("the action has no effect")
			}
		})
	}
}
