// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/sdk"
)

// hookPoints lists the four points at which an action can be skipped.
var hookPoints = map[sdk.Kind]struct {
	points hook.Points
	side   hook.Side
}{
	sdk.KindPreBackupAction:   {backup, hook.Pre},
	sdk.KindPostBackupAction:  {backup, hook.Post},
	sdk.KindPreRestoreAction:  {restore, hook.Pre},
	sdk.KindPostRestoreAction: {restore, hook.Post},
}

// checkSkipKey checks that Kubernetes accepts the annotation that skips an action, if the name of
// the action is valid.
func checkSkipKey(t *testing.T, name string) (valid bool) {
	t.Helper()
	for kind, at := range hookPoints {
		if valid = sdk.ValidateName(kind, name) == nil; !valid {
			continue
		}
		key := at.points.SkipAnnotationKey(name, at.side)
		if errs := validation.ValidateAnnotations(map[string]string{key: "skip"}, field.NewPath("annotations")); len(errs) > 0 {
			t.Errorf("%s %q: Kubernetes refuses the annotation %q: %v", kind, name, key, errs)
		}
	}
	return valid
}

func TestSkipAnnotationKey_AcceptedByKubernetes(t *testing.T) {
	for name, actionName := range map[string]string{
		"short":                           "f",
		"capital letters":                 "Freeze",
		"with dots":                       "freeze.v2",
		"long without a slash":            strings.Repeat("n", 63),
		"with a prefix":                   "example.io/freeze",
		"with a prefix and odd letters":   "example.io/Freeze_all.v2",
		"long after the slash":            "example.io/" + strings.Repeat("n", 51),
		"long before the slash":           strings.Repeat("a", 251) + "/f",
		"with a prefix of several labels": "a.b-c.d/E_f.g-9",
	} {
		t.Run(name, func(t *testing.T) {
			if !checkSkipKey(t, actionName) {
				t.Errorf("%q is no valid name of a hook", actionName)
			}
		})
	}
}

func FuzzSkipKey(f *testing.F) {
	for _, name := range []string{"freeze", "Freeze_1", "a..b", "example.io/freeze", "a/" + strings.Repeat("n", 52), "a.-b", "a/b/c", "İ", "K"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) { checkSkipKey(t, name) })
}
