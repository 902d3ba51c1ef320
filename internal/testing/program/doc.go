// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program builds and runs programs for tests, the demonstration and the benchmark:
// [ModuleRoot] finds the sources, [Build] compiles, [Start] runs a program that ends with the one
// that started it, even if that is killed.
//
// It is not for production code.
package program
