// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rawclient reads and writes objects of a cluster as raw JSON. It is neither a cache nor a
// typed client: nothing is decoded into Go structs, and no object is kept.
//
// # Reading
//
// A Lister reads all objects of a kind, page by page, as fast as the API server can send them. Its
// memory does not depend on the number of objects or the size of a page. It requests the pages of a
// LIST in sequence. Each body is scanned while it arrives: objects are extracted unchanged, collected
// in batches of some hundred KiB and passed to the caller; only their metadata is read (scan.go). The
// end of an object is found only by strings and brackets (stream.go). An object that is too large,
// nested too deeply or not valid JSON is therefore refused alone (Handler.Refused), and does not
// affect the objects around it. Failed pages are requested again, with back-off; a page whose
// continue token expired is continued as the API server proposes (lister.go). Slots limit the number
// of open requests and of concurrently read bodies: the first limit is large, because a request may
// merely wait, and the second is small, because a body costs memory. Lister.Get reads one object in
// the same form.
//
// # Writing
//
// A Writer creates, changes and deletes single objects, with one request each. The API server
// responds with only the metadata of the written object, which saves it and the caller most of the
// work. A request whose response was lost, or that the server deferred, is sent again, with back-off
// and a limit. Create may therefore find its own object (AlreadyExists), Patch and Replace may find
// their own change (Conflict), and Delete may find nothing (NotFound). The caller must handle these
// cases. Writer.Wait waits for the state of one object with a watch.
//
// # Requests
//
// A Client sends the requests of both: bodies are passed through as they are on the wire, and only
// errors are decoded. Client.Do sends one request and returns the open body of a success, or the API
// server's own error (apierrors). RetryDelay decides whether a request may succeed later: one that
// the server deferred (429, with its Retry-After), one that it could not serve (5xx), one whose
// connection broke. Only the caller knows whether repeating a request is safe.
package rawclient
