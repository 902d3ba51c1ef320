// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/podhook"
)

func TestDisabledPods(t *testing.T) {
	t.Parallel()
	var pods podhook.DisabledPods
	if got := pods.Warning(); got != "" {
		t.Errorf("without a pod: %q", got)
	}
	pods.Add("shop", "db-1")
	if got := pods.Warning(); !strings.HasPrefix(got, "the Velero hooks of 1 pod did not run: ") || !strings.HasSuffix(got, "config/components/velero-hooks: shop/db-1") {
		t.Errorf("one pod: %q", got)
	}
	pods.Add("shop", "db-0")
	got := pods.Warning()
	if !strings.HasPrefix(got, "the Velero hooks of 2 pods did not run: ") || !strings.HasSuffix(got, ": shop/db-0, shop/db-1") {
		t.Errorf("two pods: %q", got)
	}
	// A status has the first 200 bytes of it.
	if at := strings.Index(got, "config/components/velero-hooks"); at < 0 || at > 170 {
		t.Errorf("it says too late what to do: %q", got)
	}
	for i := range 500 {
		pods.Add("vm", fmt.Sprintf("pod-%03d", i))
	}
	if got := pods.Warning(); !strings.HasSuffix(got, "vm/pod-097 and 402 more") {
		t.Errorf("many pods: %q", got)
	}
}
