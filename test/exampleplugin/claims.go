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

// labelWait with the value "true" makes a Pod wait for its claims.
const labelWait = "example.io/wait-for-claims"

// waitClaims is a RestoreItemAction of version 2: it makes a Pod wait until the claims that
// it mounts are restored. A real action would check with the storage system, or the API
// server, whether their data exists. This one simulates a delay and returns true on the
// second call.
type waitClaims struct {
	mu    sync.Mutex
	asked map[string]bool
}

// AppliesTo selects the Pods that wait.
func (*waitClaims) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"pods"}, LabelSelector: labelWait + "=true"}, nil
}

// Execute names the claims of one Pod.
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
			// The namespace is that in the backup: the operator maps it.
			mounted = append(mounted, item.Ref{Resource: "persistentvolumeclaims", Namespace: req.Item.GetNamespace(), Name: name})
		}
	}
	return &restoreitemv2.Response{
		RestoreResponse:        item.RestoreResponse{AdditionalItems: mounted},
		WaitForAdditionalItems: len(mounted) > 0, AdditionalItemsReadyTimeout: time.Minute,
	}, nil
}

// AreAdditionalItemsReady gets claims in their target namespaces.
func (w *waitClaims) AreAdditionalItemsReady(ctx context.Context, req *restoreitemv2.ReadyRequest) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ready := true
	for _, claim := range req.AdditionalItems {
		key := req.Restore.UID + " " + claim.Namespace + "/" + claim.Name
		ready = ready && w.asked[key]
		w.asked[key] = true
		sdk.Logger(ctx).Debug("Checking a claim", "claim", claim.Name, "namespace", claim.Namespace)
	}
	return ready, nil
}

// Progress is not called: Execute starts no operation.
func (*waitClaims) Progress(_ context.Context, req *restoreitemv2.OperationRequest) (*item.Progress, error) {
	return nil, errors.New("there is no operation " + req.OperationID)
}

// Cancel does nothing: there is no operation.
func (*waitClaims) Cancel(context.Context, *restoreitemv2.OperationRequest) error { return nil }
