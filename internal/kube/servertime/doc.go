// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servertime gets the time of the API server. Code that deletes or ends something because a
// time has passed must not rely on the clock of one machine, which may be ahead.
package servertime
