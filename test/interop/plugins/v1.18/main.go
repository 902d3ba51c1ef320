// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command v1.18 is a plugin built with Velero 1.18. It also provides a kind of action
// that came with Velero 1.15 and that Grapnel does not have.
package main

import (
	"github.com/sirupsen/logrus"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

func main() {
	actions.Register(framework.NewServer()).
		RegisterItemBlockAction("interop.example.io/block", func(logrus.FieldLogger) (any, error) { return block{}, nil }).
		Serve()
}

// block is an ItemBlockAction. Grapnel never calls it.
type block struct{}

// Name is not called: Velero knows the name.
func (block) Name() string { return "" }

// AppliesTo wants all objects.
func (block) AppliesTo() (velero.ResourceSelector, error) { return velero.ResourceSelector{}, nil }

// GetRelatedItems knows none.
func (block) GetRelatedItems(runtime.Unstructured, *api.Backup) ([]velero.ResourceIdentifier, error) {
	return nil, nil
}
