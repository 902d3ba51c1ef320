// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package list reads whole kinds of a cluster as raw JSON, page by page, as
// fast as the API server can send them and in memory that does not depend on
// how many objects there are or how large a page is.
//
// Client.List asks for pages of a LIST one after the other. Each body is
// scanned while it arrives: objects are cut out of it as they are, put into
// batches of some hundred KiB and handed to the caller; only their metadata is
// read (scan.go). The ends of objects are found by strings and brackets alone
// (stream.go), so that an object that is too large, nested too deeply or not valid
// JSON is refused by itself (Handler.Refused), and the objects around it are not
// affected. Pages that fail are asked for again, with back-off; a page whose
// continue token expired is continued as the API server proposes (lister.go). How many requests may be open, and how many bodies may be read
// at a time, is bounded by Places: the first is large, because a request may
// merely wait, and the second small, because it costs memory.
//
// Client.Get reads one object in the same form.
//
// It is not a cache and not a typed client: nothing is decoded into Go structs,
// and no object is kept.
package list
