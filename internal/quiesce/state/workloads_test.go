// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A change makes a workload another one.
type change func(*state.Workload)

// web is a Deployment with 3 replicas.
func web(changes ...change) state.Workload {
	w := state.Workload{
		Ref: state.Ref{Kind: state.Deployment, Namespace: "shop", Name: "web"},
		UID: "web-uid", ResourceVersion: "7", Replicas: 3,
	}
	for _, c := range changes {
		c(&w)
	}
	return w
}

func replicas(n int32) change { return func(w *state.Workload) { w.Replicas = n } }

func kind(k state.WorkloadKind) change { return func(w *state.Workload) { w.Kind = k } }

func suspended(w *state.Workload) { w.Suspend = true }

func parked(w *state.Workload) {
	w.NodeSelector = map[string]string{"disk": "ssd", state.NodeSelectorKey: "true"}
}

func annotated(text string) change {
	return func(w *state.Workload) { w.Annotations = map[string]string{state.Annotation: text} }
}

// saved gives the workload a state that was saved when it had 3 replicas.
func saved(change func(*state.State), holders ...state.Holder) change {
	return func(w *state.Workload) {
		s := state.State{Version: 1, Kind: w.Kind, UID: w.UID, Replicas: 3, Holders: holders}
		if change != nil {
			change(&s)
		}
		text, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		annotated(string(text))(w)
	}
}

func already(s *state.State) { s.AlreadyQuiesced, s.Replicas = true, 0 }

func elsewhere(s *state.State) { s.UID = "uid in another cluster" }

func reverted(n int) func(*state.State) { return func(s *state.State) { s.Reverts = n } }

func ended(s *state.State) { s.Expired = true }

// written says who set the field that quiesces a Deployment last.
func written(manager string, more ...string) change {
	return func(w *state.Workload) {
		for i, name := range append([]string{manager}, more...) {
			at := metav1.NewTime(now.Add(time.Duration(i) * time.Minute))
			w.ManagedFields = append(w.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at,
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
			})
		}
	}
}

// later does it an hour after what was done before.
func later(do change) change {
	return func(w *state.Workload) {
		before := len(w.ManagedFields)
		for i := range w.ManagedFields {
			w.ManagedFields[i].Time = &metav1.Time{Time: now}
		}
		do(w)
		for i := before; i < len(w.ManagedFields); i++ {
			w.ManagedFields[i].Time = &metav1.Time{Time: now.Add(time.Hour)}
		}
	}
}

// savedBy says who wrote the state.
func savedBy(managers ...string) change {
	return func(w *state.Workload) {
		for _, name := range managers {
			w.ManagedFields = append(w.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: name, Operation: metav1.ManagedFieldsOperationUpdate,
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:grapnel.dev/quiesced":{}}}}`),
			})
		}
	}
}

// live counts for an hour, over not any more.
func live(uid string) state.Holder { return state.NewHolder(uid, now, time.Hour) }

func over(uid string) state.Holder { return state.NewHolder(uid, now.Add(-time.Hour), time.Hour) }

// long is over for so long that nobody waits for what it would be told.
func long(uid string) state.Holder { return state.NewHolder(uid, now.Add(-24*time.Hour), time.Hour) }

// selected says who wrote the node selector of a DaemonSet last.
func selected(manager string) change {
	return func(w *state.Workload) {
		w.ManagedFields = append(w.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:nodeSelector":{}}}}}`),
		})
	}
}

// want is what is expected of a decision; of the state, what counts.
type want struct {
	outcome  state.Outcome
	text     string
	patched  bool
	value    state.FieldChange
	replicas int32
	// state is "" if it is removed: replicas, "already", reverts and holders otherwise.
	state string
}

func describe(s *state.State) string {
	if s == nil {
		return ""
	}
	text, err := json.Marshal(map[string]any{"replicas": s.Replicas, "already": s.AlreadyQuiesced, "reverts": s.Reverts, "holders": s.HolderUIDs()})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func holds(n, reverts string, holders ...string) string {
	return `{"already":false,"holders":["` + strings.Join(holders, `","`) + `"],"replicas":` + n + `,"reverts":` + reverts + `}`
}

func check(t *testing.T, got state.Decision, w want) {
	t.Helper()
	if got.Outcome != w.outcome || !strings.Contains(got.Text, w.text) {
		t.Errorf("outcome is %s (%q), want %s (%q)", got.Outcome, got.Text, w.outcome, w.text)
	}
	if (got.Patch != nil) != w.patched {
		t.Fatalf("there is a patch: %v, want %v", got.Patch != nil, w.patched)
	}
	if got.Patch == nil {
		return
	}
	if got.Patch.Change != w.value || got.Patch.Replicas != w.replicas {
		t.Errorf("patch changes %v (%d replicas), want %v (%d)", got.Patch.Change, got.Patch.Replicas, w.value, w.replicas)
	}
	if diff := cmp.Diff(w.state, describe(got.Patch.State)); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}
