// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

func TestSelection(t *testing.T) {
	no := false
	for name, tc := range map[string]struct {
		spec     selection.Spec
		want     string // what is restored, without the prefix of the test
		warnings []string
	}{
		"all":        {want: "a/one a/two b/one namespace/a namespace/b role/r"},
		"namespaces": {spec: selection.Spec{IncludedNamespaces: []string{"%s-a"}}, want: "a/one a/two namespace/a"},
		"excluded":   {spec: selection.Spec{ExcludedNamespaces: []string{"*-a"}}, want: "b/one namespace/b"},
		"labels": {
			spec: selection.Spec{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pick": "me"}}},
			want: "a/two namespace/a",
		},
		"one of several labels": {
			spec: selection.Spec{OrLabelSelectors: []*metav1.LabelSelector{
				{MatchLabels: map[string]string{"pick": "me"}}, {MatchLabels: map[string]string{"pick": "you"}},
			}},
			want: "a/two b/one namespace/a namespace/b",
		},
		"resources":            {spec: selection.Spec{IncludedResources: []string{"clusterroles"}}, want: "role/r"},
		"no cluster resources": {spec: selection.Spec{IncludeClusterResources: &no}, want: "a/one a/two b/one namespace/a namespace/b"},
		"nothing matches": {
			spec: selection.Spec{IncludedNamespaces: []string{"nowhere"}}, want: "",
			warnings: []string{`warning run: spec.includedNamespaces[0]: the backup contains nothing of namespace "nowhere"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			prefix := "scope-" + strings.ReplaceAll(name, " ", "-")
			two, b := configMap(t, prefix+"-a", "two", "x"), configMap(t, prefix+"-b", "one", "x")
			two.SetLabels(map[string]string{"pick": "me"})
			b.SetLabels(map[string]string{"pick": "you"})
			s := spool(t, []*unstructured.Unstructured{
				obj(t, "v1", "Namespace", "", prefix+"-a", ""), obj(t, "v1", "Namespace", "", prefix+"-b", ""),
				configMap(t, prefix+"-a", "one", "x"), two, b,
				obj(t, "rbac.authorization.k8s.io/v1", "ClusterRole", "", prefix+"-r", `{"rules":[]}`),
			})
			spec := tc.spec
			spec.IncludedNamespaces = slices.Clone(spec.IncludedNamespaces)
			for i, entry := range spec.IncludedNamespaces {
				spec.IncludedNamespaces[i] = strings.ReplaceAll(entry, "%s", prefix)
			}
			result := c.run(restore.Request{Archive: s, Selection: spec})
			var got []string
			for key, names := range listOf(result) {
				for _, name := range names {
					name = strings.TrimSuffix(strings.TrimPrefix(name, prefix+"-"), "(created)")
					switch key {
					case "v1/Namespace":
						name = "namespace/" + name
					case "rbac.authorization.k8s.io/v1/ClusterRole":
						name = "role/" + name
					}
					got = append(got, name)
				}
			}
			slices.Sort(got)
			if list := strings.Join(got, " "); list != tc.want {
				t.Errorf("restored %s, want %s", list, tc.want)
			}
			wantMessages(t, result, tc.warnings...)
		})
	}
}

func TestNamespaceMapping(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const rbac = "rbac.authorization.k8s.io/v1"
	binding := func(ns string) *unstructured.Unstructured {
		return obj(t, rbac, "RoleBinding", ns, "bind", `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},
			"subjects":[{"kind":"ServiceAccount","name":"robot","namespace":"mapped-old"},{"kind":"ServiceAccount","name":"other","namespace":"elsewhere"}]}`)
	}
	s := spool(t, []*unstructured.Unstructured{
		obj(t, "v1", "Namespace", "", "mapped-old", `{"metadata":{"labels":{"team":"a"}}}`),
		configMap(t, "mapped-old", "settings", "x"), binding("mapped-old"), configMap(t, "mapped-not", "settings", "x"),
	})
	request := restore.Request{
		Archive: s, RestoreUID: "u", NamespaceMapping: map[string]string{"mapped-old": "mapped-new", "mapped-missing": "x"},
	}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 5})
	wantMessages(t, result, "warning run: spec.namespaceMapping[mapped-missing]: the backup contains nothing of that namespace")
	if labels := c.get(obj(t, "v1", "Namespace", "", "mapped-new", "")).GetLabels(); labels["team"] != "a" ||
		labels["kubernetes.io/metadata.name"] != "mapped-new" {
		t.Errorf("labels of the namespace are %v", labels)
	}
	c.get(configMap(t, "mapped-new", "settings", ""))
	c.get(configMap(t, "mapped-not", "settings", ""))
	if c.has(obj(t, "v1", "Namespace", "", "mapped-old", "")) {
		t.Error("the original namespace was made")
	}
	subjects, _, _ := unstructured.NestedSlice(c.get(binding("mapped-new")).Object, "subjects")
	want := []any{
		map[string]any{"kind": "ServiceAccount", "name": "robot", "namespace": "mapped-new"},
		map[string]any{"kind": "ServiceAccount", "name": "other", "namespace": "elsewhere"},
	}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	request.RestoreUID = "v"
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Unchanged: 4})
}

func TestNamespaceMapping_Merged(t *testing.T) {
	c := newTarget(t, restore.Options{})
	s := spool(t, []*unstructured.Unstructured{
		obj(t, "v1", "Namespace", "", "merge-a", ""), obj(t, "v1", "Namespace", "", "merge-b", ""),
		configMap(t, "merge-a", "only-a", "x"), configMap(t, "merge-a", "both", "from a"),
		configMap(t, "merge-b", "only-b", "x"), configMap(t, "merge-b", "both", "from b"),
	})
	request := restore.Request{
		Archive: s, RestoreUID: "u", NamespaceMapping: map[string]string{"merge-a": "merge-c", "merge-b": "merge-c"},
	}
	for range 2 {
		result := c.run(request)
		wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4, restore.Failed: 1})
		wantMessages(t, result, "error merge-c: |configmaps \"merge-c/both\"|namespaces merge-a and merge-b are both mapped onto merge-c")
		if got := data(c.get(configMap(t, "merge-c", "both", "")))["key"]; got != "from a" {
			t.Errorf("both has %q", got)
		}
	}
}

func TestValidate_InvalidRequest(t *testing.T) {
	c := newTarget(t, restore.Options{})
	_, err := c.engine.RestoreObjects(t.Context(), restore.Request{
		Archive:          spool(t, []*unstructured.Unstructured{configMap(t, "a", "b", "c")}),
		Selection:        selection.Spec{ExcludedNamespaces: []string{"secret-*"}, IncludedResources: []string{"*", "pods", "Nodes", "events.events.k8s.io", "backups.velero.io", "volumesnapshots.snapshot.storage.k8s.io", "backups"}},
		NamespaceMapping: map[string]string{"a": "No Name", "b": "secret-1", "c": "c"},
		Policy:           "overwrite",
	})
	if err == nil {
		t.Fatal("it ran")
	}
	for _, part := range []string{
		"spec.includedResources", `spec.includedResources[2]: "Nodes" is never restored: the kubelets of this cluster register their own; remove it`,
		`spec.includedResources[3]: "events.events.k8s.io"`, `spec.includedResources[4]: "backups.velero.io"`, `spec.existingResourcePolicy: "overwrite"`, `spec.namespaceMapping[a]: "No Name"`,
		`spec.namespaceMapping[b]: it is mapped onto "secret-1"`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %s:\n%v", part, err)
		}
	}
	for _, accepted := range []string{"spec.includedResources[5]", "spec.includedResources[6]"} {
		if strings.Contains(err.Error(), accepted) {
			t.Errorf("the error is about %s:\n%v", accepted, err)
		}
	}
	if asked := c.wire.requests("GET", ""); len(asked) > 0 {
		t.Errorf("the cluster was asked: %v", asked)
	}
}

func TestStatus(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "with-status"
	const spec = `{"metadata":{"annotations":{%s}},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}},"status":{"observedGeneration":77}}`
	set := func(name, annotation string) *unstructured.Unstructured {
		return obj(t, "apps/v1", "DaemonSet", ns, name, strings.Replace(fmt.Sprintf(spec, annotation), `"replicas":0,`, "", 1))
	}
	s := spool(t, []*unstructured.Unstructured{
		set("plain", ""), set("wants", `"velero.io/restore-status":" True "`), set("refuses", `"grapnel.dev/restore-status":"FALSE"`),
		set("other", `"velero.io/restore-status":"perhaps"`), set("modified", ""),
	})
	modifiers := parseModifiers(t, "- conditions: {groupResource: daemonsets.apps, resourceNameRegex: modified}\n"+
		"  mergePatches: [{patchData: 'metadata: {annotations: {velero.io/restore-status: \"true\"}}'}]\n")
	for i, tc := range []struct {
		filter *restore.StatusFilter
		want   string
	}{
		{nil, "modified wants"},
		{&restore.StatusFilter{IncludedResources: []string{"ds"}}, "modified other plain wants"},
		{&restore.StatusFilter{}, "modified other plain wants"},
		{&restore.StatusFilter{IncludedResources: []string{"*"}, ExcludedResources: []string{"daemonsets"}}, "modified wants"},
	} {
		result := c.run(restore.Request{Archive: s, RestoreStatus: tc.filter, Modifiers: modifiers, DryRun: true})
		if len(c.wire.writes()) > 0 {
			t.Errorf("a dry run wrote %v", c.wire.writes())
		}
		if result.Counts[restore.Failed] > 0 {
			t.Errorf("results: %s", messages(result))
		}
		target := fmt.Sprintf("status-%d", i)
		result = c.run(restore.Request{Archive: s, RestoreStatus: tc.filter, Modifiers: modifiers, NamespaceMapping: map[string]string{ns: target}})
		wantMessages(t, result)
		var got []string
		for _, request := range c.wire.requests("PATCH", "/status") {
			name := strings.TrimSuffix(request[strings.Index(request, "daemonsets/")+len("daemonsets/"):], "/status?fieldManager=grapnel-restore")
			got = append(got, name)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tc.want {
			t.Errorf("with %+v, the status of %q was restored, want %q", tc.filter, got, tc.want)
		}
	}
}

func TestDryRun(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "dry"
	c.namespace(ns)
	c.create(configMap(t, ns, "same", "x"), configMap(t, ns, "differs", "now"))
	objects := []*unstructured.Unstructured{
		configMap(t, ns, "same", "x"), configMap(t, ns, "differs", "then"), configMap(t, ns, "new", "x"),
		obj(t, "v1", "Service", "dry-new", "service", `{"spec":{"ports":[{"port":80}]}}`),
		obj(t, "v1", "ServiceAccount", ns, "default", `{"imagePullSecrets":[{"name":"x"}]}`),
	}
	eventually(t, "the namespace has its ServiceAccount", func() bool { return c.has(objects[4]) })
	for policy, want := range map[restore.ExistingPolicy]string{
		restore.ExistingNone: "skipped", restore.ExistingUpdate: "updated", restore.ExistingRecreate: "recreated",
	} {
		result := c.run(restore.Request{Archive: spool(t, objects), DryRun: true, Policy: policy, RestoreUID: "u"})
		if diff := cmp.Diff(map[string][]string{
			"v1/ConfigMap":      {"dry/differs(" + want + ")", "dry/new(created)", "dry/same(unchanged)"},
			"v1/Service":        {"dry-new/service(created)"},
			"v1/Namespace":      {"dry-new(created)"},
			"v1/ServiceAccount": {"dry/default(updated)"},
		}, listOf(result)); diff != "" {
			t.Errorf("policy %s (-want +got):\n%s", policy, diff)
		}
		if !slices.Contains(result.Actions["services"], "grapnel.dev/service") {
			t.Errorf("actions are %v", result.Actions)
		}
		if writes := c.wire.writes(); len(writes) > 0 {
			t.Errorf("a dry run wrote %v", writes)
		}
	}
}

// TestOrder checks the order of the requests.
func TestOrder(t *testing.T) {
	objects := func(ns string) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{
			configMap(t, ns, "c", "x"), obj(t, "v1", "Secret", ns, "s", ""), obj(t, "v1", "ServiceAccount", ns, "a", ""),
			obj(t, "v1", "Service", ns, "v", `{"spec":{"ports":[{"port":80}]}}`),
			obj(t, "v1", "ResourceQuota", ns, "q", `{"spec":{"hard":{"configmaps":"5"}}}`),
			obj(t, "v1", "LimitRange", ns, "l", `{"spec":{"limits":[]}}`),
		}
	}
	posts := func(c *target) string {
		var out []string
		for _, post := range c.wire.requests("POST", "/") {
			path, _, _ := strings.Cut(post, "?")
			out = append(out, path[strings.LastIndex(path, "/")+1:])
		}
		return strings.Join(out, " ")
	}
	c := newTarget(t, restore.Options{})
	c.run(restore.Request{Archive: spool(t, objects("order-default"))})
	if got, want := posts(c), "namespaces serviceaccounts secrets configmaps limitranges services resourcequotas"; got != want {
		t.Errorf("default order: %s, want %s", got, want)
	}
	c = newTarget(t, restore.Options{Order: &restore.Order{
		High: []string{"quota", "svc", "nothing.example.org", "namespaces", "volumesnapshots.snapshot.storage.k8s.io"},
		Low:  []string{"LimitRange", "cm", "secrets", "services", "pods"},
	}})
	result := c.run(restore.Request{Archive: spool(t, objects("order-own"))})
	if got, want := posts(c), "namespaces resourcequotas services serviceaccounts limitranges configmaps secrets"; got != want {
		t.Errorf("own order: %s, want %s", got, want)
	}
	wantMessages(t, result, `warning run: the restore order names "nothing.example.org"`)
}
