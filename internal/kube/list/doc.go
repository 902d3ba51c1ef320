// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package list reads all objects of a kind as raw JSON, page by page, as fast as the API server can
// send them. Its memory does not depend on the number of objects or the size of a page.
//
// Client.List requests the pages of a LIST in sequence. Each body is scanned while it arrives:
// objects are extracted unchanged, collected in batches of some hundred KiB and passed to the
// caller; only their metadata is read (scan.go). The end of an object is found only by strings and
// brackets (stream.go). An object that is too large, nested too deeply or not valid JSON is
// therefore refused alone (Handler.Refused), and does not affect the objects around it. Failed
// pages are requested again, with back-off; a page whose continue token expired is continued as the
// API server proposes (lister.go). Slots limit the number of open requests and of concurrently read
// bodies: the first limit is large, because a request may merely wait, and the second is small,
// because a body costs memory.
//
// Client.Get reads one object in the same form.
//
// The package is neither a cache nor a typed client: nothing is decoded into Go structs,
// and no object is kept.
package list
