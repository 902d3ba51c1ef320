// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package write creates, changes and deletes single objects as raw JSON, with
// one request each, and waits for what becomes of them.
//
// The API server answers with the metadata of what it wrote only, which saves
// it and the caller most of the work of an answer. A request whose answer was
// lost, or that the server put off, is sent again, with back-off and a limit. So
// Create may find its own object (AlreadyExists), Patch and Replace may find
// their own change (Conflict), and Delete nothing at all (NotFound): who calls
// them must be able to tell.
//
// Client.Wait waits for the state of one object with a watch.
package write
