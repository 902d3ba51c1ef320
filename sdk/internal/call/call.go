// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package call stores the values of one call of an action in its ctx. It is separate from
// package sdk: serve sets the values, and only sdk exposes them to authors.
package call

import (
	"context"
	"log/slog"
	"slices"
)

type loggerKey struct{}

type featuresKey struct{}

type parametersKey struct{}

// WithLogger returns a ctx whose Logger is l.
func WithLogger(ctx context.Context, l *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, l)
}

// Logger returns the logger of ctx, or slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if l, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return l
	}
	return slog.Default()
}

// WithFeatures returns a ctx in which the features are enabled.
func WithFeatures(ctx context.Context, features []string) context.Context {
	return context.WithValue(ctx, featuresKey{}, features)
}

// FeatureEnabled reports whether name is enabled in ctx.
func FeatureEnabled(ctx context.Context, name string) bool {
	features, _ := ctx.Value(featuresKey{}).([]string)
	return slices.Contains(features, name)
}

// WithParameters returns a ctx with the parameters of the action.
func WithParameters(ctx context.Context, parameters map[string]string) context.Context {
	return context.WithValue(ctx, parametersKey{}, parameters)
}

// Parameters returns the parameters of ctx, or nil.
func Parameters(ctx context.Context) map[string]string {
	parameters, _ := ctx.Value(parametersKey{}).(map[string]string)
	return parameters
}
