// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletion does the part of a deletion that needs the storage location of the
// backup: it passes the archived objects to DeleteItemActions and removes the files.
//
//	Inspect       does the backup exist, and what do its manifests contain
//	CallActions   archive → scratch file → every object to every action that applies to it
//	RemoveFiles   the files of the backup, manifest first, and those of its Restores
//	RemoveRunLog  the run is over: its log is removed
//
// A failing action does not stop a deletion. What fails is retried in up to three rounds,
// with a wait between them. In each round the objects come in the order of the archive. An
// action that does not answer is skipped for the rest of the round, and an action whose failed
// calls took more than an hour is not called again. What was not cleaned up in the end is
// described for people (AppendLeftovers). A missing or damaged archive is no obstacle either:
// actions receive what can be read, and the rest is mentioned.
//
// A deletion stops with an error, before anything is removed, if the context ends, if a store or
// the scratch directory fails, and if the owner of the files is unknown. All of it may be
// repeated at any time, even after a crash; an action then receives the same objects again,
// which its contract allows. Record the result of CallActions before RemoveFiles: it cannot be
// determined again.
//
// An action never receives an object of another backup: the owner of the name is checked
// first. Archives are untrusted nevertheless (package archive); an object that differs from
// what its path names is not passed on. A different digest means that the archive was replaced,
// unless it is damaged as well; nothing of a replaced archive is passed on. That protects
// against mistakes, not against those who may write to the bucket, including the manifests
// in it.
//
// The package takes plain values and knows none of the API kinds. controllers/deletionrun
// decides when each part runs.
package deletion
