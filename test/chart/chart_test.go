// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamldecoder "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// namespace is where all of Grapnel is, and the release, too, as docs/installation.md installs it.
const namespace = "grapnel-system"

// servedKinds are what Helm finds in a cluster that has the CRDs.
var servedKinds = common.VersionSet{"grapnel.dev/v1alpha1/BackupStorageLocation", "grapnel.dev/v1alpha1/Plugin"}

func loadChart(t *testing.T) *chartv2.Chart {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	chart, err := loader.Load(filepath.Join(root, "charts", "grapnel"))
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// renderChart renders the chart as helm template does.
func renderChart(t *testing.T, chart *chartv2.Chart, values string, kinds common.VersionSet) (*release.Release, error) {
	t.Helper()
	install := action.NewInstall(action.NewConfiguration())
	install.KubeVersion = &common.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	install.DryRunStrategy, install.ReleaseName, install.Namespace, install.APIVersions = action.DryRunClient, "grapnel", namespace, kinds
	rendered, err := install.Run(chart, parseValues(t, values))
	if err != nil {
		return nil, err
	}
	return rendered.(*release.Release), nil
}

func decodeObjects(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yamldecoder.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096); ; {
		var object unstructured.Unstructured
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatal(err)
		case len(object.Object) > 0:
			objects = append(objects, &object)
		}
	}
}
