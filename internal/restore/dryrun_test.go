// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestRestoreObjects_DryRun compares a dry run with what a restore does, object by object, for every kind: if nothing
// exists, if a part exists and differs, and if everything is as desired. It writes nothing.
func TestRestoreObjects_DryRun(t *testing.T) {
	for i, policy := range []restore.ExistingPolicy{restore.ExistingNone, restore.ExistingUpdate, restore.ExistingRecreate} {
		t.Run(string(policy), func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			id := fmt.Sprintf("foretold%d", i)
			objects := generate(t, rand.New(rand.NewPCG(uint64(i), 9)), id)
			s := spool(t, objects)
			same := func(when, uid string) restore.Result {
				t.Helper()
				request := restore.Request{Archive: s, Policy: policy, RestoreUID: uid, RestoreStatus: &restore.StatusFilter{}, DryRun: true}
				told := c.run(request)
				if writes := c.wire.writes(); len(writes) > 0 {
					t.Errorf("%s, the dry run wrote %v", when, writes)
				}
				request.DryRun = false
				done := c.run(request)
				if diff := cmp.Diff(listOf(told), listOf(done)); diff != "" {
					t.Errorf("%s (-foretold +done):\n%s\nresults:\n%s", when, diff, messages(done))
				}
				if diff := cmp.Diff(told.Actions, done.Actions); diff != "" {
					t.Errorf("actions %s (-foretold +done):\n%s", when, diff)
				}
				return done
			}
			if done := same("into an empty cluster", "u"); done.Counts[restore.Created] < len(objects) || done.Counts[restore.Failed] > 0 {
				t.Errorf("restored %v:\n%s", done.Counts, messages(done))
			}
			// Binding of claims takes some time.
			objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "PersistentVolumeClaim" })
			settle(c, objects)
			s = spool(t, objects)
			if done := same("onto everything", "v"); done.Counts[restore.Unchanged]+done.Counts[restore.Skipped] != done.Total() {
				t.Errorf("what is as it should be is %v", done.Counts)
			}
			touched := 0
			for n, o := range objects {
				if n%3 != 0 {
					continue
				}
				touched++
				_, err := c.of(o).Patch(t.Context(), o.GetName(), types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"set":null,"changed":"now"}}}`), metav1.PatchOptions{})
				if err != nil {
					t.Fatalf("changing %s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
			done := same(fmt.Sprintf("onto %d objects that differ", touched), "w")
			if done.Counts[restore.Skipped]+done.Counts[restore.Updated]+done.Counts[restore.Recreated] < touched {
				t.Errorf("of %d objects that differ: %v", touched, done.Counts)
			}
		})
	}
}
