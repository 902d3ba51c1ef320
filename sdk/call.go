// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"log/slog"
	"slices"
)

type (
	loggerKey     struct{}
	parametersKey struct{}
	featuresKey   struct{}
)

// Logger returns the logger for the call that ctx belongs to. Its lines arrive in
// the log of the run that made the call. Outside a call it returns
// slog.Default(). It is safe for concurrent use and must not be used after the
// action has returned: such lines go to the operator's own log.
func Logger(ctx context.Context) *slog.Logger {
	if l, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return l
	}
	return slog.Default()
}

// WithLogger returns a ctx with the logger of a call. Package serve calls it; so can the unit test
// of an action.
func WithLogger(ctx context.Context, l *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, l)
}

// Parameters returns what the user configured for the action in spec.parameters of the
// Backup or Restore that the call belongs to. Outside a call it returns nil. The caller
// must not change them.
func Parameters(ctx context.Context) map[string]string {
	parameters, _ := ctx.Value(parametersKey{}).(map[string]string)
	return parameters
}

// WithParameters returns a ctx with the parameters of a call. Package serve calls it; so can the
// unit test of an action.
func WithParameters(ctx context.Context, parameters map[string]string) context.Context {
	return context.WithValue(ctx, parametersKey{}, parameters)
}

// FeatureEnabled reports whether the operator runs with a feature, for example
// "EnableAPIGroupVersions". Outside a call it returns false.
func FeatureEnabled(ctx context.Context, name string) bool {
	features, _ := ctx.Value(featuresKey{}).([]string)
	return slices.Contains(features, name)
}

// WithFeatures returns a ctx in which only the given features of the operator are enabled. Package
// serve calls it; so can the unit test of an action.
func WithFeatures(ctx context.Context, features []string) context.Context {
	return context.WithValue(ctx, featuresKey{}, features)
}
