// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// TestMarkFinalized_DefaultTTL checks that the message of a Backup says when it expires, if nobody asked for that.
func TestMarkFinalized_DefaultTTL(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	day := &metav1.Duration{Duration: 24 * time.Hour}
	for name, tc := range map[string]struct {
		ttl, defaultTTL *metav1.Duration
		want            string
	}{
		"by default":             {defaultTTL: day, want: "done; expires at 2026-05-02T12:00:00Z by default: spec.ttl was not set"},
		"by its ttl":             {ttl: day, want: "done"},
		"by a ttl that is newer": {ttl: day, defaultTTL: day, want: "done"},
	} {
		b := &v1alpha1.Backup{}
		b.Spec.TTL, b.Status.DefaultTTL = tc.ttl, tc.defaultTTL
		b.Status.Expiration = &metav1.Time{Time: now.Add(24 * time.Hour)}
		s := newScope(BackupKind, b)
		s.RecordOutcome(Outcome{Phase: v1alpha1.RunPhaseCompleted, Reason: v1alpha1.ReasonCompleted, Message: "done"}, now)
		s.MarkFinalized()
		if b.Status.Message != tc.want {
			t.Errorf("%s: the message is %q, want %q", name, b.Status.Message, tc.want)
		}
		if ready := conditions.Get(b, v1alpha1.ConditionReady); ready.Message != "done" {
			t.Errorf("%s: the condition, which does not follow the ttl, says %q", name, ready.Message)
		}
	}
}
