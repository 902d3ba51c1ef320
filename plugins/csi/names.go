// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// The labels of the objects of this plugin: VolumeSnapshots, VolumeGroupSnapshots and their
// contents. The keys are those of all objects of Grapnel.
const (
	// labelRunUID is the UID of the Backup or Restore.
	labelRunUID = "grapnel.dev/parent-uid"
	// labelBackupName and labelRestoreName tell which of both it is. They are for users.
	labelBackupName  = "grapnel.dev/backup-name"
	labelRestoreName = "grapnel.dev/restore-name"
)

// The annotations of VolumeSnapshots and VolumeGroupSnapshots.
const (
	// annotationOperation is the token of the operation that the object belongs to.
	annotationOperation = "grapnel.dev/csi-operation"
	// annotationClaim is the name of the claim that is restored from a VolumeSnapshot.
	annotationClaim = "grapnel.dev/csi-claim"
	// annotationDriver is the CSI driver that the VolumeSnapshot of a restore must have.
	annotationDriver = "grapnel.dev/csi-driver"
)

// annotationSnapshot is on archived claims whose data is captured. Its value is a snapshotRef.
const annotationSnapshot = "grapnel.dev/csi-snapshot"

const (
	maxAnnotationBytes = 2 << 10
	maxNameBytes       = 253
	maxDriverBytes     = 63
	// maxHandleBytes bounds the handle of a snapshot. CSI allows 128 bytes, and more for drivers
	// that need it.
	maxHandleBytes = 4 << 10
)

// snapshotRef is the value of annotationSnapshot: where the archive has the snapshot of a claim.
type snapshotRef struct {
	// Driver is the CSI driver.
	Driver string `json:"driver"`
	// Content is the name of the VolumeSnapshotContent.
	Content string `json:"content"`
	// Class is the name of the VolumeSnapshotClass or VolumeGroupSnapshotClass. It is for users.
	Class string `json:"class,omitempty"`
}

func (r snapshotRef) toAnnotation() (string, error) {
	data, err := json.Marshal(r)
	return string(data), err
}

// parseSnapshotRef parses an annotation from an archive, which may have been changed.
func parseSnapshotRef(text string) (snapshotRef, error) {
	var ref snapshotRef
	if len(text) > maxAnnotationBytes {
		return ref, fmt.Errorf("it has more than %d bytes", maxAnnotationBytes)
	}
	if err := json.Unmarshal([]byte(text), &ref); err != nil {
		return ref, err
	}
	if ref.Driver == "" || len(ref.Driver) > maxDriverBytes || ref.Content == "" || len(ref.Content) > maxNameBytes {
		return ref, errors.New("it has no driver or no content, or their names are too long")
	}
	return ref, nil
}

// operationID is the parsed ID of an operation. Tokens tell the operations of repeated calls
// for one object apart.
type operationID struct {
	kind operationKind
	// object is the VolumeSnapshot or VolumeGroupSnapshot, and uid its UID.
	object types.NamespacedName
	uid    types.UID
	token  string
	// member is the VolumeSnapshotContent of the claim, if object is a group.
	member string
	// started is when the operation was started, by the clock of the plugin. It is for users.
	started time.Time
}

// operationKind is what an operation does.
type operationKind string

const (
	operationSnapshot operationKind = "snapshot"
	operationGroup    operationKind = "group"
	operationRestore  operationKind = "restore"
)

func (o operationID) String() string {
	return strings.Join([]string{
		string(o.kind), o.object.Namespace, o.object.Name, string(o.uid), o.token, o.member, strconv.FormatInt(o.started.Unix(), 10),
	}, "/")
}

// parseOperationID parses an ID. The error matches item.ErrUnknownOperation.
func parseOperationID(id string, kinds ...operationKind) (operationID, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 7 {
		return operationID{}, fmt.Errorf("the ID has another form: %w", item.ErrUnknownOperation)
	}
	seconds, err := strconv.ParseInt(parts[6], 10, 64)
	for _, kind := range kinds {
		if err == nil && string(kind) == parts[0] {
			return operationID{
				kind: kind, object: types.NamespacedName{Namespace: parts[1], Name: parts[2]}, uid: types.UID(parts[3]),
				token: parts[4], member: parts[5], started: time.Unix(seconds, 0),
			}, nil
		}
	}
	return operationID{}, fmt.Errorf("the ID has another form: %w", item.ErrUnknownOperation)
}

func newToken() string { return rand.Text()[:16] }

// nameFor returns a name that the parts determine, so that a repeated call finds its object.
func nameFor(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "grapnel-" + hex.EncodeToString(sum[:])[:32]
}

// contentNameOf returns the name that snapshot-controller gives to the content of a
// VolumeSnapshot that it provisions.
func contentNameOf(snapshot types.UID) string { return "snapcontent-" + string(snapshot) }

// runLabels returns the labels of the objects of a run.
func runLabels(nameKey, name, uid string) map[string]string {
	labels := map[string]string{labelRunUID: uid}
	if len(name) <= 63 {
		labels[nameKey] = name
	}
	return labels
}
