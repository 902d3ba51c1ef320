// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

func TestReleaseExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shop()...)
	before := w.all()
	w.done(w.Quiesce, of("a"))
	longer := of("b")
	longer.MaxQuiesceDuration = 2 * time.Hour
	w.done(w.Quiesce, longer)
	stopped := w.stopped()
	for _, at := range []time.Duration{0, time.Hour, 2*time.Hour - 1} {
		result, err := w.overdue(start.Add(at))
		if err != nil || !result.NextExpiration.Equal(start.Add(2*time.Hour)) || len(result.Items) > 0 {
			t.Errorf("after %s: next at %s, %v, error %v", at, result.NextExpiration, result.Items, err)
		}
	}
	if diff := cmp.Diff(stopped, w.stopped()); diff != "" {
		t.Fatalf("unquiesced too early:\n%s", diff)
	}
	result, err := w.overdue(start.Add(2 * time.Hour))
	if err != nil || !result.NextExpiration.IsZero() {
		t.Fatalf("next at %s, error %v", result.NextExpiration, err)
	}
	if diff := cmp.Diff([]string{"shop/idle", "shop/idle-too", "shop/weekly"}, w.stopped()); diff != "" {
		t.Errorf("still stopped (-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(result.Items, func(i quiesce.Item) bool { return i.Name == "web" })
	if i < 0 || result.Items[i].Outcome != quiesce.Restored || !slices.Equal(result.Items[i].Holders, []string{"a", "b"}) {
		t.Errorf("items are %v", result.Items)
	}
	if again, err := w.overdue(start.Add(3 * time.Hour)); err != nil || len(again.Items) > 0 {
		t.Errorf("it is unquiesced twice: %v, %v", again.Items, err)
	}
	late := w.done(w.Unquiesce, longer)
	says(t, late.Message, "8 unquiesced earlier because maxQuiesceDuration had elapsed: CronJob shop/nightly", "3 quiesced before")
	says(t, late.Warning, "did not stay quiesced", "CronJob shop/nightly was unquiesced earlier")
	says(t, w.done(w.Unquiesce, of("a")).Warning, "CronJob shop/nightly was unquiesced earlier")
	w.same(before)
}

func TestReleaseExpired_NoMaximum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 3))
	req := request()
	req.MaxQuiesceDuration = 0
	w.done(w.Quiesce, req)
	result, err := w.overdue(start.Add(10000 * time.Hour))
	if err != nil || !result.NextExpiration.IsZero() || w.replicas("web") != 0 {
		t.Errorf("next at %s, error %v, %d replicas", result.NextExpiration, err, w.replicas("web"))
	}
}
