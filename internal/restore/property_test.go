// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// shape is one form of an object of a kind. In its fields, NS is the namespace, NAME the
// name, and ID is unique to the set.
type shape struct {
	apiVersion, kind string
	namespaced       bool
	fields           []string
}

const (
	template   = `"template":{"metadata":{"labels":{"app":"NAME"}},"spec":{"containers":[{"name":"c","image":"x:NAME"}]}}`
	selector   = `"selector":{"matchLabels":{"app":"NAME"}}`
	rules      = `"rules":[{"apiGroups":["none.example.org"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nothing"]}]`
	volumeSpec = `"accessModes":["ReadWriteOnce"],"storageClassName":""`
	subjects   = `"subjects":[{"kind":"ServiceAccount","name":"robot","namespace":"NS"},{"kind":"Group","name":"g","apiGroup":"rbac.authorization.k8s.io"}]`
)

// shapes has the kinds in an order in which they can be created.
var shapes = []shape{
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition", false, nil},
	{"v1", "Namespace", false, nil},
	{"storage.k8s.io/v1", "StorageClass", false, []string{`{"provisioner":"example.org/p","parameters":{"a":"NAME"}}`}},
	{"scheduling.k8s.io/v1", "PriorityClass", false, []string{`{"value":1000,"description":"NAME"}`}},
	{"node.k8s.io/v1", "RuntimeClass", false, []string{`{"handler":"runc"}`}},
	{"networking.k8s.io/v1", "IngressClass", false, []string{`{"spec":{"controller":"example.org/NAME"}}`}},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", false, []string{
		`{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}]}`,
		`{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"none":"ID"}}]},"rules":[]}`,
	}},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false, []string{
		`{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},` + subjects + `}`,
	}},
	{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", false, []string{
		`{"webhooks":[{"name":"a.example.org","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"s","namespace":"NS"}},` + rules + `}]}`,
	}},
	{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", false, []string{
		`{"webhooks":[{"name":"a.example.org","sideEffects":"NoneOnDryRun","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://example.org/"},` + rules + `}]}`,
	}},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", false, []string{
		`{"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["none.example.org"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["x"]}]},
			"validations":[{"expression":"true"}]}}`,
	}},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", false, []string{`{"spec":{"policyName":"NAME","validationActions":["Deny"]}}`}},
	{"v1", "PersistentVolume", false, []string{
		`{"spec":{"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x/NAME"},"persistentVolumeReclaimPolicy":"Retain",` + volumeSpec + `,
			"claimRef":{"namespace":"NS","name":"ID-persistentvolumeclaim-0"}}}`,
		`{"spec":{"capacity":{"storage":"1Gi"},"nfs":{"server":"10.0.0.1","path":"/NAME"},"persistentVolumeReclaimPolicy":"Delete",` + volumeSpec + `}}`,
	}},
	{"v1", "PersistentVolumeClaim", true, []string{
		`{"spec":{"volumeName":"ID-persistentvolume-0","resources":{"requests":{"storage":"1Gi"}},` + volumeSpec + `}}`,
		`{"spec":{"resources":{"requests":{"storage":"3Gi"}},"accessModes":["ReadWriteMany"],"storageClassName":"missing"}}`,
	}},
	{"v1", "ServiceAccount", true, []string{`{"imagePullSecrets":[{"name":"NAME"}]}`, `{"automountServiceAccountToken":false}`}},
	{"v1", "ConfigMap", true, []string{`{"data":{"a":"NAME"}}`, `{"binaryData":{"a":"AAH/"},"immutable":true}`, `{}`}},
	{"v1", "Secret", true, []string{`{"data":{"a":"Yg=="}}`, `{"type":"example.org/own","data":{"k":"AAE="},"immutable":true}`}},
	{"v1", "Service", true, []string{
		`{"spec":{"ports":[{"port":80}],"selector":{"app":"NAME"}}}`, `{"spec":{"type":"NodePort","ports":[{"port":80}]}}`,
		`{"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"name":"a","port":80},{"name":"b","port":81,"protocol":"UDP"}]}}`,
		`{"spec":{"clusterIP":"None","ports":[{"port":80}]}}`, `{"spec":{"type":"ExternalName","externalName":"NAME.example.org"}}`,
	}},
	{"discovery.k8s.io/v1", "EndpointSlice", true, []string{`{"addressType":"IPv4","endpoints":[{"addresses":["10.9.9.9"]}],"ports":[{"port":80}]}`}},
	{"v1", "LimitRange", true, []string{`{"spec":{"limits":[{"type":"PersistentVolumeClaim","max":{"storage":"9Gi"}}]}}`}},
	{"v1", "ResourceQuota", true, []string{`{"spec":{"hard":{"pods":"500","count/configmaps":"500"}}}`}},
	{"v1", "Pod", true, []string{
		`{"spec":{"containers":[{"name":"c","image":"x"}]}}`,
		`{"spec":{"automountServiceAccountToken":false,"initContainers":[{"name":"i","image":"y"}],"containers":[{"name":"c","image":"x",
			"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{}}]}}`,
	}},
	{"v1", "PodTemplate", true, []string{`{` + template + `}`}},
	{"v1", "ReplicationController", true, []string{`{"spec":{"replicas":0,"selector":{"app":"NAME"},` + template + `}}`}},
	{"apps/v1", "ReplicaSet", true, []string{`{"spec":{"replicas":0,` + selector + "," + template + `}}`}},
	{"apps/v1", "Deployment", true, []string{`{"spec":{"replicas":0,` + selector + "," + template + `}}`}},
	{"apps/v1", "StatefulSet", true, []string{`{"spec":{"replicas":0,"serviceName":"x",` + selector + "," + template + `}}`}},
	{"apps/v1", "DaemonSet", true, []string{`{"spec":{` + selector + "," + template + `}}`}},
	{"batch/v1", "Job", true, []string{`{"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}`}},
	{"batch/v1", "CronJob", true, []string{`{"spec":{"suspend":true,"schedule":"0 1 * * *","jobTemplate":{"spec":{
		"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}}}`}},
	{"networking.k8s.io/v1", "Ingress", true, []string{`{"spec":{"defaultBackend":{"service":{"name":"NAME","port":{"number":80}}}}}`}},
	{"networking.k8s.io/v1", "NetworkPolicy", true, []string{`{"spec":{"podSelector":{"matchLabels":{"app":"NAME"}},"policyTypes":["Ingress"]}}`}},
	{"policy/v1", "PodDisruptionBudget", true, []string{`{"spec":{"minAvailable":1,` + selector + `}}`}},
	{"autoscaling/v2", "HorizontalPodAutoscaler", true, []string{`{"spec":{"minReplicas":2,"maxReplicas":4,
		"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"NAME"}}}`}},
	{"rbac.authorization.k8s.io/v1", "Role", true, []string{`{"rules":[{"apiGroups":["apps"],"resources":["*"],"verbs":["*"]}]}`}},
	{"rbac.authorization.k8s.io/v1", "RoleBinding", true, []string{
		`{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"NAME"},` + subjects + `}`,
	}},
	{"ID.example.org/v1", "Widget", true, []string{`{"spec":{"size":3,"ratio":0.5,"empty":{},"list":[null,{"a":[]}]},"extra":{"NAME":true}}`}},
}

// generate returns a set of objects that has every kind at least once.
func generate(t *testing.T, r *rand.Rand, id string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	namespaces := []string{id + "-namespace-0", id + "-namespace-1"}
	for _, s := range shapes {
		count := max(len(s.fields), 1) + r.IntN(3)
		switch s.kind {
		case "CustomResourceDefinition":
			crd := widgets(t, id+".example.org", "v1", "v2")
			out = append(out, labelled(crd, id, r))
			continue
		case "Namespace":
			count = len(namespaces)
		}
		for i := range count {
			name := fmt.Sprintf("%s-%s-%d", id, strings.ToLower(s.kind), i)
			namespace := namespaces[0]
			if i > 0 {
				namespace = namespaces[r.IntN(2)]
			}
			fields := ""
			if len(s.fields) > 0 {
				fields = s.fields[min(i, len(s.fields)-1)]
				if i >= len(s.fields) && !strings.HasPrefix(s.kind, "Persistent") {
					fields = s.fields[r.IntN(len(s.fields))]
				}
			}
			replace := strings.NewReplacer("NAME", name, "NS", namespaces[0], "ID", id)
			if !s.namespaced {
				namespace = ""
			}
			out = append(out, labelled(obj(t, replace.Replace(s.apiVersion), s.kind, namespace, name, replace.Replace(fields)), id, r))
		}
	}
	return out
}

// labelled adds the label that selects the set, and perhaps others.
func labelled(o *unstructured.Unstructured, id string, r *rand.Rand) *unstructured.Unstructured {
	labels := map[string]string{"set": id}
	for range r.IntN(3) {
		labels[fmt.Sprintf("example.org/l%d", r.IntN(5))] = fmt.Sprint(r.IntN(100))
	}
	o.SetLabels(labels)
	if r.IntN(2) == 0 {
		o.SetAnnotations(map[string]string{"example.org/note": fmt.Sprintf("\"%d\" <ü>\n", r.IntN(100))})
	}
	return o
}

// comparable returns an object without what a restore is documented to change.
func comparable(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	delete(o.Object, "status")
	metadata := o.Object["metadata"].(map[string]any)
	for _, key := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"} {
		delete(metadata, key)
	}
	without := func(path []string, keys ...string) {
		for _, key := range keys {
			unstructured.RemoveNestedField(o.Object, append(append([]string{}, path...), key)...)
		}
		if left, ok, _ := unstructured.NestedMap(o.Object, path...); ok && len(left) == 0 {
			unstructured.RemoveNestedField(o.Object, path...)
		}
	}
	without([]string{"metadata", "labels"}, "grapnel.dev/backup-name", "grapnel.dev/restore-name")
	without([]string{"metadata", "annotations"}, "grapnel.dev/restored", "deployment.kubernetes.io/revision",
		"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller")
	switch o.GetKind() {
	case "Service":
		without([]string{"spec"}, "clusterIP", "clusterIPs", "healthCheckNodePort")
		ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
		for _, port := range ports {
			delete(port.(map[string]any), "nodePort")
		}
		if len(ports) > 0 {
			_ = unstructured.SetNestedSlice(o.Object, ports, "spec", "ports")
		}
	case "Job":
		without([]string{"spec"}, "selector")
		without([]string{"spec", "template", "metadata", "labels"}, "controller-uid", "batch.kubernetes.io/controller-uid")
	case "PersistentVolume":
		without([]string{"spec", "claimRef"}, "uid", "resourceVersion")
	case "Pod":
		withoutToken(o)
	}
	return o.Object
}

// withoutToken removes the volume that the API server adds under a random name.
func withoutToken(pod *unstructured.Unstructured) {
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	_ = unstructured.SetNestedSlice(pod.Object, tokenless(volumes), "spec", "volumes")
	for _, list := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", list)
		for _, entry := range containers {
			container := entry.(map[string]any)
			mounts, _, _ := unstructured.NestedSlice(container, "volumeMounts")
			container["volumeMounts"] = tokenless(mounts)
		}
		if len(containers) > 0 {
			_ = unstructured.SetNestedSlice(pod.Object, containers, "spec", list)
		}
	}
}

func tokenless(entries []any) []any {
	out := []any{}
	for _, entry := range entries {
		if name, _ := entry.(map[string]any)["name"].(string); !strings.HasPrefix(name, "kube-api-access-") {
			out = append(out, entry)
		}
	}
	return out
}

// TestRestoreObjects_RoundTrip creates sets of objects, backs them up, deletes
// them, restores them, and compares.
func TestRestoreObjects_RoundTrip(t *testing.T) {
	// A webhook is called some time longer than its configuration exists.
	probe := newTarget(t, restore.Options{})
	eventually(t, "no webhook of another test is called", func() bool {
		o := obj(t, "v1", "PodTemplate", "default", "probe", strings.ReplaceAll("{"+template+"}", "NAME", "x"))
		_, err := probe.of(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
		return err == nil
	})
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			c := newTarget(t, restore.Options{})
			id := fmt.Sprintf("set%d", seed)
			objects := generate(t, r, id)
			kinds := map[string]bool{}
			for i, o := range objects {
				kinds[o.GetKind()] = true
				switch o.GetKind() {
				case "Pod":
					account := obj(t, "v1", "ServiceAccount", o.GetNamespace(), "default", "")
					eventually(t, "the namespace has its ServiceAccount", func() bool { return c.has(account) })
				case "Widget":
					eventually(t, "widgets are served", func() bool {
						_, err := c.of(o).List(t.Context(), metav1.ListOptions{})
						return err == nil
					})
				}
				objects[i] = c.create(o)[0]
			}
			if len(kinds) < 25 {
				t.Fatalf("%d kinds", len(kinds))
			}
			settle(c, objects)
			s := backedUp(t, id)
			destroy(c, objects)

			result := c.run(restore.Request{Archive: s, RestoreUID: "u"})
			if result.Results.ErrorCount > 0 || result.Counts[restore.Failed] > 0 {
				t.Errorf("results:\n%s", messages(result))
			}
			for _, o := range objects {
				if diff := cmp.Diff(comparable(o), comparable(c.get(o))); diff != "" {
					t.Errorf("%s %s/%s (-archived +restored):\n%s", o.GetKind(), o.GetNamespace(), o.GetName(), diff)
				}
			}
			settle(c, objects)
			for _, policy := range []restore.ExistingPolicy{restore.ExistingNone, restore.ExistingUpdate} {
				again := c.run(restore.Request{Archive: s, Policy: policy, RestoreUID: "v"})
				if len(c.wire.requests("PATCH", "/"))+len(c.wire.requests("PUT", "/"))+len(c.wire.requests("DELETE", "/")) > 0 ||
					again.Counts[restore.Created] > 0 {
					t.Errorf("policy %s changed what it restored: %v\n%s", policy, again.Counts, messages(again))
				}
				if again.Results.WarningCount > 0 || again.Results.ErrorCount > 0 {
					t.Errorf("policy %s:\n%s", policy, messages(again))
				}
			}
		})
	}
}

// settle waits for what controllers add to the objects, and reads them again.
func settle(c *target, objects []*unstructured.Unstructured) {
	c.t.Helper()
	eventually(c.t, "controllers have done their work", func() bool {
		for i, o := range objects {
			objects[i] = c.get(o)
			phase, _, _ := unstructured.NestedString(objects[i].Object, "status", "phase")
			bound, _, _ := unstructured.NestedString(objects[i].Object, "spec", "volumeName")
			switch {
			case o.GetKind() == "PersistentVolumeClaim" && bound != "" && phase != "Bound",
				o.GetKind() == "Deployment" && objects[i].GetAnnotations()["deployment.kubernetes.io/revision"] == "":
				return false
			}
		}
		return true
	})
}

// backedUp returns the archive of a set.
func backedUp(t *testing.T, id string) *archive.Spool {
	t.Helper()
	cluster, err := backup.NewCluster(plane.Config(), rawclient.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	result, err := backup.New(cluster, backup.Options{}).WriteArchive(t.Context(), backup.ArchiveRequest{
		Selection: selection.Spec{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"set": id}}},
		StartTime: time.Now(),
	}, &out)
	if err != nil || result.Results.ErrorCount > 0 {
		t.Fatalf("backing up: %v, %+v", err, result.Results.Errors)
	}
	s, err := archive.NewSpool(t.Context(), &out, archive.SpoolOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// destroy deletes a set and waits until it is completely removed.
func destroy(c *target, objects []*unstructured.Unstructured) {
	c.t.Helper()
	for _, o := range objects {
		if o.GetNamespace() == "" {
			if err := c.of(o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil {
				c.t.Fatalf("deleting %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
	eventually(c.t, "everything is deleted", func() bool {
		for _, o := range objects {
			if o.GetNamespace() == "" && c.has(o) {
				return false
			}
		}
		return true
	})
}
