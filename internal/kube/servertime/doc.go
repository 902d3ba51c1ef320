// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servertime asks the API server for its time. What destroys or ends something because a
// time has passed believes more than the clock of one machine, which may be ahead.
package servertime
