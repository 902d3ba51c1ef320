// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestCreateWithRetry_LateServiceAccount uses a namespace that the restore creates: a
// controller creates the ServiceAccount after it.
func TestCreateWithRetry_LateServiceAccount(t *testing.T) {
	for name, comes := range map[string]bool{"comes": true, "stays away": false} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := fmt.Sprintf("late-account-%t", comes)
			account := obj(t, "v1", "ServiceAccount", ns, "late", "")
			var once sync.Once
			c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if comes && strings.HasSuffix(r.URL.Path, "/pods") && r.Method == http.MethodPost {
					once.Do(func() { c.create(account) })
				}
				return resp, err
			})
			pod := obj(t, "v1", "Pod", ns, "p", `{"spec":{"serviceAccountName":"late","containers":[{"name":"c","image":"x"}]}}`)
			result := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{pod, configMap(t, ns, "other", "x")}), RestoreUID: "u"})
			if !comes {
				wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: 1})
				wantMessages(t, result, `error `+ns+`: |pods "`+ns+`/p"|error looking up service account `+ns+`/late`)
				return
			}
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3})
			wantMessages(t, result)
			if account := c.get(pod).Object["spec"].(map[string]any)["serviceAccountName"]; account != "late" {
				t.Errorf("it runs as %v", account)
			}
		})
	}
}
