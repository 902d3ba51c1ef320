// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// annotationDo configures what the actions on objects do with a ConfigMap.
const annotationDo = "fault.example.io/do"

// itemAction is a BackupItemAction and a RestoreItemAction that follows the annotation of a
// ConfigMap:
//
//	label:key=value   add a label to the Backup
//	add:name          name a Secret of the namespace
//	error:text        fail
//	mark              add an annotation with the parameter "mark"
//	rename            return another object
//	skip              skip the object in the restore
//	await:file        wait until there is a file
type itemAction struct{}

func (itemAction) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"configmaps"}}, nil
}

// backupAction is the BackupItemAction.
type backupAction struct{ itemAction }

// Execute handles one object.
func (backupAction) Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	object := req.Item
	do, what, _ := strings.Cut(object.GetAnnotations()[annotationDo], ":")
	sdk.Logger(ctx).Info("Looking at an object", "object", object.GetName(), "backup", req.Backup.Name, "do", do)
	switch do {
	case "label":
		key, value, _ := strings.Cut(what, "=")
		return &item.BackupResponse{BackupLabels: map[string]string{key: value}}, nil
	case "add":
		return &item.BackupResponse{AdditionalItems: []item.Ref{{Resource: "secrets", Namespace: object.GetNamespace(), Name: what}}}, nil
	case "error":
		return nil, fmt.Errorf("%s", what)
	case "mark":
		annotations := object.GetAnnotations()
		annotations["fault.example.io/mark"] = sdk.Parameters(ctx)["mark"]
		object.SetAnnotations(annotations)
	case "rename":
		object.SetName("other")
	case "await":
		return nil, waitForFile(ctx, what)
	}
	return &item.BackupResponse{Item: object}, nil
}

// restoreAction is the RestoreItemAction.
type restoreAction struct{ itemAction }

// Execute handles one object.
func (restoreAction) Execute(ctx context.Context, req *item.RestoreRequest) (*item.RestoreResponse, error) {
	do, what, _ := strings.Cut(req.Item.GetAnnotations()[annotationDo], ":")
	sdk.Logger(ctx).Info("Looking at an object", "object", req.Item.GetName(), "restore", req.Restore.Name, "do", do)
	switch do {
	case "skip":
		return &item.RestoreResponse{SkipRestore: true}, nil
	case "label":
		key, value, _ := strings.Cut(what, "=")
		return &item.RestoreResponse{BackupLabels: map[string]string{key: value}}, nil
	case "error":
		return nil, fmt.Errorf("%s", what)
	case "mark":
		annotations := req.Item.GetAnnotations()
		annotations["fault.example.io/mark"] = sdk.Parameters(ctx)["mark"]
		req.Item.SetAnnotations(annotations)
	}
	return &item.RestoreResponse{Item: req.Item}, nil
}

// waitForFile waits until a file exists, or ctx is done.
func waitForFile(ctx context.Context, file string) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
