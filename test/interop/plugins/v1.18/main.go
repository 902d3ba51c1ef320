// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command v1.18 is a plugin built with Velero 1.18. It also provides a kind of action
// that came with Velero 1.15.
package main

import (
	"fmt"

	"github.com/sirupsen/logrus"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

func main() {
	actions.Register(framework.NewServer()).
		RegisterItemBlockAction(actions.Block, func(logrus.FieldLogger) (any, error) { return block{}, nil }).
		Serve()
}

// block is an ItemBlockAction: what belongs with a ConfigMap is the Secret that its annotation names.
type block struct{}

// Name is not called: Velero knows the name.
func (block) Name() string { return "" }

// AppliesTo wants ConfigMaps.
func (block) AppliesTo() (velero.ResourceSelector, error) {
	return velero.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

// GetRelatedItems names the Secret. It fails for one without a name.
func (block) GetRelatedItems(item runtime.Unstructured, backup *api.Backup) ([]velero.ResourceIdentifier, error) {
	object, err := meta.Accessor(item)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of an object: %w", err)
	}
	name, annotated := object.GetAnnotations()[actions.AnnotationBelongsTo]
	switch {
	case !annotated:
		return nil, nil
	case name == "":
		return nil, fmt.Errorf("the Secret of backup %s has no name", backup.Name)
	}
	return []velero.ResourceIdentifier{{
		GroupResource: schema.GroupResource{Resource: "secrets"}, Namespace: object.GetNamespace(), Name: name,
	}}, nil
}
