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

// TestRestoreObjects_LegacyTokens restores objects of a cluster before 1.22, whose pods mounted
// generated Secrets with tokens: this cluster gives the pod a token of its own.
func TestRestoreObjects_LegacyTokens(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "legacy-tokens"
	const token = `{"type":"kubernetes.io/service-account-token","metadata":{"annotations":{"kubernetes.io/service-account.name":"robot",
		"kubernetes.io/service-account.uid":"old"}},"data":{"token":"b2xk","ca.crt":"b2xk","namespace":"b2xk"}}`
	account := obj(t, "v1", "ServiceAccount", ns, "robot", `{"secrets":[{"name":"robot-token-x7k2p"}]}`)
	generated := obj(t, "v1", "Secret", ns, "robot-token-x7k2p", token)
	requested := obj(t, "v1", "Secret", ns, "robot-token", token)
	pod := obj(t, "v1", "Pod", ns, "p", `{"spec":{"serviceAccountName":"robot","volumes":[{"name":"robot-token-x7k2p","secret":{"secretName":"robot-token-x7k2p"}}],
		"containers":[{"name":"c","image":"x","volumeMounts":[{"name":"robot-token-x7k2p","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}]}}`)
	result := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{account, generated, requested, pod}), RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4, restore.Skipped: 1}) // and the namespace
	wantMessages(t, result)
	if got := c.get(requested); c.has(generated) || strings.Contains(fmt.Sprint(got.Object["data"]), "b2xk") {
		t.Errorf("the tokens are %v", got.Object)
	}
	if secrets, _, _ := unstructured.NestedSlice(c.get(account).Object, "secrets"); len(secrets) > 0 {
		t.Errorf("the account has %v", secrets)
	}
	volumes, _, _ := unstructured.NestedSlice(c.get(pod).Object, "spec", "volumes")
	if text := fmt.Sprint(volumes); strings.Contains(text, "robot-token") || !strings.Contains(text, "serviceAccountToken") {
		t.Errorf("the pod has volumes %v", volumes)
	}
}
