// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A change modifies a workload.
type change func(*quiesce.Workload)

// web is a Deployment with 3 replicas.
func web(changes ...change) quiesce.Workload {
	w := quiesce.Workload{
		Ref: quiesce.Ref{Kind: quiesce.Deployment, Namespace: "shop", Name: "web"},
		UID: "web-uid", ResourceVersion: "7", Replicas: 3,
	}
	for _, c := range changes {
		c(&w)
	}
	return w
}

func replicas(n int32) change { return func(w *quiesce.Workload) { w.Replicas = n } }

func kind(k quiesce.WorkloadKind) change { return func(w *quiesce.Workload) { w.Kind = k } }

func suspended(w *quiesce.Workload) { w.Suspend = true }

func parked(w *quiesce.Workload) {
	w.NodeSelector = map[string]string{"disk": "ssd", quiesce.NodeSelectorKey: "true"}
}

func annotated(text string) change {
	return func(w *quiesce.Workload) { w.Annotations = map[string]string{quiesce.Annotation: text} }
}

// saved adds a state that was saved when the workload had 3 replicas.
func saved(change func(*quiesce.State), holders ...quiesce.Holder) change {
	return func(w *quiesce.Workload) {
		s := quiesce.State{Version: 1, Kind: w.Kind, UID: w.UID, Replicas: 3, Holders: holders}
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

func already(s *quiesce.State) { s.AlreadyQuiesced, s.Replicas = true, 0 }

func elsewhere(s *quiesce.State) { s.UID = "uid in another cluster" }

func reverted(n int) func(*quiesce.State) { return func(s *quiesce.State) { s.Reverts = n } }

func ended(s *quiesce.State) { s.Expired = true }

// written records the last writers of the field that quiesces a Deployment.
func written(manager string, more ...string) change {
	return func(w *quiesce.Workload) {
		for i, name := range append([]string{manager}, more...) {
			at := metav1.NewTime(now.Add(time.Duration(i) * time.Minute))
			w.ManagedFields = append(w.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at,
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
			})
		}
	}
}

// later applies a change one hour after the previous ones.
func later(do change) change {
	return func(w *quiesce.Workload) {
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

// savedBy records the writers of the state.
func savedBy(managers ...string) change {
	return func(w *quiesce.Workload) {
		for _, name := range managers {
			w.ManagedFields = append(w.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: name, Operation: metav1.ManagedFieldsOperationUpdate,
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:grapnel.dev/quiesced":{}}}}`),
			})
		}
	}
}

// live returns a holder that has one hour left; over returns one that has expired.
func live(uid string) quiesce.Holder { return quiesce.NewHolder(uid, now, time.Hour) }

func over(uid string) quiesce.Holder { return quiesce.NewHolder(uid, now.Add(-time.Hour), time.Hour) }

// long returns a holder that expired so long ago that it is dropped.
func long(uid string) quiesce.Holder {
	return quiesce.NewHolder(uid, now.Add(-24*time.Hour), time.Hour)
}

// selected records the last writer of the node selector of a DaemonSet.
func selected(manager string) change {
	return func(w *quiesce.Workload) {
		w.ManagedFields = append(w.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:nodeSelector":{}}}}}`),
		})
	}
}

// want is what is expected of a decision.
type want struct {
	outcome  quiesce.Outcome
	text     string
	patched  bool
	value    quiesce.FieldChange
	replicas int32
	// state is "" if the state is removed; otherwise it has the replicas, "already", the reverts
	// and the holders.
	state string
}

func describe(s *quiesce.State) string {
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

func check(t *testing.T, got quiesce.Decision, w want) {
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
