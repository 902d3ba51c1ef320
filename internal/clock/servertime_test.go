// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/clock"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var cluster suite.Cluster

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestFetchServerTime(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Server time")
}

var _ = Describe("The time of the API server", Label("schedule"), func() {
	It("is read without storing anything", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		before := time.Now().Truncate(time.Second)
		now, err := clock.FetchServerTime(t.Context(), env.Client, env.Namespace)
		if err != nil || now.Before(before) || now.After(time.Now()) {
			t.Errorf("the time is %v, %v", now, err)
		}
		var stored v1alpha1.DeletionRunList
		if err := env.Client.List(t.Context(), &stored, client.InNamespace(env.Namespace)); err != nil || len(stored.Items) > 0 {
			t.Errorf("stored: %v, %v", stored.Items, err)
		}
	})
})

// TestServerClock_Time has a machine whose clock is a day ahead, and reads the time at several times of that
// clock.
func TestServerClock_Time(t *testing.T) {
	t.Parallel()
	told, here, asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 3, 3, 4, 5, 0, time.UTC), 0
	var fails error
	server := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked++
			o.SetCreationTimestamp(metav1.NewTime(told))
			return fails
		},
	})
	clock := clock.ServerClock{Client: server, Now: func() time.Time { return here }}
	for _, tc := range []struct {
		what      string
		passes    time.Duration
		fails     error
		want      time.Time
		wantAsked int
	}{
		{what: "the API server is unavailable", fails: errors.New("connection refused"), wantAsked: 1},
		{what: "the first answer", want: told, wantAsked: 2},
		{what: "it extrapolates", passes: 30 * time.Second, want: told.Add(30 * time.Second), wantAsked: 2},
		{what: "it fetches again", passes: 30 * time.Second, want: told, wantAsked: 3},
		{what: "the clock of the machine is set back", passes: -time.Hour, want: told, wantAsked: 4},
	} {
		here, fails = here.Add(tc.passes), tc.fails
		got, err := clock.Time(t.Context(), "ns")
		if !got.Equal(tc.want) || !errors.Is(err, tc.fails) || asked != tc.wantAsked {
			t.Errorf("%s: %s, %v, fetched %d times; want %s, %v, %d times", tc.what, got, err, asked, tc.want, tc.fails, tc.wantAsked)
		}
	}
}
