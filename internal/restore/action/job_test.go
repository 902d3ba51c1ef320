// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestJobAction_Execute(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	skipped := itemaction.Result{Skip: "the Job had finished, and would run again"}
	const manual = `{"metadata":{"name":"j"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"controller-uid":"mine"}},
		"template":{"metadata":{"labels":{"controller-uid":"mine"}}}}}`
	RunCases(t, NewJobAction(), map[string]Case{
		"running": {
			Resource: resource,
			Archived: `{"metadata":{"name":"j","uid":"u","ownerReferences":[{"kind":"CronJob","name":"c","controller":true}],
				"labels":{"app":"x","controller-uid":"u"}},
				"spec":{"manualSelector":false,"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}},
				"template":{"metadata":{"labels":{"app":"x","batch.kubernetes.io/controller-uid":"u","controller-uid":"u",
				"batch.kubernetes.io/job-name":"j"}}}},"status":{"active":1,"startTime":"2026-01-01T00:00:00Z"}}`,
			Want: `{"metadata":{"name":"j","labels":{"app":"x"}},"spec":{"manualSelector":false,
				"template":{"metadata":{"labels":{"app":"x","batch.kubernetes.io/job-name":"j"}}}}}`,
		},
		"labels of the old name only": {
			Resource: resource,
			Archived: `{"metadata":{"name":"j"},"spec":{"selector":{"matchLabels":{"controller-uid":"u"}},
				"template":{"metadata":{"labels":{"controller-uid":"u"}}}}}`,
			Want: `{"metadata":{"name":"j"},"spec":{"template":{"metadata":{}}}}`,
		},
		"more in the selector": {
			Resource: resource,
			Archived: `{"metadata":{"name":"j"},"spec":{"selector":{"matchLabels":{"controller-uid":"u","a":"b"}}}}`,
			Want:     `{"metadata":{"name":"j"},"spec":{"selector":{"matchLabels":{"a":"b"}}}}`,
		},
		"selector of the user": {Resource: resource, Archived: manual, Want: manual},
		"not finished by its conditions": {
			Resource: resource,
			Archived: `{"metadata":{"name":"j"},"spec":{"suspend":true},"status":{"conditions":[
				{"type":"Suspended","status":"True"},{"type":"Failed","status":"False"}]}}`,
			Want: `{"metadata":{"name":"j"},"spec":{"suspend":true}}`,
		},
		"complete": {
			Resource: resource,
			Archived: `{"metadata":{"name":"j"},"status":{"completionTime":"2026-01-01T00:00:00Z"}}`,
			Result:   skipped,
		},
		"failed": {
			Resource: resource,
			Archived: `{"metadata":{"name":"j"},"status":{"conditions":[{"type":"Failed","status":"True"}]}}`,
			Result:   skipped,
		},
	})
}
