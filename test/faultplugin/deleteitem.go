// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// annotationClean says what a DeleteItemAction does with an archived ConfigMap:
//
//	error:text   fail
//	panic:text   panic
//	await:file   wait until there is a file
//	hang         never return
const annotationClean = "fault.example.io/clean"

// deleteItemAction is a DeleteItemAction that writes its objects, as lines "action
// namespace/name", to the file FAULT_CLEANED.
type deleteItemAction struct{ name string }

// AppliesTo implements the interface.
func (deleteItemAction) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"configmaps"}}, nil
}

// Execute does what the annotation says.
func (d deleteItemAction) Execute(ctx context.Context, req *item.DeleteRequest) (err error) {
	file, err := os.OpenFile(os.Getenv("FAULT_CLEANED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %s/%s\n", d.name, req.Item.GetNamespace(), req.Item.GetName())
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	switch do, what, _ := strings.Cut(req.Item.GetAnnotations()[annotationClean], ":"); do {
	case "error":
		return errors.New(what)
	case "panic":
		panic(what)
	case "await":
		return waitForFile(ctx, what)
	case "hang":
		blockForever()
	}
	return nil
}
