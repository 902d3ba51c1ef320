// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"reflect"
	"testing"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// TestMapRefNamespaces covers namespaces that swap names.
func TestMapRefNamespaces(t *testing.T) {
	t.Parallel()
	got := mapRefNamespaces([]item.Ref{{Namespace: "a", Name: "1"}, {Namespace: "b", Name: "2"}, {Namespace: "c", Name: "3"}, {Name: "4"}},
		map[string]string{"a": "b", "b": "a"})
	want := []item.Ref{{Namespace: "b", Name: "1"}, {Namespace: "a", Name: "2"}, {Namespace: "c", Name: "3"}, {Name: "4"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
