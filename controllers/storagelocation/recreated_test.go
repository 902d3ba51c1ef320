// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/storagelocation"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/testing/storeplugin"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// paused is a client whose reads of locations wait while mu is held.
type paused struct {
	client.Client
	mu sync.Mutex
}

// Get implements client.Client.
func (p *paused) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Client.Get(ctx, key, object, opts...)
}

var _ = Describe("A recreated location", Label("import"), func() {
	It("keeps the resources of the second location", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		reads := &paused{}
		scratch, _ := withPlugins(t, env, func(r *storagelocation.Reconciler) {
			reads.Client = r.Client
			r.Client = reads
		})
		store := storeplugin.NewBucketDir(t, "bucket")
		newPlugin(t, env, store)
		credentials(env, "cloud", map[string]string{"ini": "password=right"})
		named := func(bsl *v1alpha1.BackupStorageLocation) { bsl.GenerateName, bsl.Name = "", "again" }
		first := inPlugin(env, "bucket", withCredential, named)
		await(env, first, available)

		reads.mu.Lock()
		resume := sync.OnceFunc(reads.mu.Unlock)
		defer resume()
		env.Delete(first)
		second := inPlugin(env, "bucket", withCredential, named)
		suite.Eventually(t, func() string {
			var seen v1alpha1.BackupStorageLocation
			if err := reads.Client.Get(t.Context(), client.ObjectKeyFromObject(second), &seen); err != nil || seen.UID != second.UID {
				return "the operator does not know the second location yet"
			}
			return ""
		})
		resume()

		await(env, second, available)
		starts := store.AcceptedInits()
		if len(starts) != 2 {
			t.Fatalf("the store was initialized with: %+v", starts)
		}
		plugintesting.Eventually(t, "the process of the first location ended", func() bool {
			_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(starts[0].PID)))
			return os.IsNotExist(err)
		})
		files, err := filepath.Glob(filepath.Join(scratch, "*", "*"))
		if want := []string{starts[1].Config["credentialsFile"]}; err != nil || !slices.Equal(files, want) {
			t.Errorf("the credentials are %q, %v, want %q", files, err, want)
		}
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(starts[1].PID))); err != nil {
			t.Errorf("the process of the second location: %v", err)
		}
	})
})
