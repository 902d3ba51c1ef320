// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func TestHookRunName(t *testing.T) {
	names := []string{"a", "nightly.2026-01-01", strings.Repeat("long-", 40) + "x", strings.Repeat("a", 33) + "-." + strings.Repeat("b", 30)}
	actions := []string{"quiesce", "example.io/quiesce", "other.io/quiesce", "example.io/Große_Aktion", "a/" + strings.Repeat("x", 200)}
	points := []v1alpha1.HookPoint{v1alpha1.HookPreBackup, v1alpha1.HookPostBackup}
	seen := map[string]string{}
	for _, name := range names {
		for _, action := range actions {
			for _, point := range points {
				for _, uid := range []types.UID{"1", "2"} {
					b := queued(name, 0)
					b.UID = uid
					got := BackupKind.hookRunName(b, point, action)
					if len(got) > 52 || len(validation.IsDNS1123Subdomain(got)) > 0 {
						t.Errorf("%q is not a valid name of at most 52 characters", got)
					}
					what := name + "|" + action + "|" + string(point) + "|" + string(uid)
					if other, taken := seen[got]; taken {
						t.Errorf("%q stands for %s and for %s", got, other, what)
					}
					seen[got] = what
					if again := BackupKind.hookRunName(b, point, action); again != got {
						t.Errorf("%s has the name %q and then %q", what, got, again)
					}
				}
			}
		}
	}
}
