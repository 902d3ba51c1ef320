// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"log/slog"
	"testing"

	"github.com/grapnel-dev/grapnel/sdk"
)

func TestLogger(t *testing.T) {
	t.Parallel()
	if sdk.Logger(t.Context()) != slog.Default() {
		t.Error("Logger does not return the default logger outside a call")
	}
	if l := slog.New(slog.DiscardHandler); sdk.Logger(sdk.WithLogger(t.Context(), l)) != l {
		t.Error("Logger does not return the logger of the call")
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	if p := sdk.Parameters(t.Context()); p != nil {
		t.Errorf("outside a call the parameters are %v, want nil", p)
	}
	ctx := sdk.WithParameters(t.Context(), map[string]string{"bucket": "bucket-1"})
	if p := sdk.Parameters(ctx); p["bucket"] != "bucket-1" {
		t.Errorf("the parameters are %v, want those of the call", p)
	}
}

func TestFeatureEnabled(t *testing.T) {
	t.Parallel()
	if sdk.FeatureEnabled(t.Context(), "EnableCSI") {
		t.Error("a feature is enabled outside a call")
	}
	ctx := sdk.WithFeatures(t.Context(), []string{"EnableCSI"})
	if !sdk.FeatureEnabled(ctx, "EnableCSI") || sdk.FeatureEnabled(ctx, "EnableAPIGroupVersions") {
		t.Error("want only the feature of the call to be enabled")
	}
}
