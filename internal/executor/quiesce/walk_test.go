// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// apply applies a patch to w as the API server does.
func apply(t *testing.T, w quiesce.Workload, p quiesce.Patch) quiesce.Workload {
	t.Helper()
	data, err := p.JSON(w)
	if err != nil {
		t.Fatal(err)
	}
	var patch struct {
		Metadata struct {
			Annotations map[string]*string
			Labels      map[string]*string
		}
		Spec struct {
			Replicas *int32
			Suspend  *bool
			Template struct {
				Spec struct{ NodeSelector map[string]*string }
			}
		}
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		t.Fatal(err)
	}
	w.Annotations = merge(w.Annotations, patch.Metadata.Annotations)
	w.Labels = merge(w.Labels, patch.Metadata.Labels)
	w.NodeSelector = merge(w.NodeSelector, patch.Spec.Template.Spec.NodeSelector)
	if patch.Spec.Replicas != nil {
		w.Replicas = *patch.Spec.Replicas
	}
	if patch.Spec.Suspend != nil {
		w.Suspend = *patch.Spec.Suspend
	}
	return w
}

func merge(into map[string]string, patch map[string]*string) map[string]string {
	merged := maps.Clone(into)
	for key, value := range patch {
		if value == nil {
			delete(merged, key)
			continue
		}
		if merged == nil {
			merged = map[string]string{}
		}
		merged[key] = *value
	}
	if len(merged) == 0 {
		return nil
	}
	return merged
}

func step(t *testing.T, w quiesce.Workload, d quiesce.Decision) quiesce.Workload {
	t.Helper()
	if d.Patch == nil {
		return w
	}
	return apply(t, w, *d.Patch)
}

// walk makes the calls in a string: an upper-case letter quiesces, a lower-case one releases.
func walk(t *testing.T, w quiesce.Workload, calls string) quiesce.Workload {
	t.Helper()
	for call := range strings.SplitSeq(calls, "") {
		uid := strings.ToLower(call)
		if call == uid {
			w = step(t, w, quiesce.DecideRelease(w, uid, now))
		} else {
			w = step(t, w, quiesce.DecideQuiesce(w, live(uid), now))
			if !w.IsQuiesced() {
				t.Fatalf("%s: is not quiesced after %s", calls, call)
			}
		}
	}
	return w
}

// orders returns all orders in which two runs quiesce, quiesce again, release and release again.
func orders(a, b string) []string {
	if a == "" || b == "" {
		return []string{a + b}
	}
	var all []string
	for _, rest := range orders(a[1:], b) {
		all = append(all, a[:1]+rest)
	}
	for _, rest := range orders(a, b[1:]) {
		all = append(all, b[:1]+rest)
	}
	return all
}

// TestDecideQuiesce_OverlappingRuns makes the calls of two runs in every order, each of them twice, as after a
// crash. At the end the workload is as before.
func TestDecideQuiesce_OverlappingRuns(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]quiesce.Workload{
		"Deployment":                  web(),
		"Deployment without replicas": web(replicas(0)),
		"StatefulSet":                 web(kind(quiesce.StatefulSet)),
		"CronJob":                     web(kind(quiesce.CronJob)),
		"suspended CronJob":           web(kind(quiesce.CronJob), suspended),
		"DaemonSet":                   web(kind(quiesce.DaemonSet), func(w *quiesce.Workload) { w.NodeSelector = map[string]string{"disk": "ssd"} }),
		"DaemonSet anywhere":          web(kind(quiesce.DaemonSet)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, calls := range orders("AAaa", "BBbb") {
				held := false
				got := w
				for i := range calls {
					got = walk(t, got, calls[i:i+1])
					done := calls[:i+1]
					held = strings.Contains(done, "A") && !strings.Contains(done, "a") ||
						strings.Contains(done, "B") && !strings.Contains(done, "b")
					if held != (got.Annotations != nil) || (held && !got.IsQuiesced()) {
						t.Fatalf("after %s of %s: held %v, state %v, quiesced %v", done, calls, held, got.Annotations, got.IsQuiesced())
					}
				}
				if diff := cmp.Diff(w, got); diff != "" {
					t.Fatalf("%s (-before +after):\n%s", calls, diff)
				}
			}
		})
	}
}

// TestDecideQuiesce_Reverted reverts the change to a workload after every call. The fight ends, and the number that
// the other writer wants survives.
func TestDecideQuiesce_Reverted(t *testing.T) {
	t.Parallel()
	w := web()
	for range 10 {
		d := quiesce.DecideQuiesce(w, live("a"), now)
		if d.Outcome == quiesce.Reverted {
			w.Replicas = 0 // the other writer gives up
			if got := step(t, w, quiesce.DecideRelease(w, "a", now)); got.Replicas != 8 {
				t.Errorf("unquiesced, it has %d replicas, want 8", got.Replicas)
			}
			return
		}
		w = step(t, w, d)
		w.Replicas = 8
	}
	t.Error("10 reverts were not detected")
}

// TestDecideExpired_LaterCalls lets the hold of a run expire: the workload is unquiesced, and later calls of
// the run change nothing.
func TestDecideExpired_LaterCalls(t *testing.T) {
	t.Parallel()
	w := walk(t, web(), "A")
	if got := step(t, w, quiesce.DecideExpired(w, now.Add(59*time.Minute))); !got.IsQuiesced() {
		t.Error("unquiesced before its deadline")
	}
	w = step(t, w, quiesce.DecideExpired(w, now.Add(time.Hour)))
	if w.Replicas != 3 || w.Labels != nil {
		t.Errorf("at its time it has %d replicas and the labels %v", w.Replicas, w.Labels)
	}
	if d := quiesce.DecideExpired(w, now.Add(2*time.Hour)); d.Outcome != quiesce.NotHeld || d.Patch != nil {
		t.Errorf("it is unquiesced twice: %+v", d)
	}
	if d := quiesce.DecideQuiesce(w, quiesce.NewHolder("a", now.Add(2*time.Hour), time.Hour), now.Add(2*time.Hour)); d.Outcome != quiesce.Expired || d.Patch != nil {
		t.Errorf("the run that continued quiesces it again: %+v", d)
	}
	d := quiesce.DecideRelease(w, "a", now.Add(2*time.Hour))
	if w = step(t, w, d); d.Outcome != quiesce.EndedBefore {
		t.Errorf("the run that continued gets %+v", d)
	}
	if diff := cmp.Diff(web(), w); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// stepper applies a decision to a workload.
type stepper func(quiesce.Workload, quiesce.Decision) quiesce.Workload

// TestDecideRelease_StartedDuringRun: a run that continues while the workload runs learns so at its end, whoever
// started the workload, and whoever has quiesced it again by then.
func TestDecideRelease_StartedDuringRun(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	for name, tc := range map[string]struct {
		// do happens after a quiesced the workload; the hold of a expires after 30 minutes.
		do      func(do stepper, w quiesce.Workload) quiesce.Workload
		outcome quiesce.Outcome
		started bool
	}{
		"nothing happened": {func(_ stepper, w quiesce.Workload) quiesce.Workload { return w }, quiesce.Restored, false},
		"another one was the last that counts": {func(do stepper, w quiesce.Workload) quiesce.Workload {
			w = do(w, quiesce.DecideQuiesce(w, quiesce.NewHolder("b", at(20), time.Hour), at(20)))
			w = do(w, quiesce.DecideExpired(w, at(30)))
			return do(w, quiesce.DecideRelease(w, "b", at(35)))
		}, quiesce.EndedBefore, true},
		"another one came when its time was over": {func(do stepper, w quiesce.Workload) quiesce.Workload {
			w = do(w, quiesce.DecideQuiesce(w, quiesce.NewHolder("b", at(31), time.Hour), at(31)))
			return do(w, quiesce.DecideRelease(w, "b", at(35)))
		}, quiesce.EndedBefore, true},
		"it was unquiesced, and quiesced again": {func(do stepper, w quiesce.Workload) quiesce.Workload {
			w = do(w, quiesce.DecideExpired(w, at(30)))
			return do(w, quiesce.DecideQuiesce(w, quiesce.NewHolder("b", at(35), time.Hour), at(35)))
		}, quiesce.StillHeld, true},
		"a user started it, and another quiesced it again": {func(do stepper, w quiesce.Workload) quiesce.Workload {
			w.Replicas = 5
			return do(w, quiesce.DecideQuiesce(w, quiesce.NewHolder("b", at(20), time.Hour), at(20)))
		}, quiesce.StillHeld, true},
		"a user started it while the run waited for pods": {func(do stepper, w quiesce.Workload) quiesce.Workload {
			w.Replicas = 5
			return do(w, quiesce.DecideQuiesce(w, quiesce.NewHolder("a", at(1), time.Hour), at(1)))
		}, quiesce.Restored, false},
		"another quiesced it again when it waited for pods": {func(do stepper, w quiesce.Workload) quiesce.Workload {
			w.Replicas = 5
			w = do(w, quiesce.DecideQuiesce(w, quiesce.NewHolder("b", at(1), time.Hour), at(1)))
			return do(w, quiesce.DecideQuiesce(w, quiesce.NewHolder("a", at(2), time.Hour), at(2)))
		}, quiesce.StillHeld, false},
		"a user started it before the hold expired": {func(do stepper, w quiesce.Workload) quiesce.Workload {
			w.Replicas = 5
			return do(w, quiesce.DecideExpired(w, at(30)))
		}, quiesce.EndedBefore, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := web()
			w = step(t, w, quiesce.DecideQuiesce(w, quiesce.NewHolder("a", now, 30*time.Minute), now))
			w = tc.do(func(w quiesce.Workload, d quiesce.Decision) quiesce.Workload { return step(t, w, d) }, w)
			d := quiesce.DecideRelease(w, "a", at(45))
			if d.Outcome != tc.outcome || d.RanWhileHeld != tc.started {
				t.Errorf("the outcome is %s (%s), ran: %v; want %s, %v", d.Outcome, d.Text, d.RanWhileHeld, tc.outcome, tc.started)
			}
			w = step(t, w, d)
			w = step(t, w, quiesce.DecideRelease(w, "b", at(46)))
			if w.Replicas == 0 || w.Annotations != nil {
				t.Errorf("in the end it has %d replicas and %v", w.Replicas, w.Annotations)
			}
		})
	}
}

func TestPatch_JSON(t *testing.T) {
	t.Parallel()
	data, err := quiesce.Patch{Change: quiesce.RestoreField, Replicas: 3}.JSON(web())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"grapnel.dev/quiesced":null},"labels":{"grapnel.dev/quiesced":null},` +
		`"resourceVersion":"7","uid":"web-uid"},"spec":{"replicas":3}}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}
