// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	// copyAction is the action of the example plugin that copies the data of claims.
	copyAction = "example.io/copy"
	// claim is the one that it copies, of the namespace dataNamespace.
	claim, dataNamespace = "orders", "shop-data"
	// dataFile is what the claim has; dataBytes is enough to watch it being copied at the
	// rates that the manifests set.
	dataFile  = "table"
	dataBytes = 300 << 10
)

// operated is the result of the operation on the claim.
type operated struct {
	operations []v1alpha1.AsyncOperation
	// halfway is how often its progress was seen.
	halfway int
	// data is what was in the claim, copied what the action made of it.
	data, copied []byte
	copiedErr    error
}

// dataOf is the directory with the data of the claim in a namespace: the example plugin
// takes it for what a storage system has mounted.
func (d *demo) dataOf(namespace string) string {
	return filepath.Join(d.state(), "example-data", namespace, claim)
}

// createData fills the claim.
func (d *demo) createData(ctx context.Context) error {
	folder := d.short(d.dataOf(dataNamespace))
	d.gap()
	d.say("The claim %s/%s has data. There is no storage system, so it is in a directory:", dataNamespace, claim)
	d.gap()
	err := d.show(ctx, fmt.Sprintf("mkdir -p %[1]s && head -c %[2]d /dev/urandom > %[1]s/%[3]s", folder, dataBytes, dataFile))
	if err != nil {
		return err
	}
	d.data, err = os.ReadFile(filepath.Join(d.dataOf(dataNamespace), dataFile))
	return err
}

// collectOperations reads the results of the operations of a run, which copied to a directory.
func (d *demo) collectOperations(ctx context.Context, of client.Object, folder string) (operated, error) {
	o := operated{data: d.data, halfway: d.halfway[of.GetName()]}
	var list v1alpha1.AsyncOperationList
	err := d.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelParentUID: string(of.GetUID())})
	if err != nil {
		return o, err
	}
	o.operations = list.Items
	o.copied, o.copiedErr = os.ReadFile(filepath.Join(folder, dataFile))
	return o, nil
}

// checkOperation checks that there was one operation, on the claim, and that the run
// waited for it.
func (r *ran) checkOperation() error {
	if len(r.operations) != 1 {
		return fmt.Errorf("there are %d operations", len(r.operations))
	}
	o := r.operations[0]
	if o.Spec.PluginName != copyAction || o.Spec.Item.Name != claim || o.Status.Phase != v1alpha1.AsyncOperationPhaseCompleted {
		return fmt.Errorf("%s of %s is %s: %s", o.Spec.PluginName, o.Spec.Item.Name, o.Status.Phase, o.Status.Message)
	}
	if counts := r.of.Run().Operations; counts == nil || counts.Attempted != 1 || counts.Completed != 1 || counts.Percent != 100 {
		return fmt.Errorf("the status says %+v", counts)
	}
	if done := r.of.Run().CompletionTimestamp; done == nil || done.Before(o.Status.CompletionTimestamp) {
		return fmt.Errorf("it ended at %v, the %s at %v", o.Status.CompletionTimestamp, r.kind.Name, done)
	}
	return nil
}

// checkWatched checks that the progress was visible.
func (r *ran) checkWatched() error {
	if r.halfway == 0 {
		return errors.New("nothing was seen of it before its end")
	}
	return nil
}

func (r *ran) checkData() error {
	if r.copiedErr != nil {
		return fmt.Errorf("looking for the data: %w", r.copiedErr)
	}
	if len(r.data) != dataBytes || !bytes.Equal(r.data, r.copied) {
		return fmt.Errorf("the data had %d bytes, the copy has %d and is another", len(r.data), len(r.copied))
	}
	return nil
}
