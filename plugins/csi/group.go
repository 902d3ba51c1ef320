// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

const (
	// groupSnapshotGroup is the API group of group snapshots.
	groupSnapshotGroup = "groupsnapshot.storage.k8s.io"
	// annotationGroupHandle is on the contents of the members of group snapshots.
	annotationGroupHandle = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"
	// defaultGroupLabel is the label of claims that are captured together.
	defaultGroupLabel = "grapnel.dev/volume-group"
	// annotationMemberPrefix is followed by the UID of a claim. The value of the annotation is the token of
	// its operation, like annotationOperation.
	annotationMemberPrefix = "operation.csi.grapnel.dev/"
	// labelGroup is on single VolumeSnapshots of claims of a group. Its value identifies the group.
	labelGroup = "grapnel.dev/csi-group"
	// annotationApart is on these, too. Its value is for users: that the claims are captured separately, and why.
	annotationApart = "grapnel.dev/csi-captured-separately"
)

// observedGroupClasses are the VolumeGroupSnapshotClasses of the cluster.
type observedGroupClasses struct{ classes []snapshotClass }

// observeGroupClasses reads the VolumeGroupSnapshotClasses. There are none if the cluster does not serve
// the API.
func (c *cluster) observeGroupClasses(ctx context.Context) (observedGroupClasses, error) {
	return c.groups.get(func() (observed observedGroupClasses, err error) {
		api, err := c.connect()
		if err != nil {
			return observed, err
		}
		list, err := api.snapshots.GroupsnapshotV1().VolumeGroupSnapshotClasses().List(ctx, metav1.ListOptions{})
		switch {
		case isNotServed(err):
			return observed, nil
		case err != nil:
			return observed, fmt.Errorf("listing VolumeGroupSnapshotClasses: %w", err)
		}
		for i := range list.Items {
			class := &list.Items[i]
			observed.classes = append(observed.classes, newSnapshotClass(&class.ObjectMeta, class.Driver, annotationDefaultGroupClass))
		}
		return observed, nil
	})
}

// claimGroup is the group of a claim: the claims of its namespace with the same value of a label.
type claimGroup struct {
	labelKey, labelValue string
	// class is the VolumeGroupSnapshotClass, "" if the claims are captured separately, and whyApart why.
	class, whyApart string
}

// groupLabelKey returns the key of the label of groups.
func groupLabelKey(backup item.Backup) string {
	var object struct {
		Spec struct {
			VolumeGroupSnapshotLabelKey string `json:"volumeGroupSnapshotLabelKey"`
		} `json:"spec"`
	}
	_ = json.Unmarshal(backup.Raw, &object) // without it, the default applies
	return cmp.Or(object.Spec.VolumeGroupSnapshotLabelKey, defaultGroupLabel)
}

// groupOf returns the group of a claim, without a label value if it has none.
func (c *cluster) groupOf(ctx context.Context, req *item.BackupRequest, plan capturePlan) (group claimGroup, err error) {
	group.labelKey = groupLabelKey(req.Backup)
	if group.labelValue = req.Item.GetLabels()[group.labelKey]; group.labelValue == "" {
		return group, nil
	}
	observed, err := c.observeGroupClasses(ctx)
	if err != nil {
		return group, err
	}
	group.class, group.whyApart = chooseClass("VolumeGroupSnapshotClass", parameterGroupClass, observed.classes, plan.driver, sdk.Parameters(ctx))
	if group.whyApart != "" {
		return group, nil
	}
	if group.whyApart, err = c.checkMembers(ctx, req.Item.GetNamespace(), &group, plan.driver); group.whyApart != "" {
		group.class = ""
	}
	return group, err
}

// describeApart describes for users that the claims of the group are captured separately.
func (g *claimGroup) describeApart() string {
	return fmt.Sprintf("the claims with the label %s=%s were captured separately: %s", g.labelKey, g.labelValue, g.whyApart)
}

// checkMembers returns why the claims of a group cannot be captured together: snapshot-controller takes no
// group snapshot if one of them is not bound, or of another driver.
func (c *cluster) checkMembers(ctx context.Context, namespace string, group *claimGroup, driver string) (string, error) {
	api, err := c.connect()
	if err != nil {
		return "", err
	}
	claims, err := api.core.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{group.labelKey: group.labelValue}.String(),
	})
	if err != nil {
		return "", fmt.Errorf("listing the claims of a group: %w", err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Sprintf("claim %s is not bound", claim.Name), nil
		}
		volume, err := api.core.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		isMissing := apierrors.IsNotFound(err)
		switch {
		case err != nil && !isMissing:
			return "", fmt.Errorf("reading PersistentVolume %s: %w", claim.Spec.VolumeName, err)
		case isMissing || volume.Spec.CSI == nil || volume.Spec.CSI.Driver != driver:
			return fmt.Sprintf("the volume of claim %s is not of the CSI driver %s", claim.Name, driver), nil
		}
	}
	return "", nil
}

// id identifies a group of a backup.
func (g *claimGroup) id(backup, namespace string) string {
	return nameFor("group", backup, namespace, g.labelKey, g.labelValue)
}

// startGroup starts the group snapshot, or joins it, if another claim of the group has started it.
func (a captureClaim) startGroup(ctx context.Context, req *item.BackupRequest, plan capturePlan, group *claimGroup) (*asyncbackupitemv1.Started, error) {
	token, member := newToken(), annotationMemberPrefix+string(req.Item.GetUID())
	namespace := req.Item.GetNamespace()
	snapshot, err := a.cluster.createGroup(ctx, &groupsnapshotv1.VolumeGroupSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: group.id(req.Backup.UID, namespace),
			Labels: runLabels(labelBackupName, req.Backup.Name, req.Backup.UID), Annotations: map[string]string{member: token},
		},
		Spec: groupsnapshotv1.VolumeGroupSnapshotSpec{
			Source:                       groupsnapshotv1.VolumeGroupSnapshotSource{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{group.labelKey: group.labelValue}}},
			VolumeGroupSnapshotClassName: &group.class,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the VolumeGroupSnapshot: %w", err)
	}
	content := memberName("snapcontent", snapshot.UID, plan.volumeHandle)
	archived, err := withSnapshotRef(req.Item, snapshotRef{Driver: plan.driver, Content: content, Class: group.class})
	if err != nil {
		return nil, err
	}
	sdk.Logger(ctx).Info("Joined a group snapshot", "claim", req.Item.GetName(), "volumeGroupSnapshot", snapshot.Name, "class", group.class)
	key := types.NamespacedName{Namespace: namespace, Name: snapshot.Name}
	return &asyncbackupitemv1.Started{
		BackupResponse: item.BackupResponse{Item: archived},
		OperationID: operationID{
			kind: operationGroup, object: key, uid: snapshot.UID, token: token, member: string(req.Item.GetUID()) + "~" + content, started: time.Now(),
		}.String(),
		PollInterval: pollInterval,
		PostOperationItems: []item.Ref{
			{Group: groupSnapshotGroup, Resource: "volumegroupsnapshots", Namespace: namespace, Name: snapshot.Name},
			{Group: groupSnapshotGroup, Resource: "volumegroupsnapshotcontents", Name: groupContentNameOf(snapshot.UID)},
			{Group: groupSnapshotGroup, Resource: "volumegroupsnapshotclasses", Name: group.class},
			{Group: snapshotGroup, Resource: "volumesnapshots", Namespace: namespace, Name: memberName("snapshot", snapshot.UID, plan.volumeHandle)},
			{Group: snapshotGroup, Resource: "volumesnapshotcontents", Name: content},
		},
	}, nil
}

// groupContentNameOf returns the name that snapshot-controller gives to the content of a VolumeGroupSnapshot.
func groupContentNameOf(group types.UID) string { return "groupsnapcontent-" + string(group) }

// memberName returns the name that snapshot-controller gives to the VolumeSnapshot of a member of a group
// ("snapshot"), and to its content ("snapcontent").
func memberName(prefix string, group types.UID, volumeHandle string) string {
	return fmt.Sprintf("%s-%x", prefix, sha256.Sum256([]byte(string(group)+volumeHandle)))
}

// createGroup creates a VolumeGroupSnapshot, or joins it.
func (c *cluster) createGroup(ctx context.Context, wanted *groupsnapshotv1.VolumeGroupSnapshot) (*groupsnapshotv1.VolumeGroupSnapshot, error) {
	api, err := c.connect()
	if err != nil {
		return nil, err
	}
	return createOrTakeOver(ctx, c, api.snapshots.GroupsnapshotV1().VolumeGroupSnapshots(wanted.Namespace), "VolumeGroupSnapshot", wanted,
		func(existing, _ *groupsnapshotv1.VolumeGroupSnapshot) bool {
			return existing.Spec.Source.Selector != nil
		})
}

// warnApart adds a warning to the progress of a completed operation whose snapshot belongs to a group and was taken
// separately: why, and how far apart the snapshots of the group were taken. As long as some are not taken, there is no
// warning: the operation that ends last has it.
func (c *cluster) warnApart(ctx context.Context, observed observedSnapshot, progress *item.Progress) error {
	if observed.snapshot == nil || !progress.Completed || progress.Err != "" || progress.Cancelled || observed.snapshot.Labels[labelGroup] == "" {
		return nil
	}
	snapshots, err := c.listSnapshots(ctx, observed.snapshot.Namespace,
		metav1.ListOptions{LabelSelector: labels.Set{labelGroup: observed.snapshot.Labels[labelGroup]}.String()})
	if err != nil || len(snapshots) < 2 {
		return err
	}
	var first, last time.Time
	for i := range snapshots {
		taken, err := c.creationTime(ctx, &snapshots[i])
		if err != nil || taken.IsZero() {
			return err
		}
		if first.IsZero() || taken.Before(first) {
			first = taken
		}
		if taken.After(last) {
			last = taken
		}
	}
	progress.Warning = fmt.Sprintf("%s; their %d snapshots were taken within %s", observed.snapshot.Annotations[annotationApart],
		len(snapshots), last.Sub(first).Truncate(time.Second)+time.Second)
	return nil
}

// creationTime returns when the driver took a snapshot; zero if it has not yet. The content knows it before its
// VolumeSnapshot does.
func (c *cluster) creationTime(ctx context.Context, snapshot *snapshotv1.VolumeSnapshot) (time.Time, error) {
	if isTaken(snapshot) {
		return snapshot.Status.CreationTime.Time, nil
	}
	content, err := c.snapshotContents.get(ctx, contentNameOf(snapshot.UID))
	if err != nil || content == nil || content.Status == nil || content.Status.CreationTime == nil {
		return time.Time{}, err
	}
	return time.Unix(0, *content.Status.CreationTime), nil
}

// errNoSuchMember means that the ID of an operation of a group cannot be read.
var errNoSuchMember = errors.New("the ID has another form")
