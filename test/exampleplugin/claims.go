// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

// labelWait with the value "true" says that a pod is to wait for its claims.
const labelWait = "example.io/wait-for-claims"

// waitClaims is a RestoreItemAction of version 2: it lets a pod wait until the claims
// that it mounts are restored. A real one would ask the storage system, or the API
// server, whether their data is there; this one takes its time instead: it says yes when
// it is asked a second time.
type waitClaims struct {
	mu    sync.Mutex
	asked map[string]bool
}

// AppliesTo selects the pods that are to wait.
func (*waitClaims) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"pods"}, LabelSelector: labelWait + "=true"}, nil
}

// Execute names the claims of one pod.
func (*waitClaims) Execute(_ context.Context, req *item.RestoreRequest) (*restoreitemv2.Response, error) {
	volumes, _, err := unstructured.NestedSlice(req.Item.Object, "spec", "volumes")
	if err != nil {
		return nil, fmt.Errorf("reading the volumes of the pod: %w", err)
	}
	var mounted []item.Ref
	for _, volume := range volumes {
		fields, ok := volume.(map[string]any)
		if !ok {
			continue
		}
		if name, _, _ := unstructured.NestedString(fields, "persistentVolumeClaim", "claimName"); name != "" {
			// By the namespace of the backup: the operator knows where it goes.
			mounted = append(mounted, item.Ref{Resource: "persistentvolumeclaims", Namespace: req.Item.GetNamespace(), Name: name})
		}
	}
	return &restoreitemv2.Response{
		RestoreResponse:        item.RestoreResponse{AdditionalItems: mounted},
		WaitForAdditionalItems: len(mounted) > 0, AdditionalItemsReadyTimeout: time.Minute,
	}, nil
}

// AreAdditionalItemsReady is asked about claims in the namespaces that they are in now.
func (w *waitClaims) AreAdditionalItemsReady(ctx context.Context, req *restoreitemv2.ReadyRequest) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ready := true
	for _, claim := range req.AdditionalItems {
		key := req.Restore.UID + " " + claim.Namespace + "/" + claim.Name
		ready = ready && w.asked[key]
		w.asked[key] = true
		sdk.Logger(ctx).Debug("Looking after a claim", "claim", claim.Name, "namespace", claim.Namespace)
	}
	return ready, nil
}

// Progress is not asked: Execute starts nothing.
func (*waitClaims) Progress(_ context.Context, req *restoreitemv2.OperationRequest) (*item.Progress, error) {
	return nil, errors.New("there is no operation " + req.OperationID)
}

// Cancel has nothing to end.
func (*waitClaims) Cancel(context.Context, *restoreitemv2.OperationRequest) error { return nil }
