// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestImageNameAction_Execute(t *testing.T) {
	changes, problems := ParseImageChanges(map[string]string{"case1": "1.1.1.1:5000,2.2.2.2:3000", "case2": "5000,3000", "case3": " abc:test , def:test "})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	pod := func(images ...string) string {
		return `{"containers":[{"image":"` + images[0] + `"},{"name":"none"}],"initContainers":[{"image":"` + images[1] + `"}]}`
	}
	before := pod("1.1.1.1:5000/abc:test", "other/abc:test")
	after := pod("2.2.2.2:3000/abc:test", "other/def:test") // one change for each image
	cases := map[string]Case{}
	for resource, path := range podSpecPaths {
		prefix := `{"metadata":{"name":"a"},"` + strings.Join(path, `":{"`) + `":`
		suffix := strings.Repeat("}", len(path))
		cases[resource.String()] = Case{Resource: resource.WithVersion("v1"), Archived: prefix + before + suffix, Want: prefix + after + suffix}
	}
	unchanged := `{"metadata":{"name":"a"},"spec":` + pod("registry/app@sha256:0", "app") + `}`
	cases["no change"] = Case{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Archived: unchanged, Want: unchanged}
	RunCases(t, NewImageNameAction(changes), cases)
	if len(cases) != 9 {
		t.Errorf("%d cases", len(cases))
	}
}

// TestImageNameAction_Long has a replacement that grows with every match.
func TestImageNameAction_Long(t *testing.T) {
	changes, problems := ParseImageChanges(map[string]string{"a": "a," + strings.Repeat("b", 500), "long": "c," + strings.Repeat("d", 513), "control": "e,\x1b[2J"})
	if len(changes) != 1 || len(problems) != 2 {
		t.Fatalf("changes %v, problems %q", changes, problems)
	}
	object := ParseObject(t, `{"spec":{"containers":[{"image":"aa"}]}}`)
	_, err := NewImageNameAction(changes).Execute(t.Context(), &itemaction.RestoreItem{Object: object, Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}})
	if err == nil || !strings.Contains(err.Error(), "longer than 512 bytes") {
		t.Errorf("error %v", err)
	}
}
