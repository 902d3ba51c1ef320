// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// TestAddRequestedLabels adds the labels that item actions requested, and never fails a Backup.
func TestAddRequestedLabels(t *testing.T) {
	group := schema.GroupResource{Group: "grapnel.dev", Resource: "backups"}
	for name, tc := range map[string]struct {
		refusal error
		wanted  map[string]string
		added   bool
		labels  map[string]string
		event   string
		fails   bool
	}{
		"nothing":                {labels: map[string]string{"own": "yes"}},
		"new ones":               {wanted: map[string]string{"db": "yes", "own": "no"}, added: true, labels: map[string]string{"own": "yes", "db": "yes"}},
		"nothing new":            {wanted: map[string]string{"own": "no"}, labels: map[string]string{"own": "yes"}},
		"a policy rejects them":  {wanted: map[string]string{"db": "yes"}, refusal: apierrors.NewForbidden(group, "b", errors.New("no such labels")), labels: map[string]string{"own": "yes"}, event: "no such labels"},
		"the API server is away": {wanted: map[string]string{"db": "yes"}, refusal: errors.New("connection refused"), labels: map[string]string{"own": "yes"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns", Labels: map[string]string{"own": "yes"}}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if tc.refusal != nil {
						return tc.refusal
					}
					return c.Patch(ctx, o, p, opts...)
				},
			}).Build()
			told := events.NewFakeRecorder(1)
			r := &Reconciler{Dependencies: lifecycle.Dependencies{Client: c, Recorder: told, Redactor: redact.New()}}
			added, err := r.addRequestedLabels(t.Context(), &scope{Object: b}, tc.wanted)
			if added != tc.added || (err != nil) != tc.fails {
				t.Errorf("added %v, error %v; want %v, an error: %v", added, err, tc.added, tc.fails)
			}
			var now v1alpha1.Backup
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), &now); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(now.Labels, tc.labels) {
				t.Errorf("the labels are %v, want %v", now.Labels, tc.labels)
			}
			select {
			case event := <-told.Events:
				if tc.event == "" || !strings.Contains(event, tc.event) {
					t.Errorf("the event is %q, want %q", event, tc.event)
				}
			default:
				if tc.event != "" {
					t.Errorf("there is no event %q", tc.event)
				}
			}
		})
	}
}
