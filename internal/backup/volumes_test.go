// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// TestWriteArchive_SkippedClaims checks that claims without data are one problem for each reason.
func TestWriteArchive_SkippedClaims(t *testing.T) {
	noClass := "driver disk.example.com has no VolumeSnapshotClass; create one"
	cluster := testCluster()
	claims := cluster.kinds[slices.IndexFunc(cluster.kinds, func(k *kind) bool { return k.resource == "persistentvolumeclaims" })]
	for i := range 4 {
		claims.objects = slices.Insert(claims.objects, i, obj("office", fmt.Sprintf("claim-%d", i)))
	}
	snapshots := (&ledger{}).action("snapshot", nil)
	snapshots.resource = "persistentvolumeclaims"
	snapshots.execute = func(_ context.Context, claim itemaction.BackupItem) (itemaction.Result, error) {
		switch claim.Name {
		case "claim-0", "claim-3":
			return itemaction.Result{DataNotCaptured: noClass}, nil
		case "claim-1":
			return itemaction.Result{Operation: &itemaction.Operation{ID: "x"}, DataNotCaptured: "ignored"}, nil
		}
		return itemaction.Result{}, nil
	}
	request := ArchiveRequest{
		Selection: selection.Spec{IncludedResources: []string{"persistentvolumeclaims"}},
		Actions:   []itemaction.BackupAction{snapshots}, OnOperationStarted: AcceptCaptureCheck,
	}
	want := []results.Problem{
		{
			Subject: results.Subject{Resource: "persistentvolumeclaims", Namespace: "office"}, Reason: results.ReasonDataNotCaptured,
			Message: "2 PersistentVolumeClaims have no data in this backup, only their objects: " + noClass + ": office/claim-0, office/claim-3",
		},
		{
			Subject: results.Subject{Resource: "persistentvolumeclaims"}, Reason: results.ReasonDataNotCaptured,
			Message: "2 PersistentVolumeClaims have no data in this backup, only their objects: " + noCaptureReason + ": office/claim-2, shop/data",
		},
	}
	for _, required := range []bool{false, true} {
		request.RequireCaptured = required
		result, _ := backedUp(t, cluster, request, Options{})
		if counts := (VolumeCounts{Claims: 5, Skipped: 4}); result.Volumes != counts {
			t.Errorf("volumes %+v, want %+v", result.Volumes, counts)
		}
		got, none := result.Results.Warnings, result.Results.Errors
		if required {
			got, none = none, got
		}
		if len(got) != len(want) || len(none) != 0 {
			t.Fatalf("results %+v", result.Results)
		}
		for _, problem := range want {
			if added := got.AddNew(problem); added > 0 {
				t.Errorf("required %t: %+v is missing in %+v", required, problem, got)
			}
		}
	}
}

func TestDescribeSkippedClaims_Many(t *testing.T) {
	var skipped []results.Subject
	for i := range 1234 {
		skipped = append(skipped, results.Subject{Resource: "persistentvolumeclaims", Namespace: "shop", Name: fmt.Sprintf("claim-%04d", 1233-i)})
	}
	about, message := describeSkippedClaims(skipped, "why")
	if about.Namespace != "shop" || about.Name != "" || !strings.HasPrefix(message, "1234 PersistentVolumeClaims have no data in this backup, only their objects: why: shop/claim-0000, ") ||
		!strings.HasSuffix(message, "shop/claim-0999 and 234 more") {
		t.Errorf("%+v: %.200s ... %s", about, message, message[len(message)-50:])
	}
}
