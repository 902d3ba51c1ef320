// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

// operationWriteTarget is how many times the limit it may take to start or to cancel operations.
const operationWriteTarget = 2

// measureWrites measures the limits of starting and of canceling operations: the same writes, by the
// workers that create objects, while no operator runs. The operations that were canceled are the
// pattern.
func (f *following) measureWrites(ctx context.Context, e *environment) error {
	var list v1alpha1.AsyncOperationList
	if err := e.client.List(ctx, &list, client.InNamespace(operator.Namespace), client.Limit(1)); err != nil {
		return fmt.Errorf("listing the AsyncOperations: %w", err)
	}
	if len(list.Items) == 0 {
		return errors.New("the canceled AsyncOperations no longer exist")
	}
	starting, canceling, err := f.writeRequests(e.client, &list.Items[0])
	if err != nil {
		return err
	}
	if err := e.askLimit(ctx, starting, &f.startLimit, "send"); err != nil {
		return err
	}
	return e.askLimit(ctx, canceling, &f.cancelLimit, "send")
}

// writeRequests are the writes of each operation: its creation and its status, then the request to
// cancel it in its spec, and the status before and after the plugin has canceled it.
func (o operations) writeRequests(c client.Client, canceled *v1alpha1.AsyncOperation) (starting, canceling raw.SendRequest, err error) {
	created := canceled.DeepCopy()
	created.ObjectMeta = metav1.ObjectMeta{Namespace: canceled.Namespace, Labels: canceled.Labels, Finalizers: canceled.Finalizers}
	created.Spec.DesiredState, created.Spec.CancelReason = v1alpha1.DesiredStateRun, ""
	created.Status = v1alpha1.AsyncOperationStatus{}
	patchOf := func(status v1alpha1.AsyncOperationStatus, phase v1alpha1.AsyncOperationPhase) (json.RawMessage, error) {
		status.Phase = phase
		return json.Marshal(map[string]any{"status": status})
	}
	running := *canceled.Status.DeepCopy()
	running.Cancel, running.CompletionTimestamp = nil, nil
	inProgress, err1 := patchOf(running, v1alpha1.AsyncOperationPhaseInProgress)
	cancelling, err2 := patchOf(canceled.Status, v1alpha1.AsyncOperationPhaseCancelling)
	ended, err3 := patchOf(canceled.Status, v1alpha1.AsyncOperationPhaseCancelled)
	request, err4 := json.Marshal(map[string]any{"spec": map[string]any{
		"desiredState": v1alpha1.DesiredStateCancel, "cancelReason": canceled.Spec.CancelReason,
	}})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return starting, canceling, fmt.Errorf("encoding a patch: %w", err)
	}
	collection := fmt.Sprintf("/apis/%s/namespaces/%s/asyncoperations", v1alpha1.GroupVersion, canceled.Namespace)
	start, cancel := make([][]raw.Message, 2), make([][]raw.Message, 3)
	for i := range o.all() {
		created.Name = fmt.Sprintf("limit-%05d", i)
		body, err := encode(c, created)
		if err != nil {
			return starting, canceling, err
		}
		object := collection + "/" + created.Name
		start[0] = append(start[0], raw.Message{Path: collection, Body: body})
		start[1] = append(start[1], raw.Message{Path: object + "/status", Patch: true, Body: inProgress})
		cancel[0] = append(cancel[0], raw.Message{Path: object, Patch: true, Body: request})
		cancel[1] = append(cancel[1], raw.Message{Path: object + "/status", Patch: true, Body: cancelling})
		cancel[2] = append(cancel[2], raw.Message{Path: object + "/status", Patch: true, Body: ended})
	}
	return raw.SendRequest{Workers: loadWorkers, Steps: start}, raw.SendRequest{Workers: loadWorkers, Steps: cancel}, nil
}
