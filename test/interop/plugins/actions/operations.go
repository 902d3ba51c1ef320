// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// operationSteps is how often an operation is polled until it has ended.
const operationSteps = 2

// operations are those that one action has started.
type operations struct {
	mu   sync.Mutex
	open map[string]*operation
}

type operation struct {
	done      int64
	cancelled bool
}

// startOperation returns the ID of a new operation.
func (o *operations) startOperation(object metav1.Object) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = map[string]*operation{}
	}
	id := "copy-of-" + object.GetNamespace() + "-" + object.GetName()
	o.open[id] = &operation{}
	return id
}

// advanceOperation goes one step on.
func (o *operations) advanceOperation(id, run string) (velero.OperationProgress, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.open[id]
	if op == nil {
		return velero.OperationProgress{}, errors.Errorf("there is no operation %q", id)
	}
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	answer := velero.OperationProgress{
		NTotal: operationSteps, OperationUnits: "steps", Description: "copying for " + run,
		Started: started, Updated: started.Add(time.Minute),
	}
	if op.cancelled {
		answer.Completed, answer.Err = true, "the operation was cancelled"
		return answer, nil
	}
	op.done++
	answer.NCompleted, answer.Completed = op.done, op.done >= operationSteps
	return answer, nil
}

// cancelOperation ends an operation.
func (o *operations) cancelOperation(id string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.open[id]
	if op == nil {
		return errors.Errorf("there is no operation %q", id)
	}
	op.cancelled = true
	return nil
}
