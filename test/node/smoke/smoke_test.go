// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestRender(t *testing.T) {
	content, err := render(manifests + "---\n" + restored)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	kinds := map[string]int{}
	for {
		var o unstructured.Unstructured
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, content)
		}
		kinds[o.GetKind()]++
		// What is not in the namespace is not deleted with it.
		if n := o.GetNamespace(); n != Namespace && o.GetName() != Namespace {
			t.Errorf("%s %s is in %q", o.GetKind(), o.GetName(), n)
		}
		if o.GetKind() == "Secret" {
			encoded, _, _ := unstructured.NestedString(o.Object, "data", "tls.key")
			key, err := base64.StdEncoding.DecodeString(encoded)
			if block, _ := pem.Decode(key); block == nil || err != nil {
				t.Errorf("the key is no PEM: %v", err)
			}
		}
	}
	if kinds["Deployment"] != 2 || kinds["Service"] != 3 || kinds["Job"] != 3 || kinds["VolumeSnapshot"] != 1 || kinds["ValidatingWebhookConfiguration"] != 1 {
		t.Errorf("there are %v", kinds)
	}
}
