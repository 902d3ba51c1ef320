// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestNewProgressReporter_Throttled checks that the status is not written for every object:
// each write reconciles the run again.
func TestNewProgressReporter_Throttled(t *testing.T) {
	now := time.Unix(1000, 0)
	d := &Driver[*v1alpha1.Backup]{
		Dependencies: Dependencies{Now: func() time.Time { return now }}, New: func() *v1alpha1.Backup { return &v1alpha1.Backup{} },
		events: make(chan event.GenericEvent, 100),
	}
	b := queued("b", 1)
	report := d.NewProgressReporter(b)
	if _, _, known := d.Progress(b); known {
		t.Error("progress is known before there is any")
	}
	for i := range 35 {
		report(100, i)
		if _, done, known := d.Progress(b); known != (i >= 10) || done != int64(i/10*10) {
			t.Errorf("after %d objects, the progress is %d", i, done)
		}
		now = now.Add(100 * time.Millisecond)
	}
	if len(d.events) != 3 {
		t.Errorf("enqueued %d times in 3.5 seconds, want 3", len(d.events))
	}
	d.progress.forgetRun(b.UID)
	if _, _, known := d.Progress(b); known {
		t.Error("progress is known after the run was forgotten")
	}
}
