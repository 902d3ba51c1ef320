// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func TestMergePatch(t *testing.T) {
	for name, tc := range map[string]struct {
		resource schema.GroupResource
		// archived is desired if it is empty.
		desired, existing, archived string
		want                        string
	}{
		"equal": {
			desired:  `{"kind":"A","spec":{"a":1,"list":[{"b":[1,2]}]},"data":{"x":"y"}}`,
			existing: `{"kind":"A","spec":{"a":1,"list":[{"b":[1,2]}]},"data":{"x":"y"}}`,
		},
		"what the API server writes about an object": {
			desired: `{"metadata":{"name":"a","finalizers":["x/y"]},"spec":{}}`,
			existing: `{"metadata":{"name":"a","uid":"1","resourceVersion":"5","finalizers":["kubernetes.io/z"],
				"ownerReferences":[{"uid":"1"}],"managedFields":[{}]},"status":{"phase":"Active"}}`,
		},
		"a changed value, a new one and one too many": {
			desired:  `{"data":{"a":"1","b":"2","c":"3"}}`,
			existing: `{"data":{"a":"1","b":"9","d":"4"}}`,
			want:     `{"data":{"b":"2","c":"3","d":null}}`,
		},
		"a whole object is missing": {
			desired:  `{"spec":{"a":{"b":1}}}`,
			existing: `{"spec":{}}`,
			want:     `{"spec":{"a":{"b":1}}}`,
		},
		"a value of another type": {
			desired:  `{"spec":{"a":{"b":1},"c":"1","d":true,"e":[1]}}`,
			existing: `{"spec":{"a":"b","c":1,"d":"true","e":{"0":1}}}`,
			want:     `{"spec":{"a":{"b":1},"c":"1","d":true,"e":[1]}}`,
		},
		"empty is none": {
			desired:  `{"spec":{"a":{},"b":[],"c":null,"list":[{},null]}}`,
			existing: `{"spec":{"d":{},"e":null,"list":[null,{}]}}`,
		},
		"false, zero and an empty string are values": {
			desired:  `{"spec":{"a":false,"b":0,"c":""}}`,
			existing: `{"spec":{"a":true,"b":1}}`,
			want:     `{"spec":{"a":false,"b":0,"c":""}}`,
		},
		"whole numbers however they are written": {
			desired:  `{"spec":{"a":1,"b":2.0,"c":1.5}}`,
			existing: `{"spec":{"a":1.0,"b":2,"c":1.5}}`,
		},
		"labels and annotations": {
			desired:  `{"metadata":{"labels":{"a":"1","grapnel.dev/restore-name":"r2"},"annotations":{"b":"1"}}}`,
			existing: `{"metadata":{"labels":{"a":"2","velero.io/backup-name":"b"},"annotations":{"c":"1","grapnel.dev/restored":"x"}}}`,
			want:     `{"metadata":{"labels":{"a":"1"},"annotations":{"b":"1","c":null}}}`,
		},
		"what a controller notes": {
			desired:  `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"3"}}}`,
			existing: `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"}}}`,
		},
		"an action left it to the cluster": {
			desired:  `{"spec":{"ports":[{"port":80}]},"metadata":{}}`,
			existing: `{"spec":{"clusterIP":"10.0.0.9","ports":[{"port":80,"nodePort":30009}]},"metadata":{"labels":{"uid":"2"}}}`,
			archived: `{"spec":{"clusterIP":"10.0.0.1","ports":[{"port":80,"nodePort":30001}]},"metadata":{"labels":{"uid":"1"}}}`,
		},
		"not removed by an action": {
			desired:  `{"spec":{"ports":[{"port":80}]}}`,
			existing: `{"spec":{"ports":[{"port":80,"nodePort":30009}]}}`,
			want:     `{"spec":{"ports":[{"port":80}]}}`,
		},
		"lists of other lengths and orders": {
			desired:  `{"a":["x"],"b":["x","y"],"c":["x"]}`,
			existing: `{"a":["x","y"],"b":["y","x"],"c":null}`,
			want:     `{"a":["x"],"b":["x","y"],"c":["x"]}`,
		},
		"a claim that is bound now": {
			resource: schema.GroupResource{Resource: "persistentvolumeclaims"},
			desired:  `{"spec":{"accessModes":["ReadWriteOnce"]}}`,
			existing: `{"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"pv-1"}}`,
		},
		"a claim that is bound to another volume": {
			resource: schema.GroupResource{Resource: "persistentvolumeclaims"},
			desired:  `{"spec":{"volumeName":"pv-2"}}`,
			existing: `{"spec":{"volumeName":"pv-1"}}`,
			want:     `{"spec":{"volumeName":"pv-2"}}`,
		},
		"a volume that is bound now": {
			resource: schema.GroupResource{Resource: "persistentvolumes"},
			desired:  `{"spec":{"claimRef":{"name":"c","namespace":"n"}}}`,
			existing: `{"spec":{"claimRef":{"name":"c","namespace":"n","uid":"1","resourceVersion":"2"}}}`,
		},
		"a CA bundle that a certificate manager filled in": {
			desired:  `{"webhooks":[{"clientConfig":{"url":"https://x"}}]}`,
			existing: `{"webhooks":[{"clientConfig":{"url":"https://x","caBundle":"abc"}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			archived := tc.archived
			if archived == "" {
				archived = tc.desired
			}
			got := MergePatch(Objects{
				Resource: tc.resource,
				Desired:  object(t, tc.desired), Existing: object(t, tc.existing), Archived: object(t, archived),
			})
			if diff := cmp.Diff(object(t, tc.want), got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangedFields(t *testing.T) {
	patch := object(t, `{"data":{"password":"c2VjcmV0","user":null},"metadata":{"labels":{"a":"b"}},"spec":[1]}`)
	want := []string{"data.password", "data.user", "metadata.labels.a", "spec"}
	if diff := cmp.Diff(want, ChangedFields(patch, 4)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"data.password", "…"}, ChangedFields(patch, 1)); diff != "" {
		t.Errorf("shortened fields (-want +got):\n%s", diff)
	}
}
