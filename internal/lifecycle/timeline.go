// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// Limits of the timeline in the API. The first stages and the last ones tell the most: clean-up
// that is retried may have any number of stages in between.
const (
	maxStages          = 32
	numProtectedStages = 16
)

// recordStage adds the current stage of a run to its timeline, or ends the last one when the run
// is finalized.
func recordStage(o Object, now time.Time) {
	timeline, name := &o.Run().Timeline, currentStage(o)
	at := v1alpha1.NewMicroTime(now)
	if last := len(*timeline) - 1; last >= 0 && (*timeline)[last].CompletionTimestamp == nil {
		if (*timeline)[last].Name == name {
			return
		}
		(*timeline)[last].CompletionTimestamp = &at
	}
	if name == "" {
		return
	}
	if len(*timeline) >= maxStages {
		*timeline = slices.Delete(*timeline, numProtectedStages, len(*timeline)-maxStages+numProtectedStages+1)
	}
	*timeline = append(*timeline, v1alpha1.RunStage{Name: name, StartTimestamp: at})
}

// currentStage returns the name of the stage that a run is in; empty if the run is finalized.
func currentStage(o Object) string {
	reconciling := conditions.Get(o, v1alpha1.ConditionReconciling)
	switch {
	case reconciling == nil || IsFinalized(o):
		return ""
	case IsFinished(o) && reconciling.Reason == conditions.Get(o, v1alpha1.ConditionSucceeded).Reason:
		return v1alpha1.ReasonFinalizing // its outcome is no stage
	}
	return reconciling.Reason
}

// exportSpans exports the stages of a run that have ended according to its written status, and the run once it is
// finalized.
func (d *Driver[T]) exportSpans(ctx context.Context, o T) {
	d.Tracer.ExportStages(ctx, d.Kind.Name, o)
	if IsFinalized(o) {
		d.Tracer.ExportRun(ctx, d.Kind.Name, o)
	}
}
