// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// newKinds returns an object of each kind that the operator works with.
func newKinds() []client.Object {
	return []client.Object{
		&v1alpha1.Backup{}, &v1alpha1.Restore{}, &v1alpha1.HookRun{}, &v1alpha1.AsyncOperation{},
		&v1alpha1.BackupStorageLocation{}, &v1alpha1.Plugin{}, &v1alpha1.DeletionRun{}, &v1alpha1.Schedule{},
		&v1alpha1.DownloadRequest{}, &v1alpha1.BackupPreview{},
	}
}

// checkCRDs returns an error if a CRD of the cluster is older than the operator: without an error, the API server would
// drop the fields that it lacks from what the operator records, and a hook could run twice. A CRD that is missing is no
// error here; the operator becomes ready when it exists.
func checkCRDs(ctx context.Context, mgr ctrl.Manager) error {
	for _, object := range newKinds() {
		kind, err := apiutil.GVKForObject(object, mgr.GetScheme())
		if err != nil {
			return fmt.Errorf("checking the CRDs: %w", err)
		}
		mapping, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("checking the CRDs: %w", err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: mapping.Resource.GroupResource().String()}, &crd); err != nil {
			return fmt.Errorf("checking the CRDs: %w", err)
		}
		if missing := listMissingFields(object, &crd); len(missing) > 0 {
			return fmt.Errorf("the CRD %s is older than the operator: it lacks %s; apply the CRDs of the operator's version (config/crd)",
				crd.Name, strings.Join(missing[:min(len(missing), 5)], ", "))
		}
	}
	return nil
}

// listMissingFields returns the paths of the fields that the type of an object has and its CRD lacks.
func listMissingFields(object client.Object, crd *apiextensionsv1.CustomResourceDefinition) []string {
	i := slices.IndexFunc(crd.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return version.Name == v1alpha1.GroupVersion.Version
	})
	if i < 0 {
		return []string{"version " + v1alpha1.GroupVersion.Version}
	}
	return appendMissingFields(nil, reflect.TypeOf(object), crd.Spec.Versions[i].Schema.OpenAPIV3Schema, "")
}

func appendMissingFields(missing []string, t reflect.Type, schema *apiextensionsv1.JSONSchemaProps, path string) []string {
	switch {
	case t.Kind() == reflect.Pointer:
		return appendMissingFields(missing, t.Elem(), schema, path)
	case t.Kind() == reflect.Slice && schema.Items != nil:
		return appendMissingFields(missing, t.Elem(), schema.Items.Schema, path)
	case t.Kind() == reflect.Map && schema.AdditionalProperties != nil:
		return appendMissingFields(missing, t.Elem(), schema.AdditionalProperties.Schema, path)
	case t.Kind() != reflect.Struct || len(schema.Properties) == 0: // such as times, quantities and metadata
		return missing
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // inline
			missing = appendMissingFields(missing, field.Type, schema, path)
			continue
		}
		property, ok := schema.Properties[name]
		if !ok {
			missing = append(missing, path+"."+name)
			continue
		}
		missing = appendMissingFields(missing, field.Type, &property, path+"."+name)
	}
	return missing
}
