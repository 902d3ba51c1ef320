// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package downloadrequest

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// reconcile reconciles a DownloadRequest, and returns it as it is then; nil if it was deleted.
func reconcile(t *testing.T, c client.Client, server *Server, name string) (*v1alpha1.DownloadRequest, ctrl.Result) {
	t.Helper()
	r := &Reconciler{Client: c, Reader: c, Server: server, Now: func() time.Time { return noon }}
	key := client.ObjectKey{Namespace: testNamespace, Name: name}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
	var d v1alpha1.DownloadRequest
	switch err := c.Get(t.Context(), key, &d); {
	case client.IgnoreNotFound(err) != nil:
		t.Fatal(err)
	case err != nil:
		return nil, result
	}
	return &d, result
}

func TestReconcile_NewRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    v1alpha1.DownloadTargetKind
		target  string
		server  *Server
		phase   v1alpha1.DownloadRequestPhase
		reason  string
		message string
	}{
		"of a Backup":             {v1alpha1.DownloadBackupLog, "b", &Server{}, v1alpha1.DownloadRequestPhaseReady, v1alpha1.ReasonReadyToDownload, ""},
		"of a Restore":            {v1alpha1.DownloadRestoreResults, "r", &Server{}, v1alpha1.DownloadRequestPhaseReady, v1alpha1.ReasonReadyToDownload, ""},
		"no such Backup":          {v1alpha1.DownloadBackupLog, "r", &Server{}, v1alpha1.DownloadRequestPhaseFailed, v1alpha1.ReasonTargetNotFound, "Backup r does not exist"},
		"no such Restore":         {v1alpha1.DownloadRestoreLog, "b", &Server{}, v1alpha1.DownloadRequestPhaseFailed, v1alpha1.ReasonTargetNotFound, "Restore b does not exist"},
		"downloads are disabled":  {v1alpha1.DownloadBackupLog, "b", nil, v1alpha1.DownloadRequestPhaseFailed, v1alpha1.ReasonDownloadsDisabled, "--download-bind-address"},
		"disabled and no such it": {v1alpha1.DownloadBackupLog, "x", nil, v1alpha1.DownloadRequestPhaseFailed, v1alpha1.ReasonDownloadsDisabled, "--download-bind-address"},
	} {
		t.Run(name, func(t *testing.T) {
			request := newRequest("d", tc.kind, tc.target)
			request.Status = v1alpha1.DownloadRequestStatus{ObservedGeneration: -1}
			restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "r"}}
			c := newFakeClient(t, request, newRunningBackup("b"), restore)
			d, result := reconcile(t, c, tc.server, "d")
			ready := tc.phase == v1alpha1.DownloadRequestPhaseReady
			condition := conditions.Get(d, v1alpha1.ConditionReady)
			if s := d.Status; s.Phase != tc.phase || condition == nil || condition.Reason != tc.reason || (condition.Status == metav1.ConditionTrue) != ready ||
				!strings.Contains(s.Message, tc.message) || (s.Message == "") != ready || (s.Path == "/v1/downloads/d") != ready {
				t.Errorf("status is %+v", s)
			}
			if at := d.Status.ExpirationTimestamp; at == nil || !at.Equal(&metav1.Time{Time: noon.Add(lifetime)}) || result.RequeueAfter != lifetime {
				t.Errorf("it expires at %v and is reconciled after %v, want %v from noon", at, result.RequeueAfter, lifetime)
			}
		})
	}
}

// TestReconcile_URL: with --download-url, the status says where the file is and how its server is recognized.
func TestReconcile_URL(t *testing.T) {
	server := &Server{Namespace: testNamespace, URL: "https://127.0.0.1:8444"}
	listening, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listening.Listener.Close() }()
	request := newRequest("d", v1alpha1.DownloadBackupLog, "b")
	request.Status = v1alpha1.DownloadRequestStatus{}
	d, _ := reconcile(t, newFakeClient(t, request, newRunningBackup("b")), server, "d")
	if s := d.Status; s.URL != server.URL || strings.Count(s.CABundle, "BEGIN CERTIFICATE") == 0 || strings.Contains(s.CABundle, "PRIVATE") {
		t.Errorf("status is %+v", s)
	}
}

func TestListen_InvalidURL(t *testing.T) {
	for _, url := range []string{"http://backups.example.com", "backups.example.com:8444", "https://", "https://%zz"} {
		server := &Server{Namespace: testNamespace, URL: url}
		if _, err := server.Listen("127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "--download-url") {
			t.Errorf("%s: %v, want an error that names the flag", url, err)
		}
	}
}

func TestReconcile_Expiration(t *testing.T) {
	for name, tc := range map[string]struct {
		left    time.Duration
		deleted bool
	}{
		"a minute is left": {left: time.Minute},
		"just expired":     {left: 0, deleted: true},
		"expired long ago": {left: -time.Hour, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			request := newRequest("d", v1alpha1.DownloadBackupLog, "b")
			request.Status.ExpirationTimestamp.Time = noon.Add(tc.left)
			d, result := reconcile(t, newFakeClient(t, request), &Server{}, "d")
			if (d == nil) != tc.deleted || (!tc.deleted && result.RequeueAfter != tc.left) {
				t.Errorf("%+v, reconciled after %v", d, result.RequeueAfter)
			}
		})
	}
}
