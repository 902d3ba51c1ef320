// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

const (
	// pollInterval is short, because applications may be frozen until their data is captured.
	pollInterval = 200 * time.Millisecond
	// snapshotGroup is the API group of snapshots.
	snapshotGroup = "snapshot.storage.k8s.io"
)

// captureClaim is an AsyncBackupItemAction that captures the data of claims in VolumeSnapshots.
type captureClaim struct{ cluster *cluster }

// AppliesTo selects all claims: those that cannot be captured are reported, with the reason.
func (captureClaim) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

// CheckCapture returns why Start would not capture a claim. It changes nothing.
func (a captureClaim) CheckCapture(ctx context.Context, req *item.BackupRequest) (string, error) {
	observed, err := a.cluster.observeClaim(ctx, req)
	if err != nil {
		return "", err
	}
	_, notCaptured := decideCapture(observed)
	return notCaptured, nil
}

// Start creates the VolumeSnapshot of a claim. Its name is determined by the UIDs of the Backup
// and of the claim, so that a repeated call takes it over.
func (a captureClaim) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	observed, err := a.cluster.observeClaim(ctx, req)
	if err != nil {
		return nil, err
	}
	plan, notCaptured := decideCapture(observed)
	if notCaptured != "" {
		return &asyncbackupitemv1.Started{DataNotCaptured: notCaptured}, nil
	}
	group, err := a.cluster.groupOf(ctx, req, plan)
	if err != nil {
		return nil, err
	}
	var started *asyncbackupitemv1.Started
	if group.class != "" {
		started, err = a.startGroup(ctx, req, plan, &group)
	} else {
		started, err = a.startSnapshot(ctx, req, plan, &group)
	}
	if group.whyApart != "" {
		sdk.Logger(ctx).Info("The claims of a group are captured separately", "claim", req.Item.GetName(), "group", group.labelValue, "reason", group.whyApart)
	}
	if rejected := (*rejectedError)(nil); errors.As(err, &rejected) {
		return &asyncbackupitemv1.Started{DataNotCaptured: rejected.Error()}, nil
	}
	return started, err
}

// startSnapshot starts the snapshot of one claim.
func (a captureClaim) startSnapshot(ctx context.Context, req *item.BackupRequest, plan capturePlan, group *claimGroup) (*asyncbackupitemv1.Started, error) {
	token := newToken()
	wanted := newSnapshot(req, plan, token)
	if group.whyApart != "" {
		wanted.Annotations[annotationApart] = group.describeApart()
		wanted.Labels[labelGroup] = group.id(req.Backup.UID, req.Item.GetNamespace())
	}
	snapshot, err := a.cluster.createSnapshot(ctx, wanted)
	if err != nil {
		return nil, fmt.Errorf("creating the VolumeSnapshot: %w", err)
	}
	content := contentNameOf(snapshot.UID)
	archived, err := withSnapshotRef(req.Item, snapshotRef{Driver: plan.driver, Content: content, Class: plan.class})
	if err != nil {
		return nil, err
	}
	sdk.Logger(ctx).Info("Started a snapshot", "claim", req.Item.GetName(), "volumeSnapshot", snapshot.Name, "class", plan.class)
	key := types.NamespacedName{Namespace: snapshot.Namespace, Name: snapshot.Name}
	return &asyncbackupitemv1.Started{
		BackupResponse: item.BackupResponse{Item: archived},
		OperationID:    operationID{kind: operationSnapshot, object: key, uid: snapshot.UID, token: token, started: time.Now()}.String(),
		PollInterval:   pollInterval,
		PostOperationItems: []item.Ref{
			{Group: snapshotGroup, Resource: "volumesnapshots", Namespace: snapshot.Namespace, Name: snapshot.Name},
			{Group: snapshotGroup, Resource: "volumesnapshotcontents", Name: content},
			{Group: snapshotGroup, Resource: "volumesnapshotclasses", Name: plan.class},
		},
	}, nil
}

// newSnapshot returns the VolumeSnapshot of a claim.
func newSnapshot(req *item.BackupRequest, plan capturePlan, token string) *snapshotv1.VolumeSnapshot {
	claim := req.Item.GetName()
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: req.Item.GetNamespace(), Name: nameFor("snapshot", req.Backup.UID, string(req.Item.GetUID())),
			Labels:      runLabels(labelBackupName, req.Backup.Name, req.Backup.UID),
			Annotations: map[string]string{annotationOperation: token},
		},
		Spec: snapshotv1.VolumeSnapshotSpec{
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim},
			VolumeSnapshotClassName: &plan.class,
		},
	}
}

// withSnapshotRef returns a claim with annotationSnapshot.
func withSnapshotRef(claim *unstructured.Unstructured, ref snapshotRef) (*unstructured.Unstructured, error) {
	value, err := ref.toAnnotation()
	if err != nil {
		return nil, err
	}
	annotations := claim.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationSnapshot] = value
	claim.SetAnnotations(annotations)
	return claim, nil
}

// rejectedError means that the API server does not accept a snapshot, for a reason that a retry
// does not change. The claim is archived without its data.
type rejectedError struct{ reason string }

func (e *rejectedError) Error() string {
	return "the API server rejected the snapshot (" + e.reason + "): allow it, for example by raising the quota of the namespace, and back up again"
}

// newRejectedError returns a *rejectedError for an error that a retry does not change, and nil
// for others. Its text is the same for several claims.
func newRejectedError(err error) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return nil
	}
	reason := err.Error()
	for _, before := range []string{"is forbidden: ", "is invalid: ", "denied the request: "} {
		if _, after, found := strings.Cut(reason, before); found {
			reason = after
		}
	}
	reason, _, _ = strings.Cut(reason, ", requested: ") // the numbers of a quota
	return &rejectedError{reason: truncate(reason)}
}

// errBeingDeleted means that the object of an earlier attempt is still being deleted.
var errBeingDeleted = errors.New("the snapshot of an earlier attempt is still being deleted: back up again when it does not exist anymore")

// createBackoff is how a creation is repeated. All claims of a group write their VolumeGroupSnapshot at the same time.
var createBackoff = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10}

// createOrTakeOver creates a VolumeSnapshot or VolumeGroupSnapshot. If an earlier call created it, or one for another claim of
// the group, it gets the annotations of this call, to which it belongs from now on.
func createOrTakeOver[T metav1.Object](ctx context.Context, c *cluster, client interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}, kind string, wanted T, isSame func(existing, wanted T) bool,
) (result T, err error) {
	release, err := c.acquireCreate(ctx)
	if err != nil {
		return result, err
	}
	defer release()
	err = retry.OnError(createBackoff, func(err error) bool { return isTransient(err) && ctx.Err() == nil }, func() error {
		created, err := client.Create(ctx, wanted, metav1.CreateOptions{})
		if err == nil {
			result = created
			return nil
		}
		// A quota rejects an object before its name is compared with those that exist.
		existing, getErr := client.Get(ctx, wanted.GetName(), metav1.GetOptions{})
		switch rejected := newRejectedError(err); {
		case apierrors.IsNotFound(getErr) && rejected != nil:
			return rejected
		case getErr != nil:
			return err
		case existing.GetDeletionTimestamp() != nil:
			return errBeingDeleted
		case existing.GetLabels()[labelRunUID] != wanted.GetLabels()[labelRunUID] || !isSame(existing, wanted):
			return fmt.Errorf("%s %s/%s exists and was not created by this Backup or Restore: delete it, and back up or restore again",
				kind, wanted.GetNamespace(), wanted.GetName())
		}
		existing.SetAnnotations(mergeMaps(existing.GetAnnotations(), wanted.GetAnnotations()))
		if result, err = client.Update(ctx, existing, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			return errBeingDeleted // it was canceled meanwhile
		}
		return err
	})
	return result, err
}

// createSnapshot creates a VolumeSnapshot, or takes it over.
func (c *cluster) createSnapshot(ctx context.Context, wanted *snapshotv1.VolumeSnapshot) (*snapshotv1.VolumeSnapshot, error) {
	api, err := c.connect()
	if err != nil {
		return nil, err
	}
	return createOrTakeOver(ctx, c, api.snapshots.SnapshotV1().VolumeSnapshots(wanted.Namespace), "VolumeSnapshot", wanted, haveSameSource)
}

// isTransient reports whether a write may succeed if it is repeated.
func isTransient(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || errors.Is(err, errBeingDeleted)
}

// haveSameSource compares an existing VolumeSnapshot with the wanted one: users of the namespace
// could have created one of that name with another source.
func haveSameSource(existing, wanted *snapshotv1.VolumeSnapshot) bool {
	have, want := existing.Spec.Source, wanted.Spec.Source
	return equalPointers(have.PersistentVolumeClaimName, want.PersistentVolumeClaimName) &&
		equalPointers(have.VolumeSnapshotContentName, want.VolumeSnapshotContentName)
}

func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func mergeMaps(into, from map[string]string) map[string]string {
	if into == nil {
		into = map[string]string{}
	}
	maps.Copy(into, from)
	return into
}
