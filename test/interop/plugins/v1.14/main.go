// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command v1.14 is a plugin built with Velero 1.14.
package main

import (
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"

	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

func main() {
	actions.Register(framework.NewServer()).Serve()
}
