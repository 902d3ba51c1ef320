// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// failAfter is how long a driver may fail to take a snapshot before the operation fails.
// csi-snapshotter retries, and many errors are gone soon.
const failAfter = 90 * time.Second

// cancelSettleTime is how long the objects of a canceled operation are observed: snapshot-controller may
// create the content of a VolumeSnapshot that it has already seen, although that was deleted meanwhile.
const cancelSettleTime = 2 * time.Second

// cancelTimeout is how long the end of the objects of a canceled operation is waited for. They end later,
// too, if the driver needs longer.
const cancelTimeout = 20 * time.Second

// reminderInterval is how often csi-snapshotter is reminded of a snapshot that is not ready to use. It may lose its own
// requeue: then it would not ask the driver again for up to 15 minutes.
const reminderInterval = 30 * time.Second

// takeoverTimeout is how long an operation whose work a later call continues waits for its Cancel: the operator cancels it
// when it has recorded the operation of the later call. If that does not happen, the answer of the later call was lost.
const takeoverTimeout = 2 * time.Minute

// observedSnapshot is what the progress of an operation depends on.
type observedSnapshot struct {
	operation operationID
	takeover  takeover
	// snapshot is the VolumeSnapshot, nil if it does not exist anymore.
	snapshot *snapshotv1.VolumeSnapshot
	// isCaptured reports that the driver has taken the snapshot, and its content is retained.
	isCaptured bool
	// content is the VolumeSnapshotContent. It is only read when it matters: when something
	// happened, or the VolumeSnapshot does not exist anymore.
	content *snapshotv1.VolumeSnapshotContent
	// failingFor is how long the snapshot has had its error.
	failingFor time.Duration
}

// Progress returns the progress of a snapshot. Usually it needs no request to the API server.
func (a captureClaim) Progress(ctx context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	id, err := parseOperationID(req.OperationID, operationSnapshot, operationGroup)
	if err != nil {
		return nil, err
	}
	if id.kind == operationGroup {
		return a.cluster.groupProgress(ctx, id, req.Backup)
	}
	observed, err := a.cluster.observeSnapshot(ctx, id, req.Backup)
	if err != nil {
		return nil, err
	}
	if observed.takeover.happened {
		return decideTakenOver(id, observed.takeover), nil
	}
	progress := decideProgress(observed)
	a.cluster.recordCompletion(id, progress)
	if progress.Err != "" && (observed.snapshot != nil || observed.content != nil) {
		// What cannot be used must not stay. A captured snapshot is never removed here.
		if err := a.cluster.requestRemoval(ctx, id.object, id.uid); err != nil {
			return nil, err
		}
	}
	if err := a.cluster.warnApart(ctx, observed, progress); err != nil {
		return nil, err
	}
	if progress.Err != "" && a.cluster.isSettling(req.OperationID, observed) {
		progress.Completed, progress.Err, progress.Description = false, "", "removing the snapshot"
	}
	return progress, nil
}

// Cancel removes the snapshot, if it still belongs to this operation. An operation that has ended stays
// as it is: if its backup is canceled, discardSnapshots removes the snapshot.
func (a captureClaim) Cancel(ctx context.Context, req *asyncbackupitemv1.OperationRequest) error {
	id, err := parseOperationID(req.OperationID, operationSnapshot, operationGroup)
	if err != nil {
		return err
	}
	if id.kind == operationGroup {
		return a.cluster.cancelGroup(ctx, id, req.Backup)
	}
	observed, err := a.cluster.observeSnapshot(ctx, id, req.Backup)
	if err != nil || !observed.takeover.happened && decideProgress(observed).Completed {
		return err
	}
	if a.cluster.canceled.add(req.OperationID); observed.takeover.happened {
		return nil
	}
	return a.cluster.requestRemoval(ctx, id.object, id.uid)
}

// isSettling reports whether the objects of a canceled operation may still exist.
func (c *cluster) isSettling(operation string, observed observedSnapshot) bool {
	if !c.canceled.has(operation) {
		return false
	}
	since := c.canceled.add(operation)
	return since < cancelSettleTime || since < cancelTimeout && (observed.snapshot != nil || observed.content != nil)
}

// observeSnapshot reads the state of a snapshot. As soon as the content exists, it is retained:
// otherwise, the deletion of the namespace would delete the snapshot.
func (c *cluster) observeSnapshot(ctx context.Context, id operationID, backup item.Backup) (observedSnapshot, error) {
	observed := observedSnapshot{operation: id}
	var err error
	if observed.snapshot, err = c.getOperationSnapshot(ctx, id); err != nil {
		return observed, err
	}
	if observed.snapshot != nil {
		if observed.takeover = c.observeTakeover(id, observed.snapshot.Annotations[annotationOperation]); observed.takeover.happened {
			return observed, nil
		}
	}
	key := string(id.uid)
	if isPresent(observed.snapshot) {
		observed.isCaptured = c.captured.has(key)
		if errorText(observed.snapshot) == "" {
			c.failing.remove(key)
		} else {
			observed.failingFor = c.failing.add(key)
		}
		isUnchanged := !isBound(observed.snapshot) || !isTaken(observed.snapshot) && c.retained.has(key) ||
			observed.isCaptured && !isReady(observed.snapshot)
		if isUnchanged && !c.ready.has(key) {
			return observed, c.remindSnapshotter(ctx, id)
		}
	}
	err = c.observeContent(ctx, &observed, backup)
	return observed, err
}

// remindSnapshotter changes an annotation of a content at most once per reminderInterval, so that csi-snapshotter reconciles it.
func (c *cluster) remindSnapshotter(ctx context.Context, id operationID) error {
	key := string(id.uid)
	if c.waiting.add(key) < reminderInterval {
		return nil
	}
	c.waiting.remove(key)
	_, err := c.snapshotContents.patch(ctx, contentNameOf(id.uid), map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{annotationReminded: time.Now().UTC().Format(time.RFC3339)}},
	})
	return err
}

// observeContent reads the content of a snapshot, and retains it.
func (c *cluster) observeContent(ctx context.Context, observed *observedSnapshot, backup item.Backup) (err error) {
	id, key := observed.operation, string(observed.operation.uid)
	if observed.content, err = c.snapshotContents.get(ctx, contentNameOf(id.uid)); err != nil || observed.content == nil {
		return err
	}
	if !belongsTo(observed.content, id) {
		return fmt.Errorf("VolumeSnapshotContent %s belongs to another VolumeSnapshot than %s", observed.content.Name, id.object)
	}
	// A snapshot that is being removed must not be retained, also if the watch does not show its end yet.
	if observed.content.Labels[labelRemovalRequested] != "" {
		if observed.snapshot, err = c.readSnapshot(ctx, id.object, id.uid); err != nil {
			return err
		}
	}
	if isPresent(observed.snapshot) && !c.discarded.has(key) {
		if observed.content, err = c.snapshotContents.retain(ctx, observed.content, backup); err != nil || observed.content == nil {
			return err
		}
		if observed.content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentRetain {
			c.retained.add(key)
		}
	}
	if observed.isCaptured = isCaptured(observed.content); observed.isCaptured {
		c.captured.add(key)
	}
	if isContentReady(observed.content) {
		c.ready.add(key)
	}
	return nil
}

// isPresent reports whether a VolumeSnapshot exists and is not being deleted.
func isPresent(s *snapshotv1.VolumeSnapshot) bool { return s != nil && s.DeletionTimestamp == nil }

// getOperationSnapshot returns the VolumeSnapshot of an operation. The watch may not have seen yet
// that the operation took it over.
func (c *cluster) getOperationSnapshot(ctx context.Context, id operationID) (*snapshotv1.VolumeSnapshot, error) {
	snapshot, err := c.getSnapshot(ctx, id.object, id.uid)
	if err != nil || snapshot == nil || snapshot.Annotations[annotationOperation] == id.token {
		return snapshot, err
	}
	return c.readSnapshot(ctx, id.object, id.uid)
}

// belongsTo reports whether snapshot-controller provisioned a content for a VolumeSnapshot.
func belongsTo(content *snapshotv1.VolumeSnapshotContent, id operationID) bool {
	ref := content.Spec.VolumeSnapshotRef
	return ref.UID == id.uid && ref.Namespace == id.object.Namespace && ref.Name == id.object.Name
}

// decideProgress returns what the state of a snapshot means for its operation.
func decideProgress(o observedSnapshot) *item.Progress {
	progress := &item.Progress{NTotal: 2, OperationUnits: "stages", Started: o.operation.started}
	if o.isCaptured {
		progress.DataCaptured, progress.NCompleted = true, 1
	}
	switch {
	case o.snapshot == nil && (!o.isCaptured || o.content == nil):
		return failedProgress(progress, fmt.Sprintf("VolumeSnapshot %s was deleted before the snapshot was taken: back up again", o.operation.object))
	case o.snapshot != nil && !isPresent(o.snapshot) && !o.isCaptured:
		return failedProgress(progress, fmt.Sprintf("VolumeSnapshot %s is being deleted: back up again", o.operation.object))
	case o.isCaptured && isContentReady(o.content):
		progress.Completed, progress.NCompleted, progress.Description = true, progress.NTotal, "the snapshot is ready to use"
	case o.isCaptured:
		progress.Description = "the snapshot was taken, and the storage is still processing it"
		if text := errorText(o.snapshot); text != "" {
			progress.Description += ": " + text
		}
	default:
		return decideUntakenProgress(o, progress)
	}
	return progress
}

// decideUntakenProgress is decideProgress for a snapshot that was not taken yet.
func decideUntakenProgress(o observedSnapshot, progress *item.Progress) *item.Progress {
	switch text := errorText(o.snapshot); {
	case text != "" && o.failingFor >= failAfter:
		return failedProgress(progress, fmt.Sprintf("the snapshot was not taken: %s; fix the cause, which the events of VolumeSnapshot %s show, and back up again",
			text, o.operation.object))
	case text != "":
		progress.Description = "the snapshot is not taken yet: " + text
	case isBound(o.snapshot):
		progress.Description = "waiting for csi-snapshotter and the driver to take the snapshot"
	default:
		progress.Description = "waiting for snapshot-controller"
	}
	return progress
}

// takeover is whether a later call continues the work of an operation.
type takeover struct {
	happened bool
	// isCompleted reports that the operation had completed before, and isCanceled that it was canceled since. observedFor is how
	// long the takeover has been observed.
	isCompleted, isCanceled bool
	observedFor             time.Duration
}

// recordCompletion remembers that an operation has completed. It stays so if a later call takes its object over.
func (c *cluster) recordCompletion(id operationID, progress *item.Progress) {
	if progress.Completed && progress.Err == "" {
		c.completed.add(id.String())
	}
}

// observeTakeover compares the token of an object with that of an operation.
func (c *cluster) observeTakeover(id operationID, token string) takeover {
	if token == id.token {
		return takeover{}
	}
	key := id.String()
	return takeover{happened: true, isCompleted: c.completed.has(key), isCanceled: c.canceled.has(key), observedFor: c.superseded.add(key)}
}

// decideTakenOver returns the progress of an operation whose work a later call continues. It does not end before it is
// canceled: otherwise, it would look like a failure, or like a success that the work may not have.
func decideTakenOver(id operationID, t takeover) *item.Progress {
	progress := &item.Progress{
		NTotal: 2, OperationUnits: "stages", Started: id.started,
		Description: "a later call of the action continues the work: see the operation of that call",
	}
	switch {
	case t.isCompleted:
		progress.Completed, progress.NCompleted, progress.Description = true, progress.NTotal, "completed, before a later call of the action continued the work"
	case t.isCanceled:
		progress.Completed, progress.Cancelled = true, true
	case t.observedFor >= takeoverTimeout:
		return failedProgress(progress, "a later call of the action continued the work, and its answer was lost: back up or restore again")
	}
	return progress
}

// failedProgress returns the progress of a failed operation.
func failedProgress(progress *item.Progress, why string) *item.Progress {
	progress.Completed, progress.Err, progress.DataCaptured = true, why, false
	return progress
}

func isBound(s *snapshotv1.VolumeSnapshot) bool {
	return s.Status != nil && s.Status.BoundVolumeSnapshotContentName != nil && *s.Status.BoundVolumeSnapshotContentName != ""
}

// isTaken reports whether the driver has taken a snapshot, which may not be ready to use yet.
func isTaken(s *snapshotv1.VolumeSnapshot) bool {
	return s.Status != nil && s.Status.CreationTime != nil
}

func isReady(s *snapshotv1.VolumeSnapshot) bool {
	return s.Status != nil && s.Status.ReadyToUse != nil && *s.Status.ReadyToUse
}

// isCaptured reports whether the driver has taken the snapshot of a content, which is retained.
func isCaptured(content *snapshotv1.VolumeSnapshotContent) bool {
	return content != nil && content.DeletionTimestamp == nil && content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentRetain &&
		handleOf(content) != "" && content.Status != nil && content.Status.CreationTime != nil
}

func isContentReady(content *snapshotv1.VolumeSnapshotContent) bool {
	return content != nil && content.Status != nil && content.Status.ReadyToUse != nil && *content.Status.ReadyToUse
}

// handleOf returns the handle of a snapshot in its driver, "" if it is unknown.
func handleOf(content *snapshotv1.VolumeSnapshotContent) string {
	switch {
	case content.Status != nil && content.Status.SnapshotHandle != nil:
		return *content.Status.SnapshotHandle
	case content.Spec.Source.SnapshotHandle != nil:
		return *content.Spec.Source.SnapshotHandle
	}
	return ""
}

// errorText returns the error that the controllers report for a VolumeSnapshot.
func errorText(s *snapshotv1.VolumeSnapshot) string {
	if s == nil || s.Status == nil || s.Status.Error == nil || s.Status.Error.Message == nil {
		return ""
	}
	return truncate(*s.Status.Error.Message)
}
