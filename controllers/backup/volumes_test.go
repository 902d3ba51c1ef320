// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func TestRecordDataCaptured(t *testing.T) {
	for name, tc := range map[string]struct {
		volumes   *v1alpha1.VolumeCounts
		capturing int32
		status    metav1.ConditionStatus
		message   string
	}{
		"no claims": {},
		"capturing": {
			volumes: &v1alpha1.VolumeCounts{Claims: 3, Captured: 1}, capturing: 2, status: metav1.ConditionUnknown,
			message: "The data of 1 of 3 PersistentVolumeClaims is captured so far",
		},
		"some are missing": {
			volumes: &v1alpha1.VolumeCounts{Claims: 3, Captured: 1}, status: metav1.ConditionFalse,
			message: "The data of 2 of 3 PersistentVolumeClaims is not in this backup: status.problems names them, with the reason",
		},
		"all": {
			volumes: &v1alpha1.VolumeCounts{Claims: 1, Captured: 1}, status: metav1.ConditionTrue,
			message: "The data of 1 PersistentVolumeClaim is captured",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &v1alpha1.Backup{}
			b.Status.Volumes = tc.volumes
			b.Status.Operations = &v1alpha1.OperationCounts{Capturing: tc.capturing}
			recordDataCaptured(&scope{Object: b})
			var got metav1.Condition
			if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionDataCaptured); c != nil {
				got = *c
			}
			if got.Status != tc.status || got.Message != tc.message {
				t.Errorf("condition %s %q, want %s %q", got.Status, got.Message, tc.status, tc.message)
			}
		})
	}
}
