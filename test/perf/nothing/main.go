// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nothing is a plugin whose action sees every object and does nothing with it:
// what it costs is what calling it costs.
package main

import (
	"context"

	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

type nothing struct{}

func (nothing) AppliesTo(context.Context) (item.Selector, error) { return item.Selector{}, nil }

func (nothing) Execute(context.Context, *item.BackupRequest) (*item.BackupResponse, error) {
	return nil, nil //nolint:nilnil // the SDK defines it: nothing was changed
}

func main() {
	serve.New().RegisterBackupItemActionV1("bench.example.io/nothing",
		func() (backupitemv1.BackupItemAction, error) { return nothing{}, nil }).Serve()
}
