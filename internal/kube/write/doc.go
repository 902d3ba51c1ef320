// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package write creates, changes and deletes single objects as raw JSON, with
// one request each, and waits for their state.
//
// The API server responds with only the metadata of the written object, which saves it and the
// caller most of the work. A request whose response was lost, or that the server deferred, is sent
// again, with back-off and a limit. Create may therefore find its own object (AlreadyExists), Patch
// and Replace may find their own change (Conflict), and Delete may find nothing (NotFound). The
// caller must handle these cases.
//
// Client.Wait waits for the state of one object with a watch.
package write
