// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/test/exampleplugin/datamove"
)

// labelMove with the value "true" requests moving the data of a claim.
const labelMove = "example.io/move-data"

// movePollInterval is the interval at which the status of a DataMove is polled.
const movePollInterval = time.Second

// newAPIServerClient returns a client for the API server in the file KUBECONFIG, which
// spec.executor.process.env of the Plugin sets, or for that of the Pod.
func newAPIServerClient() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return nil, fmt.Errorf("looking for the API server: set KUBECONFIG in the env of the Plugin, or run in a Pod: %w", err)
	}
	return client.New(config, client.Options{Scheme: datamove.NewScheme()})
}

// moveData is an AsyncBackupItemAction that only creates a DataMove for the work, and reads
// its progress there. Another program does the work, which continues regardless of this
// process.
type moveData struct {
	// client returns the same client each time.
	client func() (client.Client, error)
}

// AppliesTo selects the claims whose data is moved.
func (moveData) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"persistentvolumeclaims"}, LabelSelector: labelMove + "=true"}, nil
}

// Start requests moving one claim. There is one DataMove for each claim of a backup, in the
// namespace of the claim: every backup of that namespace archives it, and it is deleted with
// the namespace. Its name is deterministic, so that none is leaked if the response of this
// call is lost. Its spec.operation is new each time, so that the end of an older operation
// is not the end of this one.
func (m moveData) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	o := moveOperationID{
		NamespacedName: types.NamespacedName{Namespace: req.Item.GetNamespace(), Name: dataMoveName(req.Backup.UID, req.Item.GetUID())},
		token:          rand.Text(),
	}
	if err := m.createOrRestartMove(ctx, o, req.Item.GetName()); err != nil {
		return nil, fmt.Errorf("requesting the move of the data: %w", err)
	}
	sdk.Logger(ctx).Info("Requested moving the data of a claim", "claim", req.Item.GetName(), "dataMove", o.Name)
	return &asyncbackupitemv1.Started{
		OperationID: o.String(), PollInterval: movePollInterval,
		// In the archive, the last status of the DataMove shows what was moved.
		PostOperationItems: []item.Ref{{Group: datamove.Group, Resource: datamove.Resource, Namespace: o.Namespace, Name: o.Name}},
	}, nil
}

// createOrRestartMove creates the DataMove, or restarts an existing one.
func (m moveData) createOrRestartMove(ctx context.Context, o moveOperationID, claim string) error {
	api, err := m.client()
	if err != nil {
		return err
	}
	again := func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
	}
	return retry.OnError(retry.DefaultBackoff, again, func() error {
		var move datamove.DataMove
		err := api.Get(ctx, o.NamespacedName, &move)
		if apierrors.IsNotFound(err) {
			move.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}
			move.Spec = datamove.Spec{Claim: claim, Operation: o.token}
			return api.Create(ctx, &move)
		}
		if err != nil {
			return err
		}
		move.Spec = datamove.Spec{Claim: claim, Operation: o.token}
		return api.Update(ctx, &move)
	})
}

// Progress converts the status of the DataMove.
func (m moveData) Progress(ctx context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	move, o, err := m.getDataMove(ctx, req.OperationID)
	if err != nil {
		return nil, err
	}
	progress := &item.Progress{OperationUnits: "files", Started: move.CreationTimestamp.Time}
	switch {
	case move.Spec.Operation != o.token:
		progress.Completed, progress.Cancelled, progress.Description = true, true, "the move was restarted for another operation"
		return progress, nil
	case move.Status.Operation != o.token:
		progress.Description = "waiting for the mover"
		return progress, nil
	}
	progress.NCompleted, progress.NTotal, progress.Description = move.Status.Files, move.Status.Total, move.Status.Message
	progress.Completed, progress.Cancelled = move.IsFinished(), move.Status.Phase == datamove.Cancelled
	if move.Status.Phase == datamove.Failed {
		progress.Err = move.Status.Message
	}
	return progress, nil
}

// Cancel requests the cancellation of a move from the mover, if the move still belongs to
// this operation.
func (m moveData) Cancel(ctx context.Context, req *asyncbackupitemv1.OperationRequest) error {
	api, err := m.client()
	if err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		move, o, err := m.getDataMove(ctx, req.OperationID)
		if err != nil || move.Spec.Operation != o.token || move.Spec.Cancel {
			return err
		}
		move.Spec.Cancel = true
		return api.Update(ctx, move)
	})
}

// getDataMove reads the DataMove of an operation. If the DataMove does not exist, the operation
// does not exist either; any other error means that its state is currently unknown.
func (m moveData) getDataMove(ctx context.Context, id string) (*datamove.DataMove, moveOperationID, error) {
	o, ok := parseMoveOperationID(id)
	if !ok {
		return nil, o, item.ErrUnknownOperation
	}
	api, err := m.client()
	if err != nil {
		return nil, o, err
	}
	move := &datamove.DataMove{}
	err = api.Get(ctx, o.NamespacedName, move)
	if apierrors.IsNotFound(err) {
		return nil, o, fmt.Errorf("%w: DataMove %s does not exist", item.ErrUnknownOperation, o.NamespacedName)
	}
	return move, o, err
}

// moveOperationID is the parsed ID of an operation.
type moveOperationID struct {
	types.NamespacedName
	token string
}

func (o moveOperationID) String() string { return o.Namespace + "/" + o.Name + "/" + o.token }

func parseMoveOperationID(id string) (moveOperationID, bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return moveOperationID{}, false
	}
	return moveOperationID{NamespacedName: types.NamespacedName{Namespace: parts[0], Name: parts[1]}, token: parts[2]}, true
}

// dataMoveName returns the name of the DataMove of an object of a Backup.
func dataMoveName(backup string, object types.UID) string {
	return fmt.Sprintf("move-%x", sha256.Sum256([]byte(backup+"/"+string(object))))[:37]
}

// skipMoves is a RestoreItemAction: a DataMove in an archive is a record of completed work.
// Restoring it would repeat the work.
type skipMoves struct{}

// AppliesTo selects DataMoves.
func (skipMoves) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{datamove.Resource + "." + datamove.Group}}, nil
}

// Execute skips a DataMove.
func (skipMoves) Execute(context.Context, *item.RestoreRequest) (*item.RestoreResponse, error) {
	return &item.RestoreResponse{SkipRestore: true}, nil
}
