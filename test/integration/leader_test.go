// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// awaitLeader waits until a holder other than the one before leads the operators of a
// site, and returns its identity, which it reads from the lease.
func awaitLeader(t testing.TB, s site, before string) string {
	t.Helper()
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: s.Name, Name: "operator.grapnel.dev"}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := world.Client.Get(ctx, key, &lease); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		holder := lease.Spec.HolderIdentity
		return holder != nil && *holder != "" && *holder != before, nil
	})
	if err != nil {
		t.Fatalf("no leader after %q: %v", before, err)
	}
	return *lease.Spec.HolderIdentity
}

var _ = Describe("Leader election", Label("hooks"), func() {
	// The standby waits until the leader has ended, calls the action again, and undoes it once.
	Context("hands a Backup over in the middle of an action", func() {
		for name, end := range suite.SortedByName(map[string]func(*operator.Operator) error{
			"from one that is killed":  (*operator.Operator).Kill, // the lease runs out
			"from one that is stopped": (*operator.Operator).Stop, // the lease is given back
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.StartOperator(t, "--leader-elect")}
				first := awaitLeader(t, s, "")
				second := s.StartStandby(t)
				b := s.NewBackup(world.CreateApp(t, 3))
				b.Labels = env.LabelsForActions(freeze)
				parameter(b, freeze, "sleep", "2s")
				s.apply(t, b)
				awaitCall(t, b, v1alpha1.HookPreBackup, freeze)
				if now := awaitLeader(t, s, ""); now != first {
					t.Fatalf("%s took over from %s, which is still running", now, first)
				}
				Expect(end(s.Operator)).To(Succeed())
				awaitLeader(t, s, first)
				b = outcome(t, b, v1alpha1.RunPhaseCompleted)
				before, after := runOf(t, b, v1alpha1.HookPreBackup, freeze), runOf(t, b, v1alpha1.HookPostBackup, freeze)
				if before.Status.Attempt != 2 || before.Status.Attempts[0].Reason != v1alpha1.ReasonInterrupted || after.Status.Attempt != 1 {
					t.Errorf("want an interrupted call, another one and one that undoes it: %s\n%s", describe(before), describe(after))
				}
				if b.Status.Attempts != 1 {
					t.Errorf("the archive was begun %d times", b.Status.Attempts)
				}
				select {
				case <-second.Done():
					t.Errorf("the operator that took over has ended: %v", second.Err())
				default:
				}
				s.Operator = second
				next := s.NewBackup(world.CreateApp(t, 1))
				next.Labels = env.LabelsForActions(pair)
				outcome(t, s.apply(t, next), v1alpha1.RunPhaseCompleted)
			})
		}
	})
})
