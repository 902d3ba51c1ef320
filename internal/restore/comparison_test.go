// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// data returns the data of a ConfigMap.
func data(o *unstructured.Unstructured) map[string]string {
	got, _, _ := unstructured.NestedStringMap(o.Object, "data")
	return got
}

// TestRestoreObjects_Policies restores existing objects, in small numbers (where a create request shows
// whether they exist) and in large numbers (which are listed).
func TestRestoreObjects_Policies(t *testing.T) {
	for _, few := range []bool{true, false} {
		for _, tc := range []struct {
			policy restore.ExistingPolicy
			// differs is the outcome of the object that differs.
			differs restore.Outcome
			value   string
			message string
		}{
			{restore.ExistingNone, restore.Skipped, "now", "warning|it exists and differs from the backup in data.extra, data.key"},
			{restore.ExistingUpdate, restore.Updated, "then", ""},
			{restore.ExistingRecreate, restore.Recreated, "then", ""},
		} {
			t.Run(fmt.Sprintf("%s few=%t", tc.policy, few), func(t *testing.T) {
				c := newTarget(t, restore.Options{})
				ns := fmt.Sprintf("policy-%s-%t", tc.policy, few)
				c.namespace(ns)
				same := 30
				if few {
					same = 3
				}
				var objects []*unstructured.Unstructured
				for i := range same {
					objects = append(objects, configMap(t, ns, fmt.Sprintf("same-%d", i), "x"))
				}
				c.create(objects...)
				changed := obj(t, "v1", "ConfigMap", ns, "changed",
					`{"data":{"key":"now","extra":"e"},"metadata":{"finalizers":["example.org/hold"]}}`)
				if tc.policy == restore.ExistingRecreate {
					changed.SetFinalizers(nil)
				}
				before := c.create(changed)[0]
				missing := configMap(t, ns, "missing", "x")
				objects = append(objects, configMap(t, ns, "changed", "then"), missing)

				request := restore.Request{Archive: spool(t, objects), Policy: tc.policy, RestoreUID: "u"}
				result := c.run(request)
				wantCounts(t, result, map[restore.Outcome]int{restore.Unchanged: same, tc.differs: 1, restore.Created: 1})
				if tc.message == "" {
					wantMessages(t, result)
				} else {
					wantMessages(t, result, tc.message)
				}
				after := c.get(changed)
				if data(after)["key"] != tc.value {
					t.Errorf("data are %v", data(after))
				}
				if (tc.policy != restore.ExistingNone) == (data(after)["extra"] != "") {
					t.Errorf("with policy %s, a field that the backup has not: %v", tc.policy, data(after))
				}
				if recreated := before.GetUID() != after.GetUID(); recreated != (tc.policy == restore.ExistingRecreate) {
					t.Errorf("recreated: %t", recreated)
				}
				if tc.policy == restore.ExistingUpdate && len(after.GetFinalizers()) == 0 {
					t.Error("the update took finalizers away")
				}
				for _, o := range objects[:same] {
					if len(c.get(o).GetLabels()) > 0 != (tc.policy == restore.ExistingUpdate) {
						t.Errorf("%s, which was as it should be, has labels %v", o.GetName(), c.get(o).GetLabels())
					}
				}
				if posts := len(c.wire.requests("POST", "/configmaps")); !few && posts > 3 {
					t.Errorf("%d POSTs for one object to create and perhaps one to recreate, which is preceded by a dry run", posts)
				}
				if gets := c.wire.requests("GET", "/configmaps/"); !few && len(gets) > 2 {
					t.Errorf("GETs beside the LIST: %v", gets)
				}

				again := c.run(request)
				if diff := cmp.Diff(listOf(result), listOf(again)); diff != "" {
					t.Errorf("after a crash it would report something else (-first +second):\n%s", diff)
				}
				if tc.policy == restore.ExistingUpdate {
					unhold(c, changed)
				}
			})
		}
	}
}

// TestListExisting_ManyNamespaces lists across namespaces, and namespace by namespace if the cluster has
// many other objects.
func TestListExisting_ManyNamespaces(t *testing.T) {
	c := newTarget(t, restore.Options{})
	var objects []*unstructured.Unstructured
	for i := range 6 {
		ns := fmt.Sprintf("many-%d", i)
		c.namespace(ns)
		for j := range 10 {
			objects = append(objects, obj(t, "v1", "Secret", ns, fmt.Sprintf("s-%d", j), `{"data":{"a":"Yg=="},"type":"Opaque"}`))
		}
	}
	c.create(objects...)
	s := spool(t, objects)
	for _, wide := range []bool{true, false} {
		if !wide {
			c.namespace("many-else")
			for i := range 6*64 + 20 {
				c.create(obj(t, "v1", "Secret", "many-else", fmt.Sprintf("s-%d", i), `{"data":{"a":"Yg=="}}`))
			}
		}
		result := c.run(restore.Request{Archive: s})
		wantCounts(t, result, map[restore.Outcome]int{restore.Unchanged: len(objects)})
		wantMessages(t, result)
		if posts := c.wire.writes(); len(posts) > 0 {
			t.Errorf("wrote %v", posts)
		}
		if each := c.wire.requests("GET", "/namespaces/many-"); (len(each) == 0) != wide || len(each) > 6 {
			t.Errorf("across namespaces: %t, and yet single ones are listed: %v", wide, each)
		}
	}
}

func TestMergeServiceAccount(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "merge-accounts"
	c.namespace(ns)
	own := obj(t, "v1", "ServiceAccount", ns, "builder", `{"imagePullSecrets":[{"name":"new"}],"metadata":{"labels":{"a":"1"}}}`)
	other := obj(t, "v1", "ServiceAccount", ns, "same", "")
	c.create(own, other)
	result := c.run(restore.Request{RestoreUID: "u", Archive: spool(t, []*unstructured.Unstructured{
		obj(t, "v1", "ServiceAccount", ns, "builder",
			`{"imagePullSecrets":[{"name":"old"}],"secrets":[{"name":"builder-token-x7b2z"},{"name":"key"}],"metadata":{"labels":{"a":"2","b":"3"}}}`),
		other,
	})})
	wantCounts(t, result, map[restore.Outcome]int{restore.Updated: 1, restore.Unchanged: 1})
	wantMessages(t, result)
	got := c.get(own)
	if diff := cmp.Diff([]any{map[string]any{"name": "new"}, map[string]any{"name": "old"}}, got.Object["imagePullSecrets"]); diff != "" {
		t.Errorf("imagePullSecrets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{map[string]any{"name": "key"}}, got.Object["secrets"]); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if labels := got.GetLabels(); labels["a"] != "1" || labels["b"] != "3" || labels["grapnel.dev/restore-name"] != "again" {
		t.Errorf("labels are %v", labels)
	}
}

// TestCompareItem_DefaultedFields restores archived objects over objects that were
// created from the same definitions.
func TestCompareItem_DefaultedFields(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const old, ns = "filled-old", "filled-new"
	c.namespace(old)
	c.namespace(ns)
	const pod = `{"containers":[{"name":"c","image":"x"}]`
	at := func(ns string) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{
			obj(t, "v1", "Service", ns, "cluster", `{"spec":{"ports":[{"port":80}],"selector":{"a":"b"}}}`),
			obj(t, "v1", "Service", ns, "node", `{"spec":{"type":"NodePort","ports":[{"port":80}]}}`),
			obj(t, "v1", "Service", ns, "balancer", `{"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]}}`),
			obj(t, "v1", "Service", ns, "headless", `{"spec":{"clusterIP":"None","ports":[{"port":80}]}}`),
			obj(t, "v1", "Service", ns, "external", `{"spec":{"type":"ExternalName","externalName":"example.org"}}`),
			obj(t, "v1", "Pod", ns, "pod", `{"spec":`+pod+`}}`),
			obj(t, "batch/v1", "Job", ns, "job", `{"spec":{"suspend":true,"template":{"spec":`+pod+`,"restartPolicy":"Never"}}}}`),
			obj(t, "apps/v1", "Deployment", ns, "web",
				`{"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":`+pod+`}}}}`),
			obj(t, "v1", "PersistentVolumeClaim", ns, "claim",
				`{"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"none","resources":{"requests":{"storage":"1Gi"}}}}`),
		}
	}
	c.create(obj(t, "v1", "ServiceAccount", old, "robot", ""))
	originals := c.create(at(old)...)
	eventually(t, "the Deployment has a revision", func() bool {
		found := c.get(originals[7])
		originals[7] = found
		return found.GetAnnotations()["deployment.kubernetes.io/revision"] != ""
	})
	c.create(at(ns)...)
	result := c.run(restore.Request{Archive: spool(t, originals), NamespaceMapping: map[string]string{old: ns}})
	wantCounts(t, result, map[restore.Outcome]int{restore.Unchanged: len(originals)})
	wantMessages(t, result)
}

func TestRecreateObject_NamespaceAndClaim(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "keep-content"
	namespace := c.create(obj(t, "v1", "Namespace", "", ns, ""))[0]
	claim := c.create(obj(t, "v1", "PersistentVolumeClaim", ns, "claim",
		`{"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"none","resources":{"requests":{"storage":"1Gi"}}}}`))[0]
	changed := claim.DeepCopy()
	changed.SetLabels(map[string]string{"a": "b"})
	c.run(restore.Request{Policy: restore.ExistingRecreate, Archive: spool(t, []*unstructured.Unstructured{
		obj(t, "v1", "Namespace", "", ns, `{"metadata":{"labels":{"team":"a"}}}`), changed,
	})})
	for _, o := range []*unstructured.Unstructured{namespace, claim} {
		got := c.get(o)
		if got.GetUID() != o.GetUID() || got.GetDeletionTimestamp() != nil {
			t.Errorf("%s was deleted", o.GetKind())
		}
		if got.GetLabels()["a"]+got.GetLabels()["team"] == "" {
			t.Errorf("%s was not updated: %v", o.GetKind(), got.GetLabels())
		}
	}
	if deletes := c.wire.requests("DELETE", "/"); len(deletes) > 0 {
		t.Errorf("deleted: %v", deletes)
	}
}

func TestRecreateObject_Finalizer(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "recreate-waits"
	c.namespace(ns)
	held := configMap(t, ns, "held", "now")
	held.SetFinalizers([]string{"example.org/hold"})
	c.create(held)
	done := make(chan restore.Result)
	go func() {
		done <- c.run(restore.Request{
			Policy: restore.ExistingRecreate, Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "held", "then")}),
		})
	}()
	eventually(t, "the object is being deleted", func() bool { return c.get(held).GetDeletionTimestamp() != nil })
	unhold(c, held)
	wantCounts(t, <-done, map[restore.Outcome]int{restore.Recreated: 1})
	if got := data(c.get(held))["key"]; got != "then" {
		t.Errorf("it is still the old one: %q", got)
	}
}

func TestRecreateObject_DeletionTimeout(t *testing.T) {
	c := newTarget(t, restore.Options{WaitTimeout: 1})
	const ns = "recreate-stuck"
	c.namespace(ns)
	held := configMap(t, ns, "held", "now")
	held.SetFinalizers([]string{"example.org/hold"})
	c.create(held)
	result := c.run(restore.Request{
		Policy:  restore.ExistingRecreate,
		Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "held", "then"), configMap(t, ns, "other", "x")}),
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Failed: 1, restore.Created: 1})
	wantMessages(t, result, "error recreate-stuck: |configmaps \"recreate-stuck/held\"|still exists after 1ns; restore again after it is deleted")
	unhold(c, held)
}

func TestRestoreObjects_ReleasedVolume(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const spec = `{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"},"storageClassName":"none",
		"persistentVolumeReclaimPolicy":"%s","claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"volumes","name":"claim"%s}}%s}`
	retained := obj(t, "v1", "PersistentVolume", "", "pv-retained", fmt.Sprintf(spec, "Retain", `,"uid":"11111111-0000-4000-8000-000000000000"`, ""))
	archived := c.create(retained)[0]
	archived.Object["status"] = map[string]any{"phase": "Bound"}
	eventually(t, "the volume is released", func() bool {
		phase, _, _ := unstructured.NestedString(c.get(retained).Object, "status", "phase")
		return phase == "Released"
	})
	bound := `,"status":{"phase":"Bound"}`
	uid := `,"uid":"11111111-0000-4000-8000-000000000000"`
	c.namespace("volumes")
	result := c.run(restore.Request{RestoreUID: "u", Archive: spool(t, []*unstructured.Unstructured{
		archived,
		obj(t, "v1", "PersistentVolume", "", "pv-deleted", fmt.Sprintf(spec, "Delete", uid, bound)),
		obj(t, "v1", "PersistentVolume", "", "pv-elsewhere", fmt.Sprintf(spec, "Retain", uid, bound)),
	})})
	wantCounts(t, result, map[restore.Outcome]int{restore.Updated: 1, restore.Skipped: 1, restore.Created: 1})
	wantMessages(t, result, "warning cluster|pv-elsewhere|does not hold the data")
	if _, found, _ := unstructured.NestedString(c.get(retained).Object, "spec", "claimRef", "uid"); found {
		t.Error("the released volume is not reserved for the restored claim")
	}
}

// TestRestoreObjects_LabelsOfUnchangedObjects: with the policy update, an unchanged object gets the
// labels of the restore, and nothing else.
func TestRestoreObjects_LabelsOfUnchangedObjects(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "label-unchanged"
	c.namespace(ns)
	object := c.create(configMap(t, ns, "a", "x"), obj(t, "v1", "ServiceAccount", ns, "robot", ""))
	request := restore.Request{Archive: spool(t, object), RestoreUID: "u", BackupName: "first"}
	for _, tc := range []struct {
		policy  restore.ExistingPolicy
		backup  string
		dryRun  bool
		patches int
		want    string
	}{
		{policy: restore.ExistingNone, backup: "first"},
		{policy: restore.ExistingUpdate, backup: "first", dryRun: true},
		{policy: restore.ExistingUpdate, backup: "first", patches: 2, want: "first"},
		{policy: restore.ExistingUpdate, backup: "first", want: "first"},
		{policy: restore.ExistingNone, backup: "second", want: "first"},
		{policy: restore.ExistingRecreate, backup: "second", want: "first"},
		{policy: restore.ExistingUpdate, backup: "second", patches: 2, want: "second"},
	} {
		request.Policy, request.BackupName, request.DryRun = tc.policy, tc.backup, tc.dryRun
		result := c.run(request)
		wantCounts(t, result, map[restore.Outcome]int{restore.Unchanged: 2})
		wantMessages(t, result)
		if patches := c.wire.requests("PATCH", ""); len(patches) != tc.patches {
			t.Errorf("%+v: PATCHes %v", tc, patches)
		}
		for _, o := range object {
			got := c.get(o)
			if label := got.GetLabels()["grapnel.dev/backup-name"]; label != tc.want || (got.GetLabels()["grapnel.dev/restore-name"] != "") != (tc.want != "") {
				t.Errorf("%+v: %s has labels %v", tc, o.GetName(), got.GetLabels())
			}
			if got.GetAnnotations() != nil {
				t.Errorf("%+v: %s has annotations %v", tc, o.GetName(), got.GetAnnotations())
			}
		}
	}
}
