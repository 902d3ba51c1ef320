// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"      //nolint:staticcheck // As the next one.
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // Its successor would be a requirement of our own, for one test.
	"k8s.io/client-go/util/exec"
)

// TestRemote_SPDYFallback uses a server from before Kubernetes 1.30.
func TestRemote_SPDYFallback(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Error(w, "no WebSocket here", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
			return
		}
		arrived := make(chan httpstream.Stream, 4)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			arrived <- s
			return nil
		})
		if conn == nil {
			return
		}
		streams := map[string]httpstream.Stream{}
		for range 4 {
			stream := <-arrived
			streams[stream.Headers().Get(corev1.StreamType)] = stream
		}
		stdin, _ := io.ReadAll(streams[corev1.StreamTypeStdin])
		_, _ = io.WriteString(streams[corev1.StreamTypeStdout], "read "+string(stdin))
		_, _ = io.WriteString(streams[corev1.StreamTypeError], statusExit)
		for _, stream := range streams {
			_ = stream.Close()
		}
		<-conn.CloseChan()
	})
	stdout, _, err := s.exec(t.Context(), "the call")
	var exit exec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 3 || stdout != "read the call" {
		t.Errorf("it printed %q, error %v", stdout, err)
	}
	if diff := cmp.Diff([]string{"GET", "POST"}, s.asked()); diff != "" {
		t.Errorf("requests: %s", diff)
	}
}
