// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

var resource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func TestPodAction_Execute(t *testing.T) {
	priority := itemaction.RelatedItem{Resource: priorities, Name: "gold"}
	claim := itemaction.RelatedItem{Resource: claims, Namespace: "a", Name: "data"}
	owned := func(kind string) string {
		return `{"metadata":{"name":"p","namespace":"a","ownerReferences":[
			{"kind":"Other","name":"x"},{"kind":"` + kind + `","name":"o","controller":true}]},"spec":{"containers":[]}}`
	}
	const bare = `{"metadata":{"name":"p","namespace":"a"},"spec":{"containers":[]}}`
	daemons := []itemaction.RelatedItem{{Resource: recreatingOwners["DaemonSet"], Namespace: "a", Name: "o"}}
	jobs := []itemaction.RelatedItem{{Resource: recreatingOwners["Job"], Namespace: "a", Name: "o"}}
	RunCases(t, NewPodAction(), map[string]Case{
		"what its cluster decided": {
			Resource: resource, InArchive: []itemaction.RelatedItem{priority, claim},
			Archived: `{"metadata":{"name":"p","namespace":"a"},"spec":{"nodeName":"n","priority":100,"preemptionPolicy":"Never",
				"priorityClassName":"gold","overhead":{"cpu":"1"},"nodeSelector":{"a":"b"},"containers":[{"name":"c"}],
				"ephemeralContainers":[{"name":"debug"}],"volumes":[
				{"name":"d","persistentVolumeClaim":{"claimName":"data"}},
				{"name":"e","persistentVolumeClaim":{"claimName":"elsewhere"}}]},"status":{"phase":"Running"}}`,
			Want: `{"metadata":{"name":"p","namespace":"a"},"spec":{"priorityClassName":"gold","nodeSelector":{"a":"b"},
				"containers":[{"name":"c"}],"volumes":[
				{"name":"d","persistentVolumeClaim":{"claimName":"data"}},
				{"name":"e","persistentVolumeClaim":{"claimName":"elsewhere"}}]}}`,
			Result: itemaction.Result{RelatedItems: []itemaction.RelatedItem{priority, claim}},
		},
		"succeeded": {
			Resource: resource, Archived: `{"metadata":{"name":"p"},"status":{"phase":"Succeeded"}}`,
			Result: itemaction.Result{Skip: "the Pod had ended (Succeeded)"},
		},
		"failed": {
			Resource: resource, Archived: `{"metadata":{"name":"p"},"status":{"phase":"Failed"}}`,
			Result: itemaction.Result{Skip: "the Pod had ended (Failed)"},
		},
		"mirror": {
			Resource: resource, Archived: `{"metadata":{"name":"p","annotations":{"kubernetes.io/config.mirror":"x"}}}`,
			Result: itemaction.Result{Skip: "the kubelet creates it from a file on its node"},
		},
		"of a node": {
			Resource: resource, Archived: owned("Node"),
			Result: itemaction.Result{Skip: "the kubelet creates it from a file on its node"},
		},
		"of a DaemonSet": {
			Resource: resource, Archived: owned("DaemonSet"), InArchive: daemons,
			Restore: itemaction.RestoreContext{NamespaceMapping: map[string]string{"a": "b"}},
			Result:  itemaction.Result{Skip: "DaemonSet o creates new ones"},
		},
		"of a Job": {
			Resource: resource, Archived: owned("Job"), InArchive: jobs,
			Result: itemaction.Result{Skip: "Job o creates new ones"},
		},
		"of a Job that is not in the archive": {Resource: resource, Archived: owned("Job"), InArchive: daemons, Want: bare},
		"of a ReplicaSet":                     {Resource: resource, Archived: owned("ReplicaSet"), Want: bare},
		"of a StatefulSet":                    {Resource: resource, Archived: owned("StatefulSet"), Want: bare},
	})
}

func TestRemoveTokenVolume(t *testing.T) {
	const (
		projected = `{"name":"kube-api-access-x7k2p","projected":{"sources":[{"serviceAccountToken":{"path":"token"}},{"configMap":{"name":"kube-root-ca.crt"}}]}}`
		legacy    = `{"name":"robot-token-x7k2p","secret":{"secretName":"robot-token-x7k2p"}}`
		own       = `{"name":"work","emptyDir":{}}`
		path      = `"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"`
		ownMount  = `{"name":"work","mountPath":"/work"}`
	)
	pod := func(spec string) string { return `{"metadata":{"name":"p","namespace":"a"},"spec":{` + spec + `}}` }
	cases := map[string]Case{
		"the last volume": {
			Archived: pod(`"volumes":[` + projected + `],"containers":[{"name":"c","volumeMounts":[{"name":"kube-api-access-x7k2p",` + path + `}]}]`),
			Want:     pod(`"containers":[{"name":"c"}]`),
		},
		"in all containers, beside others": {
			Archived: pod(`"serviceAccountName":"robot","volumes":[` + own + `,` + projected + `],
				"initContainers":[{"name":"i","volumeMounts":[{"name":"kube-api-access-x7k2p",` + path + `},` + ownMount + `]}],
				"containers":[{"name":"c","volumeMounts":[` + ownMount + `,{"name":"kube-api-access-x7k2p",` + path + `}]},{"name":"d"}]`),
			Want: pod(`"serviceAccountName":"robot","volumes":[` + own + `],
				"initContainers":[{"name":"i","volumeMounts":[` + ownMount + `]}],
				"containers":[{"name":"c","volumeMounts":[` + ownMount + `]},{"name":"d"}]`),
		},
		"a Secret, as before 1.22": {
			Archived: pod(`"serviceAccountName":"robot","volumes":[` + legacy + `],"containers":[{"name":"c","volumeMounts":[{"name":"robot-token-x7k2p",` + path + `}]}]`),
			Want:     pod(`"serviceAccountName":"robot","containers":[{"name":"c"}]`),
		},
	}
	for name, spec := range map[string]string{
		"mounted elsewhere too": `"volumes":[` + projected + `],"containers":[
			{"name":"c","volumeMounts":[{"name":"kube-api-access-x7k2p",` + path + `}]},
			{"name":"d","volumeMounts":[{"name":"kube-api-access-x7k2p","mountPath":"/token"}]}]`,
		"admission adds none": `"automountServiceAccountToken":false,"volumes":[` + projected + `],
			"containers":[{"name":"c","volumeMounts":[{"name":"kube-api-access-x7k2p",` + path + `}]}]`,
		"only called so":              `"volumes":[{"name":"kube-api-access-x","emptyDir":{}}]`,
		"a token of one's own":        `"volumes":[{"name":"vault","projected":{"sources":[{"serviceAccountToken":{"audience":"vault"}}]}}]`,
		"Secret of another account":   `"serviceAccountName":"other","volumes":[` + legacy + `]`,
		"Secret that was asked for":   `"serviceAccountName":"robot","volumes":[{"name":"t","secret":{"secretName":"robot-token"}}]`,
		"another Secret of that name": `"serviceAccountName":"robot","volumes":[{"name":"robot-token-x7k2p","secret":{"secretName":"mine"}}]`,
	} {
		cases["stays: "+name] = Case{Archived: pod(spec), Want: pod(spec)}
	}
	for name, tc := range cases {
		tc.Resource = resource
		cases[name] = tc
	}
	RunCases(t, NewPodAction(), cases)
}
