// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// FuzzReadStamp reads annotations that any client may write: none is trusted, and none is
// both trusted and foreign.
func FuzzReadStamp(f *testing.F) {
	target := rawclient.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, Namespace: "ns", Name: "web"}
	theirs := Stamper{UID: "u", Key: []byte("another key")}
	ours := Stamper{UID: "u", Key: []byte("key")}
	for _, value := range []string{"", " ", "boom u", " u", "created u", "created u ", theirs.Value(target, "created"), "created u \xff", "u u u"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		outcome, own, foreign := ours.Parse(target, value)
		if own || outcome != "" {
			t.Errorf("%q is believed: %s, foreign %t", value, outcome, foreign)
		}
	})
}
