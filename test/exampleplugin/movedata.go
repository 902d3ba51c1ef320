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

// labelMove with the value "true" says that the data of a claim is to be moved.
const labelMove = "example.io/move-data"

// movePollInterval is how often the API server is asked for the status of a DataMove.
const movePollInterval = time.Second

// newAPIServerClient returns a client of the API server: the one that the file in KUBECONFIG names,
// which spec.executor.process.env of the Plugin sets, or that of the pod.
func newAPIServerClient() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return nil, fmt.Errorf("looking for the API server: set KUBECONFIG in the env of the Plugin, or run in a pod: %w", err)
	}
	return client.New(config, client.Options{Scheme: datamove.NewScheme()})
}

// moveData is an AsyncBackupItemAction that only writes down what is to be done, as a
// DataMove, and reads there how far it is. The work is done by another program, and goes
// on whatever becomes of this process.
type moveData struct {
	// client returns the same one each time.
	client func() (client.Client, error)
}

// AppliesTo selects the claims whose data is to be moved.
func (moveData) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"persistentvolumeclaims"}, LabelSelector: labelMove + "=true"}, nil
}

// Start asks for one claim to be moved. There is one DataMove for each claim of a backup,
// in the namespace of the claim: it is archived there by every backup of that namespace, and
// goes away with it. Its name is always the same, so that none is forgotten if the answer
// of this call gets lost. Its spec.operation is new each time, so that the end of an older
// operation is not the end of this one.
func (m moveData) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	o := moveOperationID{
		NamespacedName: types.NamespacedName{Namespace: req.Item.GetNamespace(), Name: dataMoveName(req.Backup.UID, req.Item.GetUID())},
		token:          rand.Text(),
	}
	if err := m.createOrRestartMove(ctx, o, req.Item.GetName()); err != nil {
		return nil, fmt.Errorf("asking for the data to be moved: %w", err)
	}
	sdk.Logger(ctx).Info("Asked for the data of a claim to be moved", "claim", req.Item.GetName(), "dataMove", o.Name)
	return &asyncbackupitemv1.Started{
		OperationID: o.String(), PollInterval: movePollInterval,
		// The DataMove with its last status says in the archive what was moved.
		PostOperationItems: []item.Ref{{Group: datamove.Group, Resource: datamove.Resource, Namespace: o.Namespace, Name: o.Name}},
	}, nil
}

// createOrRestartMove creates the DataMove, or lets the one that there is begin anew.
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

// Progress translates the status of the DataMove.
func (m moveData) Progress(ctx context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	move, o, err := m.getDataMove(ctx, req.OperationID)
	if err != nil {
		return nil, err
	}
	progress := &item.Progress{OperationUnits: "files", Started: move.CreationTimestamp.Time}
	switch {
	case move.Spec.Operation != o.token:
		progress.Completed, progress.Cancelled, progress.Description = true, true, "the move was begun anew for another operation"
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

// Cancel asks the mover for the end of a move, if it is still about this operation.
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

// getDataMove reads the DataMove of an operation. If it is gone, so is the operation; any other
// error means that nobody knows now.
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
		return nil, o, fmt.Errorf("%w: DataMove %s is gone", item.ErrUnknownOperation, o.NamespacedName)
	}
	return move, o, err
}

// moveOperationID is what the ID of an operation says.
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

// skipMoves is a RestoreItemAction: a DataMove in an archive says what was done. If it were
// restored, it would be done again.
type skipMoves struct{}

// AppliesTo selects DataMoves.
func (skipMoves) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{datamove.Resource + "." + datamove.Group}}, nil
}

// Execute leaves one out.
func (skipMoves) Execute(context.Context, *item.RestoreRequest) (*item.RestoreResponse, error) {
	return &item.RestoreResponse{SkipRestore: true}, nil
}
